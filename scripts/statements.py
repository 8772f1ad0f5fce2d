"""Counts the statements (ast.stmt) of the product's Python, by package: how much there is to read.

python scripts/statements.py [--files]
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent / "python" / "millrace"


def statements(path: Path) -> int:
    return sum(isinstance(node, ast.stmt) for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def main() -> None:
    counted: Counter[str] = Counter()
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).parts
        depth = 2 if parts[0] in ("_loader", "_tools", "datasets") and "--files" not in sys.argv else 1
        name = "/".join(parts) if "--files" in sys.argv else "/".join(parts[: min(depth, len(parts))])
        counted[name] += statements(path)
    for name, count in counted.most_common():
        print(f"{count:6} {name}")
    print(f"{counted.total():6} in all")


if __name__ == "__main__":
    main()
