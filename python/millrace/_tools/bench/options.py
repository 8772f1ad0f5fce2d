"""What the user may choose about a bench run, checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .configurations import METHODS

BUDGET_S = 120.0


@dataclass(frozen=True)
class Options:
    """Times in seconds. None: chosen by what is found. ValueError for what cannot be."""

    workers: Sequence[int] | None = None
    prefetch: Sequence[int] | None = None
    pin: Sequence[bool] | None = None
    methods: Sequence[str] | None = None
    step_seconds: float = 0.0
    step_on: str = "gpu"
    steps: int | None = None
    seconds: float | None = None
    repeats: int = 5
    budget: float = BUDGET_S
    with_torch: bool = True

    def __post_init__(self) -> None:
        for name, values, least in (("workers", self.workers, 0), ("prefetch", self.prefetch, 1)):
            if values is not None and (not values or any(value < least for value in values)):
                raise ValueError(
                    f"{name} {list(values)}: whole numbers from {least} on, at least one of them"
                )
        if self.methods is not None and (not self.methods or set(self.methods) - set(METHODS)):
            raise ValueError(f"method {list(self.methods)}: some of {', '.join(METHODS)}")
        if self.step_on not in ("gpu", "cpu"):
            raise ValueError(f'step_on {self.step_on!r}: "gpu" (the loop sleeps) or "cpu" (it is busy)')
        if not 0 <= self.step_seconds < 3600:
            raise ValueError(
                f"a step of {self.step_seconds * 1000:g} ms: from 0 (nothing but loading is measured) up to"
                " an hour"
            )
        if self.steps is not None and self.seconds is not None:
            raise ValueError("steps and seconds both say how long each point is measured: give one of them")
        if self.steps is not None and self.steps < 1:
            raise ValueError(f"{self.steps} steps measure nothing: at least 1")
        if self.seconds is not None and not 0 < self.seconds < 86400:
            raise ValueError(f"{self.seconds:g} seconds per point: more than 0, less than a day")
        if self.repeats < 1:
            raise ValueError(f"{self.repeats} repeats measure nothing: at least 1")
        if not 0 < self.budget < 1e6:
            raise ValueError(f"a budget of {self.budget:g} s: more than 0")
