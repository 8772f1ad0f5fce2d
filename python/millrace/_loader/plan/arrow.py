"""Hugging Face's `datasets.Dataset` in the formats "torch" and "numpy": its rows lie in Arrow tables, in
memory or in mapped files.

The recogniser accepts columns of numbers, or of lists of numbers of one length, without nulls: Arrow stores
these contiguously, and the engine reads them in place, through the dataset's own indices (select, shuffle).
The format's results, above all their dtypes, differ between versions of that library, so the recogniser reads
one sample to learn them. Neither `datasets` nor pyarrow is imported here.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from ..._common.lowering.as_shipped import check_class
from ..._common.lowering.recognising import NotLowered, loaded
from ..._common.lowering.rows import Column, RowSet
from .in_memory import Rows
from .pictures import Pictures
from .plan import late

_FORMATTERS = {"torch": "TorchFormatter", "numpy": "NumpyFormatter"}
METHODS = ("__getitem__", "__getitems__", "_getitem", "__len__")
_LEAVES = {"bool": "bool", "halffloat": "float16", "float": "float32", "double": "float64"} | {
    f"{sign}int{bits}": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)
}


def recognise_arrow(dataset: Any) -> RowSet:
    """The RowSet of a Dataset; NotLowered names the column or the format that needs Python."""
    check_class(type(dataset), *METHODS)
    form = dataset.format  # a property that makes it anew each time
    _check_format(form, dataset.column_names)
    names, kind = form["columns"], form["type"]
    stored = {name: _Stored(dataset, name, kind) for name in names}
    if len(dataset) == 0 or not names:
        raise NotLowered("the Arrow dataset has no rows, or no columns; there is nothing to gather")
    sample = dataset.__getitems__([0])[0]
    if type(sample) is not dict or set(sample) != set(names):
        raise NotLowered(f"samples of the Arrow dataset are not dicts of {', '.join(names)}")
    positions = index_map(dataset)
    columns = tuple(stored[name].column(value, positions) for name, value in sample.items())
    layout = (dict, tuple((name, number) for number, name in enumerate(sample)))
    # In format "numpy", a number of a single sample keeps its stored dtype.
    alone = kind == "torch" or not any(column.made and not column.shape for column in columns)
    return RowSet("Arrow dataset", len(dataset), columns, layout, counts_back=positions is None, alone=alone)


def _check_format(form: dict[str, Any], column_names: list[str]) -> None:
    kind = form["type"]
    if kind == "custom":
        raise NotLowered(
            "the Arrow dataset has a transform, and is inside of another dataset than Subset; use"
            " datasets.concatenate_datasets, or with_format('torch')"
        )
    if kind not in _FORMATTERS:
        raise NotLowered(
            f"the Arrow dataset has format {kind!r}; use with_format('torch') or with_format('numpy')"
        )
    check_formatter(kind, _FORMATTERS[kind])
    if odd := set(form["format_kwargs"] or {}) - {"dtype"}:
        raise NotLowered(f"the format is given {', '.join(sorted(odd))}; only dtype= is known here")
    if form["output_all_columns"] and set(form["columns"]) != set(column_names):
        raise NotLowered(
            "output_all_columns=True adds columns that are not formatted; choose columns with"
            " select_columns()"
        )


def check_formatter(kind: str, name: str) -> None:
    """NotLowered if another class than `name` makes the format."""
    known = loaded("datasets.formatting", "_FORMAT_TYPES")
    if known is None or known.get(kind) is not loaded("datasets.formatting", name):
        raise NotLowered(f"the formatter of {kind!r} is not the one that datasets ships; restore it")


def index_map(dataset: Any) -> np.ndarray | None:
    """The positions that select() and shuffle() left, int64 of shape (samples,); None without these."""
    if dataset._indices is None:
        return None
    chunks = dataset._indices.table.column(0).chunks
    return np.concatenate([chunk.to_numpy() for chunk in chunks] or [np.empty(0, np.uint64)]).astype(np.int64)


class _Stored:
    """A column as Arrow holds it."""

    def __init__(self, dataset: Any, name: str, kind: str) -> None:
        """`kind`: of the dataset's format."""
        self.name = name
        chunked = dataset.data.table.column(name)
        if dataset.info.features._column_requires_decoding.get(name):
            raise self.refusal(
                f"is decoded by {type(dataset.info.features[name]).__name__}",
                "remove it with remove_columns()",
            )
        sizes, self.dtype = self._row(chunked.type)
        self.array_nd = hasattr(chunked.type, "storage_type")
        self.numpy_only = kind == "numpy"
        self.shape = self._shape(chunked, sizes)
        self.mapped = bool(dataset.cache_files)
        self.tables = tuple(self._table(chunk) for chunk in chunked.chunks)

    def refusal(self, what: str, remedy: str) -> NotLowered:
        return NotLowered(f"column {self.name!r} {what}; {remedy}")

    def _row(self, kind: Any) -> tuple[list[int | None], str]:
        """(sizes of one row's dimensions, None for lists of any length; name of its dtype)"""
        whole, sizes = kind, []
        if hasattr(kind, "storage_type") and hasattr(kind, "shape"):  # Array2D to Array5D
            sizes, leaf = list(kind.shape), kind.storage_type
            for _ in sizes:
                leaf = leaf.value_type
            kind = leaf
        while str(kind).startswith(("list<", "large_list<", "fixed_size_list<")):
            sizes.append(getattr(kind, "list_size", None))
            kind = kind.value_type
        if str(kind) not in _LEAVES or (hasattr(whole, "storage_type") and None in sizes):
            remedy = (
                "cast it to numbers of fixed shape: Value, List(..., length=n) or Array2D, or remove it with"
                " remove_columns()"
            )
            raise self.refusal(f"is of Arrow type {whole}", remedy)
        if sizes and str(kind) == "bool":
            raise self.refusal("has lists of bools, which Arrow packs into bits", "cast it to uint8")
        return sizes, _LEAVES[str(kind)]

    def _shape(self, chunked: Any, sizes: list[int | None]) -> tuple[int, ...]:
        """The shape of one row; lists of any length count as long as the first list."""
        values = next((chunk for chunk in chunked.chunks if len(chunk)), None)
        values, shape = getattr(values, "storage", values), []
        for size in sizes:
            if size is None:
                first = values.offsets[:2].to_pylist() if values is not None else [0]
                size = first[-1] - first[0]
            shape.append(size)
            values = values.flatten() if values is not None else None
        return tuple(shape)

    def _table(self, chunk: Any) -> np.ndarray:
        """The rows of one chunk, of shape (rows, *self.shape), without a copy; but bools are unpacked, to a
        byte each.
        """
        rows, values = len(chunk), getattr(chunk, "storage", chunk)
        for level in range(len(self.shape) + 1):
            if values.null_count:
                raise self.refusal("has nulls", "filter() them out, or fill them with map()")
            if level == len(self.shape):
                break
            # The writer of an ArrayND checked its shape, so only its outermost lists are compared; that is
            # quick.
            if (
                hasattr(values, "offsets")
                and (level == 0 or not self.array_nd)
                and (np.diff(values.offsets.to_numpy()) != self.shape[level]).any()
            ):
                remedy = (
                    "pad them to one length, as tokenizers do with padding='max_length', or give a collate_fn"
                    " that pads"
                )
                raise self.refusal("has lists of different lengths", remedy)
            values = values.flatten()
        if len(values) != rows * math.prod(self.shape):
            raise self.refusal(f"has rows of other shapes than {self.shape}", "filter() them out")
        return values.to_numpy(zero_copy_only=self.dtype != "bool").reshape(rows, *self.shape)

    def column(self, value: Any, index_map: np.ndarray | None) -> Column:
        """The Column. `value`: this field of one sample."""
        sample_type, shape = type(value), tuple(getattr(value, "shape", ()))
        made = str(getattr(value, "dtype", None)).removeprefix("torch.")
        if sample_type is torch.Tensor:
            known = value.device.type == "cpu"
        else:
            known = sample_type is np.ndarray or issubclass(sample_type, np.generic)
        if not known or shape != self.shape or made not in (*_LEAVES.values(), "bfloat16"):
            raise self.refusal(
                f"is formatted as {sample_type.__name__} of {made}, {shape}",
                "cast it to a plain column of numbers",
            )
        # numpy rounds float64 to float16 directly, torch through float32; neither defines the int for a float
        # out of the int's range.
        if (self.numpy_only and made == "float16" and self.dtype != "float16") or (
            "float" in self.dtype and "float" not in made
        ):
            raise self.refusal(f"is formatted from {self.dtype} to {made}", "cast it to that type")
        return Column(
            self.tables,
            sample_type,
            self.dtype,
            self.shape,
            None if made == self.dtype else made,
            index_map,
            self.mapped,
        )


# set_transform() and with_transform() leave a format of this name
PICTURES = Pictures(
    lambda data: late(".arrow_pictures:recognise_arrow_pictures")(data),
    False,
    claims=lambda data: data.format["type"] == "custom",
    exact=True,
)
ROWS = Rows(recognise_arrow, False)
