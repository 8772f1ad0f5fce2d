"""What is replaced for a while in classes and modules of other packages, and what was there before; in
packages that are imported after install(), when their import ends.

Functions that lead to ours stay the objects that they are: names that a script bound earlier lead there, too,
and a pickled function is found again by its name.
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

NOTHING = object()  # stood there: a class inherits the attribute, or nobody has it

Wrap = Callable[[Any], Any]


def around(ours: Callable[..., Any]) -> Wrap:
    """A decorator of what replaces a function: its argument `original`, by name alone, is what was there. As
    that is a default, calls take no longer for it.
    """

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        made = FunctionType(ours.__code__, ours.__globals__, ours.__name__, ours.__defaults__)
        made.__kwdefaults__ = {**(ours.__kwdefaults__ or {}), "original": original}
        return functools.update_wrapper(made, original)

    return wrap


class Replaced:
    """Replacements, which can all be put back."""

    def __init__(self) -> None:
        self._places: dict[tuple[Any, str], tuple[Any, Any]] = {}  # what was there, what is there now
        self._redirections: dict[FunctionType, tuple[CodeType, CodeType]] = {}  # code before, and now

    def put(self, owner: Any, name: str, wrap: Wrap) -> None:
        """`wrap(what is there)` becomes owner.name, unless that is replaced by now; of a class that has no
        such attribute of its own, `wrap(NOTHING)`.
        """
        if (owner, name) in self._places:
            return
        original = owner.__dict__.get(name, NOTHING) if isinstance(owner, type) else getattr(owner, name)
        ours = wrap(original)
        self._places[owner, name] = original, ours
        setattr(owner, name, ours)

    def redirect(self, function: FunctionType, wrap: Wrap) -> None:
        """`wrap(original)` is called in the place of `function`, whatever name somebody has it by:
        `function` gets other code, and `original` has its.
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
        """owner.name without what was put there."""
        place = self._places.get((owner, name))
        return getattr(owner, name) if place is None else place[0]

    def put_back(self) -> None:
        """What a script put around a replacement since stays, and calls it. Where nothing stood before, the
        replacement stays: objects that were made meanwhile need it.
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
    """With the parameters of `function`, whose defaults stay with it."""
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
