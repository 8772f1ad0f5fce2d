"""on_error="skip" for datasets that are Python code: the rule of the native engine, applied to lists of
indices.

A sample that cannot be read is a hole. Before its batch is delivered, the holes are filled in the order of
their rows, and the batch is fetched anew. Each hole takes the last unused index of all that the sampler gave
for this epoch; if that sample cannot be read either, the hole takes the next one, and so on. So the other
samples stay where they are, the epoch ends early, and the last batches shrink or vanish. A worker may have
made a batch before holes took its last indices; then the batch is fetched anew before it is delivered, so
the result does not depend on the workers' progress. A failure that was found in such a batch does not count.

Costs, only in lists that fail: each round of filling fetches the whole list again.
"""

from __future__ import annotations

import errno
import operator
import os
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from ...errors import CorruptDataError


class Skipped:
    """The result of a fetcher, instead of a batch. `failures`: for each row that could not be read, its entry
    in stats()["errors"].
    """

    def __init__(self, failures: dict[int, dict[str, Any]]) -> None:
        self.failures = failures


def is_of_sample(error: Exception) -> bool:
    """Whether on_error applies: another sample does not help if memory or descriptors are short."""
    return not isinstance(error, MemoryError) and getattr(error, "errno", None) not in (
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
    )


def failure(index: Any, error: Exception) -> dict[str, Any]:
    """The entry of a sample left out, as stats() lists it."""
    try:
        index = operator.index(index)
    except TypeError:  # a key of the dataset's own kind
        pass
    path = getattr(error, "path", None) or getattr(error, "filename", None)
    # a descriptor's number, say
    path = os.fsdecode(path) if isinstance(path, (str, bytes, os.PathLike)) else ""
    # repr() leaves an OSError's file out
    reason = f"{type(error).__name__}({str(error)!r})" if isinstance(error, OSError) else repr(error)
    return {"index": index, "path": path, "offset": getattr(error, "offset", -1), "reason": reason}


class Positions:
    """All index lists of an epoch, drained from the sampler at once; an iterator over them that can also be
    used from its end.
    """

    def __init__(self, lists: Iterable[Any]) -> None:
        self._lists = [list(indices) for indices in lists]
        self._end = len(self._lists)
        self.given = 0  # lists that were taken from the front
        self._any_whole = False
        self._shortened: set[int] = set()  # lists that were given before their last indices were taken

    def __iter__(self) -> Iterator[list[Any]]:
        return self

    def __next__(self) -> list[Any]:
        if self.given >= self._end:
            raise StopIteration
        self.given += 1
        return list(self._lists[self.given - 1])

    def rows(self, number: int) -> list[Any]:
        """The rest of a list: the object itself, which take_last() shortens."""
        return self._lists[number]

    def take_last(self, after: int) -> tuple[Any, ...]:
        """Take (index,) from the last unused position of the lists after `after`; () if none is left."""
        for number in range(self._end - 1, after, -1):
            rows = self._lists[number]
            if rows:
                index = rows.pop()
                if number < self.given:
                    self._shortened.add(number)
                elif not rows:
                    self._end = number
                return (index,)
        return ()

    def is_empty(self) -> bool:
        """Whether no batch became whole, and no indices are left for another."""
        return not self._any_whole and not any(self._lists)

    def was_shortened(self, number: int) -> bool:
        """Whether a list lost indices since it was given, or since the last call of this."""
        shortened = number in self._shortened
        self._shortened.discard(number)
        return shortened

    def used(self, number: int, whole: bool) -> None:
        """Empty a list: its batch is with the consumer (`whole`) or lost, so no hole takes its indices."""
        self._any_whole |= whole
        self._lists[number] = []
        self._shortened.discard(number)


class Backfill:
    """The next batch to deliver, until it is whole. `rows`: its indices so far."""

    def __init__(self, positions: Positions, number: int, worker: int = 0) -> None:
        self.number = number
        self.worker = worker
        self.rows = positions.rows(number)
        self._positions = positions
        self._last_failure: dict[str, Any] = {}
        self._filled: list[int] = []  # rows that got another index when the list was last sent, in order

    def is_unfinished(self, value: Any, errors: list[dict[str, Any]]) -> bool:
        """Whether `rows` must be fetched again, because `value` is not their batch. Appends the samples left
        out to `errors`.
        """
        if self._positions.was_shortened(self.number):
            return bool(self.rows)
        if not isinstance(value, Skipped):
            return False
        failures = [value.failures[row] for row in sorted(value.failures)]
        errors += failures
        self._last_failure = failures[-1]
        self._fill(value.failures)
        return bool(self.rows)

    def _fill(self, bad: Collection[int]) -> None:
        rows, holes = self.rows, sorted({*bad, *self._filled})
        # Fillers that could be read move up to the first holes, as if the holes had been filled one by one.
        fillers = deque(rows[row] for row in self._filled if row not in bad)
        for hole in holes:
            if hole >= len(rows):
                break
            if fillers:
                rows[hole] = fillers.popleft()
            elif last := self._positions.take_last(self.number) or self._own_last(hole, holes):
                rows[hole] = last[0]
            else:
                del rows[hole:]
        self._filled = [hole for hole in holes if hole < len(rows)]

    def give_up(self) -> None:
        self._positions.used(self.number, True)

    def _own_last(self, hole: int, holes: list[int]) -> tuple[Any, ...]:
        while len(self.rows) - 1 > hole:
            index = self.rows.pop()
            if len(self.rows) not in holes:
                return (index,)
        return ()

    def end(self) -> int:
        """Finish the batch; return its number of samples. CorruptDataError if no sample of the epoch can be
        read, as in the native engine: that is not an empty epoch.
        """
        rows = len(self.rows)
        self._positions.used(self.number, rows > 0)
        if self._last_failure and self._positions.is_empty():
            raise CorruptDataError(
                f"none of this epoch's samples can be had; the last one, "
                f"dataset[{self._last_failure['index']!r}], raised {self._last_failure['reason']}"
            )
        return rows
