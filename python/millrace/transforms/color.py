"""Transforms that change colours: ColorJitter, Grayscale, RandomGrayscale."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import torch

from . import functional as F
from .base import RandomApplyTransform, Transform
from .functional.picture import Picture

Factor = Optional[float | Sequence[float]]


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
        self.brightness = _factor_range(brightness, "brightness", 1.0, (0, float("inf")))
        self.contrast = _factor_range(contrast, "contrast", 1.0, (0, float("inf")))
        self.saturation = _factor_range(saturation, "saturation", 1.0, (0, float("inf")))
        self.hue = _factor_range(hue, "hue", 0, (-0.5, 0.5))

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        order = torch.randperm(4)
        ranges = {
            "brightness": self.brightness,
            "contrast": self.contrast,
            "saturation": self.saturation,
            "hue": self.hue,
        }
        factors = {
            f"{name}_factor": None if bounds is None else torch.empty(1).uniform_(*bounds).item()
            for name, bounds in ranges.items()
        }
        return {"fn_idx": order, **factors}

    def transform(self, inpt: Picture, params: dict[str, Any]) -> Picture:
        steps = [
            (F.adjust_brightness, params["brightness_factor"]),
            (F.adjust_contrast, params["contrast_factor"]),
            (F.adjust_saturation, params["saturation_factor"]),
            (F.adjust_hue, params["hue_factor"]),
        ]
        for which in params["fn_idx"].tolist():
            adjust, factor = steps[which]
            if factor is not None:
                inpt = adjust(inpt, factor)
        return inpt


def _factor_range(
    value: Factor, name: str, neutral: float, bounds: tuple[float, float]
) -> tuple[float, float] | None:
    """(min, max) around `neutral` and within `bounds`; None when nothing is to change."""
    if value is None:
        return None
    if isinstance(value, (int, float)):
        if value < 0:
            raise ValueError(f"If {name} is a single number, it must be non negative.")
        # Factors cannot be negative, but a hue can: too wide a range of hues is an error, below.
        value = [max(neutral - value, 0.0) if neutral else neutral - value, neutral + value]
    elif isinstance(value, Sequence) and len(value) == 2:
        value = [float(v) for v in value]
    else:
        raise TypeError(f"{name}={value} should be a single number or a sequence with length 2.")
    if not bounds[0] <= value[0] <= value[1] <= bounds[1]:
        raise ValueError(f"{name} values should be between {bounds} and increasing, but got {value}.")
    return None if value[0] == value[1] == neutral else (float(value[0]), float(value[1]))


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
