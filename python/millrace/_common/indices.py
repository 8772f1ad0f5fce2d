"""Indices of samples, as a list takes them."""

from __future__ import annotations

from typing import Any


def checked_index(index: Any, length: int) -> int:
    """`index` as a list understands it: negative numbers count from the end. IndexError if it is out of
    range, TypeError if it is no whole number.
    """
    number = index.__index__() if hasattr(index, "__index__") else None
    if number is None:
        raise TypeError(f"indices should be integers, not {type(index).__name__}")
    if not -length <= number < length:
        raise IndexError(f"index {number} is out of range for {length} samples")
    return number + length if number < 0 else number
