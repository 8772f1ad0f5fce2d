"""What all charts have in common: legend, axes, and the `<svg>` element around them."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from .colours import colour
from .scales import Scale

WIDTH = 960
LETTER = 6.6  # pixels of a letter, on average


class Chart:
    """The elements of a chart whose plot lies in left..right, top..bottom. `over_axis`: room above the y axis
    for its title.
    """

    def __init__(self, height: int, left: float, names: Iterable[str] = (), over_axis: float = 0) -> None:
        self.height = height
        self.left, self.right, self.top, self.bottom = left, WIDTH - 18.0, 14.0, height - 44.0
        self.parts: list[str] = []  # legend, axes
        self.marks: list[str] = []  # what stands for values, over the axes
        self._legend(list(names))
        self.top += over_axis

    def _legend(self, names: list[str]) -> None:
        if not names:
            return
        x, y = self.left, self.top + 4
        for number, name in enumerate(names):
            width = 24 + LETTER * len(name)
            if x + width > WIDTH and x > self.left:
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
        )
        self.parts.append(
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

    def nothing(self, text: str = "nothing was measured") -> str:
        self.parts.append(
            f'<text class="faint mid" x="{WIDTH / 2}"'
            f' y="{(self.top + self.bottom) / 2:.0f}">{escape(text)}</text>'
        )
        return self.element()

    def element(self) -> str:
        return (
            f'<svg class="mr" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height}"'
            f' role="img">{"".join(self.parts)}{"".join(self.marks)}</svg>'
        )


def on_paper(element: str) -> str:
    """The same chart with a background, for places whose own may be light or dark."""
    head, body = element.split(">", 1)
    return f'{head}><rect class="paper" width="100%" height="100%"/>{body}'
