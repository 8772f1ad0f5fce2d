"""Every header compiles alone: whoever includes it needs to know nothing else.

The build proves it of a header that some .cpp file includes before anything else; the others are compiled
here, by ccache where it is installed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from repo_tree import ROOT, files, name

NEEDS_MORE = re.compile(
    r'#include\s*[<"](torch/|ATen/|c10/|millrace/torch_|pybind11/|Python\.h|cuda_|nvjpeg)'
)  # than every machine has
FIRST_INCLUDE = re.compile(r'^#include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
OBJECTS = "build/headers"
COMPILER = shutil.which("c++") or shutil.which("g++")


def proved_by_the_build() -> set[Path]:
    headers = set()
    for source in files(".cpp", under=("src", "tests")):
        if first := FIRST_INCLUDE.search(source.read_text()):
            headers |= {
                folder / first[1]
                for folder in (source.parent, ROOT / "src", ROOT / "include", ROOT / "tests" / "cpp")
            }
    return headers


def complaint(header: Path) -> str:
    """The compiler's, about one header by itself; "" for none. Paths from ROOT on, as the cache compares
    them.
    """
    command = [COMPILER, "-std=c++20", "-Wall", "-Wextra", "-Isrc", "-Iinclude", "-Itests/cpp"]
    command += subprocess.run(
        ["pkg-config", "--cflags", "libhwy"], capture_output=True, text=True
    ).stdout.split()
    command += ["-include", name(header), "-c", f"{OBJECTS}/empty.cpp"]
    command += ["-o", f"{OBJECTS}/{name(header).replace('/', '_')}.o"]
    if ccache := shutil.which("ccache"):
        command.insert(0, ccache)
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    return "" if run.returncode == 0 else run.stderr


@pytest.mark.skipif(COMPILER is None, reason="no C++ compiler")
def test_headers_compile_alone() -> None:
    proved = proved_by_the_build()
    headers = [
        p
        for p in files(".h", under=("src", "include", "tests/cpp"))
        if p not in proved and not NEEDS_MORE.search(p.read_text())
    ]
    assert len(headers) > 10
    (ROOT / OBJECTS).mkdir(parents=True, exist_ok=True)
    (ROOT / OBJECTS / "empty.cpp").write_text("")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        complaints = list(pool.map(complaint, headers))
    assert not [text for text in complaints if text]
