"""Transforms that map pictures to the plane anew: RandomRotation, RandomAffine, RandomPerspective."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from . import functional as F
from .arguments import Fills, angle_range, check_map, fill_for
from .base import RandomApplyTransform, Transform, uniform
from .functional.interpolation import Interpolation
from .functional.picture import Picture
from .functional.warp import perspective_coefficients


class RandomRotation(Transform):
    """Turn by a random angle.

    Args:
        degrees: (min, max), counter-clockwise, or a number for (-degrees, degrees).
        interpolation: "nearest", "bilinear" or "bicubic".
        expand: enlarge the picture to show all of it; the engine runs expand=False only.
        center: (x, y) in pixels, the middle if not given.
        fill: a number, one per channel, or a dict from picture type to these, with "others" for the rest.
    """

    def __init__(
        self,
        degrees: float | Sequence[float],
        interpolation: Interpolation = "nearest",
        expand: bool = False,
        center: Sequence[float] | None = None,
        fill: Fills = 0,
    ) -> None:
        super().__init__()
        check_map(interpolation, fill, center)
        self.degrees = angle_range(degrees, "degrees")
        self.interpolation, self.expand, self.fill, self.center = interpolation, expand, fill, center

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        return {"angle": uniform(*self.degrees)}

    def transform(self, inpt: Picture, params: dict[str, Any]) -> Picture:
        return F.rotate(
            inpt, params["angle"], self.interpolation, self.expand, self.center, fill_for(self.fill, inpt)
        )


class RandomAffine(Transform):
    """Turn, move, scale and shear at random; the size stays.

    Args:
        degrees: (min, max), clockwise, or a number for (-degrees, degrees).
        translate: the largest shifts along x and y, as shares of width and height.
        scale: (min, max).
        shear: in degrees: a number or (min, max) for x, or (min x, max x, min y, max y).
        interpolation, fill, center: see `RandomRotation`.
    """

    def __init__(
        self,
        degrees: float | Sequence[float],
        translate: Sequence[float] | None = None,
        scale: Sequence[float] | None = None,
        shear: float | Sequence[float] | None = None,
        interpolation: Interpolation = "nearest",
        fill: Fills = 0,
        center: Sequence[float] | None = None,
    ) -> None:
        super().__init__()
        check_map(interpolation, fill, center, translate, scale)
        self.degrees = angle_range(degrees, "degrees")
        self.translate, self.scale = translate, scale
        self.shear = None if shear is None else angle_range(shear, "shear", (2, 4))
        self.interpolation, self.fill, self.center = interpolation, fill, center

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        height, width = F.get_size(flat_inputs[0])
        angle = uniform(*self.degrees)
        translate = (0, 0)
        if self.translate is not None:
            most_x, most_y = float(self.translate[0] * width), float(self.translate[1] * height)
            translate = (round(uniform(-most_x, most_x)), round(uniform(-most_y, most_y)))
        scale = 1.0 if self.scale is None else uniform(*self.scale)
        shear = (0.0, 0.0)
        if self.shear is not None:
            shear = (uniform(*self.shear[:2]), uniform(*self.shear[2:]) if len(self.shear) == 4 else 0.0)
        return {"angle": angle, "translate": translate, "scale": scale, "shear": shear}

    def transform(self, inpt: Picture, params: dict[str, Any]) -> Picture:
        return F.affine(
            inpt,
            **params,
            interpolation=self.interpolation,
            fill=fill_for(self.fill, inpt),
            center=self.center,
        )


class RandomPerspective(RandomApplyTransform):
    """Tilt the picture at random, with probability `p`; the size stays.

    Args:
        distortion_scale: each corner moves inwards by up to this share (0 to 1) of half a side.
        p: the probability.
        interpolation, fill: see `RandomRotation`.
    """

    def __init__(
        self,
        distortion_scale: float = 0.5,
        p: float = 0.5,
        interpolation: Interpolation = "bilinear",
        fill: Fills = 0,
    ) -> None:
        super().__init__(p)
        if not 0 <= distortion_scale <= 1:
            raise ValueError("Argument distortion_scale value should be between 0 and 1")
        check_map(interpolation, fill, None)
        self.distortion_scale, self.interpolation, self.fill = distortion_scale, interpolation, fill

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        height, width = F.get_size(flat_inputs[0])
        reach_y, reach_x = (int(self.distortion_scale * (side // 2)) + 1 for side in (height, width))
        ends = [
            [_between(left, left + reach_x), _between(top, top + reach_y)]
            for left, top in (
                (0, 0),
                (width - reach_x, 0),
                (width - reach_x, height - reach_y),
                (0, height - reach_y),
            )
        ]
        starts = [[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]]
        return {"coefficients": perspective_coefficients(starts, ends)}

    def transform(self, inpt: Picture, params: dict[str, Any]) -> Picture:
        fill = fill_for(self.fill, inpt)
        return F.perspective(inpt, None, None, self.interpolation, fill, **params)


def _between(low: int, high: int) -> int:
    return int(torch.randint(low, high, size=(1,)))
