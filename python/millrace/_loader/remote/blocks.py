"""Packs batches into blocks of bytes and unpacks them, to send them from one machine to another.

A nested value becomes a pickle, with a number for each tensor, and one array of bytes for each tensor and
each large array. Ray's object store takes such arrays without a copy, and other processes read them there.
"""

from __future__ import annotations

import functools
import io
import math
import pickle
import sys
from collections import deque
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import torch

from ... import _core
from ..._common.interpreter import has_gil
from ..engines.channel import TakesOut, unpickled

_LARGE_BYTES = 2**18
_NOBODYS = 2  # references to an unused array: the deque's, and the argument of sys.getrefcount()


class Blocks(NamedTuple):
    """skeleton: the pickle; tensors: (dtype, shape, order) of each; arrays: the tensors' bytes, uint8 [n],
    then those of the pickle's own buffers. order: of the dimensions in memory; None: that of the shape.
    """

    skeleton: bytes
    tensors: list[tuple[str, tuple[int, ...], tuple[int, ...] | None]]
    arrays: list[np.ndarray]

    @property
    def nbytes(self) -> int:
        return len(self.skeleton) + sum(array.nbytes for array in self.arrays)


@functools.cache
def _packer_over(base: type) -> Any:
    return type("Packer", (TakesOut, base), {})


def as_blocks(value: Any) -> Blocks:
    """Pack `value`. The arrays are views of its memory. Errors of pickling pass through."""
    # Ray's pickler takes also objects that the script's own file defines.
    rays = sys.modules.get("ray.cloudpickle")
    file = io.BytesIO()
    # the arguments before buffer_callback differ between the two
    base, options = (pickle.Pickler, (5, True)) if rays is None else (rays.Pickler, (5,))
    packer = _packer_over(base)(file, *options)
    packer.dump(value)
    dense = [_dense(tensor) for tensor in packer.tensors]
    described = [
        (str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), order) for tensor, order in dense
    ]
    arrays = [bytes_of(tensor) for tensor, _ in dense]
    arrays += [np.frombuffer(buffer, np.uint8) for buffer in packer.buffers]
    return Blocks(file.getvalue(), described, arrays)


def _dense(tensor: torch.Tensor) -> tuple[torch.Tensor, tuple[int, ...] | None]:
    """(the tensor without gaps, its dimensions in their order in memory; that order, None if unchanged)"""
    if tensor.is_contiguous():
        return tensor, None
    order = tuple(sorted(range(tensor.dim()), key=tensor.stride, reverse=True))
    permuted = tensor.permute(order)
    return (permuted, order) if permuted.is_contiguous() else (tensor.contiguous(), None)


def bytes_of(tensor: torch.Tensor) -> np.ndarray:
    """uint8 [n], over the tensor's memory. It must be contiguous."""
    if not tensor.numel():
        return np.empty(0, np.uint8)
    return tensor.reshape(-1).view(torch.uint8).numpy()


def from_blocks(blocks: Any, landing: Landing) -> Any:
    """The value, in memory of this process."""
    skeleton, described, arrays = blocks
    tensors = []
    for (dtype, shape, order), data in zip(described, arrays):
        tensor = landing.tensor(shape, getattr(torch, dtype))
        if data.size:
            _core.copy_field(data, bytes_of(tensor))
        tensors.append(tensor if order is None else tensor.permute(tuple(np.argsort(order).tolist())))
    buffers = [_copied(data, landing) for data in arrays[len(described) :]]
    return unpickled(skeleton, tensors, buffers)


def _copied(data: np.ndarray, landing: Landing) -> np.ndarray:
    memory = landing.memory(data.size)
    _core.copy_field(data, memory)
    return memory


class Landing:
    """Memory for fields that arrive. One thread.

    New pages cost more than the copy into them, so `most` large fields are kept, and used again when no
    tensor uses them any more: a tensor's storage holds a reference to the array that owns the memory, so the
    array's reference count tells. page_locked: torch's allocator does the same for such memory.
    """

    def __init__(self, page_locked: bool, most: int = 8) -> None:
        self._page_locked, self._most = page_locked, most
        self._kept: deque[np.ndarray] = deque()
        self._counts = has_gil()

    def tensor(self, shape: Iterable[int], dtype: torch.dtype) -> torch.Tensor:
        """A tensor with any contents."""
        shape = tuple(shape)
        size = math.prod(shape) * dtype.itemsize
        if self._page_locked or size < _LARGE_BYTES:
            return torch.empty(shape, dtype=dtype, pin_memory=self._page_locked)
        return torch.from_numpy(self.memory(size)).view(dtype).reshape(shape)

    def memory(self, size: int) -> np.ndarray:
        """An array uint8 [size] with any contents."""
        if size < _LARGE_BYTES or not self._counts:
            return np.empty(size, np.uint8)
        for _ in range(len(self._kept)):
            self._kept.rotate()
            if self._kept[0].size == size and sys.getrefcount(self._kept[0]) == _NOBODYS:
                return self._kept[0]
        fresh = np.empty(size, np.uint8)
        self._kept.appendleft(fresh)
        if len(self._kept) > self._most:
            self._kept.pop()
        return fresh
