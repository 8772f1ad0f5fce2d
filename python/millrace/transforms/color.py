"""Transforms that change colours: ColorJitter, RandomPhotometricDistort, Grayscale, RandomGrayscale."""

from __future__ import annotations

from typing import Any

import torch

from . import functional as F
from .arguments import PROPERTIES, Factor, factor_range
from .base import RandomApplyTransform, Transform, uniform
from .functional.picture import Picture


class ColorJitter(Transform):
    """Change brightness, contrast, saturation and hue, each by a random amount, in random order.

    PIL images and the engine use Pillow's arithmetic, tensors torch's.

    Args:
        brightness, contrast, saturation: a number x means factors from max(0, 1 - x) to 1 + x; a pair is the
            range itself; None leaves the property alone.
        hue: a number x, x <= 0.5, means from -x to x turns of the colour circle; a pair is the range itself;
            None leaves the hue alone.
    """

    def __init__(
        self,
        brightness: Factor = None,
        contrast: Factor = None,
        saturation: Factor = None,
        hue: Factor = None,
    ) -> None:
        super().__init__()
        given = (brightness, contrast, saturation, hue)
        self.brightness, self.contrast, self.saturation, self.hue = map(factor_range, given, PROPERTIES)

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        params: dict[str, Any] = {"fn_idx": torch.randperm(4)}
        for name in PROPERTIES:
            bounds = getattr(self, name)
            params[f"{name}_factor"] = None if bounds is None else uniform(*bounds)
        return params

    def transform(self, inpt: Picture, params: dict[str, Any]) -> Picture:
        for which in params["fn_idx"].tolist():
            factor = params[f"{PROPERTIES[which]}_factor"]
            if factor is not None:
                inpt = getattr(F, f"adjust_{PROPERTIES[which]}")(inpt, factor)
        return inpt


class RandomPhotometricDistort(Transform):
    """Change brightness, contrast, saturation and hue, and put the channels into another order, each at
    random.

    Contrast comes after brightness or last, equally often.

    Args:
        brightness, contrast, saturation, hue: bounds of the factor by which it changes.
        p: the probability of each of the five changes.
    """

    def __init__(
        self,
        brightness: tuple[float, float] = (0.875, 1.125),
        contrast: tuple[float, float] = (0.5, 1.5),
        saturation: tuple[float, float] = (0.5, 1.5),
        hue: tuple[float, float] = (-0.05, 0.05),
        p: float = 0.5,
    ) -> None:
        super().__init__()
        self.brightness, self.contrast, self.hue, self.saturation = brightness, contrast, hue, saturation
        self.p = p

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        params: dict[str, Any] = {}
        for name in PROPERTIES:
            params[f"{name}_factor"] = uniform(*getattr(self, name)) if torch.rand(1) < self.p else None
        params["contrast_before"] = bool(torch.rand(()) < 0.5)
        channels = F.get_dimensions(flat_inputs[0])[0]
        params["channel_permutation"] = torch.randperm(channels).tolist() if torch.rand(1) < self.p else None
        return params

    def transform(self, inpt: Picture, params: dict[str, Any]) -> Picture:
        first, last = ("contrast", None) if params["contrast_before"] else (None, "contrast")
        for name in ("brightness", first, "saturation", "hue", last):
            factor = None if name is None else params[f"{name}_factor"]
            if factor is not None:
                inpt = getattr(F, f"adjust_{name}")(inpt, factor)
        order = params["channel_permutation"]
        return inpt if order is None else F.permute_channels(inpt, order)


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
