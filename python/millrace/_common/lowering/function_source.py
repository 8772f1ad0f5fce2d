"""A callable's function: its bound arguments; its statements, if its source provably is the text that was
compiled; the values of its names, if looking them up runs no code: no properties, no __getattr__.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import linecache
import types
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from ..lazy import lazy_names
from .read_values import NotRead, require

_Functions = dict[tuple[str, int], list[ast.Lambda | ast.FunctionDef]]
_FAR = 1 << 24  # a line that no source has
_MISSING = object()
_OTHER_KINDS = (
    inspect.CO_VARARGS
    | inspect.CO_VARKEYWORDS
    | inspect.CO_GENERATOR
    | inspect.CO_COROUTINE
    | inspect.CO_ASYNC_GENERATOR
)


@dataclass(frozen=True)
class _File:
    """A source file. `functions`: by name and first line, as in code objects. `codes`: all compiled code."""

    functions: _Functions
    codes: frozenset[types.CodeType]


def body_of(function: types.FunctionType) -> list[ast.stmt]:
    """The statements of `function`. NotRead if it has no source, if the source has changed since, or if a
    construct in it changes the meaning of the function as a whole.
    """
    code = function.__code__
    require(not code.co_kwonlyargcount and not code.co_flags & _OTHER_KINDS)
    source = "".join(linecache.getlines(code.co_filename, function.__globals__))
    file = _file(code.co_filename, source)
    require(code in file.codes)  # else the file has changed, or another text was compiled
    found = file.functions.get((code.co_name, code.co_firstlineno), [])
    node = found[0] if len(found) == 1 else _the_one_of(code, source)
    body: list[ast.stmt] = [ast.Return(node.body)] if isinstance(node, ast.Lambda) else node.body
    inner = [node for part in body for node in ast.walk(part)]
    require(not any(isinstance(node, (ast.Global, ast.Nonlocal)) or _is_mangled(node) for node in inner))
    return body


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Suppress warnings: Python gave those of a source when its file was imported."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@_quietly()
def _the_one_of(code: types.CodeType, source: str) -> ast.Lambda | ast.FunctionDef:
    """The function that compiles to this code, among those that begin on one line."""
    tree = ast.parse(source)
    nodes = _functions(tree).get((code.co_name, code.co_firstlineno), [])
    for number, node in enumerate(nodes):
        node.lineno = node.end_lineno = _FAR + number  # identifies the node's code below
    for made in _codes(compile(tree, code.co_filename, "exec", dont_inherit=True)):
        number = made.co_firstlineno - _FAR
        here = made.replace(co_firstlineno=code.co_firstlineno, co_linetable=code.co_linetable)
        if number >= 0 and here == code:
            return nodes[number]
    raise NotRead


def _is_mangled(node: ast.AST) -> bool:
    """Whether the name of `node` begins with two underscores, except attributes like `x.__len__`: in a class
    `__name` means another name, and names like __class__ and __debug__ are no variables.
    """
    name = getattr(node, "id", None) or getattr(node, "attr", None)
    is_method = isinstance(node, ast.Attribute) and node.attr.endswith("__")
    return isinstance(name, str) and name.startswith("__") and not is_method


@functools.lru_cache(16)
@_quietly()
def _file(name: str, source: str) -> _File:
    try:
        tree = ast.parse(source)
        codes = frozenset(_codes(compile(source, name, "exec", dont_inherit=True)))
        functions = _functions(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise NotRead from None
    return _File(functions, codes)


def _functions(tree: ast.Module) -> _Functions:
    functions: _Functions = {}
    for node in ast.walk(tree):
        if isinstance(node, (ast.Lambda, ast.FunctionDef)):
            functions.setdefault(_begins(node), []).append(node)
    return functions


def _begins(node: ast.Lambda | ast.FunctionDef) -> tuple[str, int]:
    """A function's name and first line, as in its code object: decorators are a part of the function."""
    if isinstance(node, ast.Lambda):
        return "<lambda>", node.lineno
    return node.name, min([node.lineno, *(part.lineno for part in node.decorator_list)])


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield constant
            yield from _codes(constant)


# ---------------------------------------------------------------- the function and its arguments


