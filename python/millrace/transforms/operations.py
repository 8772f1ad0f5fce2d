"""Transforms that are one operation of a policy: RandomInvert, RandomPosterize and their kin."""

from __future__ import annotations

from typing import Any

from . import functional as F
from .base import RandomApplyTransform
from .functional.picture import Picture


class RandomInvert(RandomApplyTransform):
    """The negative with probability `p`."""

    def transform(self, inpt: Picture, params: dict[str, Any]) -> Picture:
        return F.invert(inpt)


class RandomPosterize(RandomApplyTransform):
    """Only the upper `bits` (0 to 8; to Pillow from 13 on at least 1) of each byte, with probability `p`."""

    def __init__(self, bits: int, p: float = 0.5) -> None:
        super().__init__(p)
        self.bits = bits

    def transform(self, inpt: Picture, params: dict[str, Any]) -> Picture:
        return F.posterize(inpt, self.bits)


class RandomSolarize(RandomApplyTransform):
    """Values from `threshold` on are inverted, with probability `p`. The threshold is in the picture's own
    range: 0 to 255 for PIL images and bytes.
    """

    def __init__(self, threshold: float, p: float = 0.5) -> None:
        super().__init__(p)
        self.threshold = threshold

    def transform(self, inpt: Picture, params: dict[str, Any]) -> Picture:
        return F.solarize(inpt, self.threshold)


class RandomAdjustSharpness(RandomApplyTransform):
    """Sharper (`sharpness_factor` above 1) or smoother (below it, down to 0), with probability `p`."""

    def __init__(self, sharpness_factor: float, p: float = 0.5) -> None:
        super().__init__(p)
        self.sharpness_factor = sharpness_factor

    def transform(self, inpt: Picture, params: dict[str, Any]) -> Picture:
        return F.adjust_sharpness(inpt, self.sharpness_factor)


class RandomAutocontrast(RandomApplyTransform):
    """Each channel stretched over all values, with probability `p`."""

    def transform(self, inpt: Picture, params: dict[str, Any]) -> Picture:
        return F.autocontrast(inpt)


class RandomEqualize(RandomApplyTransform):
    """Each channel's values spread evenly, with probability `p`."""

    def transform(self, inpt: Picture, params: dict[str, Any]) -> Picture:
        return F.equalize(inpt)
