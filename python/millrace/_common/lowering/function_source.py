"""The statements of a function, where its source provably is what was compiled."""

from __future__ import annotations

import ast
import functools
import linecache
import types
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

from .read_values import NotRead, require


@dataclass(frozen=True)
class _File:
    """`functions`: by name and first line, as code objects have these. `codes`: what they compile to."""

    functions: dict[tuple[str, int], list[ast.Lambda | ast.FunctionDef]]
    codes: frozenset[types.CodeType]


def body_of(function: types.FunctionType) -> list[ast.stmt]:
    """NotRead: there is no source, it is another one by now, or it has what changes the meaning of a
    function as a whole.
    """
    code = function.__code__
    file = _file(code.co_filename, "".join(linecache.getlines(code.co_filename, function.__globals__)))
    require(code in file.codes)  # or the file has changed, or what was compiled was not this text
    found = file.functions.get((code.co_name, code.co_firstlineno), [])
    require(len(found) == 1)
    (node,) = found
    body: list[ast.stmt] = [ast.Return(node.body)] if isinstance(node, ast.Lambda) else node.body
    inner = [node for part in body for node in ast.walk(part)]
    require(not any(isinstance(node, (ast.Global, ast.Nonlocal)) or _is_mangled(node) for node in inner))
    return body


def _is_mangled(node: ast.AST) -> bool:
    """In a class `__name` stands for another name, and names as __class__ and __debug__ for what is no
    variable.
    """
    name = getattr(node, "id", None) or getattr(node, "attr", None)
    return isinstance(name, str) and name.startswith("__")


@functools.lru_cache(16)
def _file(name: str, source: str) -> _File:
    functions: dict[tuple[str, int], list[ast.Lambda | ast.FunctionDef]] = {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python warned of them when the file was imported
            tree = ast.parse(source)
            codes = frozenset(_codes(compile(source, name, "exec", dont_inherit=True)))
        for node in ast.walk(tree):
            if isinstance(node, (ast.Lambda, ast.FunctionDef)):
                functions.setdefault(_begins(node), []).append(node)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise NotRead from None
    return _File(functions, codes)


def _begins(node: ast.Lambda | ast.FunctionDef) -> tuple[str, int]:
    """A function's name and line, as its code has them: decorators are a part of it."""
    if isinstance(node, ast.Lambda):
        return "<lambda>", node.lineno
    return node.name, min([node.lineno, *(part.lineno for part in node.decorator_list)])


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield constant
            yield from _codes(constant)
