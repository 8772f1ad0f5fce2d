"""Runs another project's tests with torch's DataLoader and with millrace's installed in its place, and
compares the outcome of every test.

    python tests/parity/run_foreign_suite.py path/to/accelerate/tests/test_data_loader.py

See README.md beside this file. The tests are run where they are, by the packages that are installed; nothing
is written beside them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

_PLUGIN = "import millrace\nmillrace.install()\n"


def run_side(installed: bool, arguments: argparse.Namespace, scratch: Path) -> dict[str, str]:
    """Outcome of each test: "passed", "skipped", or "failed" with the first line of its message."""
    plugins = scratch / "plugins"
    plugins.mkdir(exist_ok=True)
    (plugins / "with_millrace.py").write_text(_PLUGIN)
    report = scratch / f"{'millrace' if installed else 'torch'}.xml"
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    environment["PYTHONPATH"] = os.pathsep.join(
        filter(None, [str(plugins), environment.get("PYTHONPATH", "")])
    )
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:randomly",
        f"--junitxml={report}",
    ]
    command += ["-p", "with_millrace"] if installed else []
    command += ["-k", arguments.select] if arguments.select else []
    root = arguments.suite[0].resolve().parents[1]
    try:
        done = subprocess.run(
            [*command, *(str(suite.resolve()) for suite in arguments.suite)],
            cwd=root,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=arguments.timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        sys.exit(f"{report.stem}: not done after {arguments.timeout:g} s")
    if not report.exists():
        sys.exit(f"{report.stem}: exit status {done.returncode}\n{done.stdout[-3000:]}")
    outcomes = {}
    for case in ElementTree.parse(report).iter("testcase"):
        problem = next(
            (case.find(kind) for kind in ("failure", "error") if case.find(kind) is not None), None
        )
        if problem is not None:
            lines = (problem.get("message") or "").strip().splitlines()
            outcome = f"failed: {lines[0][:200]}" if lines else "failed"
        else:
            outcome = "skipped" if case.find("skipped") is not None else "passed"
        outcomes[f"{case.get('classname')}::{case.get('name')}"] = outcome
    return outcomes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("suite", type=Path, nargs="+", help="files of tests, in their project's tests folder")
    parser.add_argument("-k", dest="select", default="", help="as pytest's -k")
    parser.add_argument("--json", type=Path, help="where what came of each test is stored")
    parser.add_argument("--timeout", type=float, default=1200, help="seconds for each side")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        sides = {
            name: run_side(name == "millrace", arguments, Path(scratch)) for name in ("torch", "millrace")
        }
    for name, outcomes in sides.items():
        kinds = [outcome.split(":")[0] for outcome in outcomes.values()]
        print(
            f"{name}: " + ", ".join(f"{kinds.count(kind)} {kind}" for kind in ("passed", "failed", "skipped"))
        )
    if arguments.json is not None:
        names = ("torch", "accelerate", "lightning", "datasets")
        versions = {name: version(name) for name in names if find_spec(name)}
        stored = {"suite": [path.name for path in arguments.suite], "select": arguments.select}
        arguments.json.write_text(json.dumps({**stored, "versions": versions, **sides}, indent=1) + "\n")
    different = 0
    for test in sorted(set().union(*sides.values())):
        torchs, ours = (outcomes.get(test, "not run") for outcomes in sides.values())
        if torchs.split(":")[0] != ours.split(":")[0]:
            different += 1
            print(f"DIFFERENT {test}\n  torch:    {torchs}\n  millrace: {ours}")
    print("same outcome for every test" if not different else f"{different} tests differ")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
