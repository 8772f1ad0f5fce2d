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
    config = next(installed.rglob("millrace.pc")).parent
    environment = {**os.environ, "PKG_CONFIG_PATH": f"{config}:{os.environ.get('PKG_CONFIG_PATH', '')}"}
    name = {"shared": "millrace", "static": "millrace-static"}[kind]
    assert run("pkg-config", "--modversion", name, env=environment).strip() == "0.1.0"
    flags = run("pkg-config", "--cflags", "--libs", name, env=environment).split()
    for path in [flag.removeprefix("-I").removeprefix("-L") for flag in flags if "/" in flag]:
        assert Path(path).is_relative_to(installed) or path == "/usr/local/cuda/lib64", flags
    more = run("pkg-config", "--libs", "--static", "millrace", env=environment).split()
    assert {"-ljpeg", "-lstdc++", "-lm"} < set(more), "for a program that is static altogether"
    assert not [flag for flag in more if flag.endswith((".a", ".so"))], more
    program = tmp_path / "program"
    run(CXX, *STRICT, "-O1", EXAMPLES / "own_dataset/own_dataset.cpp", "-o", program, *flags)
    assert ("libmillrace.so" in run("readelf", "-d", program)) == (kind == "shared")
    own_dataset(program, env={**os.environ, "LD_LIBRARY_PATH": str(config.parent)})
