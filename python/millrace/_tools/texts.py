"""Numbers, sizes and tables as lines of text, as all commands write them."""

from __future__ import annotations

from collections.abc import Collection, Sequence


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
    """A line for each row, two blanks between columns; those of the columns `right` stand at the right. The
    last cell of a row is as wide as it likes.
    """
    widths = [0] * max(map(len, rows), default=0)
    for row in rows:
        for i, cell in enumerate(row[:-1]):
            widths[i] = max(widths[i], len(cell))
    return [
        "  ".join(
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths))
        ).rstrip()
        for row in rows
    ]
