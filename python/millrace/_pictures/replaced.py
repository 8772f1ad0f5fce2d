"""Temporary replacements in classes and modules of other packages, with the originals. In packages that are
imported after install(), the replacement is made when their import ends.

A redirected function stays the same object: names that a script bound earlier lead to our function, too, and
a pickled function is found again by its name.
"""

from __future__ import annotations

import functools
import importlib.util
import inspect
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import CodeType, FunctionType, ModuleType
from typing import Any, TypeGuard

NOTHING = object()  # the original of an attribute that a class inherits or does not have

Wrap = Callable[[Any], Any]


def around(ours: Callable[..., Any]) -> Wrap:
    """A Wrap that returns `ours` with its keyword-only argument `original` bound to the replaced function.
    The binding is a default value, so it makes calls no slower.
    """

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        made = FunctionType(ours.__code__, ours.__globals__, ours.__name__, ours.__defaults__)
        made.__kwdefaults__ = {**(ours.__kwdefaults__ or {}), "original": original}
        return functools.update_wrapper(made, original)

    return wrap


class Replaced:
    """Replacements, which can all be put back."""

    def __init__(self) -> None:
        self._places: dict[tuple[Any, str], tuple[Any, Any]] = {}  # original, replacement
        self._redirections: dict[FunctionType, tuple[CodeType, CodeType]] = {}  # code before, and now

    def put(self, owner: Any, name: str, wrap: Wrap) -> None:
        """Set owner.name to `wrap(original)`, unless it is replaced already. `original` is NOTHING if `owner`
        is a class without such an attribute of its own.
        """
        if (owner, name) in self._places:
            return
        original = owner.__dict__.get(name, NOTHING) if isinstance(owner, type) else getattr(owner, name)
        ours = wrap(original)
        self._places[owner, name] = original, ours
        setattr(owner, name, ours)

    def redirect(self, function: FunctionType, wrap: Wrap) -> None:
        """Let each call of `function`, by any name, call `wrap(original)`: `function` gets new code, and
        `original` has the old code.
        """
        if function in self._redirections:
            return
        code = function.__code__
        original = FunctionType(code, function.__globals__, function.__name__, function.__defaults__)
        original.__kwdefaults__ = function.__kwdefaults__
        key = f"{function.__module__}:{function.__name__}"
        REDIRECTED[key] = wrap(original)
        function.__code__ = _code_that_calls(key, function)
        self._redirections[function] = code, function.__code__

    def original(self, owner: Any, name: str) -> Any:
        """The original of owner.name."""
        place = self._places.get((owner, name))
        return getattr(owner, name) if place is None else place[0]

    def put_back(self) -> None:
        """Restore the originals. A wrapper that a script has since put around a replacement stays, and calls
        the replacement. A replacement of NOTHING stays: objects that were made meanwhile need it.
        """
        for (owner, name), (original, ours) in list(self._places.items()):
            if original is NOTHING:
                continue
            there = owner.__dict__.get(name) if isinstance(owner, type) else getattr(owner, name, None)
            if there is ours:
                setattr(owner, name, original)
            del self._places[owner, name]
        for function, (code, ours) in self._redirections.items():
            if function.__code__ is ours:  # or somebody put other code there since
                function.__code__ = code
        self._redirections.clear()


replacements = Replaced()  # all that the modules of this package make
REDIRECTED: dict[str, Callable[..., Any]] = {}  # by "module:name"


def can_be_redirected(function: Any) -> TypeGuard[FunctionType]:
    return type(function) is FunctionType and not function.__code__.co_freevars


def _code_that_calls(key: str, function: FunctionType) -> CodeType:
    """Code that calls REDIRECTED[key], with the parameters of `function`. `function` keeps its defaults."""
    names = list(inspect.signature(function).parameters)
    lines = (
        f"def {function.__name__}({', '.join(names)}):",
        f"    from {__name__} import REDIRECTED",
        f"    return REDIRECTED[{key!r}]({', '.join(names)})",
    )
    made: dict[str, Any] = {}
    exec(compile("\n".join(lines), __file__, "exec"), made)
    return made[function.__name__].__code__


class _Finder:
    """The first finder: asks the other finders for `packages`, and calls `then` after each one's import."""

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
