"""ColorJitter, RandomGrayscale, Normalize on batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..arguments import PROPERTIES, Factor, factor_range, probability
from . import functional as F
from .base import BatchTransform, Params


class ColorJitter(BatchTransform):
    """Change brightness, contrast, saturation and hue of each image, in an order of its own.

    Needs values of 0..255 (uint8) or 0..1 (floats). One channel: brightness and contrast only. Arguments are
    those of torchvision's ColorJitter.
    """

    def __init__(
        self,
        brightness: Factor = None,
        contrast: Factor = None,
        saturation: Factor = None,
        hue: Factor = None,
        *,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(generator=generator)
        given = (brightness, contrast, saturation, hue)
        self.brightness, self.contrast, self.saturation, self.hue = map(factor_range, given, PROPERTIES)

    def draw(self, rng: np.random.Generator, images: torch.Tensor) -> Params:
        ranges = (self.brightness, self.contrast, self.saturation, self.hue)
        n = len(images)
        order = rng.permuted(np.tile(np.arange(4, dtype=np.uint8), (n, 1)), axis=1)
        factors = np.ones((n, 4))
        for op, limits in enumerate(ranges):
            if limits is None:
                order[order == op] = F.NO_ORDER
            else:
                factors[:, op] = rng.uniform(*limits, n)
        if self.hue is None:
            factors[:, 3] = 0
        return {"order": order, "factors": factors}

    def transform(self, images: torch.Tensor, params: Params) -> torch.Tensor:
        return F.color_jitter(images, **params)


class RandomGrayscale(BatchTransform):
    """Make each image grey in all channels with probability `p`."""

    def __init__(self, p: float = 0.1, *, generator: torch.Generator | None = None) -> None:
        super().__init__(generator=generator)
        self.p = probability(p)

    def draw(self, rng: np.random.Generator, images: torch.Tensor) -> Params:
        return {"to_grey": rng.random(len(images)) < self.p}

    def transform(self, images: torch.Tensor, params: Params) -> torch.Tensor:
        n = len(images)
        return F.color_jitter(
            images, np.full((n, 4), F.NO_ORDER), np.tile([1.0, 1.0, 1.0, 0.0], (n, 1)), params["to_grey"]
        )


class Normalize(BatchTransform):
    """(v / 255 - mean) / std for uint8 images, (v - mean) / std for floats, as `dtype`.

    Args:
        mean, std: one value, or one per channel.
        channels_last: the result's memory format; None keeps the images'.
    """

    def __init__(
        self,
        mean: F.Numbers,
        std: F.Numbers,
        dtype: torch.dtype = torch.float32,
        channels_last: bool | None = None,
    ) -> None:
        super().__init__()
        self.mean, self.std = F.numbers(mean), F.numbers(std)
        if 0.0 in self.std:
            raise ValueError("std has a zero, and nothing can be divided by it; use a larger std")
        if dtype not in F.DTYPES or not dtype.is_floating_point:
            raise ValueError(f"normalised images must be float16, bfloat16 or float32, not {dtype}")
        self.dtype, self.channels_last = dtype, channels_last

    def forward(self, images: torch.Tensor, *labels: Any, key: int | None = None) -> Any:
        out = self.transform(images, {})  # nothing to draw: torch's generator stays where it is
        return (out, *labels) if labels else out

    def transform(self, images: torch.Tensor, params: Params) -> torch.Tensor:
        return F.normalize(images, self.mean, self.std, self.dtype, self.channels_last)
