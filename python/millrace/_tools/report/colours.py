"""Colours of charts, light and dark, as one style sheet of classes: f-NAME fills, l-NAME draws a line.

Plain rules instead of CSS variables, because programs that turn SVG into PNG often know no others.
"""

from __future__ import annotations

# name: (light, dark). A stage has one colour everywhere; what is not known takes one of "0" to "7", by its
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
_INK = ("#1d2733", "#e6ebf1")
_FAINT = ("#5b6875", "#9aa7b5")
_GRID = ("#e3e8ee", "#2b333d")
_PAPER = ("#ffffff", "#171c22")


def colour(name: str, number: int) -> str:
    """The class name, without f- or l-, of the series with this number: its own, or that of the number."""
    own = {"millrace": "0", "torch": "7"}.get(name, name)
    return own if own in COLOURS else str(number % 8)


def _rules(theme: int) -> str:
    fills = "".join(
        f".mr .f-{name}{{fill:{pair[theme]}}}.mr .l-{name}{{stroke:{pair[theme]}}}"
        for name, pair in COLOURS.items()
    )
    return (
        f".mr text{{fill:{_INK[theme]}}}.mr .faint{{fill:{_FAINT[theme]}}}.mr .grid{{stroke:{_GRID[theme]}}}"
        f".mr .axis{{stroke:{_FAINT[theme]}}}.mr .paper{{fill:{_PAPER[theme]}}}{fills}"
        f".mr .on{{fill:{'#ffffff' if theme == 0 else '#10151a'}}}"
    )


STYLE = (
    ".mr{font:12px system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif}.mr"
    " .title{font-weight:600;font-size:14px}.mr"
    " .line{fill:none;stroke-width:1.5;stroke-linejoin:round}.mr .grid,.mr"
    " .axis{stroke-width:1;shape-rendering:crispEdges}.mr .band{fill-opacity:.28}.mr"
    " .small{font-size:11px}.mr .mid{text-anchor:middle}.mr .end{text-anchor:end}.mr"
    " .sharp{shape-rendering:crispEdges}.mr"
    f" .dot{{fill-opacity:.75}}{_rules(0)}@media(prefers-color-scheme:dark){{{_rules(1)}}}"
)
