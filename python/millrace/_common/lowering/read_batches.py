"""Reads from a function's source what it makes of a batch of samples with a column of pictures:

    def transforms(examples):
        examples["pixel_values"] = [train(image.convert("RGB")) for image in examples["image"]]
        return examples                                  is read as the columns of before, and one more

The function gets a dict of columns, and returns one. It must change each picture alone, by the same steps: a
draw for the whole batch, or a look at another column, is not read. All else is as in read_source.py.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any

from .read_source import MADE, Reader, check_uses, follow
from .read_values import Column, MadeDict, MadeList, NotRead, Picture, Pictures, Symbol, require


def read_batches(function: Any, columns: Iterable[str], pictures: str) -> dict[str, Pictures | Column] | None:
    """The columns that `function(batch)` returns, in their order, where the batch has `columns`, that of the
    name `pictures` among them; None: not known.
    """
    given = MadeDict((name, Pictures(Picture()) if name == pictures else Column(name)) for name in columns)
    try:
        return dict(follow(function, given, _BatchReader))
    except (NotRead, RecursionError):
        return None


class _BatchReader(Reader):
    def returned(self, value: Any, names: dict[str, Any]) -> Any:
        require(type(value) is MadeDict and all(type(key) is str for key in value))
        require(all(isinstance(column, (Pictures, Column)) for column in value.values()))
        check_uses([column.picture for column in value.values() if isinstance(column, Pictures)], names)
        return value

    def each(self, looped: Any, name: str, node: ast.expr, names: dict[str, Any]) -> Any:
        if not isinstance(looped, Pictures):
            return super().each(looped, name, node, names)
        # What was drawn before is drawn once for all of them, and other columns are theirs in an order.
        alike = {key: value for key, value in names.items() if not _has_symbols(value)}
        made = self.value(node, {**alike, MADE: names[MADE], name: looped.picture})
        require(isinstance(made, Picture))
        return Pictures(made)

    def _do(self, statement: ast.stmt, names: dict[str, Any]) -> None:
        if isinstance(statement, ast.Delete):
            for target in statement.targets:
                if not isinstance(target, ast.Subscript):
                    raise NotRead
                self._taken(target.value, target.slice, names)
        elif isinstance(statement, ast.Expr) and _is_pop(statement.value):
            self.value(statement.value, names)
        else:
            super()._do(statement, names)

    def _of_Call(self, node: ast.Call, names: dict[str, Any]) -> Any:
        if not _is_pop(node):
            return super()._of_Call(node, names)
        require(len(node.args) == 1 and not node.keywords)
        return self._taken(node.func.value, node.args[0], names)  # type: ignore[attr-defined]

    def _taken(self, holder: ast.expr, key: ast.expr, names: dict[str, Any]) -> Any:
        """A column, which leaves the batch."""
        owner, name = self.value(holder, names), self._key(key, names)
        require(type(owner) is MadeDict and name in owner)
        return owner.pop(name)


def _is_pop(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "pop"


def _has_symbols(value: Any) -> bool:
    """Whether it is known to a call alone, or holds something that is, as only what the function made can."""
    if type(value) in (tuple, MadeList, MadeDict):
        return any(map(_has_symbols, value.values() if type(value) is MadeDict else value))
    return isinstance(value, Symbol)
