"""One HTML page in one file: sections of text, tables and charts, with style, script and data inside.

Nothing is fetched, and nothing may be: the page forbids it by a content security policy that lets run only
the scripts it was written with, by their hashes, so that no name of a file or function that found its way
into the page can become one. It reads well on paper, in light and in dark, and without scripts.

    page = Page("bench of my_dataset", "8 workers, 1,000 batches")
    page.tiles({"samples per second": "12,400", "against torch": "3.1 x"})
    page.section("Throughput", svg.line_chart(...), note="Median of five repeats.")
    page.section("Arguments", pre("DataLoader(dataset, num_workers=4)"))
    page.data("bench", results)                     # with a button that saves it
    page.save("bench.html")
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from millrace._common.regular_files import write_whole

from .scales import STYLE

_HERE = Path(__file__).parent


class Page:
    """A page in the making; sections are shown in the order in which they are added. `title` and all texts
    may hold anything; `body` of a section, and the results of svg's functions, table() and pre(), are HTML.
    """

    def __init__(self, title: str, subtitle: str = "") -> None:
        self.title = title
        self._parts = [
            f"<h1>{escape(title)}</h1>",
            f'<p class="under">{escape(subtitle)}</p>' if subtitle else "",
        ]
        self._data: list[str] = []
        self._scripts: list[str] = []

    def tiles(self, numbers: Mapping[str, str]) -> None:
        """A row of numbers with what each is."""
        tiles = "".join(
            f'<div class="tile"><b>{escape(value)}</b><span>{escape(name)}</span></div>'
            for name, value in numbers.items()
        )
        self._parts.append(f'<div class="tiles">{tiles}</div>')

    def callout(self, text: str, bad: bool = False) -> None:
        """A sentence that must not be missed."""
        self._parts.append(f'<div class="callout{" bad" * bad}">{escape(text)}</div>')

    def section(self, heading: str, *body: str, note: str = "") -> None:
        noted = f'<p class="note">{escape(note)}</p>' if note else ""
        self._parts.append(f"<section><h2>{escape(heading)}</h2>{noted}{''.join(body)}</section>")

    def data(self, name: str, content: Any, digits: int | None = None) -> None:
        """Puts `content` into the page as JSON, in the element with id `name`, and a button that saves it as
        NAME.json. `digits`: that floats are rounded to.
        """
        text = json.dumps(_plain(content, digits), separators=(",", ":"), default=str).replace("<", "\\u003c")
        safe = escape(name)
        self._data.append(f'<script type="application/json" id="{safe}">{text}</script>')
        self._parts.append(
            f'<p class="tools"><button type="button" data-save="{safe}">Save {safe}.json</button>'
            f"the numbers of this page, {len(text):,} bytes</p>"
        )

    def script(self, text: str) -> None:
        """Runs when the page is there; it has no access to anything but the page."""
        self._scripts.append(text)

    def html(self) -> str:
        style = f"{(_HERE / 'page.css').read_text(encoding='utf-8')}\n{STYLE}"
        scripts = [(_HERE / "page.js").read_text(encoding="utf-8"), *self._scripts]
        policy = (
            f"default-src 'none'; style-src {_hash(style)}; script-src {' '.join(map(_hash, scripts))};"
            " img-src data: blob:; base-uri 'none'; form-action 'none'"
        )
        return "\n".join(
            [
                "<!doctype html>",
                '<html lang="en">',
                '<head><meta charset="utf-8">',
                f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
                '<meta name="viewport" content="width=device-width, initial-scale=1">',
                f"<title>{escape(self.title)}</title>",
                f"<style>{style}</style></head>",
                f"<body><main>{''.join(self._parts)}</main>",
                *self._data,
                *(f"<script>{script}</script>" for script in scripts),
                "</body></html>",
                "",
            ]
        )

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes the page, whole or not at all. OSError: the folder is missing or cannot be written to."""
        return write_whole(path, self.html())


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def table(rows: Iterable[Sequence[Any]], headers: Sequence[str] = ()) -> str:
    """A table of rows of texts and numbers; numbers are aligned to the right. Give HTML cells as
    Html(...).
    """
    head = f"<tr>{''.join(f'<th>{escape(h)}</th>' for h in headers)}</tr>" if headers else ""
    return f"<table>{head}{''.join(f'<tr>{_cells(row)}</tr>' for row in rows)}</table>"


class Html(str):
    """A text that is HTML already."""


def _cells(row: Sequence[Any]) -> str:
    cells = []
    for cell in row:
        number = isinstance(cell, (int, float)) and not isinstance(cell, bool)
        text = cell if isinstance(cell, Html) else escape(f"{cell:,}" if number else str(cell))
        cells.append(f"<td{' class=number' * number}>{text}</td>")
    return "".join(cells)


def pre(text: str) -> Html:
    """Text as it is: code, a command."""
    return Html(f"<pre>{escape(text)}</pre>")


def _plain(content: Any, digits: int | None) -> Any:
    """`content` with None for NaN and infinities, which JSON has no words for."""
    if isinstance(content, float):
        rounded = content if digits is None else round(content, digits)
        return rounded if math.isfinite(content) else None
    if isinstance(content, Mapping):
        return {str(key): _plain(value, digits) for key, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [_plain(value, digits) for value in content]
    return content
