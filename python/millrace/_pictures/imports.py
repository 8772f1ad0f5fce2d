"""Packages that are imported after install(): what is replaced in them is replaced when their import ends."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class _Finder:
    """Stands before the other finders, asks them, and has `then` called behind the import."""

    def __init__(self, packages: Sequence[str], then: Callable[[], None]) -> None:
        self._packages, self._then = set(packages), then
        self._looking = False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if self._looking or name not in self._packages:
            return None
        self._looking = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._looking = False
        execute = getattr(spec.loader, "exec_module", None) if spec is not None else None
        if spec is None or execute is None:
            return None

        def executed(module: ModuleType) -> None:
            execute(module)
            self._then()

        spec.loader.exec_module = executed  # type: ignore[union-attr, method-assign]
        return spec


_finder: _Finder | None = None


def watch_imports(packages: Sequence[str], then: Callable[[], None]) -> None:
    global _finder
    if _finder is None:
        _finder = _Finder(packages, then)
        sys.meta_path.insert(0, _finder)


def stop_watching() -> None:
    global _finder
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
    _finder = None
