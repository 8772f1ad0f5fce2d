"""Functions and methods of other libraries that are understood where a transform's source calls them."""

from __future__ import annotations

import ast
import inspect
import math
import random
import sys
import types
from collections.abc import Callable
from operator import methodcaller
from typing import Any

import numpy as np
import torch
from PIL import ImageOps

from ...transforms import operations
from ...transforms.operations import PictureOperation
from ..shipped import is_shipped, replaced_in
from .crops import stacked
from .read_values import Called, Coin, Drawn, Op, Picture, Symbol, require
from .recognising import loaded

_MOST_RADIUS = 10_000.0  # pixels, as the engine has it


class _Blur(Symbol):
    """Pillow's GaussianBlur of a radius that is known, or drawn."""

    def __init__(self, radius: float | Drawn) -> None:
        self.radius = radius


def coin_of(left: Any, operator: ast.cmpop, right: Any) -> Coin:
    """A number drawn from [0, 1), compared with one that is known."""
    below = isinstance(operator, (ast.Lt, ast.LtE))
    require(below or isinstance(operator, (ast.Gt, ast.GtE)))
    if isinstance(right, Drawn):
        left, right, below = right, left, not below
    require(isinstance(left, Drawn) and (left.low, left.high) == (0.0, 1.0) and is_number(right))
    left.take()
    share = min(1.0, max(0.0, right))
    return Coin(share if below else 1 - share)


def step_of(name: str, kind: str, **value: Any) -> Op:
    """One of Pillow's operations, as the engine takes it."""
    branch = {"weight": 1.0, "ops": [{"kind": kind, "p": 1.0, **value}]}
    op = {"op": "augment_policy", "name": name, "count": 1, "replace": True, "branches": [branch]}
    return Op({**op, "interpolations": ["nearest"], "fill": (0, 0, 0), "geometry": "pillow"}, name)


def is_number(value: Any) -> bool:
    """Whether floats can count with it: no NaN, no bool, no integer beyond them."""
    if type(value) is int:
        return abs(value) <= sys.maxsize
    return type(value) is float and math.isfinite(value)


# ---------------------------------------------------------------- draws


def _between(low: Any = 0.0, high: Any = 1.0) -> Drawn:
    """With the arguments of numpy's uniform()."""
    require(is_number(low) and is_number(high) and low <= high)
    return Drawn(float(low), float(high))


def _random() -> Drawn:
    return Drawn(0.0, 1.0)


def _uniform(a: Any, b: Any) -> Drawn:
    return _between(a, b)


def _of_shape(*shape: Any) -> Drawn:
    """An array or tensor of one number, which can be compared and is no radius."""
    require(shape in ((), (1,)) and all(type(size) is int for size in shape))
    return Drawn(0.0, 1.0, is_array=shape == (1,))


def _torch_rand(*shape: Any) -> Drawn:
    drawn = _of_shape(*shape)
    drawn.is_array = True
    return drawn


_NUMPYS = {
    "rand": _of_shape,
    "random": _of_shape,
    "random_sample": _of_shape,
    "uniform": _between,
}


def _are_pythons() -> bool:
    """Whether random's functions are methods of its own generator, which nobody has replaced."""
    generator = getattr(random, "_inst", None)
    return (
        type(generator) is random.Random
        and "random" not in vars(generator)
        and is_shipped(random.Random.uniform, "random", "Random.uniform")
        and all(getattr(f, "__self__", None) is generator for f in (random.random, random.uniform))
        and isinstance(random.random, types.BuiltinMethodType)
        and getattr(random.uniform, "__func__", None) is random.Random.uniform
    )


def _draw_of(function: Any) -> Callable[..., Drawn] | None:
    """The function that describes the draw of `function`, one of the global generators' functions; None for
    other functions.
    """
    if function is random.random or function is random.uniform:
        if not _are_pythons():
            return None
        return _random if function is random.random else _uniform
    if isinstance(function, types.BuiltinFunctionType) and function is torch.rand:
        return _torch_rand if function.__name__ == "rand" else None
    if isinstance(function, (types.MethodType, types.BuiltinMethodType)):
        generator = function.__self__
        # Its class is compiled, so a script cannot replace methods.
        if type(generator) is np.random.RandomState and generator is getattr(np.random.mtrand, "_rand", None):
            name = function.__name__
            return _NUMPYS.get(name) if function == getattr(generator, name, None) else None
    return None


