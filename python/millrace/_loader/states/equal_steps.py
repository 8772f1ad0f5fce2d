"""As many index lists on every rank, where their samplers have different numbers of them (equal_steps=)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple


class Steps(NamedTuple):
    """How many lists this rank has, how many all ranks take, and which come again where it has fewer: its
    first ones, or its last.
    """

    own: int
    agreed: int
    repeats_first: bool

    def again(self, number: int, lists: Sequence[Any]) -> Any:
        """Which of those that come again is list `number` of the epoch, behind this rank's own."""
        return lists[(number - self.own) % len(lists)]

    def given_again(self, count: int, lists: Sequence[Any]) -> list[Any]:
        """Of the first `count` lists of an epoch those that came for a second time or more."""
        return [self.again(number, lists) for number in range(self.own, count)] if lists else []
