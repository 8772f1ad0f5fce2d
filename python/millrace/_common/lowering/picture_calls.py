"""Functions and methods of other libraries that are understood where a transform's source calls them."""

from __future__ import annotations

import ast
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from .read_values import NotRead, Op, Picture
from .refusal import loaded


@dataclass(frozen=True)
class Drawn:
    """A number drawn evenly between two."""

    low: float
    high: float


@dataclass(frozen=True)
class Coin:
    """True with probability p."""

    p: float


@dataclass(frozen=True)
class _Blur:
    """Pillow's GaussianBlur of a radius that is known, or drawn."""

    radius: float | Drawn


def coin_of(left: Any, operator: ast.cmpop, right: Any) -> Coin:
    """A number drawn from [0, 1), compared with one that is known."""
    below = isinstance(operator, (ast.Lt, ast.LtE))
    if not below and not isinstance(operator, (ast.Gt, ast.GtE)):
        raise NotRead
    if isinstance(right, Drawn):
        left, right, below = right, left, not below
    if left != Drawn(0.0, 1.0) or not _is_number(right):
        raise NotRead
    share = min(1.0, max(0.0, float(right)))
    return Coin(share if below else 1 - share)


def step_of(name: str, kind: str, **value: Any) -> Op:
    """One of Pillow's operations, as the engine takes it."""
    branch = {"weight": 1.0, "ops": [{"kind": kind, "p": 1.0, **value}]}
    op = {"op": "augment_policy", "name": name, "count": 1, "replace": True, "branches": [branch]}
    return Op({**op, "interpolations": ["nearest"], "fill": (0, 0, 0), "geometry": "pillow"}, name)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)


def _uniform(low: Any, high: Any) -> Drawn:
    if not (_is_number(low) and _is_number(high)) or low > high:
        raise NotRead
    return Drawn(float(low), float(high))


def _unit(*shape: Any) -> Drawn:
    if shape not in ((), (1,)):
        raise NotRead
    return Drawn(0.0, 1.0)


def _gaussian(radius: Any = 2) -> _Blur:
    if not (isinstance(radius, Drawn) or _is_number(radius)):
        raise NotRead
    return _Blur(radius)


def _of_picture(name: str, kind: str) -> Callable[[Any], Picture]:
    def call(image: Any) -> Picture:
        return _picture(image).then(step_of(name, kind))

    return call


def _solarize(image: Any, threshold: Any = 128) -> Picture:
    if not _is_number(threshold):
        raise NotRead
    return _picture(image).then(step_of("solarize", "solarize", values=[float(threshold)]))


def _posterize(image: Any, bits: Any) -> Picture:
    if type(bits) is not int or not 1 <= bits <= 8:
        raise NotRead
    return _picture(image).then(step_of("posterize", "posterize", values=[float(bits)]))


def _picture(value: Any) -> Picture:
    if not isinstance(value, Picture):
        raise NotRead
    return value


def _filter(picture: Picture, filter: Any) -> Picture:
    if not isinstance(filter, _Blur):
        raise NotRead
    radius = filter.radius
    if isinstance(radius, Drawn):
        level = {"mean": radius.high - radius.low, "uniform": True, "most": 1e9, "offset": radius.low}
        return picture.then(step_of("GaussianBlur", "gaussian_blur", level=level))
    return picture.then(step_of("GaussianBlur", "gaussian_blur", values=[float(radius)]))


def _convert(picture: Picture, mode: Any) -> Picture:
    if mode != "RGB":
        raise NotRead
    return picture.then(Op({"op": "rgb"}, 'convert("RGB")'))


METHODS: dict[str, Callable[..., Picture]] = {"filter": _filter, "convert": _convert}


_DRAWS: dict[int, Callable[..., Drawn]] = {
    id(random.random): _unit,
    id(random.uniform): _uniform,
    id(np.random.rand): _unit,
    id(np.random.random): _unit,
    id(np.random.uniform): _uniform,
    id(torch.rand): _unit,
}
_PILLOWS: list[tuple[str, str, Callable[..., Any]]] = [
    ("PIL.ImageFilter", "GaussianBlur", _gaussian),
    ("PIL.ImageOps", "solarize", _solarize),
    ("PIL.ImageOps", "posterize", _posterize),
    ("PIL.ImageOps", "equalize", _of_picture("equalize", "equalize")),
    ("PIL.ImageOps", "autocontrast", _of_picture("autocontrast", "autocontrast")),
    ("PIL.ImageOps", "invert", _of_picture("invert", "invert")),
]


def known_call(function: Any) -> Callable[..., Any] | None:
    """What stands for `function`; None: it is not known. Nothing is imported to find out."""
    if (draw := _DRAWS.get(id(function))) is not None:
        return draw
    for module, name, known in _PILLOWS:
        if function is not None and function is loaded(module, name):
            return known
    return None
