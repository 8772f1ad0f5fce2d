"""As many index lists on every rank, where their samplers have different numbers of them (equal_steps=)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple


class Steps(NamedTuple):
    """How many lists this rank has, how many all ranks take, and which come again where it has fewer: its
    first ones, or its last.
    """

    own: int
    agreed: int
    repeats_first: bool

    def again(self, number: int, lists: Sequence[Any]) -> Any:
        """Return the repeated list that is list `number` of the epoch, after this rank's own lists."""
        return lists[(number - self.own) % len(lists)]

    def given_again(self, count: int, lists: Sequence[Any]) -> list[Any]:
        """Of the first `count` lists of an epoch those that came for a second time or more."""
        return [self.again(number, lists) for number in range(self.own, count)] if lists else []


class AgreedLists:
    """A rank's `lists`, from list `number` of the epoch on, until all ranks have as many. `again`: those that
    come again, as far as they are known; it is kept up to date.
    """

    def __init__(self, lists: Iterator[Any], steps: Steps, number: int, again: list[Any]) -> None:
        self._lists, self._steps, self._number, self._again = lists, steps, number, again

    def __next__(self) -> Any:
        steps, number, again = self._steps, self._number, self._again
        if number >= steps.agreed:
            # One more is drawn and dropped, so that a generator has the same state as in a run resumed here.
            lists, self._lists = self._lists, iter(())
            next(lists, None)
            raise StopIteration
        try:
            item = next(self._lists)
            if not steps.repeats_first:
                again[:] = [item]
            elif number < steps.agreed - steps.own:
                again.append(item)
        except StopIteration:
            if not again:
                raise
            item = steps.again(number, again)
        self._number += 1
        return item
