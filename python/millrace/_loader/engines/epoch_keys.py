"""Which indices of an epoch came before, and how often: the occurrences in the keys of samples."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np


class EpochKeys:
    """From submitted index lists to the keys of their samples, as src/loader/epoch_keys.h has it. One thread.
    Memory: 4 bytes per sample of the dataset, from the first list on.
    """

    def __init__(self, length: int) -> None:
        self._length = length
        self._seen = np.zeros(0, np.uint32)

    def restart(self) -> None:
        self._seen = np.zeros(0, np.uint32)

    def of(self, indices: Any) -> tuple[np.ndarray, np.ndarray | None]:
        """Return (rows, occurrences) of remote.maker.Work. Rows that do not exist become errors of the thread
        that makes the batch. TypeError if `indices` is not a list of ints.
        """
        rows = np.asarray(indices)
        if rows.size and (rows.dtype.kind not in "iu" or rows.ndim != 1):
            raise TypeError(f"an index list is a list of ints, got {indices!r}")
        rows = rows.astype(np.int64).reshape(-1)
        rows = np.where(rows < 0, rows + self._length, rows)
        if not self._seen.size:
            self._seen = np.zeros(self._length, np.uint32)
        counts, seen = np.zeros(len(rows), np.uint32), self._seen
        known = np.flatnonzero((rows >= 0) & (rows < self._length))
        some = rows[known]
        if len(np.unique(some)) == len(some):
            counts[known] = seen[some]
            seen[some] += 1
        else:
            for at, row in zip(known.tolist(), some.tolist()):
                counts[at] = seen[row]
                seen[row] += 1
        return rows, counts if counts.any() else None


class Again(int):
    """An index that came `occurrence` times before in its epoch."""

    occurrence: int

    def __new__(cls, index: int, occurrence: int) -> Again:
        again = super().__new__(cls, index)
        again.occurrence = occurrence
        return again

    def __reduce__(self) -> Any:
        return Again, (int(self), self.occurrence)


class Marked(list):
    """An index list of which some are Again."""


class Repeats:
    """Marks what comes again in the lists of an epoch. `maps`: from the sampler's indices to those that
    count, of which there are `length`.
    """

    def __init__(self, maps: Sequence[Sequence[int]], length: int) -> None:
        self._maps, self._keys = maps, EpochKeys(length)

    def restart(self, before: Any) -> None:
        """`before`: indices that this epoch has had; None: none that matter."""
        self._keys.restart()
        if before is not None:
            self.of(before)

    def of(self, index: Any) -> Any:
        """`index` itself, where nothing in it came before, or it is no list of ints."""
        try:
            rows = indices = [operator.index(i) for i in index]
            for indices_of in self._maps:
                rows = [operator.index(indices_of[i]) for i in rows]
            counts = self._keys.of(rows)[1]
        except (TypeError, LookupError, ValueError, OverflowError):
            return index  # the lookup raises the error
        marked = [getattr(i, "occurrence", 0) for i in index]  # of a list that is made again
        if counts is None and not any(marked):
            return index
        numbers = marked if counts is None else np.maximum(marked, counts).tolist()
        return Marked(Again(i, n) if n else i for i, n in zip(indices, numbers))


def recorded_rows(rows: Any) -> Any:
    """Return a list as a history keeps it, with its Again entries."""
    return Marked(rows) if any(type(row) is Again for row in rows) else rows
