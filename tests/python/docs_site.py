"""The documentation as a site, for tests: built once, its pages read as HTML."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("mkdocs", "material")  # what `make docs` installs, by the names that are imported


def build(target: Path, config: Path = ROOT / "mkdocs.yml") -> subprocess.CompletedProcess:
    """Runs what `make docs` runs. Skips where its packages are not installed."""
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)} (make docs installs them)")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", config, "-d", target]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}  # of the theme's end of life: no fault of a page
    return subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False, cwd=ROOT, env=environment
    )


@dataclass
class Page(HTMLParser):
    """names: what anchors may name; links: of <a>; loaded: what a browser fetches to show the page."""

    path: Path
    names: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.path.read_text(encoding="utf-8"))

    def __hash__(self) -> int:
        return hash(self.path)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value for name, value in attrs if value}
        self.names |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "link" and given.get("rel") in ("stylesheet", "icon", "preload", "preconnect"):
            self.loaded.append(given["href"])
        elif tag in ("script", "img", "iframe", "source") and "src" in given:
            self.loaded.append(given["src"])


@dataclass
class Site:
    folder: Path

    def __post_init__(self) -> None:
        self.pages = {path.resolve(): Page(path) for path in sorted(self.folder.rglob("*.html"))}

    def index(self) -> list[dict]:
        """The documents of the search index: {"location", "title", "text"}."""
        text = (self.folder / "search" / "search_index.json").read_text(encoding="utf-8")
        return json.loads(text)["docs"]

    def broken(self) -> list[str]:
        """Links of pages to files or anchors that are not there."""
        found = []
        for path, page in self.pages.items():
            if path.name == "404.html":
                continue  # its addresses are those of a server
            for link in page.links + page.loaded:
                if urlsplit(link).scheme:
                    continue
                address, anchor = urldefrag(link)
                target = (path.parent / unquote(address)).resolve() if address else path
                there = self.pages.get(target)
                if not target.is_file() or (anchor and there and unquote(anchor) not in there.names):
                    found.append(f"{path.relative_to(self.folder.resolve())}: {link}")
        return found
