"""The C++ library, installed from build/dev or $MILLRACE_BUILD, and what its programs have to print."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("MILLRACE_BUILD", ROOT / "build/dev"))
EXAMPLES = ROOT / "examples/cpp"
CXX = shutil.which("c++") or shutil.which("g++")
STRICT = ["-std=c++20", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]


def run(*command: object, **options) -> str:
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, timeout=1500, **options
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-4000:]}\n{done.stderr[-8000:]}"
    return done.stdout


@pytest.fixture(scope="session", name="prefix")
def installed_prefix(tmp_path_factory) -> Path:
    if not shutil.which("cmake") or not (BUILD / "lib/libmillrace.a").exists():
        pytest.skip(f"{BUILD}/lib has no libmillrace; `make test` builds it in build/dev")
    folder = tmp_path_factory.mktemp("installed") / "before"
    run("cmake", "--install", BUILD, "--prefix", folder)
    return folder.rename(folder.with_name("prefix"))  # where it lies may change


@pytest.fixture(scope="session", name="own_dataset")
def check_own_dataset(tmp_path_factory):
    """check(program): whether examples/cpp/own_dataset, however it was linked, reads a text file's lines."""
    file = tmp_path_factory.mktemp("lines") / "lines.txt"
    lines = [f"line {'x' * i}" for i in range(13)]
    file.write_text("\n".join([*lines[:5], "", *lines[5:]]) + "\n")
    lines.insert(5, "")

    def check(program: Path, **options) -> None:
        told = run(program, file, **options).splitlines()
        rows = [line.split(" ", 3) for line in told[:-1]]
        assert {int(index): text for _, index, _, text in rows} == {
            i: line for i, line in enumerate(lines) if line
        }
        assert all(int(length) == len(text) for _, _, length, text in rows)
        assert [int(number) for number, *_ in rows] == [i // 4 for i in range(13)]
        assert told[-1].startswith("left out 5: ") and f"{file}:6" in told[-1] and "an empty line" in told[-1]

    return check
