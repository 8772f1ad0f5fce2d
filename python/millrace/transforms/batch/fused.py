"""augment: decoded pictures of any sizes to a normalised batch in one go, on the CPU or a CUDA device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from ... import _core
from . import functional as F


@dataclass(frozen=True)
class Augmentation:
    """The steps that `augment` takes with one picture, in this order.

    Args:
        crop: (left, top, width, height) of the picture, None for all of it.
        size: (height, width) that the crop is resized to, antialiased; None for the batch's.
        offset: (top, left) of the batch's rectangle in the resized crop; pixels outside the crop are black.
        flip_horizontal, flip_vertical: bool.
        order, factors: colour jitter as in `functional.color_jitter`.
        grayscale: grey in all channels.
    """

    crop: tuple[int, int, int, int] | None = None
    size: tuple[int, int] | None = None
    offset: tuple[int, int] = (0, 0)
    flip_horizontal: bool = False
    flip_vertical: bool = False
    order: Sequence[int] = (F.NO_ORDER,) * 4
    factors: Sequence[float] = (1.0, 1.0, 1.0, 0.0)
    grayscale: bool = False

    def _geometry(self, picture: torch.Tensor, size: tuple[int, int]) -> list[int]:
        crop = self.crop or (0, 0, picture.shape[1], picture.shape[0])
        height, width = self.size or size
        return [*crop, width, height, self.offset[1], self.offset[0]]


def _check_pictures(pictures: Sequence[torch.Tensor]) -> None:
    if not pictures:
        raise ValueError("a batch needs at least one picture")
    for i, picture in enumerate(pictures):
        shape_fits = picture.ndim == 3 and picture.shape[2] in (3, 4)
        if not shape_fits or picture.dtype != torch.uint8:
            raise ValueError(
                f"picture {i} must be uint8 of shape (h, w, 3 or 4), not {picture.dtype} of shape"
                f" {tuple(picture.shape)}"
            )
        if (
            picture.stride(2) != 1
            or picture.stride(1) != picture.shape[2]
            or picture.stride(0) < picture.shape[1] * picture.shape[2]
        ):
            raise ValueError(
                f"picture {i} must have its pixels side by side in memory; pass picture.contiguous()"
            )
        if picture.device != pictures[0].device:
            raise ValueError(
                f"picture {i} is on {picture.device}, but picture 0 on {pictures[0].device}; move them to one"
                " device"
            )
    if pictures[0].device.type not in ("cpu", "cuda"):
        raise ValueError(f"pictures must be on the CPU or a CUDA device, not on {pictures[0].device}")


def augment(
    pictures: Sequence[torch.Tensor],
    augmentations: Sequence[Augmentation],
    size: tuple[int, int],
    *,
    mean: Sequence[float] = (),
    std: Sequence[float] = (),
    dtype: torch.dtype = torch.float32,
    channels_last: bool = False,
    interpolation: str = "bilinear",
) -> torch.Tensor:
    """Make a batch from n uint8 pictures, each of its own size.

    Pixels are those that Pillow's resize and colour operations give.

    Args:
        pictures: (h, w, 3) or (h, w, 4; the fourth is ignored).
        augmentations: one for each picture.
        size: (height, width) of the batch.
        mean, std: for float types: the result is (v / 255 - mean) / std, or v / 255 without them.
        dtype: of the result; uint8 has 0..255.
        channels_last: the result's memory format.
        interpolation: "bilinear" or "bicubic".

    Returns:
        A batch (n, 3, height, width) of `dtype`.
    """
    _check_pictures(pictures)
    if len(augmentations) != len(pictures):
        raise ValueError(
            f"{len(augmentations)} augmentations were given for {len(pictures)} pictures; give one for each"
        )
    if dtype not in F.DTYPES:
        raise ValueError(f"dtype must be uint8, float16, bfloat16 or float32, not {dtype}")
    if interpolation not in ("bilinear", "bicubic"):
        raise ValueError(f"interpolation must be 'bilinear' or 'bicubic', not {interpolation!r}")
    plan = _core.FusedPlan(
        np.array([a._geometry(p, size) for a, p in zip(augmentations, pictures)], np.int32),
        np.array([[a.flip_horizontal, a.flip_vertical, a.grayscale] for a in augmentations], np.uint8),
        interpolation == "bicubic",
        np.array([a.order for a in augmentations], np.uint8),
        np.array([a.factors for a in augmentations], np.float64),
    )
    return _batch(plan, pictures, size, mean, std, dtype, channels_last)


def by_pipeline(
    pictures: Sequence[torch.Tensor],
    pipeline: _core.ImagePipeline,
    seed: int,
    *,
    mean: Sequence[float] = (),
    std: Sequence[float] = (),
    dtype: torch.dtype = torch.uint8,
    channels_last: bool = False,
) -> torch.Tensor:
    """As `augment`, with what the chain of `pipeline`, of one output size, decides for the pictures: picture
    i is `pipeline.apply(pictures[i], seed, 0, i)`. Raises UnavailableError where the device cannot make one.
    """
    _check_pictures(pictures)
    shape = pipeline.fixed_shape
    if shape is None:
        raise ValueError("the chain must end in one size")
    plan = _core.FusedPlan.of_pipeline(pipeline, [(p.shape[1], p.shape[0]) for p in pictures], seed)
    return _batch(plan, pictures, (shape[1], shape[2]), mean, std, dtype, channels_last)


def _batch(
    plan: _core.FusedPlan,
    pictures: Sequence[torch.Tensor],
    size: tuple[int, int],
    mean: Sequence[float],
    std: Sequence[float],
    dtype: torch.dtype,
    channels_last: bool,
) -> torch.Tensor:
    device = pictures[0].device
    layout = torch.channels_last if channels_last else torch.contiguous_format
    out = torch.empty((len(pictures), 3, *size), dtype=dtype, device=device, memory_format=layout)
    workspace = torch.empty(plan.workspace_bytes(*size), dtype=torch.uint8, device=device)
    where = [(p.data_ptr(), p.shape[1], p.shape[0], p.stride(0), p.shape[2]) for p in pictures]
    plan.run(where, list(mean), list(std), F.native(out), workspace.data_ptr(), F.place_of(out))
    return out
