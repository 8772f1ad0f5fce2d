"""Statements of a __getitem__ that are known by their form alone (read_items.py)."""

from __future__ import annotations

import ast
import sys
from typing import Any

from .read_values import require
from .recognising import loaded


def makes_rgb(statement: ast.If) -> bool | None:
    """`if image.mode != "RGB": image = image.convert("RGB")`, which does the same without its question; None:
    it is another branch.
    """
    compare = statement.test
    if not (isinstance(compare, ast.Compare) and isinstance(compare.left, ast.Attribute)):
        return None
    same = ast.parse('if image.mode != "RGB": image = image.convert("RGB")').body[0]
    name = getattr(compare.left.value, "id", "")
    for node in ast.walk(same):
        if isinstance(node, ast.Name):
            node.id = name
    return True if ast.dump(same) == ast.dump(statement) else None


def import_names(statement: ast.Import | ast.ImportFrom, names: dict[str, Any]) -> None:
    """Of modules that are there already."""
    for alias in statement.names:
        if isinstance(statement, ast.Import):
            require(alias.name in sys.modules and ("." not in alias.name or alias.asname))
            names[alias.asname or alias.name] = sys.modules[alias.name]
            continue
        found = loaded(statement.module or "", alias.name) if not statement.level else None
        require(found is not None)
        names[alias.asname or alias.name] = found


def only_closes(statement: ast.stmt) -> bool:
    """`image.load()`, `file.close()`: nothing that is read here depends on it."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    named = isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and not call.args
    return named and call.func.attr in ("load", "close")  # type: ignore


def is_text(spec: ast.expr) -> bool:
    return (
        isinstance(spec, ast.JoinedStr) and len(spec.values) == 1 and isinstance(spec.values[0], ast.Constant)
    )
