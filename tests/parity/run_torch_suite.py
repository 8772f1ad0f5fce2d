"""Runs torch's own DataLoader tests against torch's class and against millrace's, and compares the outcome of
every test.

See README.md beside this file. Each test class runs in a process of its own, so that a crash or a hang costs
one class.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from suites import outcomes_of, print_counts, print_differences, pytest_command

SIDES = {"torch": "torch.utils.data", "millrace": "millrace"}
_STATEFUL = "from torchdata.stateful_dataloader import StatefulDataLoader as DataLoader"
_STATE_TESTS = re.compile(
    r"^from torchdata\.stateful_dataloader import (Stateful, )?StatefulDataLoader$", re.MULTILINE
)
_IMPORT = re.compile(r"^([ \t]*)from torch\.utils\.data import (\([^)]*\)|[^\n(]*)$", re.MULTILINE)


# Beside millrace's variant: whatever has workers must run on millrace's own, also where torch's could step in
# unseen.
_WITHOUT_TORCHS_WORKERS = """
from torch.utils.data import _utils
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

def refuse(*args, **kwargs):
    raise AssertionError("torch's own workers were used")

_utils.worker._worker_loop = refuse
_MultiProcessingDataLoaderIter.__init__ = refuse
"""


def with_loader_from(source: str, module: str) -> str:
    """`source` with the name DataLoader taken from `module`, also in the scripts that tests start."""

    def after(match: re.Match) -> str:
        imported = re.search(r"\bDataLoader\b", match[2])
        return match[0] + (f"\n{match[1]}from {module} import DataLoader" if imported else "")

    if module == "millrace":  # the tests of states compare with torchdata's own class
        source = _STATE_TESTS.sub(
            lambda found: (
                ("from torchdata.stateful_dataloader import Stateful\n" if found[1] else "")
                + "from millrace import DataLoader as StatefulDataLoader, DataLoader"
            ),
            source,
        )
    source = _IMPORT.sub(after, source)
    source = source.replace(_STATEFUL, f"from {module} import DataLoader")
    if not re.search(
        r"import .*\bDataLoader$", source, re.MULTILINE
    ):  # the tests of states use torch's beside the Stateful one
        return source
    return re.sub(r"\btorch\.utils\.data\.DataLoader\b", "DataLoader", source)


def test_classes(suite: Path, environment: dict[str, str]) -> list[str]:
    listing = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", suite.name],
        cwd=suite.parent, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    classes = dict.fromkeys(
        line.split("::")[1] for line in listing.stdout.splitlines() if line.count("::") == 2
    )
    if not classes:
        sys.exit(f"no tests were found:\n{listing.stdout}{listing.stderr}")
    return list(classes)


def run_class(
    suite: Path, name: str, select: str, timeout: float, environment: dict[str, str]
) -> dict[str, str]:
    """Outcome of each test: "passed", "skipped", or "failed" with the last line of its message."""
    report = suite.parent / f"{name}.xml"
    with open(suite.parent / f"{name}.log", "w") as log:
        process = subprocess.Popen(
            pytest_command(report, f"{suite.name}::{name}", select=select),
            cwd=suite.parent, env=environment, stdout=log, stderr=log,
        )  # fmt: skip
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return {name: f"failed: not done after {timeout:g} s, see {log.name}"}
    if not report.exists():
        return {name: f"failed: exit status {process.returncode}, see {log.name}"}
    return outcomes_of(report, name)


def run_side(side: str, arguments: argparse.Namespace, folder: Path) -> dict[str, str]:
    folder.mkdir(parents=True)
    suite = folder / "test_dataloader.py"
    suite.write_text(with_loader_from(arguments.suite.read_text(), SIDES[side]))
    if side == "millrace":
        (folder / "conftest.py").write_text(_WITHOUT_TORCHS_WORKERS)
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    outcomes = {}
    for name in test_classes(suite, environment):
        if arguments.only and name not in arguments.only:
            continue
        started = time.monotonic()
        results = run_class(suite, name, arguments.select, arguments.timeout, environment)
        outcomes.update(results)
        print(f"{side}: {name}: {len(results)} tests, {time.monotonic() - started:.0f} s", flush=True)
    return outcomes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "suite",
        type=Path,
        help="pytorch's test/test_dataloader.py, torchdata's copy of it, or its test_state_dict.py",
    )
    parser.add_argument("-k", dest="select", default="", help="as pytest's -k")
    parser.add_argument("--only", nargs="*", help="test classes")
    parser.add_argument("--timeout", type=float, default=1200, help="seconds for one test class")
    parser.add_argument(
        "--keep", type=Path, help="folder for the two variants, their logs and reports (must not exist)"
    )
    arguments = parser.parse_args()

    with tempfile.TemporaryDirectory() as scratch:
        folder = (arguments.keep or Path(scratch) / "suite").resolve()
        outcomes = {side: run_side(side, arguments, folder / side) for side in SIDES}
    print_counts(outcomes)
    return print_differences(outcomes)


if __name__ == "__main__":
    sys.exit(main())
