"""Pillow's changes of colour, its affine maps and borders, of pictures that wait: histogram(), transform(),
ImageEnhance, ImageOps.expand(), rotate(), and torchvision's Pad; with point() also ImageOps' functions of
bytes, as invert() and equalize().
"""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Callable
from typing import Any

from PIL import Image

from .. import _core
from .._common.shipped import replaced
from .pillow import derived, hold, record_of, recorded, rendered
from .replaced import around, can_be_redirected, replacements

_AFFINE = 0
_OPERATION = "_millrace_operation"  # of an enhancer that waits
_ENHANCERS = {"Brightness": "brightness", "Color": "saturation", "Contrast": "contrast"}


@around
def _histogram(
    self: Image.Image, mask: Any = None, extrema: Any = None, *, original: Callable[..., Any]
) -> Any:
    """The picture's pixels are made, and what follows is recorded over them."""
    record = recorded(self)
    if record is None or mask is not None or extrema is not None:
        return original(self, mask, extrema)
    made = rendered(record, record.made)
    return made.histogram() if hold(self, made) else original(self)


@around
def _transform(
    self: Image.Image,
    size: Any,
    method: Any,
    data: Any = None,
    resample: Any = 0,
    fill: Any = 1,
    fillcolor: Any = None,
    *,
    original: Callable[..., Any],
) -> Any:
    # Pillow copies the `info` before it loads the picture: of a PNG, without the part after the pixels.
    record = recorded(self) if self.format == "JPEG" else record_of(self)
    if record is not None and method == _AFFINE and tuple(size) == self.size:
        try:
            colour = _colour(fillcolor, record.mode)
            made = record.map(tuple(map(float, data[:6])), int(resample), colour)
        except (_core.NotRecorded, TypeError, ValueError):
            pass
        else:
            return derived(self, made)
    return original(self, size, method, data, resample, fill, fillcolor)


def _colour(fillcolor: Any, mode: str) -> tuple[int, int, int]:
    """NotRecorded for colours by name, and for those that Pillow refuses."""
    if fillcolor is None:
        return 0, 0, 0
    if type(fillcolor) is int and (mode == "L" or fillcolor == 0):
        fillcolor = (fillcolor,) * 3
    elif type(fillcolor) not in (tuple, list) or len(fillcolor) != 3 or mode != "RGB":
        raise _core.NotRecorded
    if any(type(v) is not int or not 0 <= v <= 255 for v in fillcolor):
        raise _core.NotRecorded
    return tuple(fillcolor)  # type: ignore[return-value]


@around
def _expand(image: Any, border: Any = 0, fill: Any = 0, *, original: Callable[..., Any]) -> Any:
    record = recorded(image) if isinstance(image, Image.Image) and fill is not None else None
    if record is not None and "transparency" not in image.info:  # which newer ones keep
        try:
            made = record.pad(_borders(border), _colour(fill, record.mode))
        except (_core.NotRecorded, TypeError, ValueError):
            pass
        else:  # pasted into a new picture, which has no info
            return derived(image, made, info=False)
    return original(image, border, fill)


def _borders(border: Any) -> tuple[int, int, int, int]:
    """Left, top, right, bottom; TypeError for what Pillow may refuse."""
    sides = border if isinstance(border, tuple) else (border,)
    if len(sides) not in (1, 2, 4):
        raise TypeError
    left, top, right, bottom = map(operator.index, sides * (4 // len(sides)))
    return left, top, right, bottom


# ------------------------------------------------------------------ ImageEnhance


class _Degenerate:
    """What an enhancer blends with, made when a script asks for it."""

    def __init__(self, begin: Callable[..., None], _nothing: Any) -> None:
        self._begin = begin

    def __get__(self, enhancer: Any, owner: type) -> Any:
        if enhancer is None or _OPERATION not in enhancer.__dict__:
            raise AttributeError("degenerate")
        del enhancer.__dict__[_OPERATION]
        self._begin(enhancer, enhancer.image)
        return enhancer.__dict__["degenerate"]


def _beginning(begin: Callable[..., None], operation: str) -> Callable[..., None]:
    @functools.wraps(begin)
    def __init__(self: Any, image: Image.Image) -> None:  # noqa: N807
        if recorded(image) is None or "transparency" in image.info:  # which changes with the mode
            return begin(self, image)
        self.image = image
        if operation == "saturation":
            self.intermediate_mode = "L"
        self.__dict__[_OPERATION] = operation

    return __init__


@around
def _enhance(self: Any, factor: float, *, original: Callable[..., Any]) -> Any:
    operation = self.__dict__.get(_OPERATION)
    record = None if operation is None else record_of(self.image)
    if operation is not None and record is not None:
        try:
            made = record.recolor(operation, factor)
        except (_core.NotRecorded, TypeError):
            pass
        else:  # Pillow's result is derived from what it blends with, which has no info of the picture's
            return derived(self.image, made, info=operation == "saturation")
    return original(self, factor)


# ------------------------------------------------------------------ in and out of Pillow's classes


def install() -> None:
    """Put replacements into the modules that are imported by now."""
    if any(map(replaced, ("PIL.Image", "PIL.ImageOps", "PIL.ImageEnhance"))):
        return
    replacements.put(Image.Image, "histogram", _histogram)
    replacements.put(Image.Image, "transform", _transform)
    expand = getattr(sys.modules.get("PIL.ImageOps"), "expand", None)
    if can_be_redirected(expand):
        replacements.redirect(expand, _expand)
    module = sys.modules.get("PIL.ImageEnhance")
    if module is None:
        return
    replacements.put(module._Enhance, "enhance", _enhance)
    for name, operation in _ENHANCERS.items():
        cls = getattr(module, name)
        begin = cls.__init__
        replacements.put(cls, "degenerate", functools.partial(_Degenerate, begin))
        replacements.put(cls, "__init__", functools.partial(_beginning, operation=operation))
