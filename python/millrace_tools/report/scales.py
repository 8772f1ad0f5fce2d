"""Axes of charts: round ticks, numbers as people read them, and points thinned to what a picture of some
pixels can show; and their colours, light and dark, as one style sheet of classes: f-NAME fills, l-NAME draws
a line.

Plain rules instead of CSS variables, because programs that turn SVG into PNG often know no others.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

# name: (light, dark). A stage has one colour everywhere; an unknown name takes one of "0" to "7", by its
# number.
COLOURS = {
    "step": ("#2f9e6e", "#3fb984"),
    "wait": ("#d6336c", "#f2689b"),
    "start": ("#64748b", "#94a3b8"),
    "draw": ("#4c6ef5", "#849dff"),
    "make": ("#a61e4d", "#c2557f"),
    "copy": ("#7c9a0e", "#b2d14a"),
    "handover": ("#94663f", "#c39a74"),
    "fetch": ("#2b78c5", "#5ba6ee"),
    "decode": ("#e8590c", "#ff9248"),
    "transform": ("#7950d6", "#a98df7"),
    "collate": ("#0c8599", "#3fc1d1"),
    "sample": ("#c78a00", "#eebd45"),
    "send": ("#b0527f", "#d98ab0"),
    "idle": ("#d3dae2", "#3a434e"),
    "0": ("#c2571a", "#f08a4b"),
    "1": ("#5b7fa6", "#8fb3d9"),
    "2": ("#2f9e6e", "#3fb984"),
    "3": ("#7950d6", "#a98df7"),
    "4": ("#c78a00", "#eebd45"),
    "5": ("#0c8599", "#3fc1d1"),
    "6": ("#d6336c", "#f2689b"),
    "7": ("#64748b", "#94a3b8"),
}
# What no series has, in light and in dark.
_PLAIN = {
    "text": ("fill", "#1d2733", "#e6ebf1"),
    ".faint": ("fill", "#5b6875", "#9aa7b5"),
    ".axis": ("stroke", "#5b6875", "#9aa7b5"),
    ".grid": ("stroke", "#e3e8ee", "#2b333d"),
    ".paper": ("fill", "#ffffff", "#171c22"),
}


def colour(name: str, number: int) -> str:
    """The class name, without f- or l-, of the series with this number: its own, or that of the number."""
    own = {"millrace": "0", "torch": "7"}.get(name, name)
    return own if own in COLOURS else str(number % 8)


def _rules(theme: int) -> str:
    plain = "".join(f".mr {what}{{{verb}:{pair[theme]}}}" for what, (verb, *pair) in _PLAIN.items())
    series = "".join(
        f".mr .f-{name}{{fill:{pair[theme]}}}.mr .l-{name}{{stroke:{pair[theme]}}}"
        for name, pair in COLOURS.items()
    )
    return f"{plain}{series}.mr .on{{fill:{'#ffffff' if theme == 0 else '#10151a'}}}"


STYLE = (
    ".mr{font:12px system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif}.mr"
    " .title{font-weight:600;font-size:14px}.mr"
    " .line{fill:none;stroke-width:1.5;stroke-linejoin:round}.mr .grid,.mr"
    " .axis{stroke-width:1;shape-rendering:crispEdges}.mr .band{fill-opacity:.28}.mr"
    " .small{font-size:11px}.mr .mid{text-anchor:middle}.mr .end{text-anchor:end}.mr"
    " .sharp{shape-rendering:crispEdges}.mr"
    f" .dot{{fill-opacity:.75}}{_rules(0)}@media(prefers-color-scheme:dark){{{_rules(1)}}}"
)


# (from which size on, factor, unit); "90 s" is shorter to read than "1.5 min"
_SECONDS = (
    (0.0, 1e-6, "µs"),
    (1e-3, 1e-3, "ms"),
    (1.0, 1.0, "s"),
    (120.0, 60.0, "min"),
    (7200.0, 3600.0, "h"),
)
_BYTES = (
    (0.0, 1.0, "B"),
    (2.0**10, 2.0**10, "KiB"),
    (2.0**20, 2.0**20, "MiB"),
    (2.0**30, 2.0**30, "GiB"),
    (2.0**40, 2.0**40, "TiB"),
)
_COUNTS = ((0.0, 1.0, ""), (1e4, 1e3, "k"), (1e6, 1e6, "M"), (1e9, 1e9, "G"))
_STEPS = {"s": _SECONDS, "B": _BYTES, "B/s": _BYTES, "": _COUNTS, "/s": _COUNTS}


@dataclass(frozen=True)
class Axis:
    """What an axis shows. unit: "s", "B", "B/s", "%" (of numbers that are percents) or "" are scaled or
    written as these are; any other is written after the number. log: powers of ten. low, high: where the axis
    begins and ends; None: where the values do.
    """

    label: str = ""
    unit: str = ""
    log: bool = False
    low: float | None = None
    high: float | None = None


def magnitude(value: float, unit: str) -> tuple[float, str]:
    """(factor, unit): the one of `unit`'s multiples in which `value` is a short number."""
    if unit == "s" and not value:
        return 1.0, "s"
    steps, size = _STEPS.get(unit, ((0.0, 1.0, unit),)), abs(value) * (1 + 1e-9)
    _, factor, name = max(step for step in steps if step[0] <= size)
    return factor, name + ("/s" if unit in ("B/s", "/s") else "")


