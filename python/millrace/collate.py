"""Makes batches of lists of samples: Pad, for rows that differ in length, and torch's default_collate and
default_convert in C++; values of types that these do not know go to torch's own functions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Union

import numpy as np
import torch

from . import _core
from ._common.shipped import is_default_collate, is_shipped, replaced, replaced_builtin
from ._common.torch_private import collate, default_collate, default_convert

Values = Union[int, float, Mapping[str | int, int | float]]


class Pad:
    """A `collate_fn` that pads rows of different lengths to one length; torch's default_collate makes the
    fields that are not padded.

    >>> pad = Pad({"input_ids": 0, "labels": -100}, mask="attention_mask")
    >>> loader = DataLoader(dataset, 32, collate_fn=pad)

    Samples are dicts, tuples, or rows alone; a row is a tensor or numpy array [n, ...], or a list of numbers.
    Works in torch's DataLoader, too; of datasets that make whole batches (Tokenized, Parquet, ...),
    millrace's DataLoader pads natively.

    Args:
        values: the fill values, for each field that is padded, by its name or its place in the tuple. A
            number: for all rows.
        to: the length of the batch; None: that of its longest row.
        multiple_of: the length is rounded up to the next multiple.
        mask: the name of a field to add, int64 [batch, length], 1 where there is data: of the first padded
            field; or {name: field}.
        side: where to fill, "right" or "left".

    Raises:
        ValueError: if a row is longer than `to`, if rows of one field differ in dtype or in their other
            dimensions, or if a field that is padded is no row.
    """

    def __init__(
        self,
        values: Values = 0,
        to: int | None = None,
        multiple_of: int | None = None,
        mask: None | str | Mapping[str, str | int] = None,
        side: str = "right",
    ) -> None:
        for name, number in (("to", to), ("multiple_of", multiple_of)):
            if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < 1):
                raise ValueError(f"{name} should be an integer of 1 or more, but got {name}={number!r}")
        if side not in ("right", "left"):
            raise ValueError(f"side should be 'right' or 'left', but got side={side!r}")
        if not isinstance(values, (int, float, Mapping)) or isinstance(values, Mapping) and not values:
            raise ValueError(
                "values should be a number, or a dict of one for each field that is padded, but got"
                f" values={values!r}"
            )
        self.values: Values = dict(values) if isinstance(values, Mapping) else values
        self.to, self.multiple_of, self.side = to, multiple_of, side
        self.mask = dict(mask) if isinstance(mask, Mapping) else mask

    def __call__(self, samples: Sequence[Any]) -> Any:
        first = samples[0]
        if isinstance(first, Mapping):
            return self._dicts(samples)
        if self.mask is not None:
            raise ValueError(
                f"mask={self.mask!r} adds a field, so samples should be dicts, but they are"
                f" {type(first).__name__}"
            )
        if _is_row(first):
            return self._padded(samples, self._value_of(None), None)[0]
        if not isinstance(first, (tuple, list)):
            raise ValueError(f"samples are {type(first).__name__}: nothing to pad; leave Pad out")
        self._check_fields(range(len(first)))
        fields = []
        for place, column in enumerate(zip(*samples, strict=True)):
            value = self._value_of(place, column[0])
            fields.append(
                default_collate(list(column)) if value is None else self._padded(column, value, place)[0]
            )
        return fields

    def _dicts(self, samples: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        first = samples[0]
        self._check_fields(first)
        for number, sample in enumerate(samples):
            if missing := [name for name in first if name not in sample]:
                raise ValueError(f"sample {number} of the batch lacks {missing[0]!r}, which sample 0 has")
        padded = [name for name in first if self._value_of(name, first[name]) is not None]
        masks = self._masks(padded)
        if clash := [name for name in masks.values() if name in first]:
            raise ValueError(
                f"samples have a field {clash[0]!r} already: give it a value to fill with, 0, and leave"
                " mask out"
            )
        batch: dict[str, Any] = {}
        for name in first:
            column = [sample[name] for sample in samples]
            if name not in padded:
                batch[name] = default_collate(column)
                continue
            rows, mask = self._padded(column, self._value_of(name, column[0]), name, name in masks)
            batch[name] = rows
            if mask is not None:
                batch[masks[name]] = mask
        return batch

    def _masks(self, padded: list[str]) -> dict[Any, str]:
        """{padded field: its mask's name}"""
        if self.mask is None or not padded:
            return {}
        if isinstance(self.mask, str):
            first = next(iter(self.values)) if isinstance(self.values, dict) else padded[0]
            return {first: self.mask}
        if unknown := [field for field in self.mask.values() if field not in padded]:
            raise ValueError(f"mask={self.mask!r}: the field {unknown[0]!r} is not padded")
        return {field: name for name, field in self.mask.items()}

    def _check_fields(self, fields: Any) -> None:
        if isinstance(self.values, dict) and (
            unknown := [name for name in self.values if name not in fields]
        ):
            raise ValueError(
                f"samples have no field {unknown[0]!r} to pad; they have {', '.join(map(repr, fields))}"
            )

    def _value_of(self, name: Any, row: Any = None) -> Any:
        """The fill value of this field; None: it is not padded."""
        if isinstance(self.values, dict):
            return self.values.get(name)
        return self.values if name is None or _is_row(row) else None

    def _padded(
        self, rows: Sequence[Any], value: Any, name: Any, masked: bool = False
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """(padded rows, mask)"""
        label = "rows" if name is None else f"field {name!r}"
        if not all(map(_is_list_of_ints, rows)):
            rows = [_as_tensor(row, label, number) for number, row in enumerate(rows)]
        first = rows[0]
        dtype, shape = (torch.int64, ()) if type(first) is list else (first.dtype, tuple(first.shape[1:]))
        for number, row in enumerate(rows):
            if type(row) is not list and (row.dtype is not dtype or tuple(row.shape[1:]) != shape):
                raise ValueError(
                    f"{label}: sample {number} of the batch is {row.dtype} {tuple(row.shape)}, and sample 0"
                    f" {dtype} {tuple(first.shape)}; only the first dimension may differ"
                )
        length = self._length(list(map(len, rows)), label)
        out = torch.empty((len(rows), length, *shape), dtype=dtype)
        mask = torch.empty((len(rows), length), dtype=torch.int64) if masked else None
        _core.pad_rows(rows, _filling(value, dtype, label), out, mask, self.side == "left")
        return out, mask

    def _length(self, lengths: list[int], label: str) -> int:
        longest = max(lengths)
        if self.to is not None and longest > self.to:
            raise ValueError(
                f"{label}: sample {lengths.index(longest)} of the batch has {longest} items, more than"
                f" to={self.to}; cut it, or pad to more"
            )
        length = longest if self.to is None else self.to
        return length if self.multiple_of is None else -(-length // self.multiple_of) * self.multiple_of

    def __eq__(self, other: Any) -> bool:
        return type(other) is type(self) and vars(self) == vars(other)

    def __repr__(self) -> str:
        given = {
            "to": self.to,
            "multiple_of": self.multiple_of,
            "mask": self.mask,
            "side": None if self.side == "right" else self.side,
        }
        options = "".join(f", {name}={value!r}" for name, value in given.items() if value is not None)
        return f"Pad({self.values!r}{options})"


def _filling(value: Any, dtype: torch.dtype, label: str) -> torch.Tensor:
    try:
        filling = torch.tensor([value], dtype=dtype)
    except (RuntimeError, TypeError, OverflowError):
        filling = None
    if filling is None or (not dtype.is_floating_point and filling.item() != value):
        raise ValueError(f"{label}: {value!r} is no {dtype}; fill with another value")
    return filling


def _is_row(value: Any) -> bool:
    if isinstance(value, (torch.Tensor, np.ndarray)):
        return value.ndim > 0
    return isinstance(value, list) and (not value or isinstance(value[0], (int, float)))


def _is_list_of_ints(row: Any) -> bool:
    return type(row) is list and (not row or (type(row[0]) is int and type(row[-1]) is int))


def _as_tensor(row: Any, label: str, number: int) -> torch.Tensor:
    if not _is_row(row):
        raise ValueError(
            f"{label}: sample {number} of the batch is {type(row).__name__}, not a tensor, array or list of"
            " numbers"
        )
    tensor = torch.as_tensor(row)
    return (
        tensor.detach().cpu().contiguous()
        if tensor.requires_grad or not tensor.is_contiguous() or tensor.is_cuda
        else tensor
    )


# torch's own functions; None: a script has replaced the function already.
_SHIPPED = {
    kind: getattr(collate, name) if replaced(collate.__name__, name) is None else None
    for kind, name in {
        torch.Tensor: "collate_tensor_fn",
        np.ndarray: "collate_numpy_array_fn",
        (np.bool_, np.number, np.object_): "collate_numpy_scalar_fn",
        float: "collate_float_fn",
        int: "collate_int_fn",
        str: "collate_str_fn",
        bytes: "collate_str_fn",
    }.items()
}


def as_shipped() -> bool:
    """Whether no script has added types to default_collate, or replaced functions in it."""
    return collate.default_collate_fn_map == _SHIPPED


def runs_natively(collate_fn: Any) -> bool:
    """Whether `collate_fn` is torch's default_collate, and no function that it calls was replaced. Called
    once for each epoch or worker.
    """
    if not is_default_collate(collate_fn):
        return False
    return (replaced(collate.__name__) or replaced_builtin("torch")) is None


_convert = _core.sample_converter(default_convert)


def _collator() -> Callable[[Any], Any]:
    """Return default_collate in C++; its large tensors reuse the memory of dropped ones."""
    natively = _core.sample_collator()

    def collate(samples: Any) -> Any:
        if as_shipped():
            batch = natively(samples)
            if batch is not NotImplemented:
                return batch
        return default_collate(samples)

    return collate


def native_collate(collate_fn: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Native code with the same results, if `collate_fn` is default_collate or default_convert; else
    `collate_fn` itself.
    """
    if runs_natively(collate_fn):
        return _collator()
    if is_shipped(collate_fn, collate.__name__, "default_convert") and replaced_builtin("torch") is None:
        return _convert
    return collate_fn
