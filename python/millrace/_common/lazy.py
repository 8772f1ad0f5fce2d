"""Public names that are imported when somebody asks for them, and packages that are not needed to import
millrace.

A package's `__init__.pyi` is the one list of its names, for type checkers and for this module alike: each
line `from .module import name as name` is a name and where it comes from.
"""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..errors import UnavailableError


def lazy_names(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package, from the stub beside its `__init__.py`."""
    module = sys.modules[package]
    stub = ast.parse(Path(str(module.__file__)).with_suffix(".pyi").read_text(encoding="utf-8"))
    origins = {
        alias.asname or alias.name: ("." * node.level + (node.module or ""), alias.name)
        for node in stub.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    def get(name: str) -> Any:
        if name not in origins:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        source, original = origins[name]
        if source == ".":
            value: Any = importlib.import_module(f".{original}", package)
        else:
            value = getattr(importlib.import_module(source, package), original)
        setattr(module, name, value)
        return value

    return get, lambda: sorted({*vars(module), *origins}), sorted(origins)


def optional(name: str, use: str, install: str) -> Any:
    """The module `name`. UnavailableError, with how to get it, where it is not installed. `use`: what it does
    here, for that message.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise UnavailableError(
            f"{use} {package}, which is not installed: pip install {install} ({error})"
        ) from None
