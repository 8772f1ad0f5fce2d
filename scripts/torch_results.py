"""Writes what a run of scripts/torch_versions.sh gave into a file of results, an entry for each torch.

    python scripts/torch_results.py RESULTS.json RUN.xml [WHEEL BARE.xml] -- WORDS FOR PYTEST

Run it with the interpreter that ran the tests: it says which versions these were. BARE.xml is of
tests/python/test_wheel.py. python -m benchmarks.pages writes the table of docs/limits.md from the results.
"""

from __future__ import annotations

import hashlib
import importlib.metadata as metadata
import json
import platform
import sys
import xml.etree.ElementTree as ElementTree
from contextlib import suppress
from pathlib import Path
from typing import Any

PACKAGES = ("torch", "torchvision", "numpy", "pillow", "pytest")


def counts(xml: Path) -> dict[str, Any]:
    """Of pytest's JUnit file. Reasons of what was skipped, most frequent first."""
    suites = ElementTree.parse(xml).getroot().iter("testsuite")
    found: dict[str, Any] = dict.fromkeys(("passed", "failed", "skipped"), 0)
    seconds, names, reasons = 0.0, [], {}
    for suite in suites:
        seconds += float(suite.get("time", 0))
        for case in suite.iter("testcase"):
            if case.find("failure") is not None or case.find("error") is not None:
                found["failed"] += 1
                names.append(f"{case.get('classname')}::{case.get('name')}")
            elif (skipped := case.find("skipped")) is not None:
                found["skipped"] += 1
                reason = skipped.get("message", "")
                reasons[reason] = reasons.get(reason, 0) + 1
            else:
                found["passed"] += 1
    return {
        **found,
        "seconds": round(seconds),
        "failures": names,
        "skips": dict(sorted(reasons.items(), key=lambda item: -item[1])),
    }


def bare(xml: Path) -> dict[str, Any]:
    """Of the wheel's own tests: counts, the CPU seconds of `pip install`, and README's first example."""
    cases = {case.get("name"): case for case in ElementTree.parse(xml).getroot().iter("testcase")}
    first = cases.get("test_the_readmes_first_example_runs")
    given = (each for case in cases.values() for each in case.iter("property"))
    seconds = {each.get("name"): float(each.get("value", "nan")) for each in given}.get("install_cpu_s")
    return {
        **{key: value for key, value in counts(xml).items() if key in ("passed", "failed", "skipped")},
        "install_cpu_s": seconds,
        "first_example": "runs" if first is not None and first.find("*") is None else "fails",
    }


def main() -> None:
    before, words = sys.argv[1 : sys.argv.index("--")], sys.argv[sys.argv.index("--") + 1 :]
    results, xml = Path(before[0]), Path(before[1])
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    entry = {"versions": versions, "tests": " ".join(words), **counts(xml)}
    if len(before) > 2:
        wheel = Path(before[2])
        data = wheel.read_bytes()
        entry["wheel"] = {
            "name": wheel.name,
            "sha256": hashlib.sha256(data).hexdigest(),
            "bytes": len(data),
        }
        entry["bare"] = bare(Path(before[3]))
    stored = json.loads(results.read_text()) if results.exists() else {}
    stored[versions["torch"]] = entry
    results.parent.mkdir(parents=True, exist_ok=True)
    results.write_text(json.dumps(dict(sorted(stored.items())), indent=1) + "\n")


if __name__ == "__main__":
    main()
