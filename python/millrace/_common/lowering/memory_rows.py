"""Rows of tensors and arrays in memory, and of several of them side by side, as the engine takes them.

Only what default_collate gives back exactly is recognised; the rest is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from .recognising import NotLowered
from .rows import Column, RowSet

_NAMES = (
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
)
_ARRAY_TYPES = {np.dtype(name): name for name in (*_NAMES, "uint16", "uint32", "uint64")}
_TENSOR_TYPES = {getattr(torch, name): name for name in (*_NAMES, "bfloat16", "uint16", "uint32", "uint64")}


def table_rows(table: Any) -> RowSet:
    """The rows of a plain tensor, array or memmap."""
    recognise = TABLES.get(type(table))
    if recognise is None:
        raise NotLowered(f"{type(table).__name__} is no plain tensor or array")
    return recognise(table)


def _tensor(tensor: torch.Tensor) -> RowSet:
    if tensor.requires_grad:
        raise NotLowered("a tensor requires gradients, which batches would carry on; use tensor.detach()")
    if (
        tensor.device.type != "cpu"
        or tensor.layout is not torch.strided
        or tensor.is_nested
        or tensor.dtype not in _TENSOR_TYPES
    ):
        raise NotLowered(
            f"a tensor is {tensor.dtype}, {tensor.layout}, on {tensor.device}; use dense numbers on the CPU"
        )
    if tensor.dim() == 0 or tensor.is_conj() or tensor.is_neg() or tensor._is_zerotensor():
        raise NotLowered("a tensor has no rows, or is a view that conjugates or negates; use tensor.clone()")
    if not _stacks_row_major(tensor):
        raise NotLowered(
            "a tensor's rows have four or more axes with the channels last, which torch's batches keep or"
            " not, depending on num_workers; use tensor.clone(memory_format=torch.contiguous_format)"
        )
    column = Column((tensor,), torch.Tensor, _TENSOR_TYPES[tensor.dtype], tuple(tensor.shape[1:]))
    return RowSet("Tensor", len(tensor), (column,), 0)


def _array(array: np.ndarray) -> RowSet:
    if array.dtype not in _ARRAY_TYPES or array.ndim == 0:
        raise NotLowered(
            f"a numpy array is {array.dtype} of {array.ndim} dimensions; use one of {', '.join(_NAMES)}, with"
            " rows"
        )
    if array.ndim == 1 and array.dtype == np.uint64:
        raise NotLowered("torch makes no batches of numpy.uint64 numbers; use array.astype(numpy.int64)")
    if any(stride < 0 or stride % array.itemsize for stride in array.strides[1:]):
        raise NotLowered(
            "torch takes no rows of arrays that are reversed, or parts of records; use array.copy()"
        )
    strides = (0, *(stride // array.itemsize for stride in array.strides[1:]))
    if not _stacks_row_major(torch.empty_strided((2, *array.shape[1:]), strides, device="meta")):
        raise NotLowered(
            "an array's rows have four or more axes with the channels last, which torch's batches keep or"
            " not, depending on num_workers; use array.copy(order='C')"
        )
    sample_type = array.dtype.type if array.ndim == 1 else np.ndarray
    mapped = type(array) is np.memmap
    file = getattr(array, "filename", None)
    files = (str(file) if file else None,) if mapped else ()
    column = Column(
        (array,), sample_type, _ARRAY_TYPES[array.dtype], array.shape[1:], mapped=mapped, files=files
    )
    return RowSet("numpy array", len(array), (column,), 0)


def _stacks_row_major(tensor: torch.Tensor) -> bool:
    """Whether torch stacks the rows row-major, to the letter: of four axes and more it may keep the channels
    last.
    """
    if tensor.dim() < 5:
        return True
    row = torch.empty_strided(tensor.shape[1:], tensor.stride()[1:], dtype=tensor.dtype, device="meta")
    batch = torch.stack([row, row])
    return batch.stride() == torch.empty(batch.shape, device="meta").stride()


def stacked(name: str, parts: Sequence[RowSet], kind: type, keys: tuple[Any, ...] = ()) -> RowSet:
    if len({part.length for part in parts}) != 1:
        raise NotLowered(f"{name}'s parts differ in length")
    layouts: list[Any] = []
    columns: list[Column] = []
    for part in parts:
        layouts.append(_shifted(part.layout, len(columns)))
        columns += part.columns
    layout = (dict, tuple(zip(keys, layouts))) if kind is dict else (list, tuple(layouts))
    return RowSet(
        name,
        parts[0].length,
        tuple(columns),
        layout,
        all(p.counts_back for p in parts),
        all(p.alone for p in parts),
    )


def _shifted(layout: Any, by: int) -> Any:
    if isinstance(layout, int):
        return layout + by
    kind, parts = layout
    if kind is dict:
        return kind, tuple((key, _shifted(part, by)) for key, part in parts)
    return kind, tuple(_shifted(part, by) for part in parts)


TABLES: dict[type, Callable[[Any], RowSet]] = {
    torch.Tensor: _tensor,
    np.ndarray: _array,
    np.memmap: _array,
}
