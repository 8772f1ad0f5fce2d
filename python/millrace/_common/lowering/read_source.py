"""What a callable makes of a picture, read from its source: views, and the transforms behind each.

    def __call__(self, image):
        crops = [self.global_transfo1(image), self.global_transfo2(image)]
        for _ in range(self.local_crops_number):             is read as a list of 2 + n views,
            crops.append(self.local_transfo(image))          each with its transform
        return crops

Nothing is called. The source is trusted only where it compiles to the bytecode that the function has. A small
part of the language is understood: assignments, lists, dicts, loops over what is known, `random.random() < p`
around a step, calls of one picture. Attributes are looked up only where that runs no code. Whatever else
stands there, and the callable may do anything.
"""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import linecache
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch

from .picture_calls import METHODS, Coin, Drawn, coin_of, known_call
from .read_values import MOST_VIEWS, MadeDict, MadeList, NotRead, Picture, merged
from .same_code import NotPlain, plain_attribute, unbound

_MOST_STEPS = 2_000  # of reading one function, loops unrolled
_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
}


def read(function: Any) -> Any:
    """What `function(picture)` returns: a Picture, or lists, tuples and dicts of these; None: not known."""
    try:
        return _read(function)
    except (NotRead, NotPlain):
        return None


def _read(function: Any) -> Any:
    function, bound = unbound(function)
    if not isinstance(function, types.FunctionType):
        raise NotRead
    code = function.__code__
    names = code.co_varnames[: code.co_argcount]
    values: dict[str, Any] = {names[key] if isinstance(key, int) else key: bound[key] for key in bound}
    for name, value in zip(reversed(names), reversed(function.__defaults__ or ())):
        values.setdefault(name, value)
    free = [name for name in names if name not in values]
    if (
        len(free) != 1
        or code.co_kwonlyargcount
        or code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    ):
        raise NotRead
    body = _body(function)
    reader = _Reader(function)
    return reader.run(body, {**values, free[0]: Picture()})


def _body(function: types.FunctionType) -> list[ast.stmt]:
    code = function.__code__
    tree, codes = _file(code.co_filename, "".join(linecache.getlines(code.co_filename, function.__globals__)))
    if code not in codes:
        raise NotRead  # the file has changed, or what was compiled was not this text
    found = [node for node in ast.walk(tree) if _begins(node) == (code.co_name, code.co_firstlineno)]
    if len(found) != 1:
        raise NotRead
    node = found[0]
    return [ast.Return(node.body)] if isinstance(node, ast.Lambda) else node.body  # type: ignore[attr-defined]


@functools.lru_cache(16)
def _file(name: str, source: str) -> tuple[ast.Module, frozenset[types.CodeType]]:
    """The file's syntax, and what its functions compile to."""
    try:
        tree = ast.parse(source)
        return tree, frozenset(_codes(compile(source, name, "exec", dont_inherit=True)))
    except (SyntaxError, ValueError, RecursionError):
        raise NotRead from None


def _begins(node: ast.AST) -> tuple[str, int] | None:
    """A function's name and line, as its code has them: decorators are a part of it."""
    if isinstance(node, ast.Lambda):
        return "<lambda>", node.lineno
    if isinstance(node, ast.FunctionDef):
        return node.name, min([node.lineno, *(part.lineno for part in node.decorator_list)])
    return None


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield constant
            yield from _codes(constant)


