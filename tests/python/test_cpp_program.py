"""A program outside the tree, with no CMake and no torch: a compiler and pkg-config."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from installed_library import CXX, EXAMPLES, STRICT, check_own_dataset, installed_prefix, run  # noqa: F401


@pytest.mark.parametrize("kind", ["shared", "static"])
def test_is_built_by_pkg_config(kind: str, prefix: Path, own_dataset, tmp_path: Path) -> None:
    if not shutil.which("pkg-config") or CXX is None:
        pytest.skip("no pkg-config, or no C++ compiler")
    installed = tmp_path / "installed"
    shutil.copytree(prefix, installed, symlinks=True)
    if kind == "static":
        for path in installed.rglob("libmillrace.so*"):
            path.unlink()
    config = next(installed.rglob("millrace.pc")).parent
    environment = {**os.environ, "PKG_CONFIG_PATH": f"{config}:{os.environ.get('PKG_CONFIG_PATH', '')}"}
    asked = ["--static"] if kind == "static" else []
    assert run("pkg-config", "--modversion", "millrace", env=environment).strip() == "0.1.0"
    flags = run("pkg-config", "--cflags", "--libs", *asked, "millrace", env=environment).split()
    program = tmp_path / "program"
    run(CXX, *STRICT, "-O1", EXAMPLES / "own_dataset/own_dataset.cpp", "-o", program, *flags)
    own_dataset(program, env={**os.environ, "LD_LIBRARY_PATH": str(config.parent)})
