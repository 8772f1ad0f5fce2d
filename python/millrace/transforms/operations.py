"""Transforms that are one operation of a policy: RandomInvert, RandomPosterize and others. A class here has
all that Python knows of one: lowering recognises torchvision's class of the same name by it, and Pillow's
function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from . import functional as F
from .base import RandomApplyTransform
from .functional.picture import Picture

__all__ = [
    "RandomInvert",
    "RandomPosterize",
    "RandomSolarize",
    "RandomAdjustSharpness",
    "RandomAutocontrast",
    "RandomEqualize",
]


class PictureOperation(RandomApplyTransform):
    """An operation that happens with probability `p`."""

    kind: ClassVar[str]  # the engine's name
    value_name: ClassVar[str | None] = None  # of the attribute that is the operation's value, if it has one
    of_picture: ClassVar[Callable[..., Any]]  # a function of a picture and the value

    def transform(self, inpt: Picture, params: dict[str, Any]) -> Picture:
        made = type(self)
        value = () if made.value_name is None else (getattr(self, made.value_name),)
        return made.of_picture(inpt, *value)


class RandomInvert(PictureOperation):
    """The negative with probability `p`."""

    kind, of_picture = "invert", F.invert


class RandomPosterize(PictureOperation):
    """Keep only the upper bits of each byte, with probability `p`.

    Args:
        bits: how many, 0 to 8; to Pillow from 13 on at least 1.
        p: the probability.
    """

    kind, value_name, of_picture = "posterize", "bits", F.posterize

    def __init__(self, bits: int, p: float = 0.5) -> None:
        super().__init__(p)
        self.bits = bits


class RandomSolarize(PictureOperation):
    """Invert values from `threshold` on, with probability `p`.

    Args:
        threshold: in the picture's own range: 0 to 255 for PIL images and bytes.
        p: the probability.
    """

    kind, value_name, of_picture = "solarize", "threshold", F.solarize

    def __init__(self, threshold: float, p: float = 0.5) -> None:
        super().__init__(p)
        self.threshold = threshold


class RandomAdjustSharpness(PictureOperation):
    """Make the picture sharper or smoother, with probability `p`.

    Args:
        sharpness_factor: above 1 for sharper, below it, down to 0, for smoother.
        p: the probability.
    """

    kind, value_name, of_picture = "sharpness", "sharpness_factor", F.adjust_sharpness

    def __init__(self, sharpness_factor: float, p: float = 0.5) -> None:
        super().__init__(p)
        self.sharpness_factor = sharpness_factor


class RandomAutocontrast(PictureOperation):
    """Each channel stretched over all values, with probability `p`."""

    kind, of_picture = "autocontrast", F.autocontrast


class RandomEqualize(PictureOperation):
    """Each channel's values spread evenly, with probability `p`."""

    kind, of_picture = "equalize", F.equalize
