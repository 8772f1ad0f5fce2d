"""What the constructors of several transforms check, in torchvision's words."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any, Optional, Union

from .functional.geometry import Fill
from .functional.interpolation import Interpolation, interpolation_mode
from .functional.picture import Picture

Fills = Union[Fill, dict[Any, Fill]]
# Of a colour, by their numbers in torchvision's orders of them.
PROPERTIES = ("brightness", "contrast", "saturation", "hue")
Factor = Optional[Union[float, Sequence[float]]]


def probability(p: float) -> float:
    if not 0.0 <= p <= 1.0:
        raise ValueError("`p` should be a floating point value in the interval [0.0, 1.0].")
    return p


def require_length(value: Any, name: str, lengths: Sequence[int]) -> None:
    """TypeError unless `value` is a sequence, ValueError unless its length is one of `lengths`."""
    message = f"{name} should be a sequence of length {' or '.join(map(str, lengths))}."
    if not isinstance(value, Sequence):
        raise TypeError(message)
    if len(value) not in lengths:
        raise ValueError(message)


def angle_range(value: float | Sequence[float], name: str, lengths: Sequence[int] = (2,)) -> list[float]:
    """Bounds in degrees; a single number means that much either way."""
    bounds: Any = value
    if isinstance(value, numbers.Number):
        if bounds < 0:
            raise ValueError(f"If {name} is a single number, it must be positive.")
        bounds = [-bounds, bounds]
    else:
        require_length(value, name, lengths)
    return [float(angle) for angle in bounds]


def factor_range(value: Factor, name: str) -> tuple[float, float] | None:
    """(min, max) of a colour's property by its name: a number is a distance from what changes nothing; None
    when nothing is to change.
    """
    neutral, low, high = (0.0, -0.5, 0.5) if name == "hue" else (1.0, 0.0, float("inf"))
    if value is None:
        return None
    if isinstance(value, (int, float)):
        if value < 0:
            raise ValueError(f"If {name} is a single number, it must be non negative.")
        # Factors cannot be negative, but a hue can: too wide a range of hues is an error, below.
        value = [max(neutral - value, 0.0) if neutral else neutral - value, neutral + value]
    elif not isinstance(value, Sequence) or len(value) != 2:
        raise TypeError(f"{name}={value} should be a single number or a sequence with length 2.")
    first, last = float(value[0]), float(value[1])
    if not low <= first <= last <= high:
        bounds = (-0.5, 0.5) if name == "hue" else (0, high)
        raise ValueError(f"{name} values should be between {bounds} and increasing, but got {[first, last]}.")
    return None if first == last == neutral else (first, last)


def check_map(
    interpolation: Interpolation,
    fill: Fills,
    center: Sequence[float] | None,
    translate: Sequence[float] | None = None,
    scale: Sequence[float] | None = None,
) -> None:
    """`center`: (x, y) or None; `translate`: shares of width and height; `scale`: (min, max)."""
    interpolation_mode(interpolation)
    check_fill(fill)
    for name, value in (("translate", translate), ("scale", scale), ("center", center)):
        if value is not None:
            require_length(value, name, (2,))
    if translate is not None and not all(0.0 <= share <= 1.0 for share in translate):
        raise ValueError("translation values should be between 0 and 1")
    if scale is not None and not all(factor > 0 for factor in scale):
        raise ValueError("scale values should be positive")


def check_fill(fill: Fills) -> None:
    """`fill` is None, a number, one per channel, or a dict from picture type to these."""
    for value in fill.values() if isinstance(fill, dict) else [fill]:
        if not (value is None or isinstance(value, (int, float, tuple, list))):
            raise TypeError("Got inappropriate fill arg, only Numbers, tuples, lists and dicts are allowed.")


def fill_for(fill: Fills, picture: Picture) -> Fill:
    """The entry of a dict for this type of picture, or "others"; anything else as it is."""
    if not isinstance(fill, dict):
        return fill
    return fill[type(picture)] if type(picture) in fill else fill.get("others")
