"""InterpolationMode, with torchvision's names and values, and the spellings of it that transforms accept."""

from __future__ import annotations

from enum import Enum
from typing import Union

from PIL import Image


class InterpolationMode(Enum):
    """How a resize computes new pixels. `box` and `hamming` work on PIL images only."""

    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"


Interpolation = Union[str, int, Enum]

_PILLOW = {
    InterpolationMode.NEAREST: Image.Resampling.NEAREST,
    InterpolationMode.NEAREST_EXACT: Image.Resampling.NEAREST,
    InterpolationMode.BILINEAR: Image.Resampling.BILINEAR,
    InterpolationMode.BICUBIC: Image.Resampling.BICUBIC,
    InterpolationMode.BOX: Image.Resampling.BOX,
    InterpolationMode.HAMMING: Image.Resampling.HAMMING,
    InterpolationMode.LANCZOS: Image.Resampling.LANCZOS,
}
# Reversed, so that NEAREST, not NEAREST_EXACT, is what Pillow's 0 means.
_FROM_PILLOW = {int(resampling): mode for mode, resampling in reversed(_PILLOW.items())}


def interpolation_mode(value: Interpolation) -> InterpolationMode:
    """The mode meant by a string, a Pillow constant, our enum or torchvision's. ValueError for anything
    else.
    """
    if isinstance(value, InterpolationMode):
        return value
    if isinstance(value, int) and value in _FROM_PILLOW:
        return _FROM_PILLOW[value]
    # torchvision's enum is another class with the same values; it is recognised without importing it.
    text = value.value if isinstance(value, Enum) and type(value).__name__ == "InterpolationMode" else value
    try:
        return InterpolationMode(text)
    except ValueError:
        pass
    if isinstance(value, str):
        names = [mode.value for mode in InterpolationMode]
        raise ValueError(f"Invalid interpolation mode: '{value}'. Supported string values are: {names}.")
    raise ValueError(
        "Argument interpolation should be an `InterpolationMode` or a corresponding Pillow integer constant,"
        f" but got {value}."
    )


def pillow_resampling(mode: InterpolationMode) -> Image.Resampling:
    return _PILLOW[mode]
