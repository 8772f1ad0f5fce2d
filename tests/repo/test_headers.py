"""Every header compiles alone: whoever includes it needs to know nothing else.

The build proves it of a header that some .cpp file includes before anything else; the others are compiled
here. What was found is kept in build/header_check.json until the header, or one that it includes, changes.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from repo_tree import ROOT, files, name

CACHE = ROOT / "build" / "header_check.json"
NEEDS_MORE = re.compile(
    r'#include\s*[<"](torch/|ATen/|c10/|millrace/torch_|pybind11/|Python\.h|cuda_|nvjpeg)'
)  # than every machine has
FIRST_INCLUDE = re.compile(r'^#include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
COMPILER = shutil.which("c++") or shutil.which("g++")


def stamps(paths: list[str]) -> dict[str, int]:
    return {path: (ROOT / path).stat().st_mtime_ns for path in paths if (ROOT / path).exists()}


def proved_by_the_build() -> set[Path]:
    headers = set()
    for source in files(".cpp", under=("src", "tests")):
        if first := FIRST_INCLUDE.search(source.read_text()):
            headers |= {
                folder / first[1]
                for folder in (source.parent, ROOT / "src", ROOT / "include", ROOT / "tests" / "cpp")
            }
    return headers


def check(header: Path) -> tuple[str, str, list[str]]:
    """Compiles one header by itself: its name, the compiler's complaint ("" for none), the headers of ours
    that it used.
    """
    flags = subprocess.run(
        ["pkg-config", "--cflags", "libhwy"], capture_output=True, text=True
    ).stdout.split()
    command = [
        COMPILER,
        "-std=c++20",
        "-fsyntax-only",
        "-Wall",
        "-Wextra",
        "-x",
        "c++",
        "-MMD",
        "-MF",
        "-",
        *(f"-I{ROOT / folder}" for folder in ("src", "include", "tests/cpp")),
        *flags,
        "-include",
        str(header),
        os.devnull,
    ]
    run = subprocess.run(command, capture_output=True, text=True)
    words = run.stdout.replace("\\\n", " ").split()
    used = [name(Path(word)) for word in words if word.startswith(f"{ROOT}/") and not word.endswith(":")]
    return name(header), "" if run.returncode == 0 else run.stderr, used


@pytest.mark.skipif(COMPILER is None, reason="no C++ compiler")
def test_headers_compile_alone() -> None:
    proved = proved_by_the_build()
    headers = [
        p
        for p in files(".h", under=("src", "include", "tests/cpp"))
        if p not in proved and not NEEDS_MORE.search(p.read_text())
    ]
    assert len(headers) > 10
    known = json.loads(CACHE.read_text()) if CACHE.exists() else {}
    fresh = {h: seen for h, seen in known.items() if stamps(list(seen)) == seen}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(check, [h for h in headers if name(h) not in fresh]))
    fresh |= {header: stamps([header, *used]) for header, complaint, used in results if not complaint}
    CACHE.parent.mkdir(exist_ok=True)
    CACHE.write_text(json.dumps(fresh))
    assert not [complaint for _, complaint, _ in results if complaint]
