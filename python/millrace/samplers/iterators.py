"""Iterators of samplers: plain Python ints at the speed of a list, arrays with take(), and a small state that
says where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, islice
from operator import length_hint
from typing import Any

import numpy as np

from .._common.checksum import signing
from .readers import Indices, Reader


class _Chunks:
    """The reader's chunks, as iterators that `chain` walks without coming back to Python for each index."""

    def __init__(self, reader: Reader, item: Callable[[int], Any] | None) -> None:
        self.reader, self.item = reader, item
        self.rest: Iterator[int] = iter([])  # what is left of the chunk

    def __iter__(self) -> _Chunks:
        return self

    def __next__(self) -> Iterator[Any]:
        chunk = self.reader.chunk()
        if not len(chunk):
            raise StopIteration
        self.rest = iter(chunk.tolist())
        return self.rest if self.item is None else map(self.item, self.rest)


class ResumableIterator(chain):
    """What iter() of a sampler of this package gives: next(), and state_dict()."""

    _state_is_json = True
    _chunks: _Chunks
    _head: dict[str, Any]
    _tail: Callable[[], dict[str, Any]]

    @classmethod
    def over(
        cls,
        reader: Reader,
        head: dict[str, Any],
        tail: Callable[[], dict[str, Any]],
        item: Callable[[int], Any] | None = None,
    ) -> ResumableIterator:
        """`head`, the position and `tail()` make up the state; `item` turns a number of the reader into what
        next() gives.
        """
        chunks = _Chunks(reader, item)
        self = cls.from_iterable(chunks)
        self._chunks, self._head, self._tail = chunks, head, tail
        return self

    @signing
    def state_dict(self) -> dict[str, Any]:
        """Where the next index comes from: {"version", "kind", "epoch", "position", "length", ...}, for the
        sampler's load_state_dict.

        "position" counts entries of the global order, all ranks together: this rank's own times the number of
        ranks, and what it was resumed at.
        """
        return self.state_at(self.place())

    def place(self) -> tuple[int, dict[str, Any] | None]:
        """What state_at() needs to make the state of here, in a fraction of its time."""
        return self._chunks.reader.position_before(
            length_hint(self._chunks.rest)
        ), None if self._tail is dict else self._tail()

    def state_at(self, place: tuple[int, dict[str, Any] | None]) -> dict[str, Any]:
        """What state_dict() would have given at `place`."""
        position, tail = place
        return {**self._head, "position": position, **(tail or {})}

    def rewind(self) -> None:
        """What was made but not handed out is made again."""
        left = length_hint(self._chunks.rest)
        for _ in self._chunks.rest:
            pass
        self._chunks.reader.back(left)


class SamplerIterator(ResumableIterator):
    """An iterator over single indices, which also gives them as arrays."""

    @property
    def gives_numbers(self) -> bool:
        """Whether next() gives plain ints, and no elements of somebody's list."""
        return self._chunks.item is None

    def take(self, count: int) -> Indices:
        """The next `count` indices as int64 [count], fewer at the end; draws what `count` calls of next()
        would draw.
        """
        chunks = self._chunks
        if not length_hint(chunks.rest):
            numbers = chunks.reader.read(count)
        else:
            numbers = np.fromiter(islice(chunks.rest, count), dtype=np.int64)
            if len(numbers) < count:
                numbers = np.concatenate([numbers, chunks.reader.read(count - len(numbers))])
        return (
            numbers
            if chunks.item is None
            else np.fromiter(map(chunks.item, numbers.tolist()), dtype=np.int64)
        )
