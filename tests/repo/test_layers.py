"""The layers of src/: includes look down only, and the code, CMake and the map tell the same story."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from layers import ADAPTERS, LAYERS, OUTSIDE
from repo_tree import ROOT, files, lines, name

SRC = ROOT / "src"
MODULES = sorted(p.parent.name for p in SRC.glob("*/CMakeLists.txt"))
CODE = (".h", ".cpp", ".cu", ".cuh")
INCLUDE = re.compile(r'\s*#\s*include\s*([<"])([^>"]+)[>"]')


def includes(path: Path) -> list[str]:
    return [match.group(2) for line in lines(path) if (match := INCLUDE.match(line))]


def test_the_map_has_every_module() -> None:
    assert MODULES == sorted(LAYERS), "a folder of src/ without a row, or a row without a folder"


def test_nobody_is_above_itself() -> None:
    seen: set[str] = set()
    for module, used in LAYERS.items():
        assert used <= seen, f"{module} uses a module that stands below it in the table"
        seen.add(module)


@pytest.mark.parametrize("module", MODULES)
def test_includes_look_down(module: str) -> None:
    allowed = LAYERS[module] | {module, "millrace"}
    wrong = [
        f"{name(path)}: {header}"
        for path in files(*CODE, under=(f"src/{module}",))
        for header in includes(path)
        if "/" in header and header.split("/")[0] in {*MODULES, "millrace", "bindings"} - allowed
    ]
    assert not wrong, f"{module} may include only {sorted(allowed)}"


@pytest.mark.parametrize("module", MODULES)
def test_cmake_links_what_the_table_allows(module: str) -> None:
    text = (SRC / module / "CMakeLists.txt").read_text()
    linked = set(re.findall(r"\bmillrace_([a-z_]+)", text)) & set(MODULES)
    if uses := re.search(r"\bUSES\b([a-z_\s]*)", text):
        linked |= set(uses.group(1).split())
    assert linked - {module} <= LAYERS[module]


def test_public_headers_stand_alone() -> None:
    for path in files(".h", under=("include",)):
        quoted = [line for line in lines(path) if (match := INCLUDE.match(line)) and match.group(1) == '"']
        for line in quoted:
            assert '"millrace/' in line, f"{name(path)} shows the inside to its users: {line}"


def test_the_umbrella_has_every_public_header() -> None:
    public = {path.name for path in files(".h", under=("include",))}
    assert ADAPTERS < public
    shown = {f"millrace/{header}" for header in public - ADAPTERS - {"millrace.h"}}
    assert set(includes(ROOT / "include/millrace/millrace.h")) == shown


def test_only_adapters_see_torch() -> None:
    for path in files(".h", under=("include",)):
        torchs = [header for header in includes(path) if header.startswith(("ATen/", "c10/"))]
        assert not torchs or path.name in ADAPTERS, f"{name(path)} needs torch: {torchs}"


def test_outside_headers_stay_in_their_folders() -> None:
    wrong = []
    for path in files(*CODE, under=("src", "include", "python")):
        folder = "/".join(path.relative_to(ROOT).parts[:2])
        for start, homes in OUTSIDE.items():
            wrong += [
                f"{name(path)}: {header}"
                for header in includes(path)
                if header.startswith(start) and folder not in homes
            ]
    assert not wrong


@pytest.mark.parametrize("folder", [f"src/{m}" for m in MODULES] + ["python/bindings"])
def test_every_source_is_built(folder: str) -> None:
    listed = set(re.findall(r"[a-z_0-9]+\.(?:cpp|cu)\b", (ROOT / folder / "CMakeLists.txt").read_text()))
    assert listed == {path.name for path in (ROOT / folder).iterdir() if path.suffix in (".cpp", ".cu")}


def test_cpp_tests_mirror_src() -> None:
    folders = {p.name for p in (ROOT / "tests/cpp").iterdir() if p.is_dir() and any(p.iterdir())}
    assert folders <= set(MODULES), "a folder of tests/cpp that src does not have"
    for folder in folders:
        listed = set(
            re.findall(r"[a-z_0-9]+\.cpp", (ROOT / "tests/cpp" / folder / "CMakeLists.txt").read_text())
        )
        assert listed == {path.name for path in (ROOT / "tests/cpp" / folder).glob("*.cpp")}, folder
