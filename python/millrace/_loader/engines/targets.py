"""Targets that are more than one int64 number each, of pictures that the engine makes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import Any


class Targets:
    """Targets that are more than one int64 number each: looked up and transformed when their batch is
    delivered. The engine's labels are then positions in these targets, because only the finished batch says
    which row holds which sample: on_error may have put other samples into it.

    `parts`: for each of the concatenated datasets, its samples' targets, and the function that transforms
    one, or None. Holds both; calls the function once for each sample of a batch, in the batch's order.
    """

    def __init__(self, parts: Sequence[tuple[Sequence[Any], Callable[[Any], Any] | None]]) -> None:
        self.parts = tuple(parts)
        self._ends = list(accumulate(len(values) for values, _ in self.parts))

    def __call__(self, positions: Iterable[int]) -> list[Any]:
        return [self._target(position) for position in positions]

    def _target(self, position: int) -> Any:
        number = bisect_right(self._ends, position)
        values, function = self.parts[number]
        target = values[position - (self._ends[number - 1] if number else 0)]
        return target if function is None else function(target)


LooksUp = Callable[[Iterable[int]], list[Any]]
"""Makes the targets of samples at some positions."""
