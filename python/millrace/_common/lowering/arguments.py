"""Arguments of transforms as the engine's chain has them; what it does not know is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .refusal import NotLowered, loaded

OURS, V1, V2 = "millrace.transforms", "torchvision.transforms.transforms", "torchvision.transforms.v2"
V1_POLICIES, TIMM = "torchvision.transforms.autoaugment", "timm.data"
# By torchvision's values and Pillow's numbers. Of pictures, "nearest-exact" is Pillow's nearest, too.
_INTERPOLATIONS = {
    "nearest": "nearest",
    "nearest-exact": "nearest",
    "bilinear": "bilinear",
    "bicubic": "bicubic",
    "lanczos": "lanczos",
    "box": "box",
    "hamming": "hamming",
    0: "nearest",
    1: "lanczos",
    2: "bilinear",
    3: "bicubic",
    4: "box",
    5: "hamming",
}
_OF_MAPS = ("nearest", "bilinear", "bicubic")


def pair(name: str, size: Any) -> tuple[int, int]:
    values = [size] if isinstance(size, int) else list(size) if isinstance(size, Sequence) else []
    if len(values) not in (1, 2) or not all(isinstance(v, int) for v in values):
        raise NotLowered(f"{name}(size={size!r}) is not one or two ints")
    return values[0], values[-1]


def interpolation(name: str, transform: Any) -> str:
    return interpolation_name(name, transform.interpolation)


def interpolation_name(name: str, mode: Any) -> str:
    """`mode`: an enum's member, its value, or Pillow's number."""
    value = getattr(mode, "value", mode)
    if value not in _INTERPOLATIONS:
        raise NotLowered(f"{name}(interpolation={mode!r}) is none of {', '.join(_names())}")
    return _INTERPOLATIONS[value]


def map_interpolation(name: str, mode: Any) -> str:
    """As interpolation_name(), of what turns and tilts pictures."""
    found = interpolation_name(name, mode)
    if found not in _OF_MAPS:
        raise NotLowered(f"{name} with {found} interpolation is none of {', '.join(_OF_MAPS)}")
    return found


def _names() -> list[str]:
    return [name for name in _INTERPOLATIONS if isinstance(name, str)]


def padding(padding: Any, family: str) -> tuple[int, int, int, int]:
    """(left, top, right, bottom) from None, one, two or four ints."""
    if padding is None:
        return 0, 0, 0, 0
    borders = [padding] if isinstance(padding, int) else list(padding)
    if len(borders) == 4 and family != V1:
        left, right, top, bottom = borders  # v2, and we with it, keep torch's order of borders
    elif len(borders) == 4:
        left, top, right, bottom = borders
    else:
        left, top, right, bottom = borders[0], borders[-1], borders[0], borders[-1]
    return left, top, right, bottom


def fill(name: str, fill: Any) -> tuple[int, int, int]:
    values = (
        [0]
        if fill is None
        else [fill]
        if isinstance(fill, (int, float))
        else list(fill)
        if isinstance(fill, Sequence)
        else []
    )
    if len(values) not in (1, 3) or any(v != int(v) or not 0 <= v <= 255 for v in values):
        raise NotLowered(f"{name}(fill={fill!r}) is not one or three whole numbers from 0 to 255")
    values = [int(v) for v in values]
    return (values * 3)[0], (values * 3)[1], (values * 3)[2]


def picture_fill(name: str, value: Any) -> tuple[int, int, int]:
    """As fill(), of what only runs on PIL images, for which v2's dicts may have an entry of their own."""
    if isinstance(value, dict):
        value = value.get(loaded("PIL.Image", "Image"), value.get("others"))
    return fill(name, value)


def floats(values: Any) -> list[float]:
    return torch.as_tensor(values, dtype=torch.float64).reshape(-1).tolist()
