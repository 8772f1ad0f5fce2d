"""Transforms that blur, erase and add noise: GaussianBlur, RandomErasing, GaussianNoise."""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Sequence
from typing import Any

import torch

from . import functional as F
from .base import RandomApplyTransform, Transform, drawn_sides, uniform
from .functional.picture import Picture


class GaussianBlur(Transform):
    """Blur by a Gaussian with a random `sigma`.

    Args:
        kernel_size: (width, height), odd numbers.
        sigma: the two bounds of the random sigma, in pixels.
    """

    def __init__(self, kernel_size: int | Sequence[int], sigma: float | Sequence[float] = (0.1, 2.0)) -> None:
        super().__init__()
        sizes: Any = kernel_size
        if isinstance(kernel_size, numbers.Number):
            sizes = int(sizes), int(sizes)
        elif len(sizes) == 1:
            sizes = sizes[0], sizes[0]
        elif len(sizes) != 2:
            raise ValueError("Kernel size should be a tuple/list of two integers")
        if any(size <= 0 or size % 2 == 0 for size in sizes):
            raise ValueError("Kernel size value should be an odd and positive number.")
        self.kernel_size: Sequence[int] = sizes
        self.sigma = _sigma_range(sigma)

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        sigma = uniform(*self.sigma)
        return {"sigma": [sigma, sigma]}

    def transform(self, inpt: Picture, params: dict[str, Any]) -> Picture:
        return F.gaussian_blur(inpt, self.kernel_size, **params)


def _sigma_range(sigma: float | Sequence[float]) -> list[float]:
    if not isinstance(sigma, (int, float, Sequence)):
        raise TypeError(f"sigma should be a number or a sequence of numbers. Got {type(sigma)}")
    values = [sigma] if isinstance(sigma, (int, float)) else list(sigma)
    if len(values) not in (1, 2):
        raise ValueError(f"If sigma is a sequence its length should be 1 or 2. Got {len(values)}")
    for value in values:
        if not isinstance(value, (int, float)):
            raise ValueError(f"sigma should be a sequence of numbers. Got {type(value)}")
    low, high = bounds = [float(values[0]), float(values[-1])]
    if not 0.0 < low <= high:
        raise ValueError(f"sigma values should be positive and of the form (min, max). Got {bounds}")
    return bounds


class RandomErasing(RandomApplyTransform):
    """Replace a random rectangle with probability `p`.

    The engine erases float tensors, as the last step. After ten draws that do not fit, nothing is erased.

    Args:
        p: the probability.
        scale: bounds of the rectangle's area, as a share of the picture's.
        ratio: bounds of the rectangle's height / width.
        value: a number, one per channel, or "random" for normal noise.
        inplace: erase in the tensor's own memory.
    """

    def __init__(
        self,
        p: float = 0.5,
        scale: Sequence[float] = (0.02, 0.33),
        ratio: Sequence[float] = (0.3, 3.3),
        value: float | Sequence[float] | str = 0.0,
        inplace: bool = False,
    ) -> None:
        super().__init__(p)
        if not isinstance(value, (numbers.Number, str, tuple, list)):
            raise TypeError("Argument value should be either a number or str or a sequence")
        if isinstance(value, str) and value != "random":
            raise ValueError("If value is str, it should be 'random'")
        if not isinstance(scale, Sequence):
            raise TypeError("Scale should be a sequence")
        if not isinstance(ratio, Sequence):
            raise TypeError("Ratio should be a sequence")
        if scale[0] > scale[1] or ratio[0] > ratio[1]:
            warnings.warn("Scale and ratio should be of kind (min, max)", stacklevel=2)
        if scale[0] < 0 or scale[1] > 1:
            raise ValueError("Scale should be between 0 and 1")
        self.scale = scale
        self.ratio = ratio
        values: Any = [value] if isinstance(value, numbers.Number) else value
        # None: noise.
        self.value = None if isinstance(value, str) else [float(v) for v in values]
        self.inplace = inplace

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        channels, height, width = F.get_dimensions(flat_inputs[0])
        if self.value is not None and len(self.value) not in (1, channels):
            raise ValueError(
                f"If value is a sequence, it should have either a single value or {channels} (number of inpt"
                " channels)"
            )
        for h, w in drawn_sides(height * width, self.scale, self.ratio):
            if h < height and w < width:
                noise = self.value is None
                v = (
                    torch.empty([channels, h, w]).normal_()
                    if noise
                    else torch.tensor(self.value)[:, None, None]
                )
                i = int(torch.randint(0, height - h + 1, size=(1,)))
                j = int(torch.randint(0, width - w + 1, size=(1,)))
                return {"i": i, "j": j, "h": h, "w": w, "v": v}
        return {"i": 0, "j": 0, "h": height, "w": width, "v": None}

    def transform(self, inpt: Picture, params: dict[str, Any]) -> Picture:
        return inpt if params["v"] is None else F.erase(inpt, **params, inplace=self.inplace)


class GaussianNoise(Transform):
    """Add normal noise to a tensor or array of floats from 0 to 1, or of bytes.

    In the engine, floats must be float32.

    Args:
        mean, sigma: of the noise; for bytes, both are times 255.
        clip: cut the sum off at 0 and 1, or 255.
    """

    def __init__(self, mean: float = 0.0, sigma: float = 0.1, clip: bool = True) -> None:
        super().__init__()
        self.mean, self.sigma, self.clip = mean, sigma, clip

    def transform(self, inpt: Picture, params: dict[str, Any]) -> Picture:
        return F.gaussian_noise(inpt, self.mean, self.sigma, self.clip)
