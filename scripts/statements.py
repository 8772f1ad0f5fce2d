"""Counts the statements (ast.stmt) of the product's Python, by folder: how much there is to read.

python scripts/statements.py [--files]
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent / "python"
PACKAGES = ("millrace", "millrace_tools")
SPLIT = ("_loader", "datasets")  # large folders of millrace, counted by the folders in them


def statements(path: Path) -> int:
    return sum(isinstance(node, ast.stmt) for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def count(package: str, by_file: bool) -> Counter[str]:
    counted: Counter[str] = Counter()
    for path in sorted((ROOT / package).rglob("*.py")):
        parts = path.relative_to(ROOT).parts
        depth = 3 if parts[1] in SPLIT else 2
        counted["/".join(parts if by_file else parts[:depth])] += statements(path)
    return counted


def main() -> None:
    counted = {package: count(package, "--files" in sys.argv) for package in PACKAGES}
    for package in PACKAGES:
        for name, number in counted[package].most_common():
            print(f"{number:6} {name}")
    for package in PACKAGES:
        print(f"{counted[package].total():6} in {package}")
    print(f"{sum(each.total() for each in counted.values()):6} in all")


if __name__ == "__main__":
    main()
