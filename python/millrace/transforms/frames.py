"""Transforms that put a frame around a picture: Pad, RandomZoomOut, FiveCrop, TenCrop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from . import functional as F
from .arguments import Fills, check_fill, fill_for, require_length
from .base import RandomApplyTransform, Transform
from .functional.geometry import PADDING_MODES, four_borders, two_sides
from .functional.picture import Picture


class Pad(Transform):
    """Put a border around the picture.

    Args:
        padding: the border's pixels: an int, [x, y] or [left, top, right, bottom].
        fill: the border's colour in mode "constant": a number, one per channel, or a dict from picture type
            to these, with "others" for the rest.
        padding_mode: see `functional.pad`.
    """

    def __init__(self, padding: int | Sequence[int], fill: Fills = 0, padding_mode: str = "constant") -> None:
        super().__init__()
        four_borders(padding)
        if padding_mode not in PADDING_MODES:
            raise ValueError("Padding mode should be either constant, edge, reflect or symmetric")
        check_fill(fill)
        self.padding = padding if isinstance(padding, int) else list(padding)
        self.fill, self.padding_mode = fill, padding_mode

    def transform(self, inpt: Picture, params: dict[str, Any]) -> Picture:
        return F.pad(inpt, self.padding, fill_for(self.fill, inpt), self.padding_mode)


class RandomZoomOut(RandomApplyTransform):
    """Put the picture at a random place of a larger one, with probability `p`.

    Args:
        fill: see `Pad`.
        side_range: bounds of how many times as wide and high the larger one is, from 1 on.
        p: the probability.
    """

    def __init__(self, fill: Fills = 0, side_range: Sequence[float] = (1.0, 4.0), p: float = 0.5) -> None:
        super().__init__(p)
        check_fill(fill)
        require_length(side_range, "side_range", (2,))
        if side_range[0] < 1.0 or side_range[0] > side_range[1]:
            raise ValueError(f"Invalid side range provided {side_range}.")
        self.fill, self.side_range = fill, side_range

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        height, width = F.get_size(flat_inputs[0])
        low, high = self.side_range
        side = low + torch.rand(1) * (high - low)
        more_x, more_y = int(width * side) - width, int(height * side) - height
        x, y = torch.rand(2)
        left, top = int(more_x * x), int(more_y * y)
        return {"padding": [left, top, more_x - left, more_y - top]}

    def transform(self, inpt: Picture, params: dict[str, Any]) -> Picture:
        return F.pad(inpt, params["padding"], fill_for(self.fill, inpt))


class FiveCrop(Transform):
    """A tuple of five pictures: the four corners and the middle, `size` large.

    In the engine each is a view, if it knows what follows (docs/native.md, "Several views of a picture").

    Raises:
        ValueError: if the picture is smaller than `size`.
    """

    def __init__(self, size: int | Sequence[int]) -> None:
        super().__init__()
        self.size = two_sides(size)

    def transform(self, inpt: Picture, params: dict[str, Any]) -> tuple[Picture, ...]:
        return F.five_crop(inpt, self.size)


class TenCrop(Transform):
    """A tuple of ten pictures, `size` large: `FiveCrop`'s of the picture, and those of the flipped picture.

    Args:
        size: of each of the ten.
        vertical_flip: True exchanges top and bottom for the second five, False left and right.
    """

    def __init__(self, size: int | Sequence[int], vertical_flip: bool = False) -> None:
        super().__init__()
        self.size, self.vertical_flip = two_sides(size), vertical_flip

    def transform(self, inpt: Picture, params: dict[str, Any]) -> tuple[Picture, ...]:
        return F.ten_crop(inpt, self.size, self.vertical_flip)
