"""What all charts have in common: title, legend, axes, and the `<svg>` element around them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from html import escape

from .colours import STYLE, colour
from .scales import Scale

WIDTH = 960
LETTER = 6.6  # pixels of a letter, on average


class Chart:
    """The elements of a chart whose plot lies in left..right, top..bottom."""

    def __init__(
        self, title: str, height: int, left: float, names: Iterable[str] = (), bottom: float = 44
    ) -> None:
        self.title, self.height = title, height
        self.left, self.right, self.top, self.bottom = left, WIDTH - 18.0, 14.0, height - bottom
        self.parts: list[str] = []  # title, legend, axes
        self.marks: list[str] = []  # what stands for values, which a script may draw anew
        self.attributes = ""
        if title:
            self.parts.append(f'<text class="title" x="2" y="16">{escape(title)}</text>')
            self.top += 20
        self._legend(list(names))

    def _legend(self, names: list[str]) -> None:
        if not names:
            return
        x, y = self.left, self.top + 4
        for place, name in enumerate(names):
            width = 24 + LETTER * len(name)
            if x + width > WIDTH and x > self.left:
                x, y = self.left, y + 18
            self.parts.append(
                f'<rect class="f-{colour(name, place)}" x="{x:.0f}" y="{y - 9:.0f}" width="11" height="11"'
                f' rx="2"/><text class="small" x="{x + 16:.0f}" y="{y:.0f}">{escape(name)}</text>'
            )
            x += width + 10
        self.height += int(y - self.top - 4)
        self.bottom += y - self.top - 4
        self.top = y + 16

    def x_axis(self, scale: Scale, grid: bool = False) -> None:
        parts = []
        for value, text in scale.ticks(8):
            x = scale.at(value)
            top = self.top if grid else self.bottom
            parts.append(
                f'<line class="{"grid" if grid else "axis"}" x1="{x:.1f}" x2="{x:.1f}" y1="{top:.1f}"'
                f' y2="{self.bottom + 4:.1f}"/><text class="faint small mid" x="{x:.1f}"'
                f' y="{self.bottom + 17:.1f}">{escape(text)}</text>'
            )
        self.parts.append(f'<g class="x-axis">{"".join(parts)}</g>')
        self.parts.append(
            f'<line class="axis" x1="{self.left:.1f}" x2="{self.right:.1f}" y1="{self.bottom:.1f}"'
            f' y2="{self.bottom:.1f}"/>'
        )
        self.parts.append(
            f'<text class="faint small x-title" x="{self.right:.1f}" y="{self.bottom + 33:.1f}"'
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

    def zoomable(self, kind: str, x: Scale, y: tuple[float, float], names: Iterable[str]) -> None:
        """Tells page.js how to draw the marks for another stretch of x: where the plot lies, and which values
        its edges have.
        """
        numbers = {
            "left": self.left,
            "right": self.right,
            "top": self.top,
            "bottom": self.bottom,
            "low": x.low,
            "high": x.high,
            "y-low": y[0],
            "y-high": y[1],
        }
        kinds = {name: colour(name, place) for place, name in enumerate(names)}
        text = "".join(f' data-{name}="{value!r}"' for name, value in numbers.items())
        self.attributes = f' data-zoom="{escape(kind)}"{text} data-kinds="{escape(json.dumps(kinds))}"'

    def nothing(self, text: str = "nothing was measured") -> str:
        self.parts.append(
            f'<text class="faint mid" x="{WIDTH / 2}"'
            f' y="{(self.top + self.bottom) / 2:.0f}">{escape(text)}</text>'
        )
        return self.element()

    def element(self) -> str:
        return (
            f'<svg class="mr" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height}"'
            f' role="img" aria-label="{escape(self.title)}"{self.attributes}>{"".join(self.parts)}<g'
            f' class="plot">{"".join(self.marks)}</g></svg>'
        )


def standalone(element: str) -> str:
    """A file of its own for one chart: with its style, its size and a background."""
    width, height = element.split('viewBox="0 0 ', 1)[1].split('"', 1)[0].split()
    head, body = element.split(">", 1)
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n{head} width="{width}"'
        f' height="{height}"><style>{STYLE}</style><rect class="paper" width="100%" height="100%"/>{body}\n'
    )


def on_paper(element: str) -> str:
    """The same chart with a background, for places whose own may be light or dark."""
    head, body = element.split(">", 1)
    return f'{head}><rect class="paper" width="100%" height="100%"/>{body}'


def path_of(points: Sequence[tuple[float, float]], step: bool = False) -> str:
    if not points:
        return ""
    text = [f"M{points[0][0]:.1f} {points[0][1]:.1f}"]
    for x, y in points[1:]:
        text.append(f"H{x:.1f}V{y:.1f}" if step else f"L{x:.1f} {y:.1f}")
    if len(points) == 1:
        text.append("h1.5")
    return "".join(text)
