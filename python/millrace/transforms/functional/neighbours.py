"""Blurring, erasing and noise."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from PIL import Image

from .picture import P, on_tensor
from .values import pil_to_tensor


def gaussian_blur(
    picture: P, kernel_size: int | Sequence[int], sigma: float | Sequence[float] | None = None
) -> P:
    """Blur by a Gaussian that is cut off to `kernel_size`.

    Past its edges the picture is mirrored. Bytes are rounded to the nearest; PIL images go through tensors.

    Args:
        kernel_size: (width, height), odd numbers.
        sigma: in pixels: one number, or (x, y).
    """
    sizes = [kernel_size] * 2 if isinstance(kernel_size, int) else list(kernel_size)
    if len(sizes) != 2:
        raise ValueError(f"If kernel_size is a sequence its length should be 2. Got {len(sizes)}")
    if any(size % 2 == 0 or size < 0 for size in sizes):
        raise ValueError(f"kernel_size should have odd and positive integers. Got {sizes}")
    sigmas = (
        [size * 0.15 + 0.35 for size in sizes]
        if sigma is None
        else [sigma]
        if isinstance(sigma, (int, float))
        else list(sigma)
    )
    if len(sigmas) not in (1, 2):
        raise ValueError(f"If sigma is a sequence, its length should be 2. Got {len(sigmas)}")
    if any(s <= 0 for s in sigmas):
        raise ValueError(f"sigma should have positive values. Got {sigmas}")
    if isinstance(picture, Image.Image):
        return _to_picture(_blur(pil_to_tensor(picture), sizes, sigmas), picture.mode)
    return on_tensor(lambda image: _blur(image, sizes, sigmas), picture)


def _to_picture(tensor: torch.Tensor, mode: str) -> Image.Image:
    pixels = tensor.permute(1, 2, 0).numpy()
    return Image.fromarray(pixels[..., 0] if len(tensor) == 1 else pixels, mode=mode)


def _blur(image: torch.Tensor, sizes: Sequence[int], sigmas: Sequence[float]) -> torch.Tensor:
    if image.numel() == 0:
        return image
    dtype = image.dtype if image.is_floating_point() else torch.float32
    weights = []
    for size, sigma in zip(sizes, (sigmas[0], sigmas[-1])):
        steps = torch.arange(size, dtype=torch.float64) - size // 2
        weights.append(torch.softmax(-0.5 * (steps / sigma) ** 2, 0).to(image.device, dtype))
    kernel = weights[1][:, None] * weights[0]
    channels = image.shape[-3]
    pixels = image.reshape(-1, *image.shape[-3:]).to(dtype)
    (x, y) = (size // 2 for size in sizes)
    pixels = torch.nn.functional.pad(pixels, [x, x, y, y], mode="reflect")
    blurred = torch.nn.functional.conv2d(pixels, kernel.expand(channels, 1, *kernel.shape), groups=channels)
    return (blurred if image.is_floating_point() else blurred.round()).to(image.dtype).reshape(image.shape)


def erase(picture: P, i: int, j: int, h: int, w: int, v: torch.Tensor, inplace: bool = False) -> P:
    """Replace a rectangle of the picture by `v`.

    Args:
        i, j: the row and the column where the rectangle begins.
        h, w: its height and width.
        v: a tensor (C, h, w), or one that expands to it.
        inplace: write into `picture`, if a tensor is given.
    """

    def replace(image: torch.Tensor) -> torch.Tensor:
        image = image if inplace else image.clone()
        image[..., i : i + h, j : j + w] = v
        return image

    if isinstance(picture, Image.Image):
        return _to_picture(replace(pil_to_tensor(picture)), picture.mode)
    return on_tensor(replace, picture)


def gaussian_noise(picture: P, mean: float = 0.0, sigma: float = 0.1, clip: bool = True) -> P:
    """Add normal noise of torch's global generator.

    Args:
        mean, sigma: of the noise, in units of floats from 0 to 1; for bytes both are times 255.
        clip: cut values off at 0 and 1; for bytes at 0 and 255.

    Raises:
        ValueError: if `picture` is a PIL image or has a dtype other than bytes and floats, or if `sigma` is
            negative.
    """
    if isinstance(picture, Image.Image):
        raise ValueError("Gaussian Noise is not implemented for PIL images.")
    if sigma < 0:
        raise ValueError(f"sigma shouldn't be negative. Got {sigma}")
    return on_tensor(lambda image: _noisy(image, mean, sigma, clip), picture)


def _noisy(image: torch.Tensor, mean: float, sigma: float, clip: bool) -> torch.Tensor:
    if image.is_floating_point():
        noisy = image + (mean + torch.randn_like(image) * sigma)
        return noisy.clamp(0, 1) if clip else noisy
    if image.dtype is not torch.uint8:
        raise ValueError(f"Input tensor is expected to be in uint8 or float dtype, got dtype={image.dtype}")
    steps = mean * 255 + torch.randn_like(image, dtype=torch.float32) * (sigma * 255)
    noisy = image + steps.to(torch.int16)
    return (noisy.clamp(0, 255) if clip else noisy).to(torch.uint8)
