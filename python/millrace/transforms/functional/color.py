"""Brightness, contrast, saturation, hue and grey.

PIL images get Pillow's 8-bit arithmetic, tensors and arrays (one or three channels) torch's: the two differ
by a level here and there.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from PIL import Image, ImageEnhance

from .picture import P, on_tensor
from .values import to_dtype


def adjust_brightness(picture: P, brightness_factor: float) -> P:
    """All values times the factor: 0 is black, 1 the picture itself."""
    return _adjusted(picture, ImageEnhance.Brightness, "brightness", brightness_factor, _no_light)


def adjust_contrast(picture: P, contrast_factor: float) -> P:
    """Away from the picture's mean grey: 0 is that grey, 1 the picture itself."""
    return _adjusted(picture, ImageEnhance.Contrast, "contrast", contrast_factor, _mean_grey)


def adjust_saturation(picture: P, saturation_factor: float) -> P:
    """Away from each pixel's own grey: 0 is a grey picture, 1 the picture itself."""
    return _adjusted(picture, ImageEnhance.Color, "saturation", saturation_factor, _grey)


def _adjusted(
    picture: P, enhance: Callable, name: str, factor: float, base: Callable[[torch.Tensor], torch.Tensor]
) -> P:
    """`picture` blended with what `base` makes of it."""
    if isinstance(picture, Image.Image):
        return enhance(picture).enhance(factor)
    if factor < 0:
        raise ValueError(f"{name}_factor ({factor}) is not non-negative.")

    def blend(image: torch.Tensor) -> torch.Tensor:
        _require_colors(image)
        if base is _grey and image.shape[-3] == 1:
            return image  # no colour to change
        mixed = image.mul(factor).add(base(image), alpha=1.0 - factor)
        return mixed.clamp(0, 1 if image.is_floating_point() else torch.iinfo(image.dtype).max).to(
            image.dtype
        )

    return on_tensor(blend, picture)


def _require_colors(image: torch.Tensor) -> None:
    if image.shape[-3] not in (1, 3):
        raise TypeError(
            f"Input image tensor permitted channel values are 1 or 3, but found {image.shape[-3]}"
        )


def _no_light(image: torch.Tensor) -> torch.Tensor:
    return torch.zeros((), device=image.device)


def _grey(image: torch.Tensor) -> torch.Tensor:
    """(..., 1, H, W), a float type; whole numbers for integer pictures."""
    if image.shape[-3] == 1:
        return image if image.is_floating_point() else image.to(torch.float32)
    red, green, blue = image.unbind(-3)
    grey = red.mul(0.2989).add(green, alpha=0.587).add(blue, alpha=0.114).unsqueeze(-3)
    return grey if image.is_floating_point() else grey.floor()


def _mean_grey(image: torch.Tensor) -> torch.Tensor:
    return _grey(image).mean(dim=(-3, -2, -1), keepdim=True)


def rgb_to_grayscale(picture: P, num_output_channels: int = 1) -> P:
    """Grey, as one channel or as three equal ones."""
    if num_output_channels not in (1, 3):
        raise ValueError(f"num_output_channels must be 1 or 3, got {num_output_channels}.")
    if isinstance(picture, Image.Image):
        grey = picture.convert("L")
        return grey if num_output_channels == 1 else Image.merge("RGB", [grey] * 3)

    def convert(image: torch.Tensor) -> torch.Tensor:
        grey = image if image.shape[-3] == 1 else _grey(image).to(image.dtype)
        return grey.expand(*image.shape[:-3], num_output_channels, *image.shape[-2:]).clone()

    return on_tensor(convert, picture)


def adjust_hue(picture: P, hue_factor: float) -> P:
    """Colours moved along the colour circle, by -0.5 to 0.5 turns."""
    if not -0.5 <= hue_factor <= 0.5:
        raise ValueError(f"hue_factor ({hue_factor}) is not in [-0.5, 0.5].")
    if not isinstance(picture, Image.Image):
        return on_tensor(lambda image: _shift_hue(image, hue_factor), picture)
    if picture.mode in ("L", "1", "I", "F"):
        return picture
    hue, saturation, value = picture.convert("HSV").split()
    shifted = np.asarray(hue) + np.uint8(int(hue_factor * 255) % 256)
    return Image.merge("HSV", (Image.fromarray(shifted), saturation, value)).convert(picture.mode)


def _shift_hue(image: torch.Tensor, turns: float) -> torch.Tensor:
    _require_colors(image)
    if image.shape[-3] == 1 or image.numel() == 0:
        return image
    rgb = to_dtype(image, torch.float32, scale=True)
    red, green, blue = rgb.unbind(-3)
    low, high = torch.aminmax(rgb, dim=-3)
    chroma = high - low
    safe = chroma.where(chroma > 0, 1)
    sixths = torch.where(
        high == red,
        (green - blue) / safe,
        torch.where(high == green, 2 + (blue - red) / safe, 4 + (red - green) / safe),
    )
    sixths = sixths.where(chroma > 0, 0) + 6 * turns

    def channel(place: int) -> torch.Tensor:
        # Six sixths of the circle: a channel is down for two, up for two, and on its way in between.
        at = (sixths + place).remainder(6)
        return high - chroma * torch.minimum(at, 4 - at).clamp(0, 1)

    return to_dtype(
        torch.stack([channel(5), channel(3), channel(1)], dim=-3).clamp(0, 1), image.dtype, scale=True
    )
