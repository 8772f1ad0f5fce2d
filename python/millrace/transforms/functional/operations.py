"""Operations of augmentation policies that look at each value, or at a channel's histogram: of PIL images by
Pillow, of tensors and arrays by torchvision.
"""

from __future__ import annotations

from PIL import Image, ImageEnhance, ImageOps

from .picture import P, by_torchvision


def adjust_sharpness(picture: P, sharpness_factor: float) -> P:
    """Away from the smoothed picture: 0 is that, 1 the picture itself."""
    if isinstance(picture, Image.Image):
        return ImageEnhance.Sharpness(picture).enhance(sharpness_factor)
    return by_torchvision("adjust_sharpness", picture, sharpness_factor=sharpness_factor)


def posterize(picture: P, bits: int) -> P:
    """Only the upper `bits` of each byte. ValueError where Pillow refuses so many."""
    if isinstance(picture, Image.Image):
        return ImageOps.posterize(picture, bits)
    return by_torchvision("posterize", picture, bits=bits)


def solarize(picture: P, threshold: float) -> P:
    """Values from `threshold` on are inverted; it is in the picture's own range."""
    if isinstance(picture, Image.Image):
        return ImageOps.solarize(picture, threshold)  # type: ignore[arg-type]
    return by_torchvision("solarize", picture, threshold=threshold)


def autocontrast(picture: P) -> P:
    """Each channel stretched, so that its least value becomes black and its largest white."""
    if isinstance(picture, Image.Image):
        return ImageOps.autocontrast(picture)
    return by_torchvision("autocontrast", picture)


def equalize(picture: P) -> P:
    """Each channel's values mapped so that they are spread evenly."""
    if isinstance(picture, Image.Image):
        return ImageOps.equalize(picture)
    return by_torchvision("equalize", picture)


def invert(picture: P) -> P:
    """The negative."""
    if isinstance(picture, Image.Image):
        return ImageOps.invert(picture)
    return by_torchvision("invert", picture)
