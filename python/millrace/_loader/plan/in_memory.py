"""Datasets with samples that are rows in memory: torch's TensorDataset, StackDataset, ConcatDataset, Subset,
of tensors, arrays, Arrow, and this package's Arrays, Tokens and plain Tables.

A recognised dataset becomes a RowSet: its fields, each with the memory its rows lie in, and the shape of what
default_collate makes of a batch. Only what default_collate gives back exactly is recognised, types by
identity; the rest is refused. Nothing is copied but indices that are Python lists: the engine reads tensors
and arrays when it makes a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch.utils.data import ConcatDataset, SequentialSampler, StackDataset, Subset, TensorDataset

from ... import _core
from ..._common.lowering.as_shipped import check_class, check_getitems, recognise_collate
from ..._common.lowering.memory_rows import stacked, table_rows
from ..._common.lowering.recognising import NotLowered
from ..._common.lowering.rows import Column, RowSet, row_form
from ..._common.torch_private import _DatasetKind, default_collate
from ...samplers.resumable import inner_sampler
from ..engines.python_collate import PythonCollate
from ..engines.rows import RowsSpec
from .collates import recognise_batch_function
from .plan import Recogniser, recogniser_of
from .stages import Stages

# What docs/native.md says of it (scripts/native_table.py).
WORDS = (
    'of CPU tensors and numeric numpy arrays; Hugging Face\'s Arrow datasets in the formats "torch" and'
    ' "numpy" where their columns are numbers, or lists of numbers of one length, without nulls. Of any'
    " strides: column by column (pandas' `.values`), sliced, transposed, expanded. Rows are copied into"
    " the batch inside `next()` or, from 256 KiB on and out of mapped files, by the threads"
)


@dataclass(frozen=True)
class Rows(Recogniser):
    """`find`: returns the RowSet of a dataset. `checked`: refuse a method that its class was given."""

    finds = RowSet
    checked: bool = True
    exact: bool = field(default=True, kw_only=True)

    def spec(self, loader: Any, stages: Stages) -> RowsSpec | None:
        rows: RowSet | None = stages.ask("dataset", lambda: _described(loader))
        if rows is None:
            stages.ask_the_others(loader)
            return None
        stages.ask_sampler(loader)
        collate = stages.ask_collate(lambda: _collate(loader.collate_fn, rows.sample_types))
        stages.ask_worker_init(loader)
        if stages.refusing():
            return None
        fetcher = _DatasetKind.create_fetcher(
            _DatasetKind.Map, loader.dataset, True, default_collate, loader.drop_last
        )
        in_order = type(inner_sampler(loader._index_sampler)) is SequentialSampler
        return RowsSpec(rows, fetcher.fetch, in_order, collate)


def recognise_rows(dataset: Any) -> RowSet:
    """Return the RowSet of `dataset`; NotLowered if Python must make samples, or put them together."""
    found: Any = _SUBSET if type(dataset) is Subset else recogniser_of(dataset, RowSet)
    if found.finds is not RowSet:
        raise NotLowered(
            f"{type(dataset).__name__} is Python code; samples in memory are read from tensors, numeric numpy"
            " arrays, torch's TensorDataset, StackDataset, ConcatDataset and Subset, and Hugging Face's"
            " Dataset"
        )
    check_getitems(dataset)
    if found.checked:
        check_class(type(dataset))
    return found.find(dataset)


def _described(loader: Any) -> tuple[str, RowSet]:
    rows = recognise_rows(loader.dataset)
    if loader.on_error != "raise" and rows.refuses:
        raise NotLowered(
            f'on_error="{loader.on_error}" looks at samples one by one, in Python; max_token= makes some'
            " of them errors"
        )
    place = "mapped files" if rows.mapped_files else "memory"
    return f"{rows.name} of {rows.length} samples in {place}, copied row by row", rows


def _collate(collate_fn: Any, sample_types: set[type]) -> tuple[str, PythonCollate | None]:
    reason, collate = recognise_batch_function(collate_fn, sample_types)
    return (reason or recognise_collate(collate_fn, sample_types)), collate


def _numbers(values: list) -> RowSet:
    """A list of Python's ints or floats beside other parts of a StackDataset."""
    array: np.ndarray | None = _core.int64_array(values)
    sample_type: type = int
    if array is None and set(map(type, values)) <= {float}:
        array, sample_type = np.array(values, dtype=np.float64), float
    if array is None:
        raise NotLowered("a list holds more than ints of 64 bits, or more than floats; make it a tensor")
    return RowSet("list", len(array), (Column((array,), sample_type, array.dtype.name, ()),), 0)


# -- datasets of tables
# ----------------------------------------------------------------------------------------------------------


def _tensor_dataset(dataset: TensorDataset) -> RowSet:
    tensors = dataset.tensors
    if type(tensors) is not tuple or not tensors or not set(map(type, tensors)) <= {torch.Tensor}:
        raise NotLowered(
            "TensorDataset holds something else than a tuple of plain tensors; use tensor.detach() or"
            " as_subclass()"
        )
    return stacked("TensorDataset", [table_rows(tensor) for tensor in tensors], list)


def _stack_dataset(dataset: StackDataset) -> RowSet:
    datasets: Any = dataset.datasets
    if type(datasets) not in (tuple, dict):
        raise NotLowered("StackDataset.datasets is neither a tuple nor a dict")
    named = type(datasets) is dict
    parts = [
        _numbers(part) if type(part) is list else recognise_rows(part)
        for part in (datasets.values() if named else datasets)
    ]
    rows = stacked("StackDataset", parts, dict if named else list, tuple(datasets) if named else ())
    if rows.length != len(dataset):
        raise NotLowered("StackDataset's parts have changed their length; make a new StackDataset")
    return rows


