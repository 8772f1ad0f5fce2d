"""Brightness, contrast, saturation, hue, grey, and what looks at each value, or at a channel's histogram: of
PIL images in Pillow's 8-bit arithmetic, of tensors and arrays torchvision's.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageEnhance, ImageOps

from .picture import P, by_library, by_torchvision, enhancing, get_dimensions, on_tensor

__all__ = [
    "adjust_brightness",
    "adjust_contrast",
    "adjust_saturation",
    "rgb_to_grayscale",
    "adjust_hue",
    "permute_channels",
    "adjust_sharpness",
    "posterize",
    "solarize",
    "autocontrast",
    "equalize",
    "invert",
]


def adjust_brightness(picture: P, brightness_factor: float) -> P:
    """Multiply all values by the factor: 0 gives black, 1 the picture itself."""
    pillows = enhancing(ImageEnhance.Brightness)
    return by_library("adjust_brightness", picture, pillows, brightness_factor=brightness_factor)


def adjust_contrast(picture: P, contrast_factor: float) -> P:
    """Change the distance of all values from the picture's mean grey: 0 gives that grey, 1 the picture
    itself.
    """
    pillows = enhancing(ImageEnhance.Contrast)
    return by_library("adjust_contrast", picture, pillows, contrast_factor=contrast_factor)


def adjust_saturation(picture: P, saturation_factor: float) -> P:
    """Change the distance of each pixel from its own grey: 0 gives a grey picture, 1 the picture itself."""
    pillows = enhancing(ImageEnhance.Color)
    return by_library("adjust_saturation", picture, pillows, saturation_factor=saturation_factor)


def rgb_to_grayscale(picture: P, num_output_channels: int = 1) -> P:
    """The picture in grey, as one channel or as three equal ones."""
    if num_output_channels not in (1, 3):
        raise ValueError(f"num_output_channels must be 1 or 3, got {num_output_channels}.")
    if isinstance(picture, Image.Image):
        grey = picture.convert("L")
        return grey if num_output_channels == 1 else Image.merge("RGB", [grey] * 3)
    return by_torchvision("rgb_to_grayscale", picture, num_output_channels=num_output_channels)


def adjust_hue(picture: P, hue_factor: float) -> P:
    """Move colours along the colour circle, by -0.5 to 0.5 turns."""
    if not -0.5 <= hue_factor <= 0.5:
        raise ValueError(f"hue_factor ({hue_factor}) is not in [-0.5, 0.5].")
    if not isinstance(picture, Image.Image):
        return by_torchvision("adjust_hue", picture, hue_factor=hue_factor)
    if picture.mode in ("L", "1", "I", "F"):
        return picture
    hue, saturation, value = picture.convert("HSV").split()
    shifted = np.asarray(hue) + np.uint8(int(hue_factor * 255) % 256)
    return Image.merge("HSV", (Image.fromarray(shifted), saturation, value)).convert(picture.mode)


def permute_channels(picture: P, permutation: Sequence[int]) -> P:
    """The channels in another order: `permutation` has for each channel the number of the one it shows.

    Raises:
        ValueError: if `permutation` does not have one number for each channel.
    """
    if isinstance(picture, Image.Image):
        bands = picture.split()
        _require_channels(permutation, len(bands))
        order = [bands[number] for number in permutation]
        return order[0] if len(order) == 1 else Image.merge(picture.mode, order)
    _require_channels(permutation, get_dimensions(picture)[0])
    return on_tensor(lambda tensor: tensor[..., list(permutation), :, :], picture)


def _require_channels(permutation: Sequence[int], channels: int) -> None:
    if len(permutation) != channels:
        raise ValueError(
            f"Length of permutation does not match number of channels: {len(permutation)} != {channels}"
        )


def adjust_sharpness(picture: P, sharpness_factor: float) -> P:
    """Change the distance of the picture from the smoothed picture: 0 gives the smoothed one, 1 the picture
    itself.
    """
    pillows = enhancing(ImageEnhance.Sharpness)
    return by_library("adjust_sharpness", picture, pillows, sharpness_factor=sharpness_factor)


def posterize(picture: P, bits: int) -> P:
    """Keep only the upper `bits` of each byte.

    Raises:
        ValueError: if Pillow refuses so many bits.
    """
    return by_library("posterize", picture, ImageOps.posterize, bits=bits)


def solarize(picture: P, threshold: float) -> P:
    """Invert the values from `threshold` on; the threshold is in the picture's own range."""
    return by_library("solarize", picture, ImageOps.solarize, threshold=threshold)


def autocontrast(picture: P) -> P:
    """Stretch each channel, so that its least value becomes black and its largest white."""
    return by_library("autocontrast", picture, ImageOps.autocontrast)


def equalize(picture: P) -> P:
    """Map each channel's values so that they are spread evenly."""
    return by_library("equalize", picture, ImageOps.equalize)


def invert(picture: P) -> P:
    """The negative of the picture."""
    return by_library("invert", picture, ImageOps.invert)
