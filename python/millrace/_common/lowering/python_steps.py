"""Steps of a picture in a __getitem__ that only Python can take: calls of unknown functions with the picture,
and with arguments that are the same for each sample.
"""

from __future__ import annotations

import ast
import enum
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from .read_source import OPERATORS, noted
from .read_values import Called, NotRead, Picture, require


def in_python(
    node: ast.expr, function: Any, arguments: list[Any], keywords: dict[str, Any], names: dict[str, Any]
) -> Picture:
    """The picture that Python makes by calling `function` with a picture. NotRead if the picture is not the
    first argument, or if other arguments may differ between samples.
    """
    picture, *others = arguments or [None]
    require(isinstance(picture, Picture) and all(map(_is_constant, [*others, *keywords.values()])))
    step = Called(function, ast.unparse(node), tuple(others), tuple(keywords.items()))
    return noted(picture.then(step), names)


def computed(node: ast.BinOp, left: Any, right: Any, names: dict[str, Any]) -> Picture:
    """A picture plus, minus, times or divided by a number, or the reverse."""
    compute = OPERATORS.get(type(node.op))
    if compute is None:
        raise NotRead
    if isinstance(left, Picture):
        return in_python(node, compute, [left, right], {}, names)
    require(_is_constant(left))
    return in_python(node, functools.partial(compute, left), [right], {}, names)


def method_called(name: str) -> Callable[..., Any]:
    """A function that calls the method `name` of its first argument with the other arguments."""

    def call(picture: Any, *arguments: Any, **keywords: Any) -> Any:
        return getattr(picture, name)(*arguments, **keywords)

    return call


def _is_constant(value: Any) -> bool:
    """Whether `value` is immutable, so that calls may get the same object for each sample."""
    if type(value) is tuple:
        return all(map(_is_constant, value))
    kinds = (bool, int, float, str, bytes, type, torch.dtype, torch.memory_format)
    return value is None or type(value) in kinds or isinstance(value, (np.dtype, enum.Enum))
