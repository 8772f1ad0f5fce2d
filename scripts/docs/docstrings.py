"""Docstrings of this project as Markdown: paragraphs, lists of arguments with their types, examples.

A docstring is plain text. Entries `name: what it is` stand under `Args:` and the like, or directly at its
left margin where `name` is a parameter. Indented blocks behind an empty line, and lines that begin with
`>>>`, are code.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Mapping

HEADINGS = {"Args": "Arguments", "Raises": "Errors", "Returns": "Returns", "Attributes": "Attributes"}
_ENTRY = re.compile(r"(\*{0,2}\w+(?:, \*{0,2}\w+)*):(?: (.*))?$", re.DOTALL)
_CODE = re.compile(r"(``?)(.+?)\1", re.DOTALL)
_MARKS = {character: f"\\{character}" for character in "*_[]#|"} | {"<": "&lt;", ">": "&gt;", "{": "&#123;"}

Link = Callable[[str], "str | None"]


def prose(text: str, link: Link = lambda name: None) -> str:
    """`text` with nothing in it that Markdown would read as a mark, but code in backticks, whose names `link`
    may turn into addresses.
    """
    parts, end = [], 0
    for found in _CODE.finditer(text):
        parts.append(_escaped(text[end : found.start()]))
        code, target = found[0], link(found[2])
        parts.append(f"[{code}]({target})" if target else code)
        end = found.end()
    return "".join([*parts, _escaped(text[end:])])


def _escaped(text: str) -> str:
    """Pages of docs/ become links, as from a page in a folder beside them."""
    parts = re.split(r"\b(docs/\w+\.md)\b", text)
    marked = ["".join(_MARKS.get(character, character) for character in part) for part in parts[::2]]
    pages = [f"[{page.removeprefix('docs/')}](../{page.removeprefix('docs/')})" for page in parts[1::2]]
    return "".join(word for pair in zip(marked, [*pages, ""]) for word in pair)


def markdown(doc: str, parameters: Mapping[str, str], link: Link = lambda name: None) -> str:
    """The docstring `doc`, cleaned as inspect.getdoc() gives it; `parameters`: types and defaults by name."""
    out: list[str] = []
    for block in re.split(r"\n\s*\n", doc.strip("\n")):
        lines = block.split("\n")
        if all(line.startswith(" ") for line in lines) or lines[0].startswith(">>>"):
            out.append(f"```python\n{textwrap.dedent(block)}\n```")
        else:
            out += _block(lines, parameters, link)
    return "\n\n".join(out) + "\n" if out else ""


def _items(lines: list[str]) -> list[tuple[str, list[str]]]:
    """Each line at the margin, with the indented ones below it."""
    found: list[tuple[str, list[str]]] = []
    for line in lines:
        if line.startswith(" ") and found:
            found[-1][1].append(line)
        else:
            found.append((line, []))
    return found


def _block(lines: list[str], parameters: Mapping[str, str], link: Link) -> list[str]:
    out: list[str] = []
    running: list[str] = []  # prose that has not ended
    entries: list[str] = []

    def close() -> None:
        if running:
            out.append(prose(" ".join(running), link))
        if entries:
            out.append("\n".join(entries))
        running.clear()
        entries.clear()

    for head, below in _items(lines):
        inner = textwrap.dedent("\n".join(below)).split("\n") if below else []
        entry = _ENTRY.match(head)
        names = [name.strip("* ") for name in entry[1].split(",")] if entry else []
        if head.rstrip(":") in HEADINGS and below:
            close()
            out += [f"**{HEADINGS[head.rstrip(':')]}**", _list(inner, parameters, link)]
        elif entry and any(name in parameters for name in names):
            if running:
                close()
            entries.append(
                _entry(entry[1], " ".join([entry[2] or "", *map(str.strip, below)]), parameters, link)
            )
        elif below and ":" not in head and any(_ENTRY.match(line) for line in inner):
            close()
            out += [f"**{prose(head, link)}**", _list(inner, parameters, link)]
        elif entries and not below:  # goes on with the entry above
            entries[-1] += " " + prose(head, link)
        else:
            if entries:
                close()
            running += [head, *map(str.strip, below)]
    close()
    return out


def _list(lines: list[str], parameters: Mapping[str, str], link: Link) -> str:
    entries: list[tuple[str, list[str]]] = []
    for head, below in _items(lines):
        found = _ENTRY.match(head)
        if found and found[2] is not None:
            entries.append((found[1], [found[2], *map(str.strip, below)]))
        elif entries:
            entries[-1][1].extend([head, *map(str.strip, below)])
        else:
            entries.append(("", [head, *map(str.strip, below)]))
    return "\n".join(_entry(names, " ".join(text), parameters, link) for names, text in entries)


def _entry(names: str, text: str, parameters: Mapping[str, str], link: Link) -> str:
    if not names:
        return f"- {prose(text, link)}"
    named = ", ".join(f"**`{name.strip()}`**" for name in names.split(","))
    only = names.strip("* ")
    kind = f" (`{parameters[only]}`)" if parameters.get(only) and "`" not in parameters[only] else ""
    return f"- {named}{kind}: {prose(text.strip(), link)}"
