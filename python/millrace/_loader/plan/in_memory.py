"""Datasets whose samples are rows in memory: torch's TensorDataset, StackDataset, ConcatDataset and Subset,
of tensors, arrays, Arrow, and this package's Arrays, Tokens and plain Tables.

A recognised dataset becomes a RowSet: its fields, each with the memory its rows lie in, and the shape of what
default_collate makes of a batch. Only what default_collate gives back exactly is recognised, types by
identity; the rest is refused. Nothing is copied but indices that are Python lists: the engine reads tensors
and arrays when it makes a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch.utils.data import ConcatDataset, StackDataset, Subset, TensorDataset

from ... import _core
from ..._common.lowering.as_shipped import check_class
from ..._common.lowering.memory_rows import TABLES, stacked, table_rows
from ..._common.lowering.recognising import NotLowered, loaded
from ..._common.lowering.rows import Column, RowSet, row_form
from ...datasets.arrays import Arrays
from ...datasets.batches import BatchDataset
from ...datasets.tokens import Tokens
from ...datasets.tokens.windows import token_rows
from .arrow import is_arrow, recognise_arrow

# What docs/native.md says of it (scripts/native_table.py).
WORDS = (
    'of CPU tensors and numeric numpy arrays; Hugging Face\'s Arrow datasets in the formats "torch" and'
    ' "numpy" where their columns are numbers, or lists of numbers of one length, without nulls. Of any'
    " strides: column by column (pandas' `.values`), sliced, transposed, expanded. Rows are copied into"
    " the batch inside `next()` or, from 256 KiB on and out of mapped files, by the threads"
)


def lies_in_memory(dataset: BatchDataset) -> bool:
    """Whether a dataset that makes batches has its rows in memory, so that recognise_rows() is asked."""
    return _is_mapped_arrays(dataset) or is_plain_table(dataset)


def _is_mapped_arrays(dataset: Any) -> bool:
    # chunked files make whole batches instead (batches.py)
    return type(dataset) is loaded("millrace.datasets.hdf5", "HDF5") and dataset.mapped_tables is not None


def recognise_rows(dataset: Any) -> RowSet:
    """The RowSet behind `dataset`; NotLowered when samples must be made, or put together, by Python."""
    if _is_mapped_arrays(dataset):
        from ...datasets.hdf5 import mapped_rows

        return mapped_rows(dataset)
    recognise = ROWS.get(type(dataset))
    if recognise is None:
        recognise = (
            recognise_arrow if is_arrow(dataset) else recognise_table if is_plain_table(dataset) else None
        )
    if recognise is None:
        raise NotLowered(
            f"{type(dataset).__name__} is Python code; samples in memory are read from tensors, numeric numpy"
            " arrays, torch's TensorDataset, StackDataset, ConcatDataset and Subset, and Hugging Face's"
            " Dataset"
        )
    if "__getitems__" in getattr(dataset, "__dict__", ()):
        raise NotLowered(f"this {type(dataset).__name__} was given a __getitems__ of its own; remove it")
    if type(dataset) in ROWS:
        check_class(type(dataset))
    return recognise(dataset)


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


ROWS: dict[type, Callable[[Any], RowSet]] = {
    **TABLES,
    TensorDataset: _tensor_dataset,
    StackDataset: _stack_dataset,
    ConcatDataset: _concat_dataset,
    Subset: _subset,
    Arrays: _stack_dataset,
    Tokens: token_rows,
}


def is_plain_table(dataset: Any) -> bool:
    """Imports nothing: who has a Table has imported what is behind it."""
    cls = loaded("millrace.datasets.tables.table", "Table")
    return type(dataset) is cls and dataset.plain_tables() is not None


def recognise_table(dataset: Any) -> RowSet:
    """The RowSet of a Table for which is_plain_table() holds."""
    columns = []
    for field, tables in zip(dataset.fields, dataset.plain_tables()):
        sample_type = torch.Tensor if field.shape else np.dtype(field.dtype).type
        columns.append(Column(tuple(tables), sample_type, field.dtype, field.shape))
    layout = (dict, tuple((field.name, number) for number, field in enumerate(dataset.fields)))
    return RowSet("Table", len(dataset), tuple(columns), layout)
