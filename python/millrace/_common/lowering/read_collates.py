"""Reads from a collate_fn's source what it makes of its samples: torch's default_collate, and then a function
of that batch:

    def collate_fn(batch):
        images, labels = default_collate(batch)
        return mixup(images, labels)                     is read as mixup(*default_collate(batch))

All else is as in read_source.py.
"""

from __future__ import annotations

import ast
import types
from dataclasses import dataclass, replace
from typing import Any

from ..shipped import is_default_collate
from .read_source import Reader, follow
from .read_values import NotRead, Symbol, require

_MOST_NAMES = 8  # such a function has no more names; the sources of longer ones need not be parsed


@dataclass(frozen=True)
class Collate:
    """`default`, which is default_collate, then `function` of the batch; None: no function. `spread`: the
    function gets the batch's fields one by one. `as_tuple`: the function's result becomes a tuple.
    """

    default: Any
    function: Any = None
    spread: bool = False
    as_tuple: bool = False


class _Samples(Symbol):
    """The argument."""


class _Made(Symbol):
    def __init__(self, what: Collate) -> None:
        self.what = what


class _Field(Symbol):
    """`of` was taken apart into `count` values; this is the one at `position`."""

    def __init__(self, of: _Made, position: int, count: int) -> None:
        self.of, self.place = of, (position, count)


def read_collate(function: Any) -> Collate | None:
    """None: not known."""
    try:
        return follow(function, _Samples(), _CollateReader)
    except (NotRead, RecursionError):
        return None


class _CollateReader(Reader):
    def __init__(self, function: types.FunctionType) -> None:
        require(len(function.__code__.co_names) <= _MOST_NAMES)
        super().__init__(function)
        self.called = 0

    def returned(self, value: Any, names: dict[str, Any]) -> Collate:
        as_tuple = type(value) is tuple
        made = _whole(value) if as_tuple else value
        require(isinstance(made, _Made))
        has_function = made.what.function is not None
        require(self.called == has_function and has_function >= as_tuple)
        return replace(made.what, as_tuple=as_tuple)

    def _bind(self, target: ast.expr, value: Any, names: dict[str, Any]) -> None:
        if isinstance(target, (ast.Tuple, ast.List)) and isinstance(value, _Made):
            count = len(target.elts)
            value = tuple(_Field(value, position, count) for position in range(count))
        super()._bind(target, value, names)

    def _of_Call(self, node: ast.Call, names: dict[str, Any]) -> _Made:
        require(node.args and not node.keywords)
        function = self.value(node.func, names)
        require(callable(function) and not isinstance(function, Symbol))
        first, spread = node.args[0], len(node.args) > 1
        if isinstance(first, ast.Starred):
            require(not spread)
            first, spread = first.value, True
            given = self.value(first, names)
        else:
            values = tuple(self.value(part, names) for part in node.args)
            given = _whole(values) if spread else values[0]
        if is_default_collate(function):
            require(isinstance(given, _Samples) and not spread)
            return _Made(Collate(function))
        require(isinstance(given, _Made) and given.what.function is None)
        self.called += 1
        return _Made(replace(given.what, function=function, spread=spread))


def _whole(values: tuple[Any, ...]) -> Any:
    """What was taken apart into these."""
    require(values and all(isinstance(value, _Field) for value in values))
    of = values[0].of
    places = [(position, len(values)) for position in range(len(values))]
    require([value.place for value in values] == places and all(value.of is of for value in values))
    return of