def of_one_argument(function: Any) -> tuple[types.FunctionType, dict[Any, Any], str] | None:
    """(the function itself, its bound arguments by name and by position, the name of its only other
    argument); None if it is no Python function, or has arguments of another kind.
    """
    function, bound = _unbound(function)
    if not isinstance(function, types.FunctionType):
        return None
    code, free = function.__code__, _free_argument_of(function, bound)
    if free is None or code.co_posonlyargcount:
        return None
    return function, bound, free


def _unbound(function: Any) -> tuple[Any, dict[Any, Any]]:
    """(the function, its bound arguments by name or position). For an object the function is its __call__,
    for a module its forward.
    """
    bound: dict[Any, Any] = {}
    while type(function) is functools.partial:
        if function.args and any(isinstance(key, int) for key in bound):
            return None, {}
        bound = {**function.keywords, **dict(enumerate(function.args)), **bound}
        function = function.func
    if isinstance(function, torch.nn.Module) and type(function).__call__ is torch.nn.Module.__call__:
        if "forward" in vars(function) or function._forward_hooks or function._forward_pre_hooks:
            return None, {}
        function = types.MethodType(type(function).forward, function)
    elif not isinstance(function, (types.FunctionType, types.MethodType)):
        call = inspect.getattr_static(type(function), "__call__", None)
        if not isinstance(call, types.FunctionType):
            return None, {}
        function = types.MethodType(call, function)
    if isinstance(function, types.MethodType):
        if any(isinstance(key, int) for key in bound):
            return None, {}
        bound, function = {**bound, 0: function.__self__}, function.__func__
    return function, bound


def _free_argument_of(function: types.FunctionType, bound: dict[Any, Any]) -> str | None:
    """The name of the only unbound argument, if all positional arguments before it are bound; else None."""
    names = _arguments(function.__code__)
    positional = {key for key in bound if isinstance(key, int)}
    for key in positional:
        if key >= len(names):
            return None
        bound[names[key]] = bound[key]
    if any(key not in names for key in bound if isinstance(key, str)):
        return None
    for name, value in zip(reversed(names), reversed(function.__defaults__ or ())):
        bound.setdefault(name, value)
    free = [name for name in names if name not in bound]
    if len(free) == 1 and names.index(free[0]) == len(positional):
        return free[0]
    return None


def _arguments(code: types.CodeType) -> tuple[str, ...]:
    return code.co_varnames[: code.co_argcount]


# ---------------------------------------------------------------- what names mean


def plain_attribute(owner: Any, name: str) -> Any:
    """getattr(owner, name), if that runs no user's code; else NotRead."""
    cls = type(owner)
    if isinstance(owner, types.ModuleType):
        inherits = cls.__getattribute__ is types.ModuleType.__getattribute__
        if inherits and getattr(vars(owner).get("__getattr__"), "__module__", "") == lazy_names.__module__:
            getattr(owner, name, None)  # one of millrace's own modules: this imports the name
        if inherits and name in vars(owner) and inspect.getattr_static(cls, name, _MISSING) is _MISSING:
            return vars(owner)[name]
        raise NotRead
    require(cls.__getattribute__ is object.__getattribute__ and hasattr(owner, "__dict__"))
    of_class = inspect.getattr_static(cls, name, _MISSING)
    goes_first = any(hasattr(type(of_class), method) for method in ("__set__", "__delete__"))
    require(not goes_first)  # as a property does
    if name in vars(owner):
        return vars(owner)[name]
    if isinstance(of_class, types.FunctionType):
        return types.MethodType(of_class, owner)
    if of_class is not _MISSING and not hasattr(type(of_class), "__get__"):
        return of_class
    is_module = getattr(cls, "__getattr__", None) is torch.nn.Module.__getattr__
    modules = vars(owner).get("_modules", {}) if is_module else {}
    require(of_class is _MISSING and name in modules)
    return modules[name]


def plain_variable(function: types.FunctionType, name: str, *more: Mapping[str, Any]) -> Any:
    """The value of a name in `function` that is not a local variable: from its closure, its globals, then
    `more`; NotRead if the name has no value yet.
    """
    free = function.__code__.co_freevars
    if name in free:
        try:
            return function.__closure__[free.index(name)].cell_contents  # type: ignore[index]
        except ValueError:
            raise NotRead from None
    for place in (function.__globals__, *more):
        if name in place:
            return place[name]
    raise NotRead
