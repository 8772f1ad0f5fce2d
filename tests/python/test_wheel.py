"""The wheel: installed in seconds where there is no compiler, whole, tied to no torch, and the same bytes as
the tree's module with every instruction set.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import wheel_install
from check_wheel import wrong_with
from pictures import make_jpeg_folder
from test_cpu_targets import SCRIPT, X86
from test_cpu_targets import run as run_tree
from test_user_types import check_examples
from wheel_install import ROOT, Installed

pytestmark = pytest.mark.slow
INSTALL_S = 30


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return wheel_install.install(tmp_path_factory.mktemp("wheel") / "environment")


def test_it_is_installed_in_seconds(installed: Installed, record_property: Callable) -> None:
    record_property("install_cpu_s", round(installed.install_s, 1))  # for scripts/torch_results.py
    assert installed.install_s < INSTALL_S
    asked = "import millrace, sys; print(millrace.__file__, sys.prefix)"
    file, prefix = installed.run(installed.python, "-c", asked).stdout.split()
    assert file.startswith(prefix), "not the source tree's"


def test_nothing_that_builds_is_in_reach(installed: Installed) -> None:
    script = f"import shutil; print([t for t in {wheel_install.TOOLS} if shutil.which(t)])"
    assert installed.run(installed.python, "-c", script).stdout.strip() == "[]"


def test_headers_and_bundled_libraries_are_hidden(installed: Installed) -> None:
    if not installed.bare:
        pytest.skip("this system lets nobody have mounts of one's own: PATH alone hides the compiler")
    script = """
import ctypes, os
print(os.listdir("/usr/include"))
for name in ("libjpeg.so.62", "libhwy.so.1", "libdeflate.so.0", "libwebp.so.7", "libzstd.so.1"):
    try:
        ctypes.CDLL(name)
        print(name)
    except OSError:
        pass
"""
    assert installed.run(installed.python, "-c", script).stdout.split() == ["[]"]


def test_the_readmes_first_example_runs(installed: Installed, tmp_path: Path) -> None:
    make_jpeg_folder(tmp_path / "photos", per_class=50)
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    (tmp_path / "first.py").write_text(blocks[0] + "\nprint(tuple(images.shape), loader.stats()['engine'])\n")
    done = installed.run(installed.python, "first.py", cwd=tmp_path)
    assert done.stdout.split("\n")[0] == "(22, 3, 224, 224) threads", done.stderr


def test_the_command_is_there(installed: Installed) -> None:
    done = installed.run(installed.python.parent / "millrace", "--version")
    assert done.stdout.startswith("millrace "), done.stderr


def test_the_tools_are_inside(installed: Installed) -> None:
    done = installed.run(installed.python, "-c", "import millrace; print(millrace.Report.__module__)")
    assert done.stdout.startswith("millrace_tools."), done.stderr
    done = installed.run(installed.python.parent / "millrace", "doctor", "--help")
    assert done.stdout.startswith("usage: python -m millrace doctor"), done.stderr


def test_nothing_is_missing_and_nothing_is_torchs(installed: Installed, tmp_path: Path) -> None:
    assert wrong_with(installed.wheel) == ""
    shutil.unpack_archive(installed.wheel, tmp_path, "zip")
    module = next((tmp_path / "millrace").glob("_core.*.so"))
    # Where the system's copies of what is bundled are hidden.
    told = installed.run(shutil.which("ldd") or "/usr/bin/ldd", module).stdout
    assert "libc.so.6" in told and "not found" not in told, told
    assert not re.search(r"libtorch|libc10|libcud|libnv", told), told
    sections = subprocess.run(["readelf", "-dW", module], capture_output=True, text=True, check=True).stdout
    assert "NEEDED" in sections and not re.search(r"torch|c10|cuda", sections), sections
    for path in re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", sections):
        assert all(part.startswith("$ORIGIN") for part in path.split(":")), sections
    symbols = subprocess.run(
        ["readelf", "--dyn-syms", "-W", module], capture_output=True, text=True, check=True
    )
    undefined = [
        line.split()[-1] for line in symbols.stdout.splitlines() if " UND " in line and len(line.split()) > 7
    ]
    assert any(name.startswith("PyObject_") for name in undefined)
    assert not [name for name in undefined if re.match(r"_ZNK?(2at|3c10|5torch)|aoti_", name)]


def test_auditwheel_agrees_with_the_tag(installed: Installed) -> None:
    pytest.importorskip("auditwheel", reason="`make wheel` installs it")
    told = subprocess.run(
        [sys.executable, "-m", "auditwheel", "show", str(installed.wheel)], capture_output=True, text=True
    )
    assert told.returncode == 0, told.stderr
    words = " ".join(told.stdout.split())
    tag = re.search(r'is consistent with the following platform tag: "([\w.]+)"', words)
    assert tag is not None, words
    assert tag[1].split(".")[0] in installed.wheel.name, words


def test_every_instruction_set_gives_the_trees_bytes(installed: Installed, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    expected = run_tree(folder, "")
    for newest in ["", *(name for name in X86 if name in expected["targets"])]:
        done = installed.run(installed.python, SCRIPT, folder, env={"MILLRACE_CPU_TARGETS": newest})
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        assert found["targets"][0] == (newest or expected["targets"][0])
        assert found["digests"] == expected["digests"], newest


def test_examples_check_outside_the_tree(installed: Installed, tmp_path: Path) -> None:
    check_examples(tmp_path, installed.python)


def test_it_says_which_torch_it_runs_with(installed: Installed) -> None:
    done = installed.run(installed.python, "-m", "millrace", "--version")
    assert f"torch {torch.__version__}" in done.stdout
