"""MILLRACE_CPU_TARGETS: an older instruction set, and the same bytes from the whole loader."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from millrace import _core

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).with_name("all_kernels.py")
X86 = ["AVX3_DL", "AVX3", "AVX2", "SSE4"]
KINDS = {"train", "maps", "policy", "values", "tokens", "lines"}


def run(folder: Path, newest: str, **further: str) -> dict[str, Any]:
    environment = {**os.environ, "MILLRACE_CPU_TARGETS": newest, **further}
    command = [sys.executable, str(SCRIPT), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=250, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def unlimited(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("kernels") / "data"
    return folder, run(folder, "")


def test_the_digests_tell_kinds_apart(unlimited: tuple[Path, dict[str, Any]]) -> None:
    assert set(unlimited[1]["digests"]) == KINDS == set(unlimited[1]["digests"]) and len(
        set(unlimited[1]["digests"].values())
    ) == len(KINDS)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="names of x86's instruction sets")
@pytest.mark.parametrize("newest", X86)
def test_each_instruction_set_gives_the_same_bytes(
    unlimited: tuple[Path, dict[str, Any]], newest: str
) -> None:
    folder, expected = unlimited
    if newest not in expected["targets"]:
        pytest.skip(f"this processor has no {newest}; it has {', '.join(expected['targets'])}")
    # libjpeg-turbo has a switch of its own.
    found = run(folder, newest, **({"JSIMD_FORCESSE2": "1"} if newest == "SSE4" else {}))
    assert found["targets"] == expected["targets"][expected["targets"].index(newest) :]
    assert found["json"] == {"SSE4": "westmere", "AVX3_DL": "icelake"}.get(newest, "haswell")
    assert found["digests"] == expected["digests"]


def test_a_wrong_name_is_refused_with_the_right_ones() -> None:
    environment = {**os.environ, "MILLRACE_CPU_TARGETS": "avx2"}
    command = [sys.executable, "-c", "import millrace._core"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=100, check=False)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(
        'ImportError: MILLRACE_CPU_TARGETS=avx2: "avx2" is no instruction set of this build'
    )
    assert _core.cpu_targets()[0] in last and "unset the variable" in last


def test_a_limit_can_be_taken_back() -> None:
    had = _core.cpu_targets()
    try:
        _core.limit_cpu_targets(had[-1])
        assert _core.cpu_targets() == had[-1:]
    finally:
        _core.limit_cpu_targets("")
    assert _core.cpu_targets() == had
