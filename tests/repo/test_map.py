"""src/README.md and docs name files that exist; the map has every folder, and a short glossary."""

from __future__ import annotations

import ast
import re

import pytest
from repo_tree import ROOT, files, name

PACKAGES = ROOT / "python"
MAP = (ROOT / "src/README.md").read_text()
NAMES = [name(path) for path in files(".h", ".cpp", ".cu", ".cuh", ".py", ".pyi", ".js", ".css", ".md")]
OF_EXAMPLES = {"train.py", "prepare.py"}  # the reader's own
MOST_NOUNS = 30


def rows_of(heading: str) -> list[list[str]]:
    """The rows of the tables of one section, without their heads."""
    section = MAP.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows][2:]


@pytest.mark.parametrize("page", ["src/README.md", *(name(p) for p in sorted((ROOT / "docs").rglob("*.md")))])
def test_files_that_are_named_exist(page: str) -> None:
    text = (ROOT / page).read_text()
    named = set(re.findall(r"(?<![\w<*/.-])(?:\.\./)*([\w/.]+\.(?:h|cpp|cuh?|pyi?|js|css))\b", text))
    wrong = [
        word for word in named - OF_EXAMPLES if not any(f"/{known}".endswith(f"/{word}") for known in NAMES)
    ]
    assert not wrong


def test_the_map_has_every_folder_of_the_packages() -> None:
    folders = {str(p.parent.relative_to(PACKAGES)).removeprefix("millrace/") for p in PACKAGES.rglob("*.py")}
    rows = rows_of("Folders of python")
    assert sorted(row[0].strip("`") for row in rows) == sorted(folders)
    assert all(len(row) == 2 and row[1] for row in rows)


def test_every_folder_says_its_purpose_first() -> None:
    without = [
        name(p) for p in PACKAGES.rglob("__init__.py") if not ast.get_docstring(ast.parse(p.read_text()))
    ]
    assert not without


def test_the_glossary_is_short() -> None:
    words = [row[0] for row in rows_of("Glossary")]
    assert words == sorted(set(words)) and 0 < len(words) <= MOST_NOUNS
