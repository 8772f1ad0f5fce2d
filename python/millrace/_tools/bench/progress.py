"""What is being measured and what is best so far, on stderr: a bar in a terminal, else a line for each
measurement.
"""

from __future__ import annotations

import time
from typing import TextIO

_TOLD_BY_POINTS = ("warm-up", "grid", "around the best", "final")
_WIDTH = 24


class Progress:
    """`budget`: seconds that all takes, about. Without a stream it says nothing."""

    def __init__(self, budget: float = 0.0, stream: TextIO | None = None) -> None:
        self._budget, self._stream = budget, stream
        self._bar = stream is not None and stream.isatty()
        self._start, self._phase, self._best = time.monotonic(), "", ""

    def begin(self) -> None:
        """The budget counts from now."""
        self._start = time.monotonic()

    def phase(self, name: str) -> None:
        """What the next measurements are for."""
        self._phase = name
        if self._bar or name not in _TOLD_BY_POINTS:
            self._say(name)

    def measuring(self, what: str) -> None:
        """Before a measurement."""
        if self._bar:
            self._say(f"{self._phase}: {what}")

    def measured(self, what: str, rate: float | None, best: str) -> None:
        """After it: samples/s, None where it failed; the best so far in words, "" before there is one."""
        self._best = f"; best so far {best}" if best else ""
        result = "failed" if rate is None else f"{rate:,.0f} samples/s"
        self._say(f"{self._phase}: {what}: {result}")

    def _say(self, text: str) -> None:
        if self._stream is None:
            return
        elapsed = time.monotonic() - self._start
        line = f"[{elapsed:4.0f} s of {self._budget:.0f}] {text}{self._best}\n"
        if self._bar:
            done = round(_WIDTH * min(1.0, elapsed / self._budget))
            line = f"\r[{'#' * done}{'.' * (_WIDTH - done)}] {text}{self._best}\033[K"
        print(line, end="", file=self._stream, flush=True)

    def close(self) -> None:
        """Nothing is shown any more."""
        if self._bar:
            print("\r\033[K", end="", file=self._stream, flush=True)
