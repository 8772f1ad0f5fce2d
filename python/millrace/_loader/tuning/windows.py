"""What the tuner chooses, a Setting within Bounds; and what it measures: times of batches, summed in windows,
and how much windows differ by chance.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Setting:
    threads: int
    """How many work at once."""
    slots: int
    """Batches in memory at once, the consumer's included."""


@dataclass(frozen=True)
class Bounds:
    """Inclusive. `rows`: pieces that a batch falls into for threads to share, 1 where each makes whole
    batches.
    """

    threads: int
    slots: int
    least_threads: int = 1
    least_slots: int = 2
    rows: int = 1

    def needed_slots(self, threads: int) -> int:
        """With fewer, some of the threads would have nothing to work on: the consumer holds one batch."""
        return max(self.least_slots, 1 + -(-threads // self.rows))

    def fit(self, setting: Setting) -> Setting:
        """The setting next to this one that is within the bounds. Where both cannot be, fewer threads
        work.
        """
        threads = min(max(setting.threads, self.least_threads), self.threads)
        slots = min(max(setting.slots, self.needed_slots(threads)), max(self.slots, self.least_slots))
        return Setting(
            max(min(threads, (slots - 1) * self.rows), min(self.least_threads, self.threads)), slots
        )


WINDOW_SECONDS = 0.5
WINDOW_BATCHES = 6
LONG_WINDOW_SECONDS = 2.0  # then fewer batches are enough: slow pipelines must come to a decision, too
LEAST_BATCHES = 3
LEAST_NOISE = 0.004
_STEPS_REMEMBERED = 32
# times the usual one, and half a second: an evaluation or a checkpoint between two batches, not a step
_ODD_STEP = 20.0
_ODD_STEP_SECONDS = 0.5


@dataclass
class Window:
    """Some batches in a row. `wait`: of `seconds`, those in which the consumer waited for the loader."""

    seconds: float = 0.0
    wait: float = 0.0
    batches: int = 0

    @property
    def level(self) -> float:
        """log(batches per second): differences are relative changes."""
        return math.log(self.batches / max(self.seconds, 1e-9))

    @property
    def waiting(self) -> float:
        """The share of time that the consumer waited."""
        return self.wait / max(self.seconds, 1e-9)


class Meter:
    """Puts batches into windows, which may go over the ends of epochs."""

    def __init__(self) -> None:
        self.seconds = 0.0  # measured altogether
        self.stretch = 1.0  # of the windows' length, for noisy pipelines
        self._window = Window()
        self._skipped = 0
        self._steps: deque[float] = deque(maxlen=_STEPS_REMEMBERED)

    def skip(self, batches: int) -> None:
        """Another setting is in force: begins a window, after batches that were made under the one
        before.
        """
        self._window = Window()
        self.leave_out(batches)

    def leave_out(self, batches: int) -> None:
        """The next batches belong to no window: the pipeline fills up."""
        self._skipped = max(self._skipped, batches)

    def add(self, wait: float, step: float) -> Window | None:
        """One batch: `wait` seconds for it, after a `step` of the consumer's. The window that it completes,
        if it does.
        """
        wait, step = max(0.0, wait), max(0.0, step)
        step = self._usual(step)
        self.seconds += wait + step
        if self._skipped > 0:
            self._skipped -= 1
            return None
        window = self._window
        window.seconds += wait + step
        window.wait += wait
        window.batches += 1
        long_enough = window.seconds >= WINDOW_SECONDS * self.stretch and window.batches >= WINDOW_BATCHES
        if not long_enough and not (
            window.seconds >= LONG_WINDOW_SECONDS and window.batches >= LEAST_BATCHES
        ):
            return None
        self._window = Window()
        return window

    def _usual(self, step: float) -> float:
        steps = self._steps
        if len(steps) >= 8 and step > _ODD_STEP_SECONDS and step > _ODD_STEP * (usual := _median(steps)):
            return usual
        steps.append(step)
        return step


class Noise:
    """The spread of `Window.level` between windows of one setting, from the differences of neighbours."""

    def __init__(self) -> None:
        self._variance: float | None = None

    def add(self, difference: float) -> None:
        # Two windows differ by sqrt(2) of one's spread. A jump of the load is not noise: it is cut off.
        seen = min(difference * difference, 0.04) / 2
        self._variance = seen if self._variance is None else 0.75 * self._variance + 0.25 * seen

    @property
    def spread(self) -> float:
        return max(LEAST_NOISE, math.sqrt(self._variance or 0.0))


def _median(steps: Sequence[float]) -> float:
    from statistics import median  # seldom wanted, and it brings decimal and fractions

    return median(steps)
