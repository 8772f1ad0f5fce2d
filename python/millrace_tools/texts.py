"""Numbers, sizes and tables as lines of text, as all commands write them; errors about arguments; and a line
on the terminal with a long command's progress.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any


def count_text(rate: float) -> str:
    """1,234; 12.3; 0.123."""
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:,.3g}"


def size_text(size: float) -> str:
    """1.23 GB: three digits, powers of ten."""
    units = ["B", "kB", "MB", "GB", "TB"]
    while size >= 999.5 and len(units) > 1:
        size /= 1000
        units.pop(0)
    return f"{size:.3g} {units[0]}"


def aligned(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """A line for each row, two blanks between columns; those of the columns `right` are aligned to the right.
    The last cell of a row is as wide as it likes.
    """
    columns = itertools.zip_longest(*(row[:-1] for row in rows), fillvalue="")
    widths = [*(max(map(len, column)) for column in columns), 0]
    return [
        "  ".join(
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths))
        ).rstrip()
        for row in rows
    ]


def refuse(wrong: Mapping[str, Any]) -> None:
    """`wrong`: what to say, and whether it is so. ValueError of the first that is."""
    for message, is_so in wrong.items():
        if is_so:
            raise ValueError(message)


def bar(share: float, width: int = 24) -> str:
    """[####....]"""
    filled = round(width * min(1.0, share))
    return f"[{'#' * filled}{'.' * (width - filled)}]"


class StatusLine:
    """One line on a terminal, written over again and again; silent where stderr is none, or if `quiet`."""

    def __init__(self, quiet: bool = False) -> None:
        self.is_shown = not quiet and sys.stderr.isatty()

    def show(self, text: str) -> None:
        if self.is_shown:
            print(f"\r{text}\033[K", end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        """The line is empty again."""
        self.show("")


_PERIOD_S = 0.2


class Progress(StatusLine):
    """How far a long command is, redrawn a few times a second. `begin`: samples that were there before."""

    def __init__(self, label: str, total: int | None, begin: int = 0, quiet: bool = False) -> None:
        super().__init__(quiet)
        self._label, self._total, self._begin, self._done, self._bytes = label, total, begin, begin, 0
        self._start = time.monotonic()
        self._next = 0.0

    def add(self, samples: int, size: int) -> None:
        self._done += samples
        self._bytes += size
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _PERIOD_S
            self.show(self.line(now - self._start))

    def line(self, seconds: float) -> str:
        """The line to show after so many seconds."""
        rate = (self._done - self._begin) / max(seconds, 1e-9)
        parts = [
            f"{self._done:,}" + (f" of {self._total:,}" if self._total is not None else ""),
            f"{rate:,.0f} samples/s",
            f"{self._bytes / max(seconds, 1e-9) / 1e6:,.0f} MB/s",
        ]
        if self._total and rate > 0:
            left = round(max(0, self._total - self._done) / rate)
            parts.append(f"{left // 3600}:{left // 60 % 60:02d}:{left % 60:02d} left")
        done = f" {bar(self._done / self._total)}" if self._total else ""
        return f"{self._label}{done} {', '.join(parts)}"
