"""Transforms that make tensors and change what values mean: ToTensor, ToImage, ToDtype, Normalize and their
kin.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image

from . import functional as F
from .base import Transform
from .functional.picture import Picture


class ToTensor(Transform):
    """Convert a PIL image or array (H, W, C) to a tensor (C, H, W); bytes become floats, divided by 255.

    Tensors stay as they are.
    """

    def transform(self, inpt: Picture, params: dict[str, Any]) -> torch.Tensor:
        return inpt if isinstance(inpt, torch.Tensor) else F.to_tensor(inpt)


class PILToTensor(Transform):
    """Convert a PIL image to a tensor (C, H, W) of the same values. Tensors stay as they are."""

    def transform(self, inpt: Picture, params: dict[str, Any]) -> torch.Tensor:
        return inpt if isinstance(inpt, torch.Tensor) else F.pil_to_tensor(inpt)  # type: ignore[arg-type]  # TypeError


class ToImage(Transform):
    """Convert any picture to a tensor (C, H, W) of the same values.

    The result is a plain torch.Tensor, where torchvision has a subclass of it.
    """

    def transform(self, inpt: Picture, params: dict[str, Any]) -> torch.Tensor:
        return F.to_image(inpt)


class ToDtype(Transform):
    """Convert tensors and arrays to `dtype`. PIL images stay as they are.

    Args:
        dtype: may be a dict from type to dtype (or None for no change), with "others" for the rest;
            torchvision's Image counts for tensors.
        scale: convert from full range to full range.
    """

    def __init__(self, dtype: torch.dtype | dict[Any, torch.dtype | None], scale: bool = False) -> None:
        super().__init__()
        if not isinstance(dtype, (dict, torch.dtype)):
            raise ValueError(f"dtype must be a dict or a torch.dtype, got {type(dtype)} instead")
        self.dtype = dtype
        self.scale = scale

    def transform(self, inpt: Picture, params: dict[str, Any]) -> Picture:
        dtype = self._dtype_for(inpt, self.dtype) if isinstance(self.dtype, dict) else self.dtype
        return inpt if dtype is None or isinstance(inpt, Image.Image) else F.to_dtype(inpt, dtype, self.scale)

    def _dtype_for(self, inpt: Picture, dtypes: dict[Any, torch.dtype | None]) -> torch.dtype | None:
        if type(inpt) in dtypes:
            return dtypes[type(inpt)]
        for key, dtype in dtypes.items():
            if getattr(key, "__name__", None) == "Image" and isinstance(inpt, torch.Tensor):
                return dtype
        if "others" in dtypes:
            return dtypes["others"]
        raise ValueError(
            f'No dtype was specified for type {type(inpt)}. Add it to the dict, or "others" as a catch-all'
            " key."
        )


class ConvertImageDtype(Transform):
    """ToDtype(dtype, scale=True) under its older name."""

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.dtype = dtype

    def transform(self, inpt: Picture, params: dict[str, Any]) -> Picture:
        return inpt if isinstance(inpt, Image.Image) else F.to_dtype(inpt, self.dtype, scale=True)


class Normalize(Transform):
    """(value - mean) / std, channel by channel.

    Float tensors (..., C, H, W) and float arrays (H, W, C) only.

    Args:
        mean, std: one value for each channel.
        inplace: write into the tensor's own memory.
    """

    def __init__(self, mean: Sequence[float], std: Sequence[float], inplace: bool = False) -> None:
        super().__init__()
        self.mean = list(mean)
        self.std = list(std)
        self.inplace = inplace

    def transform(self, inpt: Picture, params: dict[str, Any]) -> np.ndarray | torch.Tensor:
        if isinstance(inpt, Image.Image):
            raise TypeError(f"{type(self).__name__}() does not support PIL images.")
        return F.normalize(inpt, self.mean, self.std, self.inplace)
