"""What tests expect of Pillow and its versions differ in: names that a version lacks, and behaviour."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from PIL import Image, ImageMath, ImageOps

PILLOW = tuple(int(part) for part in Image.__version__.split(".")[:2])


def _takes_arrays_as_sizes() -> bool:
    try:
        Image.new("L", (2, 2)).resize(np.array([1, 1]))
    except ValueError:  # of Pillow 10.4, which compares a size with another one
        return False
    return True


_THERE = {
    "arrow": hasattr(Image.Image, "__arrow_c_array__"),
    "expression": hasattr(ImageMath, "lambda_eval"),
    "get_flattened_data": hasattr(Image.Image, "get_flattened_data"),
    "cover": hasattr(ImageOps, "cover"),
    "resize to numpy": _takes_arrays_as_sizes(),
    "upright in place": "in_place" in inspect.signature(ImageOps.exif_transpose).parameters,
}
ABSENT = {name for name, there in _THERE.items() if not there}
"""Names of tests' cases that this Pillow has nothing for."""


def skip_absent(case: str) -> None:
    if case in ABSENT:
        pytest.skip(f"Pillow {Image.__version__} has no such function")


def skip_before(major: int, reason: str) -> None:
    """`reason`: what Pillow does since that version."""
    if PILLOW[0] < major:
        pytest.skip(f"since Pillow {major} {reason}; this is {Image.__version__}")


def begins_down(size: tuple[int, int], out: tuple[int, int]) -> bool:
    """Whether Pillow 13 makes the vertical pass of a resize first; older ones never do. (width, height)."""
    return out[1] < size[1] and size[1] - out[1] > 2 * (size[0] - out[0])
