"""Pixels to tensors, and the values of tensors: conversion of dtypes and normalisation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar, Union

import numpy as np
import torch
from PIL import Image

from .picture import Picture, array_to_tensor, by_torchvision, get_dimensions, on_tensor

T = TypeVar("T", bound=Union[np.ndarray, torch.Tensor])


def pil_to_tensor(picture: Image.Image) -> torch.Tensor:
    """The bytes of a PIL image as a tensor (C, H, W), values unchanged.

    The tensor is a view of a fresh (H, W, C) copy, as torchvision's.
    """
    if not isinstance(picture, Image.Image):
        raise TypeError(f"pic should be PIL Image. Got {type(picture)}")
    channels, height, width = get_dimensions(picture)
    return torch.from_numpy(np.array(picture)).view(height, width, channels).permute(2, 0, 1)


def to_image(picture: Picture) -> torch.Tensor:
    """Any picture as a tensor (C, H, W), values unchanged."""
    if isinstance(picture, Image.Image):
        return pil_to_tensor(picture)
    if isinstance(picture, np.ndarray):
        return array_to_tensor(picture)
    if isinstance(picture, torch.Tensor):
        return picture
    raise TypeError(
        f"Input can either be a pure Tensor, a numpy array, or a PIL image, but got {type(picture)} instead."
    )


def to_tensor(picture: Image.Image | np.ndarray) -> torch.Tensor:
    """A PIL image or array as a tensor (C, H, W); bytes become torch's default float type, divided by 255."""
    if isinstance(picture, np.ndarray):
        if picture.ndim not in (2, 3):
            raise ValueError(f"pic should be 2/3 dimensional. Got {picture.ndim} dimensions.")
        tensor = array_to_tensor(picture)
    elif isinstance(picture, Image.Image):
        # Pillow's array of a 16-bit image is unsigned; torchvision's v1 tensor of it is signed.
        tensor = pil_to_tensor(picture).contiguous()
        if picture.mode == "1":
            tensor = tensor.to(torch.uint8) * 255
        elif tensor.dtype == torch.uint16:
            tensor = tensor.view(torch.int16)
    else:
        raise TypeError(f"pic should be PIL Image or ndarray. Got {type(picture)}")
    return tensor.to(torch.get_default_dtype()).div(255) if tensor.dtype == torch.uint8 else tensor


def to_dtype(picture: T, dtype: torch.dtype = torch.float32, scale: bool = False) -> T:
    """The same values in another dtype.

    Args:
        dtype: the new dtype.
        scale: full range becomes full range (0..255 for bytes, 0..1 for floats).
    """

    def converted(tensor: torch.Tensor) -> torch.Tensor:
        floats = tensor.is_floating_point(), dtype.is_floating_point
        if tensor.dtype == dtype or not scale or all(floats):
            return tensor.to(dtype)
        if tensor.dtype == torch.uint8 and dtype.is_floating_point:
            return tensor.to(dtype).mul_(1.0 / 255)
        return by_torchvision("to_dtype", tensor, dtype=dtype, scale=True)

    return on_tensor(converted, picture)


def convert_image_dtype(picture: T, dtype: torch.dtype = torch.float32) -> T:
    """to_dtype(picture, dtype, scale=True)."""
    return to_dtype(picture, dtype, scale=True)


def normalize(picture: T, mean: Sequence[float], std: Sequence[float], inplace: bool = False) -> T:
    """(picture - mean) / std for each channel of a float picture.

    Args:
        mean, std: numbers for each channel.
        inplace: write into `picture`, if a tensor is given.
    """
    return on_tensor(lambda tensor: _normalize(tensor, mean, std, inplace), picture)


def _normalize(
    image: torch.Tensor, mean: Sequence[float], std: Sequence[float], inplace: bool
) -> torch.Tensor:
    if not image.is_floating_point():
        raise TypeError(f"Input tensor should be a float tensor. Got {image.dtype}.")
    if image.ndim < 3:
        raise ValueError(f"Expected tensor to be a tensor image of size (..., C, H, W). Got {image.shape}.")
    means, deviations = (
        torch.as_tensor(v, dtype=image.dtype, device=image.device).reshape(-1, 1, 1) for v in (mean, std)
    )
    if (deviations == 0).any():
        raise ValueError("std evaluated to zero, leading to division by zero.")
    return (image.sub_(means) if inplace else image.sub(means)).div_(deviations)
