"""OpenCV's imread() and imdecode(): a regular JPEG comes from the engine, with OpenCV's pixels.

Left to OpenCV: grey pictures of JPEGs in colour, because OpenCV has its own conversion; reduced sizes; an
orientation that OpenCV's versions read differently; and everything if the environment sets limits for OpenCV.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import _core
from .decoding import agrees, decoded, is_jpeg, jpeg_in, put_in_front
from .orientation import orientation_of
from .replaced import replacements

_LIMITS = "OPENCV_IO_MAX_IMAGE_"
_IGNORE_ORIENTATION, _RGB = 128, 256
# Flags -> layouts of a picture in colour, and of a grey one; None: OpenCV's own. -1 is IMREAD_UNCHANGED, 0
# GRAYSCALE; of the rest, 1 is COLOR, 2 ANYDEPTH, 4 ANYCOLOR.
_LAYOUTS: dict[int, tuple[str | None, str]] = {
    -1: ("BGR", "L"),
    0: (None, "L"),
    1: ("BGR", "BGR"),
    2: (None, "L"),
    3: ("BGR", "BGR"),
    4: ("BGR", "L"),
    5: ("BGR", "BGR"),
    6: ("BGR", "L"),
    _RGB: ("RGB", "RGB"),
}
# By orientation: the method that puts the picture upright, by Pillow's number.
_METHODS = {2: 0, 3: 3, 4: 1, 5: 5, 6: 4, 7: 6, 8: 2}


def _decoded(jpeg: bytes, flags: int) -> np.ndarray | None:
    ignores = flags == -1 or bool(flags & _IGNORE_ORIENTATION)
    layouts = _LAYOUTS.get(flags if flags == -1 else flags & ~_IGNORE_ORIENTATION)
    if layouts is None:
        return None

    def make(record: _core.RecordedPicture) -> np.ndarray | None:
        layout = layouts[record.mode == "L"]
        orientation = 1 if ignores else orientation_of(jpeg)
        if layout is None or orientation is None:
            return None
        if orientation != 1:
            record = record.transpose(_METHODS[orientation])
        return record.array(layout)

    return decoded(jpeg, make)


def _imread(filename: Any, *more: Any, **named: Any) -> np.ndarray | None:
    flags = _flags(more, named, 1)
    if flags is None or (jpeg := jpeg_in(filename)) is None:
        return None
    return _decoded(jpeg, flags)


def _imdecode(buf: Any, *more: Any, **named: Any) -> np.ndarray | None:
    flags = _flags(more, named, None)
    if flags is None or type(buf) is not np.ndarray or buf.dtype != np.uint8 or buf.ndim != 1:
        return None
    return _decoded(buf.tobytes(), flags) if is_jpeg(buf[:3].tobytes()) else None


def _flags(more: tuple[Any, ...], named: dict[str, Any], default: int | None) -> int | None:
    """The flags; None for other arguments than these."""
    if len(more) + len(named) > 1:
        return None
    flags = more[0] if more else named.get("flags") if named else default
    return flags if type(flags) is int else None


# ------------------------------------------------------------------ in and out of OpenCV

_FUNCTIONS: dict[str, Callable[..., Any]] = {"imread": _imread, "imdecode": _imdecode}


def __getattr__(name: str) -> Any:
    """imread and imdecode are OpenCV's: pickle looks through all modules for functions that say of no module
    that it is theirs, as OpenCV's do, so it finds one that a script bound before it was replaced. A process
    that unpickles one may not have imported OpenCV.
    """
    if name in _FUNCTIONS:
        with contextlib.suppress(ImportError):
            return replacements.original(importlib.import_module("cv2"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def install() -> bool:
    """False while OpenCV is being imported."""
    cv2 = sys.modules["cv2"]
    if not hasattr(cv2, "__path__") or not all(hasattr(cv2, name) for name in _FUNCTIONS):
        return False
    if any(name.startswith(_LIMITS) for name in os.environ):
        return True
    if not hasattr(cv2, "IMREAD_COLOR_RGB"):
        _LAYOUTS.pop(_RGB, None)
    color = 1
    if agrees(
        lambda jpeg: cv2.imdecode(np.frombuffer(jpeg, np.uint8), color), lambda jpeg: _decoded(jpeg, color)
    ):
        for name, ours in _FUNCTIONS.items():
            put_in_front(cv2, name, ours, f"cv2:{name}")
    return True
