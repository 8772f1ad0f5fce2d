"""Batches as blocks of bytes, and back: how they cross from one machine to another.

A value of any nesting is a pickle in which tensors are numbers, and one array of bytes for each of its
tensors and large arrays. Ray's object store takes such arrays uncopied and lets others read them there.
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
_NOBODYS = 2  # references to an array: the deque's, and that of who asks


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
    """The arrays are views of the value's memory. Errors of pickling pass through."""
    # Ray's pickler takes what the script's own file defines.
    rays = sys.modules.get("ray.cloudpickle")
    file = io.BytesIO()
    # what comes before buffer_callback is not the same in both
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
    """(without gaps, its dimensions in the order in which they lie in memory; that order)"""
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

    New pages cost more than the copy into them, so `most` large fields are kept and used again when no tensor
    lies in them any more: the tensor's storage holds the array that owns them, and who counts references to
    that array knows. page_locked: torch's allocator does the same for such memory.
    """

    def __init__(self, page_locked: bool, most: int = 8) -> None:
        self._page_locked, self._most = page_locked, most
        self._kept: deque[np.ndarray] = deque()
        self._counts = has_gil()

    def tensor(self, shape: Iterable[int], dtype: torch.dtype) -> torch.Tensor:
        """With anything in it."""
        shape = tuple(shape)
        size = math.prod(shape) * dtype.itemsize
        if self._page_locked or size < _LARGE_BYTES:
            return torch.empty(shape, dtype=dtype, pin_memory=self._page_locked)
        return torch.from_numpy(self.memory(size)).view(dtype).reshape(shape)

    def memory(self, size: int) -> np.ndarray:
        """uint8 [size], with anything in it."""
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
