"""Public names that are imported when somebody asks for them.

A package lists them, a module and its names on a line. Its `__init__.pyi` says the same to type checkers, and
a test compares the two: what freezes programs leaves stubs out, so none is read here.

This is also the only way from here to `millrace_tools`, the package beside this one that measures, reports
and advises: by the lines of `__init__.py` that name it, and by `tool()`. It is imported by its name, not by
an entry point: a source tree that is only on the path has no installed metadata, and where there is some, to
search that of every package takes longer than the import.
"""

from __future__ import annotations

import gc
import importlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any


def imported(module: str, package: str | None = None) -> ModuleType:
    """What modules make stays. A collection among them looks at all of torch's objects, for 0.08 s, and frees
    none.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return importlib.import_module(module, package)
    finally:
        if collects:
            gc.enable()


def tool(module: str, name: str) -> Any:
    """What `millrace_tools` has by this name in its module `module`."""
    return getattr(imported(f"millrace_tools.{module}"), name)


def lazy_names(package: str, listed: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package; `listed`: lines of `.module: name name ...`, where
    `.: name` is a module of the package.
    """
    module = sys.modules[package]
    lines = (line.split(":") for line in listed.split("\n") if line.strip())
    origins = {name: source.strip() for source, names in lines for name in names.split()}

    def get(name: str) -> Any:
        if name not in origins:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if origins[name] == ".":
            value: Any = imported(f".{name}", package)
        else:
            value = getattr(imported(origins[name], package), name)
        setattr(module, name, value)
        return value

    return get, lambda: sorted({*vars(module), *origins}), sorted(origins)
