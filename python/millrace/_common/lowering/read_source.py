"""Reads from a callable's source what it makes of a picture: views, and the transforms of each view.

    def __call__(self, image):
        crops = [self.global_transfo1(image), self.global_transfo2(image)]
        for _ in range(self.local_crops_number):             is read as a list of 2 + n views,
            crops.append(self.local_transfo(image))          each with its transform
        return crops

Nothing is called. The source is trusted only if it compiles to the function's bytecode. A small part of the
language is understood: assignments, lists, dicts, loops over known values, `random.random() < p` around a
step, calls of one picture. Attributes are looked up only if that runs no code. If the source has anything
else, the callable may do anything, and it is not read.
"""

from __future__ import annotations

import ast
import operator
import types
from collections.abc import Callable
from typing import Any

from .as_shipped import makes_crops
from .crops import applied, are_several, made_object
from .function_source import body_of, of_one_argument, plain_attribute, plain_variable
from .picture_calls import METHODS, coin_of, is_number, known_call
from .read_values import (
    Coin,
    Drawn,
    MadeDict,
    MadeList,
    NotRead,
    Picture,
    Symbol,
    copied,
    extend,
    items,
    leaves,
    merged,
    require,
    truth,
)

_MOST_STEPS = 2_000  # of reading one function, loops unrolled
OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_COMPARISONS: dict[type, Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_RANGE = range  # a script may replace the builtin later
MADE = "<made>"  # the key, among a way's names, of all pictures made on it. No variable has such a name


def read(function: Any) -> Any:
    """What `function(picture)` returns: a Picture, or lists, tuples and dicts of these, or a stack; None: not
    known.
    """
    return read_or_place(function)[0]


def read_or_place(function: Any) -> tuple[Any, str]:
    """(read()'s result, the part of the source that was not read if that is None; "" without source)."""
    try:
        made = (
            applied(function, Picture(), read_call)
            if makes_crops(function)
            else read_call(function, Picture())
        )
        leaves(made)
    except NotRead as failure:
        return None, failure.place
    except RecursionError:
        return None, ""
    return made, ""


def read_call(function: Any, argument: Any) -> Any:
    return follow(function, argument, Reader)


def follow(function: Any, argument: Any, reader: type[Reader]) -> Any:
    """What `function(argument)` returns, found by a reader of this type; NotRead if not known."""
    known = of_one_argument(function)
    if known is None:
        raise NotRead
    function, bound, free = known
    require(type(function.__globals__) is dict)
    names = {name: value for name, value in bound.items() if isinstance(name, str)}
    return reader(function).run(body_of(function), {**names, free: argument, MADE: MadeList()})


class Reader:
    """Follows one function. A draw splits the function's way in two; both are merged in the result."""

    def __init__(self, function: types.FunctionType) -> None:
        self.function = function
        self.steps = self.loops = 0

    def run(self, statements: list[ast.stmt], names: dict[str, Any]) -> Any:
        """The value that these statements return. They end with the function's last statements."""
        for position, statement in enumerate(statements):
            rest = statements[position + 1 :]
            try:
                self._count()
                if isinstance(statement, ast.Return):
                    require(statement.value is not None)
                    return self.returned(self.value(statement.value, names), names)  # type: ignore[arg-type]
                if isinstance(statement, ast.If):
                    return self._branch(statement, rest, names)
                if isinstance(statement, ast.For):
                    return self.run([*self._unrolled(statement, names), *rest], names)
                if isinstance(statement, _Bind):
                    names[statement.name] = names[statement.items][statement.position]
                else:
                    self._do(statement, names)
            except NotRead as failure:
                failure.at(statement, self.function.__code__)
                raise
        raise NotRead

    def returned(self, value: Any, names: dict[str, Any]) -> Any:
        check_uses(leaves(value), names)
        return value

    def _count(self) -> None:
        self.steps += 1
        require(self.steps <= _MOST_STEPS)

    def _branch(self, statement: ast.If, rest: list[ast.stmt], names: dict[str, Any]) -> Any:
        test = self.value(statement.test, names)
        if not isinstance(test, Coin):
            return self.run([*(statement.body if truth(test) else statement.orelse), *rest], names)
        p, copies = test.take().p, dict[int, Any]()
        apart = {name: copied(value, copies) for name, value in names.items()}
        one = self.run([*statement.body, *rest], apart)
        other = self.run([*statement.orelse, *rest], names)
        return merged(p, one, other)

    def _unrolled(self, loop: ast.For, names: dict[str, Any]) -> list[ast.stmt]:
        if loop.orelse or not isinstance(loop.target, ast.Name):
            raise NotRead
        require(not any(isinstance(node, (ast.Break, ast.Continue)) for node in ast.walk(loop)))
        looped = self.value(loop.iter, names)
        held = items(looped)
        if isinstance(looped, MadeList):
            looped.is_looped = True
        self.loops += 1
        key = f"<loop {self.loops}>"  # among the names, so that each way has a list of its own
        names[key] = MadeList(held)
        made: list[ast.stmt] = []
        for position in range(len(held)):
            made += [_Bind(loop.target.id, key, position), *loop.body]
        return made

    def _do(self, statement: ast.stmt, names: dict[str, Any]) -> None:
        if isinstance(statement, ast.Expr):
            if not isinstance(statement.value, ast.Constant):
                self._grow(statement.value, names)
        elif isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Add):
            holder = names.get(getattr(statement.target, "id", ""))
            extend(holder, items(self.value(statement.value, names)))
        elif isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value is not None:
            value = self.value(statement.value, names)
            for target in statement.targets if isinstance(statement, ast.Assign) else [statement.target]:
                self._bind(target, value, names)
        else:
            require(isinstance(statement, ast.Pass))

    def _bind(self, target: ast.expr, value: Any, names: dict[str, Any]) -> None:
        if isinstance(target, ast.Name):
            names[target.id] = value
        elif isinstance(target, (ast.Tuple, ast.List)) and type(value) in (list, tuple, MadeList):
            require(len(value) == len(target.elts))
            for part, item in zip(target.elts, value):
                self._bind(part, item, names)
        elif isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
            holder: Any = names.get(target.value.id)
            require(type(holder) is MadeDict)
            holder[self._key(target.slice, names)] = value
        else:
            raise NotRead

    def _grow(self, call: ast.expr, names: dict[str, Any]) -> None:
        """Follow `views.append(...)` or `views.extend(...)` on a list that the function has made."""
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and len(call.args) == 1):
            raise NotRead
        require(not call.keywords and call.func.attr in ("append", "extend"))
        holder = names.get(getattr(call.func.value, "id", ""))
        value = self.value(call.args[0], names)
        extend(holder, [value] if call.func.attr == "append" else items(value))

    # ---------------------------------------------------------------- expressions

    def value(self, node: ast.expr, names: dict[str, Any]) -> Any:
        self._count()
        if isinstance(node, ast.Constant):
            return node.value
        method = getattr(self, f"_of_{type(node).__name__}", None)
        try:
            require(method is not None)
            return method(node, names)  # type: ignore[misc]
        except NotRead as failure:
            failure.at(node, self.function.__code__)
            raise

    def _of_Name(self, node: ast.Name, names: dict[str, Any]) -> Any:
        if node.id in names:
            return names[node.id]
        code = self.function.__code__
        require(node.id not in (*code.co_varnames, *code.co_cellvars))  # or it is not yet assigned
        return plain_variable(self.function, node.id, self.function.__builtins__)  # type: ignore[attr-defined]

    def _of_Attribute(self, node: ast.Attribute, names: dict[str, Any]) -> Any:
        owner = self.value(node.value, names)
        require(not isinstance(owner, Symbol))
        return plain_attribute(owner, node.attr)

    def _of_Subscript(self, node: ast.Subscript, names: dict[str, Any]) -> Any:
        owner, key = self.value(node.value, names), self._key(node.slice, names)
        require(type(owner) in (list, tuple, dict, MadeList, MadeDict))
        try:
            return owner[key]
        except (KeyError, IndexError, TypeError):
            raise NotRead from None

    def _key(self, node: ast.expr, names: dict[str, Any]) -> Any:
        key = self.value(node, names)
        require(type(key) in (int, str))
        return key

    def _of_List(self, node: ast.List, names: dict[str, Any]) -> Any:
        return MadeList(self.value(part, names) for part in node.elts)

    def _of_Tuple(self, node: ast.Tuple, names: dict[str, Any]) -> Any:
        return tuple(self.value(part, names) for part in node.elts)

    def _of_Dict(self, node: ast.Dict, names: dict[str, Any]) -> Any:
        require(None not in node.keys)
        keys = [self._key(key, names) for key in node.keys if key is not None]
        return MadeDict(zip(keys, [self.value(part, names) for part in node.values]))

    def _of_ListComp(self, node: ast.ListComp, names: dict[str, Any]) -> Any:
        [loop, *more] = node.generators
        if more or loop.ifs or loop.is_async or not isinstance(loop.target, ast.Name):
            raise NotRead
        return self.each(self.value(loop.iter, names), loop.target.id, node.elt, names)

    def each(self, looped: Any, name: str, node: ast.expr, names: dict[str, Any]) -> Any:
        """[node for name in looped]"""
        return MadeList(self.value(node, {**names, name: item}) for item in items(looped))

    def _of_BinOp(self, node: ast.BinOp, names: dict[str, Any]) -> Any:
        left, right = self.value(node.left, names), self.value(node.right, names)
        if type(left) is MadeList and type(right) is MadeList and isinstance(node.op, ast.Add):
            return MadeList([*items(left), *items(right)])
        if isinstance(left, Drawn) and is_number(right):
            return self._shifted(left, lambda number: self._computed(node.op, number, right))
        if isinstance(right, Drawn) and is_number(left) and not isinstance(node.op, ast.Div):
            return self._shifted(right, lambda number: self._computed(node.op, left, number))
        return self._computed(node.op, left, right)

    def _computed(self, operation: ast.operator, left: Any, right: Any) -> Any:
        compute = OPERATORS.get(type(operation))
        if compute is None or not (is_number(left) and is_number(right)):
            raise NotRead
        try:
            return compute(left, right)
        except ArithmeticError:
            raise NotRead from None

    def _shifted(self, drawn: Drawn, compute: Callable[[float], Any]) -> Drawn:
        """The sum or product of a drawn value and a number: it is drawn evenly, too."""
        drawn.take()
        low, high = sorted((compute(drawn.low), compute(drawn.high)))
        require(is_number(low) and is_number(high))
        return Drawn(float(low), float(high), drawn.is_array)

    def _of_UnaryOp(self, node: ast.UnaryOp, names: dict[str, Any]) -> Any:
        value = self.value(node.operand, names)
        if isinstance(node.op, ast.USub) and is_number(value):
            return -value
        if isinstance(node.op, ast.Not):
            return Coin(1 - value.take().p) if isinstance(value, Coin) else not truth(value)
        raise NotRead

    def _of_BoolOp(self, node: ast.BoolOp, names: dict[str, Any]) -> Any:
        for part in node.values:
            value = self.value(part, names)
            if truth(value) is isinstance(node.op, ast.Or):
                break
        return value

    def _of_Compare(self, node: ast.Compare, names: dict[str, Any]) -> Any:
        require(len(node.ops) == 1)
        (how,), left, right = node.ops, self.value(node.left, names), self.value(node.comparators[0], names)
        if isinstance(how, (ast.Is, ast.IsNot)) and right is None:
            require(not isinstance(left, Symbol) or isinstance(left, Picture))
            return (left is None) == isinstance(how, ast.Is)
        same_kind = (type(left) is str and type(right) is str) or (is_number(left) and is_number(right))
        if same_kind and type(how) in _COMPARISONS:
            return _COMPARISONS[type(how)](left, right)
        return coin_of(left, how, right)

    def _of_IfExp(self, node: ast.IfExp, names: dict[str, Any]) -> Any:
        test = self.value(node.test, names)
        if not isinstance(test, Coin):
            return self.value(node.body if truth(test) else node.orelse, names)
        p, made = test.take().p, names[MADE]
        before = len(made)
        one = self.value(node.body, names)
        middle = len(made)
        other = self.value(node.orelse, names)
        result = merged(p, one, other)
        common = {id(picture) for picture in one.line()} & {id(picture) for picture in other.line()}
        for arm, new in ((one, made[before:middle]), (other, made[middle:])):
            # A picture made before the branch would be made again here, with draws that differ from its
            # other uses.
            require({id(picture) for picture in arm.line()} - common == {id(picture) for picture in new})
        made[before:] = [picture for picture in result.line() if id(picture) not in common]
        return result

    def _of_Call(self, node: ast.Call, names: dict[str, Any]) -> Any:
        require(not any(isinstance(part, ast.Starred) for part in node.args))
        require(all(keyword.arg is not None for keyword in node.keywords))
        arguments = [self.value(part, names) for part in node.args]
        keywords = {str(part.arg): self.value(part.value, names) for part in node.keywords}
        if isinstance(node.func, ast.Attribute):
            owner = self.value(node.func.value, names)
            if isinstance(owner, Picture):
                return self._known(METHODS.get(node.func.attr), [owner, *arguments], keywords, names)
        function = self.value(node.func, names)
        require(not isinstance(function, Symbol))
        if (known := known_call(function)) is not None:
            return self._known(known, arguments, keywords, names)
        if function is _RANGE and not keywords and arguments and all(type(part) is int for part in arguments):
            return self._known(_RANGE, arguments, keywords, names)
        several = len(arguments) == 1 and are_several(arguments[0])
        if several or len(arguments) == 1 and isinstance(arguments[0], Picture):
            require(not keywords and callable(function))
            return noted(applied(function, arguments[0], read_call), names)
        return made_object(function, arguments, keywords)

    def _known(
        self,
        known: Callable[..., Any] | None,
        arguments: list[Any],
        keywords: dict[str, Any],
        names: dict[str, Any],
    ) -> Any:
        if known is None:
            raise NotRead
        try:
            return noted(known(*arguments, **keywords), names)
        except (TypeError, ValueError):  # arguments that the function does not have
            raise NotRead from None


class _Bind(ast.stmt):
    """Gives a loop's variable the value at `position` in the list under the name `items`."""

    def __init__(self, name: str, items: str, position: int) -> None:
        super().__init__()
        self.name, self.items, self.position = name, items, position


def noted(value: Any, names: dict[str, Any]) -> Any:
    if isinstance(value, Picture) or are_several(value):
        names[MADE].extend(leaves(value))
    return value


def check_uses(pictures: list[Picture], names: dict[str, Any]) -> None:
    """Raise NotRead unless each call made so far leads to one of `pictures`: a call with an unused result may
    have another effect, like counting or drawing.
    """
    used = {id(picture) for leaf in pictures for picture in leaf.line()}
    require(all(id(picture) in used for picture in names[MADE]))
