"""Users' scripts under `mypy --strict`: outside the tree, with millrace as a package with types."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]

#: What the types of public names are for: each line that is wrong has to be seen.
WRONG = """from millrace import DataLoader, samplers
from millrace.datasets import ImageFolder

loader = DataLoader(ImageFolder("photos"), batch_size="many")
loader.reportt()
samplers.PermutationSampler(seed=1)
DataLoader(ImageFolder("photos"), native="maybe")
"""


def check(folder: Path, python: Path | None, *arguments: str) -> list[str]:
    """mypy's errors in files of `folder`. `python`: an interpreter that has millrace installed; None: it is
    the tree's. Some of torch's functions have no types: calls of these pass, and so do packages without any.
    """
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("mypy is not installed (make lint installs it)")
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--config-file=", *arguments]
    command += [
        "--follow-imports=silent",
        "--untyped-calls-exclude=torch",
        "--disable-error-code=import-untyped",
    ]
    environment = {
        name: value for name, value in os.environ.items() if name not in ("MYPYPATH", "PYTHONPATH")
    }
    if python is None:
        environment["MYPYPATH"] = os.pathsep.join([str(ROOT / "python"), str(ROOT)])
    else:
        command.append(f"--python-executable={python}")
        environment["MYPYPATH"] = str(ROOT)  # benchmarks, which one example uses
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, env=environment, check=False, timeout=1200
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return [line for line in done.stdout.splitlines() if ": error:" in line and not line.startswith("/")]


def check_examples(folder: Path, python: Path | None) -> None:
    """The examples pass, and mistakes are seen, in copies of them in `folder`."""
    for path in (ROOT / "examples").glob("*.py"):
        shutil.copy(path, folder)
    (folder / "wrong.py").write_text(WRONG)
    files = sorted(path.name for path in folder.glob("*.py"))
    found = check(folder, python, f"--cache-dir={folder / 'cache'}", *files)
    in_wrong = {line.split(":")[1] for line in found if line.startswith("wrong.py")}
    assert in_wrong == {"4", "5", "6", "7"}, found
    assert not [line for line in found if not line.startswith("wrong.py")]


@pytest.mark.slow
def test_examples_and_mistakes(tmp_path: Path) -> None:
    check_examples(tmp_path, None)
