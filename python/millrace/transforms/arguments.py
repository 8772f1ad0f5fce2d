"""What the constructors of several transforms check, in torchvision's words."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any, Union

from .functional.geometry import Fill
from .functional.picture import Picture

Fills = Union[Fill, dict[Any, Fill]]


def require_length(value: Any, name: str, lengths: Sequence[int]) -> None:
    """TypeError unless `value` is a sequence, ValueError unless its length is one of `lengths`."""
    message = f"{name} should be a sequence of length {' or '.join(map(str, lengths))}."
    if not isinstance(value, Sequence):
        raise TypeError(message)
    if len(value) not in lengths:
        raise ValueError(message)


def angle_range(value: float | Sequence[float], name: str, lengths: Sequence[int] = (2,)) -> list[float]:
    """Bounds in degrees; a single number means that much either way."""
    if isinstance(value, numbers.Number):
        if value < 0:
            raise ValueError(f"If {name} is a single number, it must be positive.")
        value = [-value, value]
    else:
        require_length(value, name, lengths)
    return [float(angle) for angle in value]


def check_center(center: Sequence[float] | None) -> None:
    """`center` is None or (x, y)."""
    if center is not None:
        require_length(center, "center", (2,))


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
