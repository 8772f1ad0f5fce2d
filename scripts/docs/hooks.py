"""What MkDocs calls while it builds the site (mkdocs.yml names this file): adds pages that no
file of docs/ has, and leads links to other files of the repository to copies of them inside the site.

The API reference is made from stubs and docstrings. A page of docs/ may have a link to any file of the
repository: a source or a page becomes a page under source/, anything else is copied there. So no link leads
out of the site but those to other projects, and the site can be read from a disk without a network.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

import api_pages
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
AS_CODE = {".py": "python", ".sh": "bash", ".toml": "toml", ".yaml": "yaml", ".yml": "yaml"}
_LINK = re.compile(r"(\]\()([^)\s#]+)((?:#[^)]*)?\))")
# A span of code may go on in the next line, but not in another paragraph.
_CODE = re.compile(r"(^```.*?^```|`(?:[^`\n]|\n(?!\s*\n))+`)", re.DOTALL | re.MULTILINE)


def links_of(text: str) -> list[str]:
    """Targets of the links of a page, without anchors, code left out."""
    return [found[2] for found in _LINK.finditer(_CODE.sub("", text)) if "://" not in found[2]]


def repository_path(src_uri: str) -> str:
    """The path in the repository of a page of the site."""
    copied = src_uri.removeprefix("source/")
    if copied == src_uri:
        return f"docs/{src_uri}"
    return copied if (ROOT / copied).is_file() else copied.removesuffix(".md")


def site_path(path: str) -> str:
    """The place in the site of a file of the repository."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return f"source/{path}.md" if Path(path).suffix in AS_CODE else f"source/{path}"


def relinked(text: str, src_uri: str) -> str:
    """The page's text with links that hold inside the site."""
    here = repository_path(src_uri)

    def lead(found: re.Match[str]) -> str:
        if "://" in found[2]:
            return found[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(here), found[2]))
        if not (ROOT / path).is_file():
            return found[0]  # a generated page; MkDocs says when there is none
        return found[1] + posixpath.relpath(site_path(path), posixpath.dirname(src_uri) or ".") + found[3]

    parts = _CODE.split(text)
    return "".join(part if number % 2 else _LINK.sub(lead, part) for number, part in enumerate(parts))


def page_of_source(path: str) -> str:
    text = (ROOT / path).read_text(encoding="utf-8")
    if path.endswith(".md"):
        return text
    fence = "````" if "```" in text else "```"
    return f"# {path}\n\n{fence}{AS_CODE[Path(path).suffix]}\n{text}{fence}\n"


def on_files(files: Files, config: Any) -> Files:
    for src_uri, text in api_pages.pages().items():
        files.append(File.generated(config, src_uri, content=text))
    waiting = [(file.src_uri, file.content_string) for file in files.documentation_pages()]
    known = {file.src_uri for file in files}
    while waiting:
        src_uri, text = waiting.pop()
        here = repository_path(src_uri)
        for target in links_of(text):
            path = posixpath.normpath(posixpath.join(posixpath.dirname(here), target))
            place = site_path(path)
            if place in known or not (ROOT / path).is_file():
                continue
            known.add(place)
            if place.endswith(".md"):
                content = page_of_source(path)
                files.append(File.generated(config, place, content=content))
                waiting.append((place, content))
            else:
                files.append(File.generated(config, place, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    return relinked(markdown, page.file.src_uri)
