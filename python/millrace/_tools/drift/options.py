"""How much of the batches is looked at, and what counts as drift."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

KINDS = (
    "mean",
    "spread",
    "nan",
    "zeros",
    "range",
    "histogram",
    "classes",
    "lengths",
    "channels",
    "duplicates",
)


@dataclass(frozen=True)
class DriftOptions:
    """How `watch()` looks at batches.

    every: each so-manieth batch is looked at; those whose number (from 0, counted over epochs) divides by it,
        and the first `first` ones. "auto" begins with 1 and takes powers of two up to 1024, so that what is
        looked at costs less than `cost` of the loop's wall time.
    first: batches at the beginning that are looked at in any case.
    cost: share of the wall time that "auto" may take, of one CPU; it aims at half.
    rows: samples of a batch that are looked at, spread evenly over it.
    values: numbers of a sample per channel or column, in 16 runs spread evenly over it.
    exact: wait for the thread that looks rather than pass a batch over when it is behind; with a number for
        `every`, what is looked at is then the same in each run.
    fields: the only fields that are looked at; None: all that have numbers or texts.
    ignore: what raises no alarm: kinds ("duplicates"), fields ("meta.time"), or both ("image:mean").
    false_alarms: the probability that a run has any false alarm, of whatever length, if samples are drawn as
        the reference's were.
    least: factor on the shifts below which nothing is reported (docs/drift.md lists them); 2 asks for changes
        twice as large.
    """

    every: int | Literal["auto"] = "auto"
    first: int = 4
    cost: float = 0.02
    rows: int = 256
    values: int = 256
    exact: bool = False
    fields: Sequence[str] | None = None
    ignore: Sequence[str] = ()
    false_alarms: float = 1e-3
    least: float = 1.0

    def __post_init__(self) -> None:
        if self.every != "auto" and (
            not isinstance(self.every, int) or isinstance(self.every, bool) or self.every < 1
        ):
            raise ValueError(f'every={self.every!r} is neither a number from 1 on nor "auto"')
        for name, least in (("first", 0), ("rows", 1), ("values", 16)):
            if not isinstance(getattr(self, name), int) or getattr(self, name) < least:
                raise ValueError(f"{name}={getattr(self, name)!r} is no whole number from {least} on")
        for name, most in (("cost", 1.0), ("false_alarms", 1.0), ("least", float("inf"))):
            if not 0 < getattr(self, name) < most:
                raise ValueError(f"{name}={getattr(self, name)!r} is not between 0 and {most:g}")
        for name in ("fields", "ignore"):
            if isinstance(getattr(self, name), str):
                raise ValueError(f"{name}={getattr(self, name)!r} should be a list of names")

    def ignores(self, field: str, kind: str) -> bool:
        return any(name in self.ignore for name in (field, kind, f"{field}:{kind}"))
