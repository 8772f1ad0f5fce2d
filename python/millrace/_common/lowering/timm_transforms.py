"""timm's own crops, resize and erasing, and its conversion for a prefetcher of its own."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from .chain import FLOATS, Chain, Rule, interpolation_name, pair
from .geometry import framed
from .recognising import NotLowered


def _random_resized_crop(chain: Chain, t: Any, family: str) -> None:
    name = "RandomResizedCropAndInterpolation"
    height, width = pair(name, t.size)
    names = _interpolations(name, t)
    op = {
        "op": "random_resized_crop",
        "height": height,
        "width": width,
        "scale": tuple(map(float, t.scale)),
        "ratio": tuple(map(float, t.ratio)),
        "interpolation": names[0],
    }
    chain.change_picture(op | ({"interpolations": names} if len(names) > 1 else {}), name)


def _interpolations(name: str, t: Any) -> list[str]:
    modes = t.interpolation if isinstance(t.interpolation, (list, tuple)) else [t.interpolation]
    return [interpolation_name(name, mode) for mode in modes]


def _resize_keep_ratio(chain: Chain, t: Any, family: str) -> None:
    height, width = pair("ResizeKeepRatio", t.size)
    op = {
        "op": "drawn_resize",
        "kind": "keep_ratio",
        "height": height,
        "width": width,
        "longest": float(t.longest),
        "scale": tuple(map(float, t.random_scale_range)),
        "scale_p": float(t.random_scale_prob),
        "scale_is_area": bool(t.random_scale_area),
        "aspect": tuple(map(float, t.random_aspect_range)),
        "aspect_p": float(t.random_aspect_prob),
        "interpolations": _interpolations("ResizeKeepRatio", t),
    }
    chain.change_picture(op, "ResizeKeepRatio")


def _trim_border(chain: Chain, t: Any, family: str) -> None:
    if not isinstance(t.border_size, int):
        raise NotLowered(f"TrimBorder({t.border_size!r}) is no whole number")
    chain.crop("TrimBorder", {"op": "frame", "kind": "pad", "padding": (-t.border_size,) * 4})


def _random_erasing(chain: Chain, t: Any, family: str) -> None:
    if chain.dtype not in FLOATS:
        raise NotLowered(
            "timm's RandomErasing is native for float tensors; put MaybeToTensor() or ToTensor() before it"
        )
    if str(t.device) != "cpu":
        raise NotLowered(f"timm's RandomErasing draws on device {t.device!r}; pass device='cpu'")
    low, high = t.log_aspect_ratio
    op: dict[str, Any] = {
        "op": "random_erasing",
        "p": float(t.probability),
        "scale": (float(t.min_area), float(t.max_area)),
        "ratio": (math.exp(low), math.exp(high)),
        "value": [] if t.per_pixel or t.rand_color else [0.0],
    }
    if t.rand_color and not t.per_pixel:
        op["per_channel"] = True
    if (t.min_count, t.max_count) != (1, 1):
        op["count"] = int(t.min_count), int(t.max_count)
    chain.erasing.append(op)


def _to_numpy(chain: Chain, t: Any, family: str) -> None:
    chain.convert("ToNumpy", torch.uint8)
    chain.row_type = np.ndarray


TIMM_TRANSFORMS: dict[str, Rule] = {
    "RandomResizedCropAndInterpolation": _random_resized_crop,
    "ResizeKeepRatio": _resize_keep_ratio,
    "CenterCropOrPad": framed("CenterCropOrPad", "center"),
    "RandomCropOrPad": framed("RandomCropOrPad", "anywhere"),
    "TrimBorder": _trim_border,
    "RandomErasing": _random_erasing,
    "ToNumpy": _to_numpy,
}