# ---------------------------------------------------------------- Pillow


def _gaussian(radius: Any = 2) -> _Blur:
    if isinstance(radius, Drawn):
        low, high, known = radius.low, radius.high, not radius.is_array
    else:
        known = is_number(radius)
        low = high = radius
    require(known and 0 <= low <= high <= _MOST_RADIUS)
    return _Blur(radius)


def _of_image_ops(made: type[PictureOperation]) -> Callable[..., Picture]:
    """ImageOps' function of `made`'s kind, which calls its value as `made` does."""
    signature = inspect.signature(getattr(ImageOps, made.kind))

    def call(*args: Any, **named: Any) -> Picture:
        bound = signature.bind(*args, **named)
        require(bound.arguments.keys() <= {"image", made.value_name})
        bound.apply_defaults()
        picture = _picture(bound.arguments["image"])
        if made.value_name is None:
            return picture.then(step_of(made.kind, made.kind))
        value = bound.arguments[made.value_name]
        require(is_number(value) and (made.kind != "posterize" or (type(value) is int and 1 <= value <= 8)))
        return picture.then(step_of(made.kind, made.kind, values=[float(value)]))

    return call


def _picture(value: Any) -> Picture:
    require(isinstance(value, Picture))
    return value


def _filter(picture: Picture, filter: Any) -> Picture:
    require(isinstance(filter, _Blur) and _is_pillows_method("filter"))
    radius = filter.radius
    if isinstance(radius, Drawn):
        radius.take()
        level = {"mean": radius.high - radius.low, "uniform": True, "most": 1e9, "offset": radius.low}
        return picture.then(step_of("GaussianBlur", "gaussian_blur", level=level))
    return picture.then(step_of("GaussianBlur", "gaussian_blur", values=[float(radius)]))


_RGB = Op({"op": "rgb"}, 'convert("RGB")', Called(methodcaller("convert", "RGB"), 'convert("RGB")'))


def _convert(picture: Picture, mode: Any) -> Picture:
    require(type(mode) is str and mode == "RGB" and _is_pillows_method("convert"))
    return picture.then(_RGB)


METHODS: dict[str, Callable[..., Picture]] = {"filter": _filter, "convert": _convert}
_PILLOWS: list[tuple[str, str, Callable[..., Any]]] = [
    ("PIL.ImageFilter", "GaussianBlur", _gaussian),
    *(
        ("PIL.ImageOps", made.kind, _of_image_ops(made))
        for made in (getattr(operations, name) for name in operations.__all__)
        if hasattr(ImageOps, made.kind)
    ),
]


def known_call(function: Any) -> Callable[..., Any] | None:
    """The function that describes a call of `function`; None if it is not known. Nothing is imported to find
    out. A name alone proves nothing, because scripts put their own functions into other modules: the object
    itself is checked, too.
    """
    if (draw := _draw_of(function)) is not None:
        return draw
    if function is torch.stack and isinstance(function, types.BuiltinFunctionType):
        return stacked if function.__name__ == "stack" else None
    for module, name, known in _PILLOWS:
        if function is not None and function is loaded(module, name):
            return known if _is_pillows(function, module, name) else None
    return None


def _is_pillows(value: Any, module: str, name: str) -> bool:
    if not isinstance(value, type):
        return is_shipped(value, module, name)
    methods = ("__init__", "filter")
    return all(is_shipped(vars(value).get(method), module, f"{name}.{method}") for method in methods)


def _is_pillows_method(name: str) -> bool:
    """Of pictures: Pillow's own, or what millrace puts around that."""
    image = loaded("PIL.Image", "Image")
    return image is None or replaced_in(image, name) is None
