"""RandomHorizontalFlip, RandomRotation, RandomAffine, RandomErasing on batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Union

import numpy as np
import torch
from numpy.typing import ArrayLike

from ..arguments import angle_range, check_map, probability
from . import functional as F
from .base import BatchTransform, Params

Range = Union[float, Sequence[float]]


def interpolation_name(interpolation: Any) -> str:
    """'nearest' or 'bilinear', from these words or torchvision's InterpolationMode."""
    name = getattr(interpolation, "value", interpolation)
    if name not in ("nearest", "bilinear"):
        raise ValueError(f"interpolation must be 'nearest' or 'bilinear', not {interpolation!r}")
    return name


def inverse_affine(
    angle: np.ndarray,
    translate: ArrayLike = (0.0, 0.0),
    scale: ArrayLike = 1.0,
    shear: ArrayLike = (0.0, 0.0),
    *,
    center: Sequence[float] | None,
    size: Sequence[int],
) -> np.ndarray:
    """The maps (n, 6) from output to input pixels: angles (n) and shears (n, 2) in degrees, translations (n,
    2) in pixels.

    The forward map turns clockwise, as torchvision's affine: shear, then scale, turn, translate, around
    `center` (x, y; None: the middle of `size`, (width, height)).
    """
    n = len(angle)
    translate, scale, shear = (
        np.broadcast_to(value, shape) for value, shape in ((translate, (n, 2)), (scale, n), (shear, (n, 2)))
    )
    cx, cy = center if center is not None else (size[0] / 2, size[1] / 2)
    turn, shear_x, shear_y = np.radians(angle), np.radians(shear[:, 0]), np.radians(shear[:, 1])
    cos, sin, tan = (
        np.cos(turn - shear_y) / np.cos(shear_y),
        np.sin(turn - shear_y) / np.cos(shear_y),
        np.tan(shear_x),
    )
    a, b, c, d = cos, -cos * tan - np.sin(turn), sin, -sin * tan + np.cos(turn)  # of determinant 1
    inverse = np.stack([d, -b, -c, a], axis=1) / scale[:, None]
    out_x, out_y = cx + translate[:, 0], cy + translate[:, 1]  # where the centre goes
    maps = np.empty((n, 6))
    maps[:, [0, 1, 3, 4]] = inverse
    maps[:, 2] = cx - inverse[:, 0] * out_x - inverse[:, 1] * out_y
    maps[:, 5] = cy - inverse[:, 2] * out_x - inverse[:, 3] * out_y
    return maps


class RandomHorizontalFlip(BatchTransform):
    """Mirror each image with probability `p`."""

    def __init__(self, p: float = 0.5, *, generator: torch.Generator | None = None) -> None:
        super().__init__(generator=generator)
        self.p = probability(p)

    def draw(self, rng: np.random.Generator, images: torch.Tensor) -> Params:
        return {"flipped": rng.random(len(images)) < self.p}

    def transform(self, images: torch.Tensor, params: Params) -> torch.Tensor:
        return F.horizontal_flip(images, params["flipped"])


