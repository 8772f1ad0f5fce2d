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
        seconds, step = self.seconds or 0.0, self.step_seconds
        wrong = {
            f"workers {self.workers}: whole numbers from 0 on, at least one of them": (
                self.workers is not None and min(self.workers, default=-1) < 0
            ),
            f"prefetch {self.prefetch}: whole numbers from 1 on, at least one of them": (
                self.prefetch is not None and min(self.prefetch, default=0) < 1
            ),
            f"method {self.methods}: some of {', '.join(METHODS)}": (
                self.methods is not None and not set() < set(self.methods) <= set(METHODS)
            ),
            f'step_on {self.step_on!r}: "gpu" (the loop sleeps) or "cpu" (it is busy)': (
                self.step_on not in ("gpu", "cpu")
            ),
            f"a step of {step * 1000:g} ms: from 0 (nothing but loading is measured) up to an hour": (
                not 0 <= step < 3600
            ),
            "steps and seconds both say how long each point is measured: give one of them": (
                self.steps is not None and self.seconds is not None
            ),
            f"{self.steps} steps measure nothing: at least 1": self.steps is not None and self.steps < 1,
            f"{seconds:g} seconds per point: more than 0, less than a day": (
                self.seconds is not None and not 0 < seconds < 86400
            ),
            f"{self.repeats} repeats measure nothing: at least 1": self.repeats < 1,
            f"a budget of {self.budget:g} s: more than 0": not 0 < self.budget < 1e6,
        }
        for message, holds in wrong.items():
            if holds:
                raise ValueError(message)
