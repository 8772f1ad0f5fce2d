"""Charts as SVG, made of text alone: lines, dots, bars, histograms and time lines.

Each function returns one `<svg>` element for a page that has `colours.STYLE` (page.py's has); `standalone()`
makes a file of it. They follow the reader's light or dark theme. However many values there are, an element
stays below some 300 KB: where a line has more points than the picture has pixels, it is their mean, in a band
from the lowest to the highest. Values that are NaN or infinite are left out; without any the chart says so.
Texts may hold anything.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from html import escape

from .colours import colour
from .frame import LETTER, WIDTH, Chart, on_paper, path_of, standalone
from .scales import Axis, Scale, amount, covered, summed_up

__all__ = [
    "Axis",
    "Points",
    "amount",
    "escape",
    "grouped_bars",
    "histogram",
    "line_chart",
    "on_paper",
    "scatter",
    "stacked_bars",
    "standalone",
    "timeline",
]

Points = tuple[Sequence[float], Sequence[float]]  # xs that do not fall, ys

_MOST_DOTS = 1000


def _finite(series: Mapping[str, Points]) -> dict[str, Points]:
    kept = {}
    for name, (xs, ys) in series.items():
        pairs = [(x, y) for x, y in zip(xs, ys) if math.isfinite(x) and math.isfinite(y)]
        kept[name] = ([x for x, _ in pairs], [y for _, y in pairs])
    return kept


def line_chart(
    series: Mapping[str, Points],
    x: Axis = Axis(),
    y: Axis = Axis(),
    title: str = "",
    *,
    step: bool = False,
    dots: bool = False,
    area: bool = False,
    height: int = 220,
    from_zero: bool = True,
    zoom: str = "",
) -> str:
    """Lines over one x axis, {name: (xs, ys)}. step: each value holds until the next one; dots: each point is
    marked, too; area: what
    lies below is tinted; from_zero: the y axis begins at 0; zoom: what loader.js knows these lines as.
    """
    series = _finite(series)
    chart = Chart(title, height, 64, series if len(series) > 1 else ())
    chart.top += 14
    if not any(xs for xs, _ in series.values()):
        return chart.nothing()
    across = Scale(
        x, [v for xs, _ in series.values() for v in (xs[0], xs[-1]) if xs], chart.left, chart.right
    )
    up = Scale(y, [v for _, ys in series.values() for v in ys], chart.bottom, chart.top, from_zero)
    chart.y_axis(up)
    chart.x_axis(across)
    if zoom:
        chart.zoomable(zoom, across, (up.low, up.high), series)
    for place, (name, (xs, ys)) in enumerate(series.items()):
        points = [(across.at(a), up.at(b)) for a, b in zip(xs, ys)]
        kind = colour(name, place)
        if len(points) > 2 * WIDTH:
            columns = summed_up([a for a, _ in points], [b for _, b in points], 1.0)
            band = [(a, low) for a, low, _, _ in columns] + [(a, high) for a, _, _, high in reversed(columns)]
            chart.marks.append(
                f'<path class="band f-{kind}" d="{path_of(band)}Z"><title>{escape(name)}, from least to'
                " most</title></path>"
            )
            points, step, area = [(a, mean) for a, _, mean, _ in columns], False, False
        if area and points:
            floor = f"V{chart.bottom:.1f}H{points[0][0]:.1f}Z"
            chart.marks.append(f'<path class="band f-{kind}" d="{path_of(points, step)}{floor}"/>')
        chart.marks.append(
            f'<path class="line l-{kind}" d="{path_of(points, step)}"><title>{escape(name)}</title></path>'
        )
        if dots:
            chart.marks += _dots(list(zip(xs, ys)), across, up, kind, name, x, y)
    return chart.element()


def _dots(
    points: list[tuple[float, float]], across: Scale, up: Scale, kind: str, name: str, x: Axis, y: Axis
) -> list[str]:
    every = math.ceil(len(points) / _MOST_DOTS) or 1
    return [
        f'<circle class="dot f-{kind}" cx="{across.at(a):.1f}" cy="{up.at(b):.1f}" r="3.2">'
        f"<title>{escape(f'{name}: {amount(a, x.unit)}, {amount(b, y.unit)}')}</title></circle>"
        for a, b in points[::every]
    ]


def scatter(
    series: Mapping[str, Points],
    x: Axis = Axis(),
    y: Axis = Axis(),
    title: str = "",
    *,
    medians: bool = True,
    height: int = 260,
    from_zero: bool = True,
) -> str:
    """Measured points, {name: (xs, ys)}; medians: a line through the median of the points at each x."""
    series = {name: _sorted(points) for name, points in _finite(series).items()}
    chart = Chart(title, height, 64, series)
    chart.top += 14
    if not any(xs for xs, _ in series.values()):
        return chart.nothing()
    across = Scale(x, [v for xs, _ in series.values() for v in xs], chart.left + 10, chart.right - 10)
    up = Scale(y, [v for _, ys in series.values() for v in ys], chart.bottom, chart.top, from_zero)
    chart.y_axis(up)
    chart.x_axis(across)
    for place, (name, (xs, ys)) in enumerate(series.items()):
        kind = colour(name, place)
        if medians and xs:
            at: dict[float, list[float]] = {}
            for a, b in zip(xs, ys):
                at.setdefault(a, []).append(b)
            middle = [(across.at(a), up.at(statistics.median(b))) for a, b in at.items()]
            if 1 < len(middle) < len(xs) or len(xs) < 50:
                chart.marks.append(f'<path class="line l-{kind}" d="{path_of(middle)}"/>')
        chart.marks += _dots(list(zip(xs, ys)), across, up, kind, name, x, y)
    return chart.element()


def _sorted(points: Points) -> Points:
    pairs = sorted(zip(*points))
    return [x for x, _ in pairs], [y for _, y in pairs]


def stacked_bars(
    rows: Mapping[str, Mapping[str, float]],
    x: Axis = Axis(),
    title: str = "",
    *,
    shares: bool = False,
    bar: int = 24,
) -> str:
    """A horizontal bar for each row, {row: {part: value}}, made of its parts; shares: each bar as its parts'
    shares of it.
    """
    rows = {
        row: {part: v for part, v in parts.items() if math.isfinite(v) and v > 0}
        for row, parts in rows.items()
    }
    names = list(dict.fromkeys(part for parts in rows.values() for part in parts))
    left = min(240.0, max(108.0, 18 + LETTER * max((len(row) for row in rows), default=0)))
    chart = Chart(title, 0, left, names)
    chart.height = int(chart.top + max(1, len(rows)) * (bar + 7) + 42)
    chart.bottom = chart.height - 40.0
    sums = {row: sum(parts.values()) for row, parts in rows.items()}
    if not any(sums.values()):
        return chart.nothing()
    axis = Axis(x.label or "share", "%", low=0, high=100) if shares else x
    across = Scale(axis, [0.0, *sums.values()], chart.left, chart.right)
    chart.x_axis(across, grid=True)
    for place, (row, parts) in enumerate(rows.items()):
        y = chart.top + place * (bar + 7) + 3
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
                (t for t in (f"{part} {share:.0%}", f"{share:.0%}") if LETTER * len(t) + 8 < end - begin), ""
            )
            if inside and bar >= 16:
                ink = "" if part == "idle" else " on"
                chart.marks.append(
                    f'<text class="small mid{ink}" pointer-events="none" x="{(begin + end) / 2:.1f}" '
                    f'y="{y + bar / 2 + 4:.1f}">{escape(inside)}</text>'
                )
    return chart.element()


def grouped_bars(
    groups: Mapping[str, Mapping[str, float | Sequence[float]]],
    y: Axis = Axis(),
    title: str = "",
    *,
    x_label: str = "",
    height: int = 260,
) -> str:
    """Upright bars side by side, {group: {series: value}}. A value may be repeats: the bar is their median,
    each of them a dot.
    """
    repeats: dict[str, dict[str, list[float]]] = {}
    for group, bars in groups.items():
        listed = {
            name: [float(value)] if isinstance(value, (int, float)) else list(value)
            for name, value in bars.items()
        }
        repeats[group] = {
            name: kept for name, values in listed.items() if (kept := [v for v in values if math.isfinite(v)])
        }
    names = list(dict.fromkeys(name for bars in groups.values() for name in bars))
    chart = Chart(title, height, 64, names)
    chart.top += 14
    every = [v for bars in repeats.values() for values in bars.values() for v in values]
    if not every:
        return chart.nothing()
    up = Scale(y, every, chart.bottom, chart.top, from_zero=True)
    chart.y_axis(up)
    room = (chart.right - chart.left) / len(repeats)
    wide = min(56.0, room * 0.8 / max(1, len(names)))
    for place, (group, bars) in enumerate(repeats.items()):
        middle = chart.left + room * (place + 0.5)
        chart.parts.append(
            f'<text class="small mid" x="{middle:.1f}" y="{chart.bottom + 17:.1f}">{escape(group)}</text>'
        )
        for series, values in bars.items():
            kind = colour(series, names.index(series))
            x, median = middle + (names.index(series) - len(names) / 2) * wide, statistics.median(values)
            high, low = sorted((up.at(median), up.at(0 if not y.log else up.low)))
            text = f"{group}, {series}: {amount(median, y.unit)}"
            chart.marks.append(
                f'<rect class="f-{kind}" x="{x + 1:.1f}" y="{high:.1f}" width="{wide - 2:.1f}"'
                f' height="{low - high:.1f}" rx="2"><title>{escape(text)}</title></rect>'
            )
            if wide > 34:
                label_y = min([high, *map(up.at, values)]) - 6
                chart.parts.append(
                    f'<text class="small mid" x="{x + wide / 2:.1f}" y="{label_y:.1f}">'
                    f"{escape(amount(median, y.unit))}</text>"
                )
            if len(values) > 1:
                shown = values[:: math.ceil(len(values) / 100)]
                chart.marks += [
                    f'<circle class="paper axis" fill-opacity="0.7" cx="{x + wide / 2:.1f}"'
                    f' cy="{up.at(v):.1f}" r="2.4"/>'
                    for v in shown
                ]
    chart.parts.append(
        f'<line class="axis" x1="{chart.left}" x2="{chart.right}" y1="{chart.bottom}" y2="{chart.bottom}"/>'
    )
    chart.parts.append(
        f'<text class="faint small end" x="{chart.right}"'
        f' y="{chart.bottom + 33:.0f}">{escape(x_label)}</text>'
    )
    return chart.element()


def histogram(
    values: Mapping[str, Sequence[float]],
    x: Axis = Axis(),
    title: str = "",
    *,
    bins: int = 60,
    height: int = 220,
) -> str:
    """How often values lie where, {name: values}. With a log axis the bins are equally wide in its powers;
    what is not above 0 is
    counted in the lowest one.
    """
    seen = {name: [v for v in listed if math.isfinite(v)] for name, listed in values.items()}
    chart = Chart(title, height, 64, seen if len(seen) > 1 else ())
    chart.top += 14
    every = [v for listed in seen.values() for v in listed]
    if not every:
        return chart.nothing()
    across = Scale(x, every, chart.left, chart.right)
    width = (chart.right - chart.left) / bins
    counts = {}
    for name, listed in seen.items():
        counts[name] = [0] * bins
        for value in listed:
            counts[name][min(bins - 1, max(0, int((across.at(value) - chart.left) / width)))] += 1
    up = Scale(
        Axis("count"),
        [c for listed in counts.values() for c in listed],
        chart.bottom,
        chart.top,
        from_zero=True,
    )
    chart.y_axis(up)
    chart.x_axis(across)
    for place, (name, listed) in enumerate(counts.items()):
        shape = f"M{chart.left:.1f} {chart.bottom:.1f}"
        for i, count in enumerate(listed):
            shape += f"V{up.at(count):.1f}H{chart.left + (i + 1) * width:.1f}"
        kind = colour(name, place)
        chart.marks.append(
            f'<path class="f-{kind}" fill-opacity="{1 if len(counts) == 1 else 0.55}"'
            f' d="{shape}V{chart.bottom:.1f}Z"><title>{escape(name)}</title></path>'
        )
    return chart.element()


def timeline(
    lanes: Mapping[str, Mapping[str, Points]],
    x: Axis = Axis("time", "s"),
    title: str = "",
    *,
    lane: int = 64,
    zoom: str = "",
) -> str:
    """What went on when: {lane: {name: (begins, ends)}}, spans of time. A pixel in which several begin shows,
    from the bottom up, each
    name's share of it. Spans of one lane do not overlap. Each lane's paths carry their name as `data-name`.
    """
    names = list(dict.fromkeys(name for spans in lanes.values() for name in spans))
    left = 64.0 if len(lanes) < 2 else min(180.0, 18 + LETTER * max(map(len, lanes)))
    chart = Chart(title, 0, left, names)
    chart.height = int(chart.top + max(1, len(lanes)) * (lane + 6) + 42)
    chart.bottom = chart.height - 42.0
    ends = [v for spans in lanes.values() for begins, ends in spans.values() for v in (*begins, *ends)]
    if not ends:
        return chart.nothing()
    across = Scale(x, ends, chart.left, chart.right)
    chart.x_axis(across)
    if zoom:
        chart.zoomable(zoom, across, (0, 1), names)
    columns = int(chart.right - chart.left)
    for place, (row, spans) in enumerate(lanes.items()):
        floor = chart.top + (place + 1) * (lane + 6) - 6
        if len(lanes) > 1:
            chart.parts.append(
                f'<text class="small end" x="{chart.left - 8:.0f}"'
                f' y="{floor - lane / 2 + 4:.1f}">{escape(row)}</text>'
            )
        below = [0.0] * columns
        for name, (begins, ends) in spans.items():
            above = [
                min(1.0, a + b)
                for a, b in zip(below, covered(begins, ends, across.low, across.high, columns))
            ]
            shape = _area(below, above, chart.left, floor, lane)
            chart.marks.append(
                f'<path class="sharp f-{colour(name, names.index(name))}" data-name="{escape(name)}"'
                f' d="{shape}"><title>{escape(name)}</title></path>'
            )
            below = above
    return chart.element()


def _area(below: Sequence[float], above: Sequence[float], left: float, floor: float, height: float) -> str:
    """The surface between two step lines over columns of one pixel, without the stretches in which they are
    equal.
    """
    parts = []
    begin = 0
    while begin < len(above):
        if above[begin] <= below[begin]:
            begin += 1
            continue
        end = begin
        while end < len(above) and above[end] > below[end]:
            end += 1
        parts.append(f"M{left + begin:.0f} {floor - height * below[begin]:.1f}")
        parts += _steps(above, range(begin, end), left + 1, floor, height) + [f"H{left + end:.0f}"]
        parts += _steps(below, range(end - 1, begin - 1, -1), left, floor, height) + ["Z"]
        begin = end
    return "".join(parts)


def _steps(shares: Sequence[float], columns: range, left: float, floor: float, height: float) -> list[str]:
    parts = []
    for place, column in enumerate(columns):
        if place == 0 or shares[column] != shares[columns[place - 1]]:
            corner = left + column - (1 if columns.step > 0 else 0) + (1 if columns.step < 0 else 0)
            parts.append(f"H{corner:.0f}V{floor - height * shares[column]:.1f}")
    return parts
