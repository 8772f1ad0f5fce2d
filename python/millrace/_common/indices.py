"""Indices of samples, as a list takes them."""

from __future__ import annotations

from typing import Any


def checked_index(index: Any, length: int) -> int:
    """As a list takes it: negative ones count back; IndexError outside, TypeError for what is no whole
    number.
    """
    number = index.__index__() if hasattr(index, "__index__") else None
    if number is None:
        raise TypeError(f"indices should be integers, not {type(index).__name__}")
    if not -length <= number < length:
        raise IndexError(f"index {number} is out of range for {length} samples")
    return number + length if number < 0 else number