class _Reader:
    """Follows one function. A draw splits its way in two, which meet again in the result."""

    def __init__(self, function: types.FunctionType) -> None:
        self.function = function
        self.steps = 0

    def run(self, statements: list[ast.stmt], names: dict[str, Any]) -> Any:
        """What is returned by these statements, the last of which are the function's."""
        for position, statement in enumerate(statements):
            self._count()
            rest = statements[position + 1 :]
            if isinstance(statement, ast.Return):
                if statement.value is None:
                    raise NotRead
                return self.value(statement.value, names)
            if isinstance(statement, ast.If):
                return self._branch(statement, rest, names)
            if isinstance(statement, ast.For):
                return self.run([*self._unrolled(statement, names), *rest], names)
            if isinstance(statement, _Bind):
                names[statement.name] = statement.held
            else:
                self._do(statement, names)
        raise NotRead

    def _count(self) -> None:
        self.steps += 1
        if self.steps > _MOST_STEPS:
            raise NotRead

    def _branch(self, statement: ast.If, rest: list[ast.stmt], names: dict[str, Any]) -> Any:
        test = self.value(statement.test, names)
        if not isinstance(test, Coin):
            if isinstance(test, (Picture, Drawn)):
                raise NotRead
            return self.run([*(statement.body if _truth(test) else statement.orelse), *rest], names)
        copies: dict[int, Any] = {}
        apart = {name: _copied(value, copies) for name, value in names.items()}
        one = self.run([*statement.body, *rest], apart)
        other = self.run([*statement.orelse, *rest], names)
        return merged(test.p, one, other)

    def _unrolled(self, loop: ast.For, names: dict[str, Any]) -> list[ast.stmt]:
        if loop.orelse or not isinstance(loop.target, ast.Name):
            raise NotRead
        if any(isinstance(node, (ast.Break, ast.Continue)) for node in ast.walk(loop)):
            raise NotRead
        made: list[ast.stmt] = []
        for item in _items(self.value(loop.iter, names)):
            made += [_Bind(loop.target.id, item), *loop.body]
        return made

    def _do(self, statement: ast.stmt, names: dict[str, Any]) -> None:
        if isinstance(statement, ast.Expr):
            if isinstance(statement.value, ast.Constant):
                return
            return self._grow(statement.value, names)
        if isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Add):
            target = self.value(ast.Name(getattr(statement.target, "id", ""), ast.Load()), names)
            if type(target) is not MadeList:
                raise NotRead
            target.extend(_items(self.value(statement.value, names)))
            return None
        if isinstance(statement, ast.AnnAssign) and statement.value is not None:
            targets, value = [statement.target], self.value(statement.value, names)
        elif isinstance(statement, ast.Assign):
            targets, value = statement.targets, self.value(statement.value, names)
        elif isinstance(statement, ast.Pass):
            return None
        else:
            raise NotRead
        for target in targets:
            self._bind(target, value, names)
        return None

    def _bind(self, target: ast.expr, value: Any, names: dict[str, Any]) -> None:
        if isinstance(target, ast.Name):
            names[target.id] = value
        elif isinstance(target, (ast.Tuple, ast.List)) and type(value) in (list, tuple, MadeList):
            if len(value) != len(target.elts):
                raise NotRead
            for part, item in zip(target.elts, value):
                self._bind(part, item, names)
        elif isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
            holder = names.get(target.value.id)
            if type(holder) is not MadeDict:
                raise NotRead
            holder[self._key(target.slice, names)] = value
        else:
            raise NotRead

    def _grow(self, call: ast.expr, names: dict[str, Any]) -> None:
        """`views.append(...)`, `views.extend(...)` of a list that the function has made."""
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and len(call.args) == 1):
            raise NotRead
        holder = names.get(getattr(call.func.value, "id", ""))
        if type(holder) is not MadeList or call.keywords or call.func.attr not in ("append", "extend"):
            raise NotRead
        value = self.value(call.args[0], names)
        holder.extend([value] if call.func.attr == "append" else _items(value))
        if len(holder) > MOST_VIEWS:
            raise NotRead

    # ---------------------------------------------------------------- expressions

    def value(self, node: ast.expr, names: dict[str, Any]) -> Any:
        self._count()
        if isinstance(node, ast.Constant):
            return node.value
        method = getattr(self, f"_of_{type(node).__name__}", None)
        if method is None:
            raise NotRead
        return method(node, names)

    def _of_Name(self, node: ast.Name, names: dict[str, Any]) -> Any:
        if node.id in names:
            return names[node.id]
        code = self.function.__code__
        if node.id in code.co_varnames:
            raise NotRead  # not yet assigned
        if node.id in code.co_freevars:
            try:
                return self.function.__closure__[code.co_freevars.index(node.id)].cell_contents  # type: ignore[index]
            except ValueError:
                raise NotRead from None
        if node.id in self.function.__globals__:
            return self.function.__globals__[node.id]
        if hasattr(builtins, node.id):
            return getattr(builtins, node.id)
        raise NotRead

    def _of_Attribute(self, node: ast.Attribute, names: dict[str, Any]) -> Any:
        owner = self.value(node.value, names)
        if isinstance(owner, (Picture, Coin, Drawn)):
            raise NotRead
        return plain_attribute(owner, node.attr)

    def _of_Subscript(self, node: ast.Subscript, names: dict[str, Any]) -> Any:
        owner, key = self.value(node.value, names), self._key(node.slice, names)
        if type(owner) not in (list, tuple, dict, MadeList, MadeDict):
            raise NotRead
        try:
            return owner[key]
        except (KeyError, IndexError, TypeError):
            raise NotRead from None

    def _key(self, node: ast.expr, names: dict[str, Any]) -> Any:
        key = self.value(node, names)
        if type(key) not in (int, str):
            raise NotRead
        return key

    def _of_List(self, node: ast.List, names: dict[str, Any]) -> Any:
        return MadeList(self.value(part, names) for part in node.elts)

    def _of_Tuple(self, node: ast.Tuple, names: dict[str, Any]) -> Any:
        return tuple(self.value(part, names) for part in node.elts)

    def _of_Dict(self, node: ast.Dict, names: dict[str, Any]) -> Any:
        if None in node.keys:
            raise NotRead
        keys = [self._key(key, names) for key in node.keys if key is not None]
        return MadeDict(zip(keys, [self.value(part, names) for part in node.values]))

    def _of_ListComp(self, node: ast.ListComp, names: dict[str, Any]) -> Any:
        [loop, *more] = node.generators
        if more or loop.ifs or loop.is_async or not isinstance(loop.target, ast.Name):
            raise NotRead
        items = _items(self.value(loop.iter, names))
        return MadeList(self.value(node.elt, {**names, loop.target.id: item}) for item in items)

    def _of_BinOp(self, node: ast.BinOp, names: dict[str, Any]) -> Any:
        left, right = self.value(node.left, names), self.value(node.right, names)
        operator = _OPERATORS.get(type(node.op))
        numbers = type(left) in (int, float) and type(right) in (int, float)
        if type(left) is MadeList and type(right) is MadeList and isinstance(node.op, ast.Add):
            return MadeList([*left, *right])
        if operator is None or not numbers:
            raise NotRead
        try:
            return operator(left, right)
        except ArithmeticError:
            raise NotRead from None

    def _of_UnaryOp(self, node: ast.UnaryOp, names: dict[str, Any]) -> Any:
        value = self.value(node.operand, names)
        if isinstance(node.op, ast.USub) and type(value) in (int, float):
            return -value
        if isinstance(node.op, ast.Not):
            return Coin(1 - value.p) if isinstance(value, Coin) else not _truth(value)
        raise NotRead

    def _of_Compare(self, node: ast.Compare, names: dict[str, Any]) -> Any:
        if len(node.ops) != 1:
            raise NotRead
        left, right = self.value(node.left, names), self.value(node.comparators[0], names)
        if isinstance(node.ops[0], (ast.Is, ast.IsNot)) and right is None:
            if isinstance(left, (Coin, Drawn)):
                raise NotRead
            return (left is None) == isinstance(node.ops[0], ast.Is)
        return coin_of(left, node.ops[0], right)

    def _of_IfExp(self, node: ast.IfExp, names: dict[str, Any]) -> Any:
        test = self.value(node.test, names)
        if isinstance(test, Coin):
            return merged(test.p, self.value(node.body, names), self.value(node.orelse, names))
        return self.value(node.body if _truth(test) else node.orelse, names)

    def _of_Call(self, node: ast.Call, names: dict[str, Any]) -> Any:
        if any(isinstance(part, ast.Starred) for part in node.args) or any(
            k.arg is None for k in node.keywords
        ):
            raise NotRead
        arguments = [self.value(part, names) for part in node.args]
        keywords = {part.arg: self.value(part.value, names) for part in node.keywords}
        if isinstance(node.func, ast.Attribute):
            owner = self.value(node.func.value, names)
            if isinstance(owner, Picture):
                if (method := METHODS.get(node.func.attr)) is None:
                    raise NotRead
                return method(owner, *arguments, **keywords)
        function = self.value(node.func, names)
        if isinstance(function, (Picture, Coin, Drawn)):
            raise NotRead
        if (known := known_call(function)) is not None:
            return known(*arguments, **keywords)
        if function is range and not keywords and all(type(part) is int for part in arguments):
            return range(*arguments)
        if len(arguments) == 1 and not keywords and isinstance(arguments[0], Picture) and callable(function):
            return arguments[0].then(function)
        raise NotRead


class _Bind(ast.stmt):
    """A loop's variable takes its next value."""

    def __init__(self, name: str, held: Any) -> None:
        super().__init__()
        self.name, self.held = name, held


def _items(value: Any) -> list[Any]:
    if type(value) in (list, tuple, range, MadeList, torch.nn.ModuleList, torch.nn.Sequential):
        if len(value) > MOST_VIEWS:
            raise NotRead
        return list(value)
    raise NotRead


def _truth(value: Any) -> bool:
    if value is None or type(value) in (bool, int, float, str, list, tuple, dict):
        return bool(value)
    raise NotRead


def _copied(value: Any, copies: dict[int, Any]) -> Any:
    """Lists and dicts that the function has made, anew; what they hold, as it is."""
    if type(value) in (MadeList, MadeDict):
        if id(value) not in copies:
            made = type(value)(value)
            copies[id(value)] = made
            for key in range(len(made)) if isinstance(made, list) else made:
                made[key] = _copied(made[key], copies)
        return copies[id(value)]
    return value
