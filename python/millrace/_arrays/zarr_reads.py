"""What a dataset asks of zarr: array[i] of chunks in a folder, each a file, is read and decoded here, in the
thread that asks. zarr-python 3 hands each read to a thread with an event loop, which takes a millisecond.

The codecs are zarr's own (numcodecs), the files are opened at each read as there. Left to zarr: other stores,
keys, codecs and orders, shards, numbers of another byte order, many chunks at once, and whatever fails here.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from .._common.regular_files import open_regular
from .._pictures.asking import asked
from .._pictures.replaced import around, replacements
from ..datasets.array_files.sources import plain_dtype

_READER = "_millrace_reader"
_MOST_CHUNKS = 16  # of one read: zarr reads many of them at a time
_DECODERS = {"zstd": "Zstd", "gzip": "GZip", "blosc": "Blosc"}  # zarr's names of codecs, numcodecs' classes

Range = tuple[int, int, int]  # start, count, step along an axis


class _Reader:
    """Reader of one array with these metadata. `decode`: turns a file's bytes into a chunk's bytes; None:
    zarr reads the array.
    """

    def __init__(self, array: Any) -> None:
        metadata = self.metadata = array.metadata
        self.decode: Callable[[bytes], Any] | None = None
        self.shape, self.dtype, self.fill = metadata.shape, array.dtype, metadata.fill_value
        store = array.store
        if type(store).__name__ != "LocalStore" or not self.shape or self.dtype != plain_dtype(self.dtype):
            return
        if metadata.zarr_format == 2:
            codecs = () if metadata.compressor is None else (metadata.compressor,)
            self.chunks: tuple[int, ...] = metadata.chunks
            is_plain = metadata.order == "C" and not metadata.filters and array.dtype.isnative
        else:
            to_bytes, *compressors = metadata.codecs
            self.chunks = getattr(metadata.chunk_grid, "chunk_shape", ())
            order = getattr(getattr(to_bytes, "endian", None), "value", "little")
            is_plain = type(to_bytes).__name__ == "BytesCodec" and order == "little" and array.order == "C"
            names = [_DECODERS.get(codec.to_dict()["name"]) for codec in compressors]
            is_plain = is_plain and all(names) and not metadata.storage_transformers
            codecs = tuple(getattr(sys.modules["numcodecs"], name)() for name in names if name)
        if not is_plain or len(self.chunks) != len(self.shape) or len(codecs) > 1 or self.fill is None:
            return
        self.folder = os.path.join(str(store.root), array.path)
        self.decode = codecs[0].decode if codecs else bytes

    def __reduce__(self) -> Any:
        return type(None), ()  # a pickled array has no reader

    def get(self, key: Any) -> Any:
        """array[key]; None where zarr is to read it."""
        parts = key if type(key) is tuple else (key,)
        if self.decode is None or len(parts) > len(self.shape):
            return None
        parts += (slice(None),) * (len(self.shape) - len(parts))
        box = [_range(part, size) for part, size in zip(parts, self.shape)]
        if any(part is None for part in box):
            return None
        if slice not in map(type, parts) and any(type(part) is not int for part in parts):
            return None  # a number by numpy's integers is a scalar there, by Python's an array
        ranges: list[Range] = box  # type: ignore[assignment]
        grid = [
            range(start // chunk, (start + (count - 1) * step) // chunk + 1)
            for (start, count, step), chunk in zip(ranges, self.chunks)
        ]
        if np.prod([len(cells) for cells in grid], dtype=np.int64) > _MOST_CHUNKS:
            return None
        made = np.empty([count for _, count, _ in ranges], self.dtype)
        for cells in itertools.product(*grid):
            cuts = [_cut(part, cell, chunk) for part, cell, chunk in zip(ranges, cells, self.chunks)]
            made[tuple(into for into, _ in cuts)] = self._chunk(cells)[tuple(of for _, of in cuts)]
        return made.reshape([size for size, part in zip(made.shape, parts) if type(part) is slice])

    def _chunk(self, cells: tuple[int, ...]) -> np.ndarray:
        assert self.decode is not None
        path = os.path.join(self.folder, self.metadata.encode_chunk_key(cells))
        try:
            with open_regular(path, "rb", buffering=0) as file:
                data = file.read()
        except FileNotFoundError:
            return np.broadcast_to(np.asarray(self.fill, self.dtype), self.chunks)
        return np.frombuffer(self.decode(data), self.dtype).reshape(self.chunks)


def _range(part: Any, size: int) -> Range | None:
    """`part` of a key as a Range; None if it is neither a number nor a forward slice, or takes no element."""
    if type(part) is int or isinstance(part, np.integer):
        number = int(part) + (size if part < 0 else 0)
        return (number, 1, 1) if 0 <= number < size else None
    if type(part) is not slice:
        return None
    if any(one is not None and type(one) is not int for one in (part.start, part.stop, part.step)):
        return None
    start, stop, step = part.indices(size)
    return (start, len(range(start, stop, step)), step) if step > 0 and start < stop else None


def _cut(part: Range, cell: int, chunk: int) -> tuple[slice, slice]:
    """Along an axis, where the chunk's elements go in the box, and which of the chunk's these are."""
    start, count, step = part
    begin = cell * chunk
    first = max(0, -(-(begin - start) // step))  # in the box: the first element at or after `begin`
    after = min(count, -(-(begin + chunk - start) // step))
    at = start + first * step - begin
    return slice(first, after), slice(at, at + max(after - first - 1, 0) * step + 1, step)


def _read(self: Any, selection: Any, *, original: Any) -> Any:
    """zarr.Array.__getitem__"""
    if asked() is None:
        return original(self, selection)
    try:
        reader = self.__dict__.get(_READER)
        if reader is None or reader.metadata is not self.metadata:
            reader = self.__dict__[_READER] = _Reader(self)
        made = reader.get(selection)
    except Exception:  # zarr reports the fault, if it finds it, too
        made = None
    return original(self, selection) if made is None else made


def install() -> bool:
    """False while zarr is being imported, or where it is older than 3."""
    array = getattr(sys.modules["zarr.core.array"], "Array", None)
    if array is None:
        return False
    replacements.put(array, "__getitem__", around(_read))
    return True
