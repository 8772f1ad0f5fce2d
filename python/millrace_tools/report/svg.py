"""Charts as SVG, made of text alone: dots, bars and histograms.

Each function returns one `<svg>` element for a page that has `colours.STYLE` (page.py's has). They follow the
reader's light or dark theme. However many values there are, an element stays below some 300 KB. Values that
are NaN or infinite are left out; without any the chart says so. Texts may hold anything.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from .scales import Axis, Scale, amount, colour

__all__ = ["Axis", "Points", "amount", "escape", "histogram", "on_paper", "scatter", "stacked_bars"]

Points = tuple[Sequence[float], Sequence[float]]  # xs that do not fall, ys

_MOST_DOTS = 1000
_WIDTH = 960
_LETTER = 6.6  # pixels of a letter, on average


class _Chart:
    """The elements of a chart with its plot in left..right, top..bottom. `over_axis`: room above the y axis
    for its title.
    """

    def __init__(self, height: int, left: float, names: Iterable[str] = (), over_axis: float = 0) -> None:
        self.height = height
        self.left, self.right, self.top, self.bottom = left, _WIDTH - 18.0, 14.0, height - 44.0
        self.parts: list[str] = []  # legend, axes
        self.marks: list[str] = []  # marks of values, over the axes
        self._legend(list(names))
        self.top += over_axis

    def _legend(self, names: list[str]) -> None:
        if not names:
            return
        x, y = self.left, self.top + 4
        for number, name in enumerate(names):
            width = 24 + _LETTER * len(name)
            if x + width > _WIDTH and x > self.left:
                x, y = self.left, y + 18
            self.parts.append(
                f'<rect class="f-{colour(name, number)}" x="{x:.0f}" y="{y - 9:.0f}" width="11" height="11"'
                f' rx="2"/><text class="small" x="{x + 16:.0f}" y="{y:.0f}">{escape(name)}</text>'
            )
            x += width + 10
        self.height += int(y - self.top - 4)
        self.bottom += y - self.top - 4
        self.top = y + 16

    def x_axis(self, scale: Scale, grid: bool = False) -> None:
        for value, text in scale.ticks(8):
            x = scale.at(value)
            top = self.top if grid else self.bottom
            self.parts.append(
                f'<line class="{"grid" if grid else "axis"}" x1="{x:.1f}" x2="{x:.1f}" y1="{top:.1f}"'
                f' y2="{self.bottom + 4:.1f}"/><text class="faint small mid" x="{x:.1f}"'
                f' y="{self.bottom + 17:.1f}">{escape(text)}</text>'
            )
        self.parts.append(
            f'<line class="axis" x1="{self.left:.1f}" x2="{self.right:.1f}" y1="{self.bottom:.1f}"'
            f' y2="{self.bottom:.1f}"/>'
            f'<text class="faint small" x="{self.right:.1f}" y="{self.bottom + 33:.1f}"'
            f' text-anchor="end">{escape(scale.title())}</text>'
        )

    def y_axis(self, scale: Scale) -> None:
        for value, text in scale.ticks(max(2, int((self.bottom - self.top) / 26))):
            y = scale.at(value)
            self.parts.append(
                f'<line class="grid" x1="{self.left:.1f}" x2="{self.right:.1f}" y1="{y:.1f}" y2="{y:.1f}"/>'
                f'<text class="faint small end" x="{self.left - 7:.1f}" y="{y + 4:.1f}">{escape(text)}</text>'
            )
        self.parts.append(
            f'<text class="faint small" x="2" y="{self.top - 6:.1f}">{escape(scale.title())}</text>'
        )

    def nothing(self) -> str:
        self.parts.append(
            f'<text class="faint mid" x="{_WIDTH / 2}"'
            f' y="{(self.top + self.bottom) / 2:.0f}">nothing was measured</text>'
        )
        return self.element()

    def element(self) -> str:
        return (
            f'<svg class="mr" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {self.height}"'
            f' role="img">{"".join(self.parts)}{"".join(self.marks)}</svg>'
        )


def on_paper(element: str) -> str:
    """The same chart with a background, for pages with a light or dark one of their own."""
    head, body = element.split(">", 1)
    return f'{head}><rect class="paper" width="100%" height="100%"/>{body}'


def scatter(series: Mapping[str, Points], x: Axis = Axis(), y: Axis = Axis()) -> str:
    """Measured points, {name: (xs, ys)}, and a line through the median of the points at each x, where there
    are several.
    """
    kept = {
        name: sorted((a, b) for a, b in zip(xs, ys) if math.isfinite(a) and math.isfinite(b))
        for name, (xs, ys) in series.items()
    }
    chart = _Chart(260, 64, series, over_axis=14)
    if not any(kept.values()):
        return chart.nothing()
    every = [point for points in kept.values() for point in points]
    across = Scale(x, [a for a, _ in every], chart.left + 10, chart.right - 10)
    up = Scale(y, [b for _, b in every], chart.bottom, chart.top, from_zero=True)
    chart.y_axis(up)
    chart.x_axis(across)
    for number, (name, points) in enumerate(kept.items()):
        kind = colour(name, number)
        at: dict[float, list[float]] = {}
        for a, b in points:
            at.setdefault(a, []).append(b)
        if 1 < len(at) < len(points) or 1 < len(points) < 50:
            line = "L".join(f"{across.at(a):.1f} {up.at(statistics.median(b)):.1f}" for a, b in at.items())
            chart.marks.append(f'<path class="line l-{kind}" d="M{line}"/>')
        chart.marks += [
            f'<circle class="dot f-{kind}" cx="{across.at(a):.1f}" cy="{up.at(b):.1f}" r="3.2">'
            f"<title>{escape(f'{name}: {amount(a, x.unit)}, {amount(b, y.unit)}')}</title></circle>"
            for a, b in points[:: math.ceil(len(points) / _MOST_DOTS) or 1]
        ]
    return chart.element()


def stacked_bars(
    rows: Mapping[str, Mapping[str, float]], x: Axis = Axis(), *, shares: bool = False, bar: int = 24
) -> str:
    """A horizontal bar for each row, {row: {part: value}}, made of its parts; shares: each bar as its parts'
    shares of it.
    """
    rows = {
        row: {part: v for part, v in parts.items() if math.isfinite(v) and v > 0}
        for row, parts in rows.items()
    }
    names = list(dict.fromkeys(part for parts in rows.values() for part in parts))
    left = min(240.0, max(108.0, 18 + _LETTER * max((len(row) for row in rows), default=0)))
    chart = _Chart(0, left, names)
    chart.height = int(chart.top + max(1, len(rows)) * (bar + 7) + 42)
    chart.bottom = chart.height - 40.0
    sums = {row: sum(parts.values()) for row, parts in rows.items()}
    if not any(sums.values()):
        return chart.nothing()
    axis = Axis(x.label or "share", "%", low=0, high=100) if shares else x
    across = Scale(axis, [0.0, *sums.values()], chart.left, chart.right)
    chart.x_axis(across, grid=True)
    for number, (row, parts) in enumerate(rows.items()):
        y = chart.top + number * (bar + 7) + 3
        shown = row if len(row) <= 34 else row[:33] + "…"
        chart.parts.append(
            f'<text class="small end" x="{chart.left - 8:.0f}"'
            f' y="{y + bar / 2 + 4:.1f}">{escape(shown)}</text>'
        )
        at = 0.0
        for part, value in parts.items():
            share = value / sums[row]
            size = 100 * share if shares else value
            begin, end = across.at(at), across.at(at + size)
            at += size
            kind = colour(part, names.index(part))
            text = f"{row}: {part} {amount(value, x.unit)} ({share:.1%})"
            chart.marks.append(
                f'<rect class="f-{kind}" x="{begin:.1f}" y="{y:.1f}" width="{max(0.3, end - begin):.1f}"'
                f' height="{bar}"><title>{escape(text)}</title></rect>'
            )
            inside = next(
                (t for t in (f"{part} {share:.0%}", f"{share:.0%}") if _LETTER * len(t) + 8 < end - begin), ""
            )
            if inside and bar >= 16:
                chart.marks.append(
                    f'<text class="small mid{" on" * (part != "idle")}" pointer-events="none"'
                    f' x="{(begin + end) / 2:.1f}" y="{y + bar / 2 + 4:.1f}">{escape(inside)}</text>'
                )
    return chart.element()


def histogram(values: Mapping[str, Sequence[float]], x: Axis = Axis(), *, bins: int = 60) -> str:
    """A histogram of values, {name: values}. With a log axis the bins are equally wide in its powers; values
    that are not above 0 count in the lowest bin.
    """
    seen = {name: [v for v in listed if math.isfinite(v)] for name, listed in values.items()}
    chart = _Chart(220, 64, seen if len(seen) > 1 else (), over_axis=14)
    every = [v for listed in seen.values() for v in listed]
    if not every:
        return chart.nothing()
    across = Scale(x, every, chart.left, chart.right)
    width = (chart.right - chart.left) / bins
    counts = {name: [0] * bins for name in seen}
    for name, listed in seen.items():
        for value in listed:
            counts[name][min(bins - 1, max(0, int((across.at(value) - chart.left) / width)))] += 1
    most = max(max(listed) for listed in counts.values())
    up = Scale(Axis("count"), [most], chart.bottom, chart.top, from_zero=True)
    chart.y_axis(up)
    chart.x_axis(across)
    for number, (name, heights) in enumerate(counts.items()):
        shape = "".join(
            f"V{up.at(count):.1f}H{chart.left + (i + 1) * width:.1f}" for i, count in enumerate(heights)
        )
        chart.marks.append(
            f'<path class="f-{colour(name, number)}" fill-opacity="{1 if len(counts) == 1 else 0.55}"'
            f' d="M{chart.left:.1f} {chart.bottom:.1f}{shape}V{chart.bottom:.1f}Z">'
            f"<title>{escape(name)}</title></path>"
        )
    return chart.element()
