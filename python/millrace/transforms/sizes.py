"""Transforms that resize to a random size: RandomShortestSize, ScaleJitter, RandomResize."""

from __future__ import annotations

from typing import Any

import torch

from . import functional as F
from .arguments import require_length
from .base import Transform
from .functional.interpolation import Interpolation, interpolation_mode
from .functional.picture import Picture


class _DrawnSize(Transform):
    """`interpolation`, `antialias`: see Resize."""

    interpolation: Interpolation
    antialias: bool | None

    def _resample_by(self, interpolation: Interpolation, antialias: bool | None) -> None:
        interpolation_mode(interpolation)
        self.interpolation, self.antialias = interpolation, antialias

    def transform(self, inpt: Picture, params: dict[str, Any]) -> Picture:
        return F.resize(inpt, params["size"], self.interpolation, antialias=self.antialias)


class RandomShortestSize(_DrawnSize):
    """Resize so that the shorter side is one of `min_size`, and the longer one not above `max_size`.

    Args:
        min_size: an int, or several of which one is drawn.
        max_size: the limit of the longer side.
        interpolation, antialias: see `Resize`.
    """

    def __init__(
        self,
        min_size: list[int] | tuple[int, ...] | int,
        max_size: int | None = None,
        interpolation: Interpolation = "bilinear",
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        self.min_size = [min_size] if isinstance(min_size, int) else list(min_size)
        self.max_size = max_size
        self._resample_by(interpolation, antialias)

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        height, width = F.get_size(flat_inputs[0])
        ratio = self.min_size[int(torch.randint(len(self.min_size), ()))] / min(height, width)
        if self.max_size is not None:
            ratio = min(ratio, self.max_size / max(height, width))
        return {"size": (int(height * ratio), int(width * ratio))}


class ScaleJitter(_DrawnSize):
    """Fit the picture into `target_size` and then scale it by a random factor within `scale_range`.

    As in torchvision.

    Args:
        target_size: (width, height), in this order here.
        scale_range: bounds of the factor.
        interpolation, antialias: see `Resize`.
    """

    def __init__(
        self,
        target_size: tuple[int, int],
        scale_range: tuple[float, float] = (0.1, 2.0),
        interpolation: Interpolation = "bilinear",
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        require_length(target_size, "target_size", (2,))
        require_length(scale_range, "scale_range", (2,))
        self.target_size, self.scale_range = target_size, scale_range
        self._resample_by(interpolation, antialias)

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        height, width = F.get_size(flat_inputs[0])
        low, high = self.scale_range
        factor = low + torch.rand(1) * (high - low)
        ratio = min(self.target_size[1] / height, self.target_size[0] / width) * factor
        return {"size": (int(height * ratio), int(width * ratio))}


class RandomResize(_DrawnSize):
    """Resize so that the shorter side has a random length.

    Args:
        min_size: the least length.
        max_size: lengths go up to, and without, this one.
        interpolation, antialias: see `Resize`.
    """

    def __init__(
        self,
        min_size: int,
        max_size: int,
        interpolation: Interpolation = "bilinear",
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        self.min_size, self.max_size = min_size, max_size
        self._resample_by(interpolation, antialias)

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        return {"size": [int(torch.randint(self.min_size, self.max_size, ()))]}
