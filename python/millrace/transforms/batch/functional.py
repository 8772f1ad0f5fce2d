"""What the batch transforms do once their parameters are drawn: one function each, on images (n, c, h, w) and
arrays of n parameters.

All return new tensors of the same device, shape and memory format. Images of another shape or dtype raise
TypeError or ValueError, a CUDA tensor in a build without CUDA raises `millrace.UnavailableError`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Union

import numpy as np
import torch
from numpy.typing import ArrayLike

from ... import _core

__all__ = ["affine", "color_jitter", "erase", "horizontal_flip", "mix", "normalize"]

DTYPES = (torch.uint8, torch.float16, torch.bfloat16, torch.float32)
NO_ORDER = 4  # in `order`: no operation
Numbers = Union[float, Sequence[float]]


def check_images(images: torch.Tensor) -> torch.Tensor:
    """The images, dense. Raises TypeError or ValueError with the rule that they break."""
    if not isinstance(images, torch.Tensor):
        raise TypeError(f"images must be a torch.Tensor of shape (n, c, h, w), not {type(images).__name__}")
    if images.ndim != 4 or images.shape[1] not in (1, 3):
        raise ValueError(
            f"images must have the shape (n, c, h, w) with 1 or 3 channels, not {tuple(images.shape)}"
        )
    if images.dtype not in DTYPES:
        raise TypeError(
            f"images must be uint8, float16, bfloat16 or float32, not {images.dtype}; convert them with"
            " images.to(...)"
        )
    if images.device.type not in ("cpu", "cuda"):
        raise ValueError(
            f"images must be on the CPU or a CUDA device, not on {images.device}; move them with"
            " images.to(...)"
        )
    if images.requires_grad and torch.is_grad_enabled():
        raise ValueError("batch transforms have no gradients; pass images.detach()")
    if images.is_contiguous() or images.is_contiguous(memory_format=torch.channels_last):
        return images
    return images.contiguous()


def empty_like(
    images: torch.Tensor, dtype: torch.dtype | None = None, channels_last: bool | None = None
) -> torch.Tensor:
    """A tensor for a result: dtype and layout as the images', unless given."""
    if channels_last is None:
        channels_last = not images.is_contiguous()
    layout = torch.channels_last if channels_last else torch.contiguous_format
    return torch.empty(images.shape, dtype=dtype or images.dtype, device=images.device, memory_format=layout)


def native(images: torch.Tensor) -> tuple[int, str, int, int, int, int, bool]:
    """A dense tensor as the native functions take it."""
    n, c, h, w = images.shape
    return images.data_ptr(), str(images.dtype).removeprefix("torch."), n, c, h, w, not images.is_contiguous()


def place_of(tensor: torch.Tensor) -> tuple[int, int]:
    """(CUDA device, torch's current stream there), or (-1, 0) for the CPU."""
    if tensor.device.type == "cpu":
        return -1, 0
    return tensor.device.index, torch.cuda.current_stream(tensor.device).cuda_stream


def numbers(values: Numbers) -> list[float]:
    return (
        [float(v) for v in values]
        if isinstance(values, (Sequence, np.ndarray, torch.Tensor))
        else [float(values)]
    )


def _run(
    kernel: Callable[..., None], images: torch.Tensor, out: torch.Tensor, *arguments: Any
) -> torch.Tensor:
    kernel(native(images), native(out), *arguments, place_of(images))
    return out


def normalize(
    images: torch.Tensor,
    mean: Numbers,
    std: Numbers,
    dtype: torch.dtype = torch.float32,
    channels_last: bool | None = None,
) -> torch.Tensor:
    """(v / 255 - mean) / std for uint8 images, (v - mean) / std for floats.

    Computed in float32 as v * scale + shift and rounded once: 1e-6 from torch's float32 result, and nearer
    the truth in narrow types.

    Args:
        mean, std: one value, or one per channel.
        dtype: of the result: float16, bfloat16 or float32.
        channels_last: the result's layout; None keeps the images'.
    """
    images = check_images(images)
    if dtype not in DTYPES or not dtype.is_floating_point:
        raise ValueError(f"normalised images must be float16, bfloat16 or float32, not {dtype}")
    out = empty_like(images, dtype, channels_last)
    return _run(_core.batch_normalize, images, out, numbers(mean), numbers(std))


