"""Python objects of one kind, packed into flat bytes, and read back one at a time.

A column is packed by walking the values a few times, and says where in the bytes it lies; `reader(memory)`
gives the function from a row to its value. Types come back exactly, so only exact types are packed: an object
of any other class is pickled.
"""

from __future__ import annotations

import mmap
import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import Any, BinaryIO, Union

import numpy as np

Values = Callable[[], Iterator[Any]]  # a new walk over the values at each call
Reader = Callable[[int], Any]

_BLOCK = 1 << 16  # values that are encoded at once
_DECODERS: dict[str, Callable[[bytes], Any]] = {
    "bytes": bytes,  # the same object
    "utf-8": bytes.decode,
    "lone surrogates": partial(bytes.decode, errors="surrogatepass"),
    "pickle": pickle.loads,
}


@dataclass(frozen=True)
class Numbers:
    """int, float or bool: `rows` elements of the struct module's `code`, from byte `at` on."""

    at: int
    rows: int
    code: str

    def view(self, memory: mmap.mmap) -> memoryview:
        code: Any = self.code  # one of those that cast() takes
        return memoryview(memory)[self.at : self.at + self.rows * np.dtype(code).itemsize].cast(code)

    def reader(self, memory: mmap.mmap) -> Reader:
        return self.view(memory).__getitem__


@dataclass(frozen=True)
class Strings:
    """str, bytes, or pickles, end to end; value i lies between bytes ends[i] and ends[i + 1] of the whole."""

    ends: Numbers
    coding: str

    @property
    def rows(self) -> int:
        return self.ends.rows - 1

    def reader(self, memory: mmap.mmap) -> Reader:
        ends, decode = self.ends.view(memory), _DECODERS[self.coding]
        return lambda row: decode(memory[ends[row] : ends[row + 1]])


@dataclass(frozen=True)
class Rows:
    """Tuples of one length, or dicts with one list of keys: a column for each place."""

    columns: tuple[Column, ...]
    keys: tuple[str, ...] | None

    @property
    def rows(self) -> int:
        return self.columns[0].rows

    def reader(self, memory: mmap.mmap) -> Reader:
        readers = [column.reader(memory) for column in self.columns]
        if self.keys is not None:
            named = list(zip(self.keys, readers))
            return lambda row: {key: read(row) for key, read in named}
        if len(readers) == 2:  # (path, label), the common one
            first, second = readers
            return lambda row: (first(row), second(row))
        return lambda row: tuple([read(row) for read in readers])


Column = Union[Numbers, Strings, Rows]


def pack(values: Values, count: int, file: BinaryIO) -> Column:
    """Appends a column of `count` values to `file`. TypeError for a value that is of no packed type and
    cannot be pickled.
    """
    kinds = set(map(type, values()))
    kind = kinds.pop() if len(kinds) == 1 else None
    if kind is bool or kind is float:
        return _numbers(np.fromiter(values(), kind, count), file)
    if kind is int:
        try:
            return _numbers(_narrow(np.fromiter(values(), np.int64, count)), file)
        except OverflowError:
            pass
    if kind is str:
        return _strings(_texts(values()), count, "utf-8", file)
    if kind is bytes:
        return _strings(
            ((b"".join(block), map(len, block)) for block in _blocks(values())), count, "bytes", file
        )
    if kind is tuple or kind is dict:
        rows = _rows(values, count, kind, file)
        if rows is not None:
            return rows
    return _strings(_pickles(values()), count, "pickle", file)


def _rows(values: Values, count: int, kind: type, file: BinaryIO) -> Rows | None:
    """None where the values are not alike."""
    shape_of: Callable[[Any], Any] = tuple if kind is dict else len
    shapes = set(map(shape_of, values()))
    shape = shapes.pop()
    if shapes or not shape or (kind is dict and set(map(type, shape)) != {str}):
        return None
    places = shape if kind is dict else range(shape)
    columns = tuple(pack(_picked(place, values), count, file) for place in places)
    return Rows(columns, shape if kind is dict else None)


def _picked(place: Any, values: Values) -> Values:
    return lambda: map(itemgetter(place), values())


def _numbers(array: np.ndarray, file: BinaryIO) -> Numbers:
    file.write(bytes(-file.tell() % 8))
    at = file.tell()
    file.write(array.data)
    return Numbers(at, len(array), array.dtype.char)


def _narrow(array: np.ndarray) -> np.ndarray:
    smallest = np.result_type(
        np.min_scalar_type(array.min(initial=0)), np.min_scalar_type(array.max(initial=0))
    )
    return array.astype(smallest if smallest.kind in "iu" else np.int64)


def _strings(
    blocks: Iterable[tuple[bytes, Iterable[int]]], count: int, coding: str, file: BinaryIO
) -> Strings:
    ends = np.zeros(count + 1, np.int64)
    ends[0] = file.tell()
    row = 1
    for data, lengths in blocks:
        sizes = np.fromiter(lengths, np.int64)
        ends[row : row + len(sizes)] = sizes
        row += len(sizes)
        # the first byte of a lone surrogate, and of some valid characters
        if coding == "utf-8" and b"\xed" in data:
            coding = "lone surrogates"
        file.write(data)
    np.cumsum(ends, out=ends)
    return Strings(_numbers(_narrow(ends), file), coding)


def _texts(values: Iterator[str]) -> Iterator[tuple[bytes, Iterable[int]]]:
    for block in _blocks(values):
        text = "".join(block)
        if text.isascii():
            yield text.encode(), map(len, block)
        else:
            encoded = [
                item.encode("utf-8", "surrogatepass") for item in block
            ]  # file names that are no Unicode have them
            yield b"".join(encoded), map(len, encoded)


def _pickles(values: Iterator[Any]) -> Iterator[tuple[bytes, Iterable[int]]]:
    for block in _blocks(values):
        encoded = [_pickled(item) for item in block]
        yield b"".join(encoded), map(len, encoded)


def _pickled(item: Any) -> bytes:
    try:
        return pickle.dumps(item, pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        raise TypeError(
            f"an item of type {type(item).__name__} can be neither packed nor pickled ({error}); frozen()"
            " takes str, bytes, int, float, bool, tuples and dicts of these, and whatever pickle takes"
        ) from error


def _blocks(values: Iterator[Any]) -> Iterator[list[Any]]:
    return iter(lambda: list(islice(values, _BLOCK)), [])