def amount(value: float, unit: str = "") -> str:
    """A number with its unit in three or four digits: 0.0123 s is "12.3 ms"."""
    if not math.isfinite(value):
        return "–"
    factor, name = magnitude(value, unit)
    scaled = value / factor
    digits = 0 if scaled == int(scaled) or abs(scaled) >= 100 else 1 if abs(scaled) >= 10 else 2
    text = f"{scaled:,.{digits}f}"
    if digits and "." in text:
        text = text.rstrip("0").rstrip(".")
    if text in ("0", "-0") and scaled:
        text = f"{scaled:.1e}"
    space = "" if name in ("", "k", "M", "G", "%") or name.startswith("/") else " "
    return f"{text}{space}{name}"


def round_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """At most about `most` multiples of 1, 2 or 5 times a power of ten from low to high."""
    if not (math.isfinite(low) and math.isfinite(high)) or high <= low:
        return [low] if math.isfinite(low) else []
    rough = (high - low) / max(1, most)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next((m * power for m in (1, 2, 5) if m * power >= rough * (1 - 1e-9)), 10 * power)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [i * step for i in range(first, last + 1)]


class Scale:
    """Values of an axis as pixels, from `begin` to `end` (for y: begin > end). Without values it goes from 0
    to 1.
    """

    def __init__(
        self, axis: Axis, values: Iterable[float], begin: float, end: float, from_zero: bool = False
    ) -> None:
        seen = [v for v in values if math.isfinite(v) and (v > 0 or not axis.log)]
        low = axis.low if axis.low is not None else min(seen, default=1.0 if axis.log else 0.0)
        high = axis.high if axis.high is not None else max(seen, default=10.0 if axis.log else 1.0)
        if from_zero and not axis.log:
            low, high = min(low, 0.0), max(high, 0.0)
        if axis.log:
            low, high = (
                10.0 ** math.floor(math.log10(low) + 1e-9),
                10.0 ** math.ceil(math.log10(max(low, high)) - 1e-9),
            )
        if high <= low:
            low, high = (low, low * 10) if axis.log else (low, low + (abs(low) or 1.0))
        self.axis, self.low, self.high, self.begin, self.end = axis, low, high, begin, end

    def at(self, value: float) -> float:
        low, high = self.low, self.high
        if self.axis.log:
            value, low, high = math.log10(max(value, self.low)), math.log10(low), math.log10(high)
        return self.begin + (value - low) / (high - low) * (self.end - self.begin)

    def ticks(self, most: int = 6) -> list[tuple[float, str]]:
        """(value, text) of each."""
        if self.axis.log:
            powers = range(round(math.log10(self.low)), round(math.log10(self.high)) + 1)
            every = math.ceil(len(powers) / max(2, most))
            return [
                (10.0**p, amount(10.0**p, self.axis.unit)) for p in powers if (p - powers.start) % every == 0
            ]
        factor, _ = magnitude(max(abs(self.low), abs(self.high)), self.axis.unit)
        ticks = round_ticks(self.low / factor, self.high / factor, most)
        step = min((b - a for a, b in zip(ticks, ticks[1:])), default=1.0)
        digits = max(0, -math.floor(math.log10(step) + 1e-9))
        return [(tick * factor, f"{tick + 0.0:,.{digits}f}") for tick in ticks]

    def title(self) -> str:
        """The axis's label with the unit that its ticks are in."""
        unit = "" if self.axis.log else magnitude(max(abs(self.low), abs(self.high)), self.axis.unit)[1]
        return f"{self.axis.label} ({unit})" if unit and self.axis.label else self.axis.label or unit