def horizontal_flip(images: torch.Tensor, flipped: ArrayLike) -> torch.Tensor:
    """Mirror the images with a true entry in `flipped` (n bools)."""
    images = check_images(images)
    return _run(_core.batch_flip, images, empty_like(images), np.asarray(flipped, np.uint8))


def affine(
    images: torch.Tensor, inverse: ArrayLike, interpolation: str = "nearest", fill: Numbers = 0
) -> torch.Tensor:
    """Make each output pixel (x, y) of `images` from the input's (a x + b y + c, d x + e y + f).

    The centres of pixels are at 0.5, 1.5, ...

    Args:
        inverse: a, b, c, d, e, f for each image, (n, 6).
        interpolation: "nearest" or "bilinear".
        fill: the value outside, or one per channel.
    """
    images = check_images(images)
    if interpolation not in ("nearest", "bilinear"):
        raise ValueError(f"interpolation must be 'nearest' or 'bilinear', not {interpolation!r}")
    inverse, bilinear = np.asarray(inverse, np.float64), interpolation == "bilinear"
    return _run(_core.batch_affine, images, empty_like(images), inverse, bilinear, numbers(fill))


def color_jitter(
    images: torch.Tensor, order: ArrayLike, factors: ArrayLike, to_grey: ArrayLike | None = None
) -> torch.Tensor:
    """Change the colours of `images`, each in an order of its own.

    uint8 results are within one level of torchvision's for each operation, float32 within 1e-5.

    Args:
        order: the operations in their order, (n, 4): 0 brightness, 1 contrast, 2 saturation, 3 hue, 4
            nothing.
        factors: by operation, (n, 4), as torchvision's adjust_*.
        to_grey: n bools; grey in all channels, at last.
    """
    images = check_images(images)
    sums = torch.zeros(len(images), dtype=torch.int64, device=images.device)
    grey = np.zeros(len(images), np.uint8) if to_grey is None else np.asarray(to_grey, np.uint8)
    order, factors = np.asarray(order, np.uint8), np.asarray(factors, np.float64)
    return _run(_core.batch_color, images, empty_like(images), order, factors, grey, sums.data_ptr())


def erase(
    images: torch.Tensor, boxes: ArrayLike, value: Numbers | None = 0, seed: int = 0, inplace: bool = False
) -> torch.Tensor:
    """Set boxes of `images` to a value or to noise.

    Args:
        boxes: (n, 4): left, top, width, height; 0 wide: none.
        value: one, or one per channel; None for normal noise.
        seed: of the noise.
        inplace: erase in the images' own memory.
    """
    dense = check_images(images)
    out = dense if inplace and dense is images else empty_like(dense)
    values = [] if value is None else numbers(value)
    _run(_core.batch_erase, dense, out, np.asarray(boxes, np.int32), values, seed)
    return images.copy_(out) if inplace and dense is not images else out


def mix(
    images: torch.Tensor, partners: ArrayLike, shares: ArrayLike, boxes: ArrayLike | None = None
) -> torch.Tensor:
    """share * image + (1 - share) * partner for each image, and the partner alone inside its box.

    Args:
        images: (n, c, h, w).
        partners: n positions in the batch.
        shares: n numbers; others than 1 need a float type.
        boxes: (n, 4): left, top, width, height.
    """
    images = check_images(images)
    boxes = np.zeros((len(images), 4), np.int32) if boxes is None else np.asarray(boxes, np.int32)
    partners, shares = np.asarray(partners, np.int64), np.asarray(shares, np.float64)
    return _run(_core.batch_mix, images, empty_like(images), partners, shares, boxes)
