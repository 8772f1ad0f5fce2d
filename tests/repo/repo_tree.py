"""The files of this repository, for the tests of its rules."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("src", "include", "python", "tests", "benchmarks", "examples", "scripts", "docs", ".ci")
#: Pages at the top of the repository, which files() does not give.
TOP_PAGES = [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")]
NOT_OURS = {"__pycache__", "envs", "results", "data", ".hypothesis"}  # made by tools, or data


def files(*suffixes: str, under: tuple[str, ...] = FOLDERS) -> list[Path]:
    """All files of these suffixes (any, when none is given) below the folders, in order."""
    found = []
    for folder in under:
        for path in sorted((ROOT / folder).rglob("*")):
            inside = path.relative_to(ROOT)
            if (
                path.is_file()
                and not NOT_OURS & set(inside.parts)
                and (not suffixes or path.suffix in suffixes)
            ):
                found.append(path)
    return found


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def made_pages() -> set[Path]:
    """Pages of docs/ that are no files: the menu has them, and scripts/docs makes them."""
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    return {ROOT / "docs" / found for found in re.findall(r"\bapi/\w+\.md\b", menu)}