def _concat_dataset(dataset: ConcatDataset) -> RowSet:
    parts = [recognise_rows(part) for part in dataset.datasets]
    if not parts or dataset.cumulative_sizes != np.cumsum([part.length for part in parts]).tolist():
        raise NotLowered("ConcatDataset's parts have changed their length; make a new ConcatDataset")
    if not all(part.alone for part in parts):
        raise NotLowered(
            "ConcatDataset asks for samples one by one, which a numpy-formatted Arrow dataset gives in other"
            " dtypes than a batch of them; use datasets.concatenate_datasets, or with_format('torch')"
        )
    first = parts[0]
    for part in parts[1:]:
        if part.layout != first.layout or [c.look for c in part.columns] != [c.look for c in first.columns]:
            raise NotLowered(
                "ConcatDataset's parts differ in what their samples are; use the same dtypes, shapes and"
                " containers"
            )
    for columns in zip(*(part.columns for part in parts)):
        if len({row_form(table) for column in columns for table in column.tables if len(table)}) > 1:
            raise NotLowered(
                "ConcatDataset's parts lie in memory in different ways, such as row by row and column by"
                " column; use tensor.contiguous() for all of them"
            )
    columns = tuple(
        _joined([part.columns[i] for part in parts], [part.length for part in parts])
        for i in range(len(first.columns))
    )
    name = f"ConcatDataset of {len(parts)} x {first.name}"
    return RowSet(name, dataset.cumulative_sizes[-1], columns, first.layout)


def _joined(columns: Sequence[Column], lengths: Sequence[int]) -> Column:
    first = columns[0]
    joined = replace(
        first,
        tables=tuple(table for column in columns for table in column.tables),
        mapped=any(column.mapped for column in columns),
        files=_for_each_table(columns, "files"),
        borders=_for_each_table(columns, "borders"),
    )
    if all(column.index_map is None for column in columns):
        return joined
    maps, rows = [], 0
    for column, length in zip(columns, lengths):
        maps.append((np.arange(length) if column.index_map is None else column.index_map) + rows)
        rows += sum(map(len, column.tables))
    return replace(joined, index_map=np.concatenate(maps))


def _for_each_table(columns: Sequence[Column], name: str) -> tuple[Any, ...]:
    if not any(getattr(column, name) for column in columns):
        return ()
    return tuple(part for column in columns for part in getattr(column, name) or (None,) * len(column.tables))


def _subset(subset: Subset) -> RowSet:
    rows = recognise_rows(subset.dataset)
    indices = _as_array(subset.indices)
    if len(indices):
        lowest, highest = int(indices.min()), int(indices.max())
        if lowest < -rows.length or highest >= rows.length:
            raise NotLowered(
                f"Subset.indices reach from {lowest} to {highest} in a dataset of {rows.length}; leave"
                " them out"
            )
        if lowest < 0 and not rows.counts_back:
            raise NotLowered(
                f"Subset.indices reach down to {lowest}, which {rows.name} refuses; count from its beginning"
            )
        if lowest < 0:
            indices = np.where(indices < 0, indices + rows.length, indices)
    composed = {
        id(c.index_map): c.index_map for c in rows.columns if c.index_map is not None
    }  # columns share their maps
    maps = {key: index_map[indices] for key, index_map in composed.items()}
    columns = tuple(replace(c, index_map=maps.get(id(c.index_map), indices)) for c in rows.columns)
    return RowSet(f"Subset of {rows.name}", len(indices), columns, rows.layout, alone=rows.alone)


def _as_array(indices: Any) -> np.ndarray:
    array = None
    if type(indices) is range:
        array = np.arange(indices.start, indices.stop, indices.step, dtype=np.int64)
    elif (
        type(indices) is torch.Tensor
        and indices.dtype is torch.int64
        and indices.device.type == "cpu"
        and indices.dim() == 1
    ):
        array = np.ascontiguousarray(indices.numpy())
    elif type(indices) is np.ndarray and indices.dtype.kind == "i" and indices.ndim == 1:
        array = np.ascontiguousarray(indices, dtype=np.int64)
    elif type(indices) in (list, tuple):
        array = _core.int64_array(indices)
    if array is None:
        raise NotLowered(
            f"Subset.indices is a {type(indices).__name__} of other things than plain ints; use a list of"
            " ints"
        )
    return array


def _tokens(dataset: Any) -> RowSet:
    from ...datasets.tokens.windows import token_rows

    return token_rows(dataset)


def _mapped(dataset: Any) -> RowSet:
    from ...datasets.hdf5 import mapped_rows

    return mapped_rows(dataset)


def _plain_table(dataset: Any) -> RowSet:
    columns = []
    for column, tables in zip(dataset.fields, dataset.plain_tables()):
        sample_type = torch.Tensor if column.shape else np.dtype(column.dtype).type
        columns.append(Column(tuple(tables), sample_type, column.dtype, column.shape))
    layout = (dict, tuple((column.name, number) for number, column in enumerate(dataset.fields)))
    return RowSet("Table", len(dataset), tuple(columns), layout)


TABLE, TENSORS, STACKED = Rows(table_rows), Rows(_tensor_dataset), Rows(_stack_dataset)
JOINED, TOKENS, _SUBSET = Rows(_concat_dataset), Rows(_tokens), Rows(_subset)
PLAIN_TABLE = Rows(_plain_table, False, claims=lambda table: table.plain_tables() is not None)
# chunked files make whole batches instead (batches.py)
MAPPED = Rows(_mapped, False, claims=lambda arrays: arrays.mapped_tables is not None)
