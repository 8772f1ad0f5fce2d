"""A line on the terminal that says how far a long command is."""

from __future__ import annotations

import sys
import time
from typing import TextIO

_WIDTH, _PERIOD_S = 24, 0.2


class Progress:
    """Redrawn on a terminal a few times a second; silent where stderr is none, or if `quiet`. `begin`:
    samples that were there before.
    """

    def __init__(self, label: str, total: int | None, begin: int = 0, quiet: bool = False) -> None:
        self._stream: TextIO = sys.stderr
        self._shown = not quiet and self._stream.isatty()
        self._label, self._total, self._begin, self._done, self._bytes = label, total, begin, begin, 0
        self._start = time.monotonic()
        self._next = 0.0

    def add(self, samples: int, size: int) -> None:
        self._done += samples
        self._bytes += size
        now = time.monotonic()
        if self._shown and now >= self._next:
            self._next = now + _PERIOD_S
            print(f"\r{self.line(now - self._start)}\033[K", end="", file=self._stream, flush=True)

    def line(self, seconds: float) -> str:
        """What is shown after so many seconds."""
        rate = (self._done - self._begin) / max(seconds, 1e-9)
        parts = [
            f"{self._done:,}" + (f" of {self._total:,}" if self._total is not None else ""),
            f"{rate:,.0f} samples/s",
            f"{self._bytes / max(seconds, 1e-9) / 1e6:,.0f} MB/s",
        ]
        bar = ""
        if self._total:
            filled = round(_WIDTH * min(1.0, self._done / self._total))
            bar = f" [{'#' * filled}{'.' * (_WIDTH - filled)}]"
            if rate > 0:
                left = round(max(0, self._total - self._done) / rate)
                parts.append(f"{left // 3600}:{left // 60 % 60:02d}:{left % 60:02d} left")
        return f"{self._label}{bar} {', '.join(parts)}"

    def close(self) -> None:
        if self._shown:
            print("\r\033[K", end="", file=self._stream, flush=True)
