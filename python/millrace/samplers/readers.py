"""Readers: what an iterator of a sampler reads its indices from, chunk by chunk.

A reader has `read(count)`, the next `count` indices as int64 [<= count], fewer only at the end; `chunk()`,
the next few that may be drawn together when one is asked for, none at the end; and `position_before(count)`,
entries of the global order that all ranks together have consumed when each has taken as many as this one,
less the last `count`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]
Order = Callable[[Indices], Indices]  # the entries at these positions of the global order

CHUNK = 1024  # indices that next() makes at once: enough to forget the call, few enough to be at hand at once
EMPTY = np.empty(0, dtype=np.int64)


def steps_left(length: int, start: int, entries: int, drop_last: bool) -> int:
    """Equal steps that each rank still has, when all of them together take `entries` of the order at a
    step.
    """
    left = max(length - start, 0)
    return left // entries if drop_last else -(-left // entries)


class OrderReader:
    """One rank's part of a global order: positions start + rank, start + rank + replicas, ...; behind the
    end, from the beginning.

    `begin()` is called for the first index, and gives (order, length of the order, how many to read).
    """

    def __init__(
        self, begin: Callable[[], tuple[Order, int, int]], start: int = 0, rank: int = 0, replicas: int = 1
    ) -> None:
        self._begin: Callable[[], tuple[Order, int, int]] | None = begin
        self._order: Order | None = None
        self._start, self._rank, self._replicas = start, rank, replicas
        self._length = self._count = self._taken = 0
        self._chunk = 16  # growing, because the first index is waited for

    def position_before(self, count: int) -> int:
        return self._start + (self._taken - count) * self._replicas

    def chunk(self) -> Indices:
        count, self._chunk = self._chunk, min(4 * self._chunk, CHUNK)
        return self.read(count)

    def read(self, count: int) -> Indices:
        if count <= 0:
            return EMPTY
        if self._begin is not None:
            begin, self._begin = self._begin, None
            self._order, self._length, self._count = begin()
        count = min(count, self._count - self._taken)
        if count <= 0 or self._order is None:
            self._order = None  # its memory is not needed any more
            return EMPTY
        first = self._start + self._rank + self._taken * self._replicas
        self._taken += count
        end = first + (count - 1) * self._replicas + 1
        positions = np.arange(first, end, self._replicas)
        if end > self._length:
            positions %= self._length
        return self._order(positions)

    def back(self, count: int) -> None:
        """The last `count` indices are to be read again."""
        self._taken -= count


class BlockReader:
    """Indices that a generator function draws block by block: each is drawn when its first index is asked
    for, not before.
    """

    def __init__(self, blocks: Callable[[], Iterator[Indices]], start: int = 0) -> None:
        self._blocks: Iterator[Indices] | None = None
        self._make, self._skip = blocks, start
        self._block = EMPTY  # what is left of it
        self._position = start

    def position_before(self, count: int) -> int:
        return self._position - count

    def _next_block(self) -> bool:
        """Whether there is one."""
        if self._blocks is None:
            self._blocks = self._make()
            skip, self._skip = self._skip, 0
            while skip > 0 and self._next_block():
                passed = min(skip, len(self._block))
                self._block = self._block[passed:]
                skip -= passed
            if len(self._block):
                return True
        for block in self._blocks:
            if len(block):
                self._block = block
                return True
        return False

    def chunk(self) -> Indices:
        if not len(self._block) and not self._next_block():
            return EMPTY
        return self.read(min(CHUNK, len(self._block)))

    def read(self, count: int) -> Indices:
        parts, wanted = [], count
        while wanted > 0 and (len(self._block) or self._next_block()):
            parts.append(self._block[:wanted])
            self._block = self._block[wanted:]
            wanted -= len(parts[-1])
        self._position += max(count, 0) - max(wanted, 0)
        return parts[0] if len(parts) == 1 else np.concatenate([EMPTY, *parts])


class StepReader:
    """Numbers of steps, for samplers whose batches are blocks of a global order: all ranks take `entries` of
    it at a step.
    """

    def __init__(self, start: int, length: int, entries: int, steps: int) -> None:
        self._start, self._length, self._entries, self._steps, self._taken = start, length, entries, steps, 0

    def position_before(self, count: int) -> int:
        return max(min(self._start + (self._taken - count) * self._entries, self._length), self._start)

    def chunk(self) -> Indices:
        return self.read(16)

    def read(self, count: int) -> Indices:
        first = self._taken
        self._taken = min(first + count, self._steps)
        return np.arange(first, self._taken)

    def back(self, count: int) -> None:
        self._taken -= count


Reader = Any  # one of the three
