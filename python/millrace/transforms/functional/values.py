"""Pixels to tensors, and the values of tensors: conversion of dtypes and normalisation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import torch
from PIL import Image

from .picture import Picture, array_to_tensor, get_dimensions, on_tensor

T = TypeVar("T", np.ndarray, torch.Tensor)

_VALUE_BITS = {
    torch.uint8: 8,
    torch.int8: 7,
    torch.int16: 15,
    torch.uint16: 16,
    torch.int32: 31,
    torch.int64: 63,
}


def pil_to_tensor(picture: Image.Image) -> torch.Tensor:
    """The bytes of a PIL image as a tensor (C, H, W), values unchanged. A view of a fresh (H, W, C) copy, as
    torchvision's.
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
    """The same values as `dtype`; with `scale`, full range becomes full range (0..255 for bytes, 0..1 for
    floats).
    """
    return on_tensor(lambda tensor: _to_dtype(tensor, dtype, scale), picture)


def convert_image_dtype(picture: T, dtype: torch.dtype = torch.float32) -> T:
    """to_dtype(picture, dtype, scale=True)."""
    return to_dtype(picture, dtype, scale=True)


def _to_dtype(image: torch.Tensor, dtype: torch.dtype, scale: bool) -> torch.Tensor:
    if image.dtype == dtype or not scale or (image.is_floating_point() and dtype.is_floating_point):
        return image.to(dtype)
    bits_in, bits_out = _VALUE_BITS.get(image.dtype, 1), _VALUE_BITS.get(dtype, 1)
    if image.is_floating_point():
        if bits_out > {torch.float32: 24, torch.float64: 53}.get(image.dtype, 63):
            raise RuntimeError(f"The conversion from {image.dtype} to {dtype} cannot be performed safely.")
        # Each integer gets an equal share of 0..1, and 1.0 itself must not reach the next one.
        return image.mul(2.0**bits_out - 1e-3).to(dtype)
    if dtype.is_floating_point:
        return image.to(dtype).mul_(1.0 / (2**bits_in - 1))
    for side in (image.dtype, dtype):
        if side not in _VALUE_BITS:
            raise TypeError(f"Number of value bits is only defined for integer dtypes, but got {side}.")
    # Powers of two instead of shifts, which torch lacks for uint16.
    if bits_out < bits_in:
        return image.to(torch.int64).div(2 ** (bits_in - bits_out), rounding_mode="floor").to(dtype)
    return image.to(torch.int64).mul(2 ** (bits_out - bits_in)).to(dtype)


def normalize(picture: T, mean: Sequence[float], std: Sequence[float], inplace: bool = False) -> T:
    """(picture - mean) / std for each channel of a float picture; `inplace` writes into a tensor that is
    given.
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
