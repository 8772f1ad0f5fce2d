"""Transforms that change colours: ColorJitter, Grayscale, RandomGrayscale."""

from __future__ import annotations

from typing import Any

import torch

from . import functional as F
from .arguments import Factor, factor_range
from .base import RandomApplyTransform, Transform, uniform
from .functional.picture import Picture

_PROPERTIES = ("brightness", "contrast", "saturation", "hue")  # by their numbers in "fn_idx"


class ColorJitter(Transform):
    """Changes brightness, contrast, saturation and hue, each by a random amount, in random order.

    A number x means factors from max(0, 1 - x) to 1 + x (hue: from -x to x turns of the colour circle, x <=
    0.5); a pair is the range itself; None leaves the property alone. PIL images and the engine use Pillow's
    arithmetic, tensors torch's.
    """

    def __init__(
        self,
        brightness: Factor = None,
        contrast: Factor = None,
        saturation: Factor = None,
        hue: Factor = None,
    ) -> None:
        super().__init__()
        self.brightness = factor_range(brightness, "brightness")
        self.contrast = factor_range(contrast, "contrast")
        self.saturation = factor_range(saturation, "saturation")
        self.hue = factor_range(hue, "hue")

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        params: dict[str, Any] = {"fn_idx": torch.randperm(4)}
        for name in _PROPERTIES:
            bounds = getattr(self, name)
            params[f"{name}_factor"] = None if bounds is None else uniform(*bounds)
        return params

    def transform(self, inpt: Picture, params: dict[str, Any]) -> Picture:
        for which in params["fn_idx"].tolist():
            factor = params[f"{_PROPERTIES[which]}_factor"]
            if factor is not None:
                inpt = getattr(F, f"adjust_{_PROPERTIES[which]}")(inpt, factor)
        return inpt


class Grayscale(Transform):
    """Grey, as one channel or, with num_output_channels=3, as three equal ones."""

    def __init__(self, num_output_channels: int = 1) -> None:
        super().__init__()
        self.num_output_channels = num_output_channels

    def transform(self, inpt: Picture, params: dict[str, Any]) -> Picture:
        return F.rgb_to_grayscale(inpt, self.num_output_channels)


class RandomGrayscale(RandomApplyTransform):
    """Grey with probability `p`; the number of channels stays."""

    def __init__(self, p: float = 0.1) -> None:
        super().__init__(p)

    def transform(self, inpt: Picture, params: dict[str, Any]) -> Picture:
        return F.rgb_to_grayscale(inpt, F.get_dimensions(inpt)[0])
