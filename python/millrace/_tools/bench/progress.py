"""What is being measured and what is best so far: a bar of rich's in a terminal, else a line for each
measurement.
"""

from __future__ import annotations

import sys
import time
from typing import Any, TextIO

_TOLD_BY_POINTS = ("warm-up", "grid", "around the best", "final")


class Progress:
    """Says nothing; the others derive from it."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._phase = ""

    def begin(self) -> None:
        """The budget counts from now."""
        self._start = time.monotonic()

    def phase(self, name: str) -> None:
        """What the next measurements are for."""
        self._phase = name

    def measuring(self, what: str, phase: str) -> None:
        """Before a measurement."""

    def measured(self, what: str, rate: float | None, best: str) -> None:
        """After it: samples/s, None where it failed; the best so far in words, "" before there is one."""

    def close(self) -> None:
        """Nothing is shown any more."""

    def _elapsed(self) -> float:
        return time.monotonic() - self._start


class Lines(Progress):
    """One line for each measurement."""

    def __init__(self, budget: float, stream: TextIO | None = None) -> None:
        super().__init__()
        self._budget, self._stream = budget, stream or sys.stderr

    def phase(self, name: str) -> None:
        super().phase(name)
        if name not in _TOLD_BY_POINTS:
            print(f"[{self._elapsed():4.0f} s of {self._budget:.0f}] {name}", file=self._stream, flush=True)

    def measured(self, what: str, rate: float | None, best: str) -> None:
        result = "failed" if rate is None else f"{rate:,.0f} samples/s"
        best = f"; best so far {best}" if best else ""
        print(
            f"[{self._elapsed():4.0f} s of {self._budget:.0f}] {self._phase}: {what}: {result}{best}",
            file=self._stream,
            flush=True,
        )


class Bar(Progress):
    """A bar over the budget, what is measured, and the best so far; needs rich and a terminal."""

    def __init__(self, budget: float, rich_progress: Any) -> None:
        super().__init__()
        self._bar = rich_progress.Progress(
            rich_progress.BarColumn(24),
            rich_progress.TextColumn("{task.description}", markup=False),
            rich_progress.TimeElapsedColumn(),
            console=_console(),
            transient=True,
            refresh_per_second=2,
        )  # each takes CPU time from what is measured
        self._task = self._bar.add_task("", total=budget)
        self._best = ""
        self._bar.start()

    def phase(self, name: str) -> None:
        super().phase(name)
        self._show(name)

    def measuring(self, what: str, phase: str) -> None:
        self._show(f"{self._phase}: {what}")

    def measured(self, what: str, rate: float | None, best: str) -> None:
        self._best = best
        self._show(f"{self._phase}: {what}")

    def _show(self, text: str) -> None:
        best = f"; best so far {self._best} samples/s" if self._best else ""
        self._bar.update(self._task, description=text + best, completed=self._elapsed())

    def close(self) -> None:
        self._bar.stop()


def _console() -> Any:
    import rich.console

    return rich.console.Console(stderr=True)


def make_progress(budget: float) -> Progress:
    """The one that fits where this runs."""
    if sys.stderr.isatty():
        try:
            import rich.progress
        except ImportError:
            pass
        else:
            return Bar(budget, rich.progress)
    return Lines(budget)
