"""What the runners of other projects' tests share: pytest on a side, and the comparison of both sides."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

KINDS = ("passed", "failed", "skipped")


def pytest_command(report: Path, *words: str, select: str = "") -> list[str]:
    """pytest over `words`, whose report is this file."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", *words]
    return [*command, *(["-k", select] if select else [])]


def outcomes_of(report: Path, of_class: str = "") -> dict[str, str]:
    """Outcome of each test: "passed", "skipped", or "failed" with the first line of its message."""
    outcomes = {}
    for case in ElementTree.parse(report).iter("testcase"):
        problems = [case.find(kind) for kind in ("failure", "error")]
        problem = next((found for found in problems if found is not None), None)
        outcome = "skipped" if case.find("skipped") is not None else "passed"
        if problem is not None:
            message = (problem.get("message") or "").strip().partition("\n")[0]
            outcome = f"failed: {message[:160]}".removesuffix(": ")
        outcomes[f"{of_class or case.get('classname')}::{case.get('name')}"] = outcome
    return outcomes


def kind(outcome: str | None) -> str:
    return "missing" if outcome is None else outcome.partition(":")[0]


def print_counts(sides: dict[str, dict[str, str]]) -> None:
    for side, outcomes in sides.items():
        kinds = [kind(outcome) for outcome in outcomes.values()]
        print(f"{side}: " + ", ".join(f"{kinds.count(name)} {name}" for name in KINDS))


def print_differences(sides: dict[str, dict[str, str]]) -> int:
    """The exit status: 1 where any test has another outcome on the other side."""
    different = 0
    for test in sorted(set().union(*sides.values())):
        found = {side: outcomes.get(test) for side, outcomes in sides.items()}
        if len(set(map(kind, found.values()))) > 1:
            different += 1
            print(f"DIFFERENT {test}")
            for side, outcome in found.items():
                print(f"  {side + ':':10} {outcome or 'not run'}")
    print("same outcome for every test" if not different else f"{different} tests differ")
    return 1 if different else 0
