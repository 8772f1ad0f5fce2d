"""A program that writes its chains of transforms as lists, global or not, compiles about as fast as without.

GCC 12 has taken two minutes for three such lists: it tried to evaluate vectors of variants as constants.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from repo_tree import ROOT

CHAIN = "{Resize{8, 8}, ToTensor{}, Normalize{{0.5}, {0.5}}}"
TEN = range(10)
FILES = {
    "global lists": [f"const std::vector<TransformSpec> chain{i}{CHAIN};" for i in TEN],
    "global chains": [f"const Transforms chain{i}{CHAIN};" for i in TEN],
    "in functions": [f"std::vector<TransformSpec> chain{i}() {{ return {CHAIN}; }}" for i in TEN],
}
MOST = 10  # times the CPU seconds of a file that only includes the header; 2 to 3.5 are usual


def cpu_seconds(lines: list[str], folder: Path) -> float:
    source = folder / "chains.cpp"
    source.write_text(
        "\n".join(['#include "millrace/transforms.h"', "using namespace millrace;", *lines, ""])
    )
    compiler = subprocess.Popen(
        ["c++", "-std=c++20", "-O2", f"-I{ROOT / 'include'}", "-c", source, "-o", folder / "chains.o"]
    )
    _, status, used = os.wait4(compiler.pid, 0)
    compiler.returncode = os.waitstatus_to_exitcode(status)
    assert compiler.returncode == 0
    return used.ru_utime


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")
def test_ten_chains_compile_quickly(tmp_path: Path) -> None:
    bare = cpu_seconds([], tmp_path)
    for name, lines in FILES.items():
        assert cpu_seconds(lines, tmp_path) < MOST * bare, name
