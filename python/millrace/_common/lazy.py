"""Public names that are imported when somebody asks for them.

A package's `__init__.pyi` is the one list of its names, for type checkers and for this module alike: each
line `from .module import name as name` is a name and where it comes from.

This is also the only way from here to `millrace_tools`, the package beside this one that measures, reports
and advises: by the lines of `__init__.pyi` that name it, and by `tool()`. It is imported by its name, not by
an entry point: a source tree that is only on the path has no installed metadata, and where there is some, to
search that of every package takes longer than the import.
"""

from __future__ import annotations

import gc
import importlib
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

_IMPORTS = re.compile(r"^from (\S+) import (\w+) as (\w+)$", re.MULTILINE)


def tool(module: str, name: str) -> Any:
    """What `millrace_tools` has by this name in its module `module`."""
    return getattr(importlib.import_module(f"millrace_tools.{module}"), name)


def lazy_names(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package, from the stub beside its `__init__.py`."""
    module = sys.modules[package]
    stub = Path(str(module.__file__)).with_suffix(".pyi").read_text(encoding="utf-8")
    origins = {name: (source, original) for source, original, name in _IMPORTS.findall(stub)}

    def get(name: str) -> Any:
        if name not in origins:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        source, original = origins[name]
        # What modules make stays. A collection among them looks at all of torch's objects, for 0.08 s, and
        # frees none.
        collects = gc.isenabled()
        gc.disable()
        try:
            if source == ".":
                value: Any = importlib.import_module(f".{original}", package)
            else:
                value = getattr(importlib.import_module(source, package), original)
        finally:
            if collects:
                gc.enable()
        setattr(module, name, value)
        return value

    return get, lambda: sorted({*vars(module), *origins}), sorted(origins)
