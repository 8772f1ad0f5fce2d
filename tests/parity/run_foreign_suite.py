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
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from suites import outcomes_of, print_counts, print_differences, pytest_command

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
    plugin = ["-p", "with_millrace"] if installed else []
    suites = [str(suite.resolve()) for suite in arguments.suite]
    root = arguments.suite[0].resolve().parents[1]
    try:
        done = subprocess.run(
            pytest_command(report, "-p", "no:randomly", *plugin, *suites, select=arguments.select),
            cwd=root, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=arguments.timeout, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        sys.exit(f"{report.stem}: not done after {arguments.timeout:g} s")
    if not report.exists():
        sys.exit(f"{report.stem}: exit status {done.returncode}\n{done.stdout[-3000:]}")
    return outcomes_of(report)


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
    print_counts(sides)
    if arguments.json is not None:
        names = ("torch", "accelerate", "lightning", "datasets")
        versions = {name: version(name) for name in names if find_spec(name)}
        stored = {"suite": [path.name for path in arguments.suite], "select": arguments.select}
        arguments.json.write_text(json.dumps({**stored, "versions": versions, **sides}, indent=1) + "\n")
    return print_differences(sides)


if __name__ == "__main__":
    sys.exit(main())
