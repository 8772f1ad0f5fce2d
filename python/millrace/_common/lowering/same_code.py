"""What a small function provably does: its bytecode is that of a template, compiled by the interpreter that
runs it.

    def collate_fn(batch):
        return mixup(*default_collate(batch))        is found to be the template "return T(*D(B))"

A template's capital letters stand for names. B is the one argument that is not bound, L and M are other local
variables, and the rest is called: each a global, a variable of an enclosing function, `self`, or an argument
that functools.partial has bound, or attributes of these. What they are is looked up only where that runs no
code: no properties, no __getattr__. Whatever cannot be shown this way is not found.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import keyword
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from ..lazy import lazy_names
from .read_values import NotRead, require

_MISSING = object()
_MOST_NAMES = 6
_OTHER_KINDS = (
    inspect.CO_VARARGS
    | inspect.CO_VARKEYWORDS
    | inspect.CO_GENERATOR
    | inspect.CO_COROUTINE
    | inspect.CO_ASYNC_GENERATOR
)


def called(function: Any, template: str) -> list[Any] | None:
    """What `function(B)` calls as the template's other letters, in their order there; None: it does something
    else, too.

    `template`: statements separated by "; ", in which names are met in the order of evaluation.
    """
    known = of_one_argument(function)
    if known is None:
        return None
    function, bound, free = known
    code = function.__code__
    if code.co_cellvars or getattr(code, "co_exceptiontable", b"") or not _are_names(code):
        return None
    if len(code.co_names) > _MOST_NAMES or any(map(_is_code, code.co_consts)):
        return None
    letters = sorted((letter for letter in "FGHTD" if letter in template), key=template.index)
    for names in _namings(code, bound, letters):
        if _compiled(code, template, names, free) == _look(code):
            try:
                return [_value(function, bound, names[letter]) for letter in letters]
            except NotRead:
                return None
    return None


def is_method_of_argument(function: Any, name: str, argument: str) -> bool:
    """Whether `function(x)` is `x.name("argument")`, and does nothing else."""
    known = of_one_argument(function)
    if known is None:
        return False
    code, free = known[0].__code__, known[2]
    if code.co_freevars or not _are_names(code):
        return False
    arguments = ", ".join(_arguments(code))
    call = f"{free}.{name}({argument!r})"
    sources = f"def f({arguments}): return {call}", f"lambda {arguments}: {call}"
    compiled = [_inner(compile(source, "<template>", "exec", dont_inherit=True)) for source in sources]
    return any((_look(made), made.co_consts) == (_look(code), code.co_consts) for made in compiled)


def plain_attribute(owner: Any, name: str) -> Any:
    """getattr(owner, name), if that runs no code of anybody; else NotRead."""
    cls = type(owner)
    if isinstance(owner, types.ModuleType):
        inherits = cls.__getattribute__ is types.ModuleType.__getattribute__
        if inherits and getattr(vars(owner).get("__getattr__"), "__module__", "") == lazy_names.__module__:
            getattr(owner, name, None)  # millrace's own modules, which import it when it is asked for
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


# ---------------------------------------------------------------- the function and its arguments


def of_one_argument(function: Any) -> tuple[types.FunctionType, dict[Any, Any], str] | None:
    """(the function itself, what is bound of its arguments, by name and by position, the only other one);
    None: it is no function in Python, or it has arguments of another kind.
    """
    function, bound = _unbound(function)
    if not isinstance(function, types.FunctionType):
        return None
    code, free = function.__code__, _free_argument_of(function, bound)
    if free is None or code.co_kwonlyargcount or code.co_posonlyargcount or code.co_flags & _OTHER_KINDS:
        return None
    return function, bound, free


def _unbound(function: Any) -> tuple[Any, dict[Any, Any]]:
    """(the function, what is bound of its arguments, by name or position). Objects are what their __call__
    is, modules their forward.
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
    """The one argument that is not bound, if there is one, and all positional ones before it are."""
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


def _are_names(code: types.CodeType) -> bool:
    names = itertools.chain(code.co_names, code.co_varnames, code.co_freevars)
    return all(name.isidentifier() and not keyword.iskeyword(name) for name in names)


# ---------------------------------------------------------------- templates


def _namings(code: types.CodeType, bound: dict[Any, Any], letters: Sequence[str]) -> Iterator[dict[str, str]]:
    """All ways to read the code's names as expressions for the letters: roots, and attributes in the order of
    `co_names`, which is that of the letters: statement by statement, what is called before its arguments.
    """
    locals_ = [name for name in _arguments(code) if name in bound]
    names = code.co_names
    roots: list[str | None] = [None, *code.co_freevars, *locals_]  # None: a global, the first of its names
    for borders in itertools.combinations_with_replacement(range(len(names) + 1), len(letters) - 1):
        parts = [names[a:b] for a, b in zip((0, *borders), (*borders, len(names)))]
        for chosen in itertools.product(roots, repeat=len(letters)):
            if any(root is None and not part for root, part in zip(chosen, parts)):
                continue
            spelled = (".".join(part if root is None else (root, *part)) for root, part in zip(chosen, parts))
            yield dict(zip(letters, spelled))


def _look(code: types.CodeType) -> tuple[Any, ...]:
    return code.co_code, code.co_names, code.co_varnames, code.co_freevars


def _is_code(constant: Any) -> bool:
    return isinstance(constant, types.CodeType)


def _inner(code: types.CodeType) -> types.CodeType:
    """The first function in it."""
    return next(filter(_is_code, code.co_consts))


def _compiled(
    code: types.CodeType, template: str, names: dict[str, str], free_argument: str
) -> tuple[Any, ...] | None:
    others = code.co_varnames[code.co_argcount :]
    spelled = {**names, "B": free_argument, **dict(zip("LM", others))}
    if any(letter in template and letter not in spelled for letter in "LM"):
        return None
    body = "".join(
        spelled.get(character, character) if character.isupper() else character for character in template
    )
    return _code_of(body, _arguments(code), code.co_freevars)


@functools.lru_cache(4096)
def _code_of(body: str, arguments: tuple[str, ...], free: tuple[str, ...]) -> tuple[Any, ...] | None:
    lines = "".join(f"\n  {statement}" for statement in body.split("; "))
    source = f"def outer({', '.join(free)}):\n def inner({', '.join(arguments)}):{lines}\n return inner"
    try:
        return _look(_inner(_inner(compile(source, "<template>", "exec", dont_inherit=True))))
    except SyntaxError:
        return None


# ---------------------------------------------------------------- what names mean


def _value(function: types.FunctionType, bound: dict[Any, Any], expression: str) -> Any:
    root, *attributes = expression.split(".")
    is_bound = root in _arguments(function.__code__)
    value = bound[root] if is_bound else plain_variable(function, root)
    return functools.reduce(plain_attribute, attributes, value)


def plain_variable(function: types.FunctionType, name: str, *more: Mapping[str, Any]) -> Any:
    """What a name in `function` that is none of its own variables stands for, in `more` behind its globals;
    NotRead: nothing yet.
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