class RandomAffine(BatchTransform):
    """Turn, move, scale and shear each image.

    Arguments are those of torchvision's RandomAffine.

    Args:
        degrees: a number or (min, max).
        translate: the largest shares (of width, of height).
        scale: (min, max).
        shear: in degrees: a number, (min, max) of x, or (min, max, min, max) of x and y.
        interpolation: "nearest" or "bilinear".
        fill: a number, or one per channel.
        center: (x, y) in pixels.
    """

    def __init__(
        self,
        degrees: Range,
        translate: Sequence[float] | None = None,
        scale: Sequence[float] | None = None,
        shear: Range | None = None,
        interpolation: Any = "nearest",
        fill: Range = 0,
        center: Sequence[float] | None = None,
        *,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(generator=generator)
        self.interpolation = interpolation_name(interpolation)
        check_map(self.interpolation, fill, center, translate, scale)
        self.degrees = angle_range(degrees, "degrees")
        self.translate, self.scale, self.fill, self.center = translate, scale, fill, center
        self.shear = None if shear is None else [*angle_range(shear, "shear", (2, 4)), 0.0, 0.0][:4]

    def draw(self, rng: np.random.Generator, images: torch.Tensor) -> Params:
        n, (height, width) = len(images), images.shape[-2:]
        params = {"angle": rng.uniform(self.degrees[0], self.degrees[1], n)}
        if self.translate is not None:
            most = np.array([self.translate[0] * width, self.translate[1] * height])
            params["translate"] = np.round(rng.uniform(-most, most, (n, 2)))
        if self.scale is not None:
            params["scale"] = rng.uniform(self.scale[0], self.scale[1], n)
        if self.shear is not None:
            params["shear"] = rng.uniform(self.shear[0::2], self.shear[1::2], (n, 2))
        return params

    def transform(self, images: torch.Tensor, params: Params) -> torch.Tensor:
        maps = inverse_affine(**params, center=self.center, size=(images.shape[-1], images.shape[-2]))
        return F.affine(images, maps, self.interpolation, self.fill)


class RandomRotation(RandomAffine):
    """Turn each image anticlockwise by a random angle; its size stays.

    Other arguments: see `RandomAffine`.

    Args:
        degrees: a number or (min, max).

    Raises:
        ValueError: if `expand` is True: an image would not keep its size.
    """

    def __init__(
        self,
        degrees: Range,
        interpolation: Any = "nearest",
        expand: bool = False,
        center: Sequence[float] | None = None,
        fill: Range = 0,
        *,
        generator: torch.Generator | None = None,
    ) -> None:
        if expand:
            raise ValueError(
                "expand=True would give each image of the batch a size of its own; use RandomRotation on"
                " samples for that"
            )
        super().__init__(degrees, interpolation=interpolation, fill=fill, center=center, generator=generator)

    def transform(self, images: torch.Tensor, params: Params) -> torch.Tensor:
        return super().transform(images, {"angle": -np.asarray(params["angle"])})  # the other way round


class RandomErasing(BatchTransform):
    """Erase a box of each image with probability `p`.

    Arguments are those of torchvision's RandomErasing.

    Args:
        p: the probability.
        scale: bounds of the box's share of the area.
        ratio: bounds of the box's height / width.
        value: a number, one per channel, or "random" (normal noise; float images).
        inplace: erase in the images' own memory.
    """

    TRIES = 10

    def __init__(
        self,
        p: float = 0.5,
        scale: Sequence[float] = (0.02, 0.33),
        ratio: Sequence[float] = (0.3, 3.3),
        value: float | Sequence[float] | str = 0,
        inplace: bool = False,
        *,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(generator=generator)
        self.p = probability(p)
        if not 0 <= scale[0] <= scale[1] <= 1:
            raise ValueError(f"scale must be two shares of the area between 0 and 1, (min, max), not {scale}")
        if not 0 < ratio[0] <= ratio[1]:
            raise ValueError(f"ratio must be two positive numbers (min, max), not {ratio}")
        if isinstance(value, str) and value != "random":
            raise ValueError(f"if value is a string, it must be 'random', not {value!r}")
        self.scale, self.ratio, self.value, self.inplace = tuple(scale), tuple(ratio), value, inplace

    def draw(self, rng: np.random.Generator, images: torch.Tensor) -> Params:
        n, (height, width) = len(images), images.shape[-2:]
        shape = (n, self.TRIES)
        area = height * width * rng.uniform(self.scale[0], self.scale[1], shape)
        least, most = np.log(self.ratio)
        aspect = np.exp(rng.uniform(least, most, shape))
        heights, widths = np.round(np.sqrt(area * aspect)), np.round(np.sqrt(area / aspect))
        fits = (heights < height) & (widths < width)
        first = np.arange(n), fits.argmax(axis=1)  # of the tries: the first that fits
        h, w = heights[first], widths[first]
        top, left = np.floor(rng.random(n) * (height - h + 1)), np.floor(rng.random(n) * (width - w + 1))
        boxes = np.stack([left, top, w, h], axis=1)
        boxes[~((rng.random(n) < self.p) & fits.any(axis=1))] = 0
        return {"boxes": boxes.astype(np.int32), "seed": int(rng.integers(2**63))}

    def transform(self, images: torch.Tensor, params: Params) -> torch.Tensor:
        value = None if isinstance(self.value, str) else self.value
        return F.erase(images, params["boxes"], value, params["seed"], self.inplace)
