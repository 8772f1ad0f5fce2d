"""Crops of all corners and the middle of a picture."""

from __future__ import annotations

from collections.abc import Sequence

from .geometry import center_crop, crop, horizontal_flip, two_sides
from .geometry import vertical_flip as upside_down
from .picture import P, get_size


def five_crop(picture: P, size: int | Sequence[int]) -> tuple[P, P, P, P, P]:
    """`size` (height, width) of the corners top left, top right, bottom left and bottom right, and of the
    middle. ValueError for a picture that is smaller.
    """
    height, width = two_sides(size)
    full_height, full_width = get_size(picture)
    if width > full_width or height > full_height:
        raise ValueError(
            f"Requested crop size {[height, width]} is bigger than input size {(full_height, full_width)}"
        )
    bottom, right = full_height - height, full_width - width
    places = ((0, 0), (0, right), (bottom, 0), (bottom, right))
    first, second, third, fourth = (crop(picture, top, left, height, width) for top, left in places)
    return first, second, third, fourth, center_crop(picture, [height, width])


def ten_crop(picture: P, size: int | Sequence[int], vertical_flip: bool = False) -> tuple[P, ...]:
    """five_crop() of `picture`, and then of the picture with left and right exchanged, or top and bottom."""
    turned = upside_down(picture) if vertical_flip else horizontal_flip(picture)
    return (*five_crop(picture, size), *five_crop(turned, size))
