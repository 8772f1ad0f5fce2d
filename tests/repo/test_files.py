"""Every file is short, says what it is for, and holds nothing that belongs elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

from repo_tree import ROOT, TOP_PAGES, files, lines, name

CODE = files(".h", ".cpp", ".cu", ".cuh", ".py", ".sh", ".cmake")
ROOT_FILES = [
    ROOT / n
    for n in (
        "Makefile",
        "CMakeLists.txt",
        "pyproject.toml",
        "LICENSE",
        "mkdocs.yml",
    )
] + TOP_PAGES
MAX_LINES, MAX_HEADER_LINES, MAX_COLUMNS = 400, 250, 140
# One subject each, which halves would have to tell of each other: up to 600 lines.
ONE_SUBJECT = {"python/millrace/_loader/states/progress.py"}

# Spelled in two halves, so that this file keeps the rules too.
FORBIDDEN = re.compile(
    "|".join(
        [
            r"\bTO" r"DO\b",
            r"\bFIX" r"ME\b",
            r"\bXX" r"X\b",
            r"\bHA" r"CK\b",
            r"\bfor no" r"w\b",
            r"(?<![\w.])/(ho" r"me|ro" r"ot|wo" r"rk)/\w",
        ]
    )
)


def test_there_are_files() -> None:
    assert len(CODE) > 50 and all(path.is_file() for path in ROOT_FILES), [
        name(p) for p in ROOT_FILES if not p.is_file()
    ]


def test_no_file_is_long() -> None:
    long = {
        name(p): n
        for p in CODE
        if (n := len(lines(p)))
        > (600 if name(p) in ONE_SUBJECT else MAX_HEADER_LINES if p.suffix == ".h" else MAX_LINES)
    }
    assert not long, f"split these: at most {MAX_LINES} lines, headers {MAX_HEADER_LINES}"


def test_the_readme_is_short() -> None:
    assert len(lines(ROOT / "README.md")) < 170


def test_pages_wrap() -> None:
    """Paragraphs do: neither code, nor tables, nor blocks that a script writes."""
    others = r"^( *```).*?^ *```$|<!-- (\S+).*?-->.*?<!-- (/\2|end) -->|^\|.*?$|^ *`[^`]*`\.?$"
    for page in [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *ROOT.glob("docs/*.md"),
        ROOT / "src/README.md",
    ]:
        prose = re.sub(others, "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        wide = [line for line in prose.splitlines() if len(line) > 100 and " " in line[60:100].strip()]
        assert not wide, f"{name(page)}: paragraphs wrap at 100 columns"


def test_no_line_is_wide() -> None:
    wide = [f"{name(p)}:{i}" for p in CODE for i, line in enumerate(lines(p), 1) if len(line) > MAX_COLUMNS]
    assert not wide, f"at most {MAX_COLUMNS} columns"


def states_its_purpose(path: Path) -> bool:
    first = next((line for line in lines(path) if not line.startswith("#!")), "")
    if path.suffix == ".cpp" and re.fullmatch(
        rf'#include "(.*/)?{path.stem.removesuffix("_test")}\.h"', first
    ):
        return True  # the header says it
    comment = {".py": ('"""', 'r"""', "#"), ".sh": ("#",), ".cmake": ("#",)}.get(path.suffix, ("//",))
    return first.startswith(comment) and len(first) > 15


def test_the_first_line_says_what_the_file_is_for() -> None:
    assert not [name(p) for p in CODE if not states_its_purpose(p)]


def test_headers_are_guarded() -> None:
    assert not [name(p) for p in files(".h") if "#pragma once" not in lines(p)]


def test_nothing_is_left_undone() -> None:
    texts = (
        files(".h", ".cpp", ".cu", ".cuh", ".py", ".sh", ".cmake", ".md", ".txt", ".toml")
        + ROOT_FILES
        + [ROOT / ".ci/run"]
    )
    wrong = [
        f"{name(p)}:{i}: {line.strip()}"
        for p in texts
        if p.name != "LICENSE"
        for i, line in enumerate(lines(p), 1)
        if FORBIDDEN.search(line)
    ]
    assert not wrong, "unfinished work, or a path of somebody's machine"


def test_no_trailing_space_and_a_last_newline() -> None:
    wrong = []
    for path in CODE:
        text = path.read_text(encoding="utf-8")
        if (
            (text and not text.endswith("\n"))
            or "\t" in text
            or any(line != line.rstrip() for line in text.splitlines())
        ):
            wrong.append(name(path))
    assert not wrong


def test_the_license_is_apache() -> None:
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text and "Version 2.0, January 2004" in text
    assert 'license = "Apache-2.0"' in (ROOT / "pyproject.toml").read_text()


def test_the_module_leaves_the_gil_on() -> None:
    """A declaration that it can do without needs a test on such an interpreter first."""
    macros = re.findall(r"PYBIND11_MODULE\(([^)]*)\)", (ROOT / "python/bindings/module.cpp").read_text())
    assert macros == ["_core, m"]
