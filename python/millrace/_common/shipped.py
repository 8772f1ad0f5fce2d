"""Whether functions, methods and classes of other packages are as shipped, or a script has replaced them. A
replacement has to run, so native code that does a function's work asks here first, when an epoch is planned.
Also the limits that a script has set in Pillow.

A module's loader still has the module's code, so nothing must be recorded before a script's change. Each name
that the code defines must now hold an object with that code. Wrappers by the package's decorators and by this
package (_pictures/replaced.py) are looked through. Methods that make, print or copy an object do not matter
here, so they may be exchanged. About 0.1 ms for a module the first time, then less than a microsecond for
each function. Any thread.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Iterator, Sequence
from itertools import chain
from operator import methodcaller
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

_LIBRARIES = frozenset({"torch", "torchvision", "timm", "PIL", "numpy", "datasets", "webdataset"})
_DECORATING = frozenset(
    {"functools", "contextlib", "typing", "typing_extensions", "abc", "dataclasses", "enum", "collections"}
)
_PACKAGES = _LIBRARIES | _DECORATING | {"millrace"}
_UNIMPORTANT = frozenset(
    {"__init__", "__new__", "__repr__", "__str__", "__del__", "__getstate__", "__setstate__", "__reduce__"}
    | {"__dir__", "__format__", "__init_subclass__", "__class_getitem__", "__hash__", "__eq__", "extra_repr"}
)
# Functions in C that native code replaces, by their modules.
_BUILTINS = {
    "torch": ("stack", "tensor", "as_tensor", "from_numpy", "randperm", "randint", "rand", "empty"),
    "numpy": ("array", "asarray", "frombuffer"),
}


def replaced(module: str, *names: str) -> str | None:
    """The dotted name of a replaced part of `module`: among `names` (functions or classes), or without
    `names` anything. None: all is as shipped, or the module was not imported.
    """
    there = sys.modules.get(module)
    if type(there) is not ModuleType or _is_as_seen(module, names):
        return None
    codes = _codes(there)
    classes = (part for part in vars(there).values() if isinstance(part, type) and part.__module__ == module)
    seen = None if names else _Seen([module], [there, *classes])  # a few names are compared sooner
    for name in names or top_names(module):
        value = vars(there).get(name)
        if value is None or name not in codes:
            if names and is_foreign(value):  # what the module has from another one
                return f"{module}.{name}"
            continue
        if not codes[name]:
            if not isinstance(value, type) or value.__qualname__ != name or value.__module__ != module:
                return f"{module}.{name}"
            if (method := _replaced_method(value, codes)) is not None:
                return f"{module}.{method}"
        elif not _is_one_of(value, codes[name]):
            return f"{module}.{name}"
    _shipped[module, names] = seen
    return None


def replaced_in(cls: type, *names: str) -> str | None:
    """The dotted name of a method of `cls`, or of its bases of these packages, that somebody replaced: of
    `names`, or of any name.
    """
    if _is_as_seen(cls, names):
        return None
    bases = [base for base in cls.__mro__ if base.__module__.partition(".")[0] in _LIBRARIES]
    seen = _Seen([base.__module__ for base in bases], bases)
    for base in bases:
        module = sys.modules.get(base.__module__)
        if type(module) is not ModuleType:
            continue
        if (method := _replaced_method(base, _codes(module), names)) is not None:
            return f"{base.__module__}.{method}"
    if cls.__module__.partition(".")[0] in _PACKAGES:  # of those that scripts make there may be any number
        _shipped[cls, names] = seen
    return None


class _Seen:
    """What modules and classes had when all was as shipped."""

    def __init__(self, modules: list[str], parts: Sequence[ModuleType | type]) -> None:
        self._modules, self._there = modules, list(map(sys.modules.get, modules))
        self._dicts = list(map(vars, parts))
        self._values = list(self._now())  # so that ids stay theirs
        self._ids = list(map(id, self._values))
        self._functions = []
        for value in self._values:
            while value is not None:
                inner = _inside(value)
                if isinstance(value, FunctionType):
                    self._functions.append((value, value.__code__, inner))
                value = inner

    def _now(self) -> Iterator[Any]:
        return chain.from_iterable(map(methodcaller("values"), self._dicts))

    def is_as_it_was(self) -> bool:
        for function, code, inner in self._functions:
            if function.__code__ is not code or function.__dict__.get("__wrapped__") is not inner:
                return False
        there = list(map(sys.modules.get, self._modules))
        return list(map(id, self._now())) == self._ids and there == self._there


def _is_as_seen(*key: Any) -> bool:
    return (seen := _shipped.get(key)) is not None and seen.is_as_it_was()


_shipped: dict[tuple[Any, ...], _Seen | None] = {}


def _replaced_method(cls: type, codes: dict[str, list[CodeType]], names: tuple[str, ...] = ()) -> str | None:
    if cls.__qualname__ not in codes:
        return None
    for name, value in list(vars(cls).items()):
        method = f"{cls.__qualname__}.{name}"
        if name in _UNIMPORTANT or names and name not in names:
            continue
        known = codes.get(method)
        if is_foreign(value) if known is None else known and not _is_one_of(value, known):
            return method
    return None


def is_shipped(function: Any, module: str, name: str) -> bool:
    """Whether this is the function that `module` defines under that name."""
    there = sys.modules.get(module)
    known = _codes(there).get(name) if type(there) is ModuleType else None
    return known is not None and _has_one_of(getattr(function, "__code__", None), known)


def is_default_collate(function: Any) -> bool:
    """Also where a script has replaced the names that lead to it."""
    return is_shipped(function, "torch.utils.data._utils.collate", "default_collate")


def replaced_builtin(*modules: str) -> str | None:
    for module in modules:
        there = getattr(sys.modules.get(module), "__dict__", {})
        found = list(map(there.get, _BUILTINS[module]))
        if found == _builtins.get(module):
            continue
        for name, value in zip(_BUILTINS[module], found):
            if value is not None and not isinstance(value, BuiltinFunctionType):
                return f"{module}.{name}"
        _builtins[module] = found
    return None


_builtins: dict[str, list[Any]] = {}  # as they were when all was as shipped


def _is_one_of(value: Any, known: list[CodeType]) -> bool:
    while True:
        code = getattr(value, "__code__", None)
        if isinstance(code, CodeType):
            if _has_one_of(code, known):
                return True
            if _home(value) not in _PACKAGES:
                return False
            if code.co_filename == _REDIRECTING:  # by this package, in the function itself
                return True
        elif _home(type(value)) == "millrace":
            return True
        inner = _inside(value)
        if inner is None:  # what a decorator made, if it is none of the functions beside it
            return isinstance(code, CodeType) and "<locals>" in value.__qualname__
        value = inner


def _has_one_of(code: Any, known: list[CodeType]) -> bool:
    if any(code is one for one in known):
        return True
    for place, one in enumerate(known):
        if code == one:
            known[place] = code  # is found at once from now on
            return True
    return False


_REDIRECTING = __file__.replace("_common/shipped.py", "_pictures/replaced.py")


def _inside(value: Any) -> Any:
    if isinstance(value, (staticmethod, classmethod)):
        return value.__func__
    if isinstance(value, property):
        return value.fget
    if isinstance(value, functools.cached_property):
        return value.func
    return getattr(value, "__dict__", {}).get("__wrapped__")


def _home(value: Any) -> str:
    module = value.__globals__.get("__name__") if isinstance(value, FunctionType) else value.__module__
    return str(module).partition(".")[0]


def is_foreign(value: Any) -> bool:
    """Whether this is a script's function, and none of these packages, nor a decorator's of theirs."""
    if not isinstance(value, FunctionType):
        value = _inside(value) if isinstance(value, (staticmethod, classmethod, property)) else None
    return isinstance(value, FunctionType) and _home(value) not in _PACKAGES


@functools.cache
def top_names(module: str) -> tuple[str, ...]:
    """Of the functions and classes that a module, which is imported, defines."""
    return tuple(name for name in _codes(sys.modules[module]) if "." not in name)


@functools.cache
def _codes(module: ModuleType) -> dict[str, list[CodeType]]:
    """{qualified name: codes of the functions that the module defines so; none: it is a class}"""
    found: dict[str, list[CodeType]] = {}
    try:
        code = module.__spec__.loader.get_code(module.__name__)  # type: ignore[union-attr]
    except Exception:  # whatever a loader of somebody's does: nothing can be compared
        code = None
    for qualified, inner in _defined(code, "") if isinstance(code, CodeType) else ():
        codes = found.setdefault(qualified, [])
        if inner is not None:
            codes.append(inner)
    return found


def _defined(code: CodeType, prefix: str) -> Iterator[tuple[str, CodeType | None]]:
    for inner in code.co_consts:
        if not isinstance(inner, CodeType) or not inner.co_name.isidentifier():
            continue
        is_class = not inner.co_flags & inspect.CO_OPTIMIZED
        yield prefix + inner.co_name, None if is_class else inner
        if is_class:
            yield from _defined(inner, f"{prefix}{inner.co_name}.")


class PillowLimits:
    """Pillow's limits (PIL.Image.MAX_IMAGE_PIXELS; MAX_TEXT_CHUNK and MAX_TEXT_MEMORY of PIL.PngImagePlugin),
    which scripts set, at the moment when this is made: when a loader starts.
    """

    def __init__(self) -> None:
        from PIL import Image, PngImagePlugin

        self.limits = Image.MAX_IMAGE_PIXELS, PngImagePlugin.MAX_TEXT_CHUNK, PngImagePlugin.MAX_TEXT_MEMORY

    def quiet_pixels(self) -> int | None:
        """check_size() has nothing to say of pictures that have no more; None: of any."""
        return self.limits[0]

    def png_texts(self) -> tuple[int, int]:
        """Bytes that a PNG's compressed text or profile may come to, and all its texts, without a check by
        Pillow.
        """
        chunk, memory = (min(max(0, int(limit)), 2**62) for limit in self.limits[1:])
        return chunk, memory
