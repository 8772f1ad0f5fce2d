"""timm's own crops, padding and erasing, and its conversion for a prefetcher of its own."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from .chain import FLOATS, Chain, Rule
from .recognising import NotLowered, fill, interpolation_name, pair


def _random_resized_crop(chain: Chain, t: Any, family: str) -> None:
    name = "RandomResizedCropAndInterpolation"
    height, width = pair(name, t.size)
    modes = t.interpolation if isinstance(t.interpolation, (list, tuple)) else [t.interpolation]
    names = [interpolation_name(name, mode) for mode in modes]
    op = {
        "op": "random_resized_crop",
        "height": height,
        "width": width,
        "scale": tuple(map(float, t.scale)),
        "ratio": tuple(map(float, t.ratio)),
        "interpolation": names[0],
    }
    chain.change_picture(op | ({"interpolations": names} if len(names) > 1 else {}), name)


def _random_erasing(chain: Chain, t: Any, family: str) -> None:
    if chain.dtype not in FLOATS:
        raise NotLowered(
            "timm's RandomErasing is native for float tensors; put MaybeToTensor() or ToTensor() before it"
        )
    if str(t.device) != "cpu":
        raise NotLowered(f"timm's RandomErasing draws on device {t.device!r}; pass device='cpu'")
    if (t.min_count, t.max_count) != (1, 1):
        raise NotLowered(
            f"timm's RandomErasing erases {t.min_count} to {t.max_count} rectangles, and the engine one;"
            " leave the counts (re_count) out"
        )
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
    chain.erasing.append(op)


def _center_crop_or_pad(chain: Chain, t: Any, family: str) -> None:
    """Of black borders it is torchvision's CenterCrop, which pads and rounds alike."""
    name = "CenterCropOrPad"
    height, width = pair(name, t.size)
    if t.padding_mode != "constant" or any(fill(name, t.fill)):
        raise NotLowered(f"timm's {name} is native with black borders; leave fill and padding_mode out")
    chain.change_picture({"op": "center_crop", "height": height, "width": width}, name)


def _random_crop_or_pad(chain: Chain, t: Any, family: str) -> None:
    """torchvision's RandomCrop pads both sides and then crops what timm places: each place is as likely, and
    reflections are periodic, so they do not depend on how far the other side is padded.
    """
    name = "RandomCropOrPad"
    height, width = pair(name, t.size)
    op = {"op": "random_crop", "height": height, "width": width, "padding": (0, 0, 0, 0)}
    op |= {"pad_if_needed": True, "fill": fill(name, t.fill), "padding_mode": t.padding_mode}
    chain.change_picture(op, name)


def _to_numpy(chain: Chain, t: Any, family: str) -> None:
    chain.convert("ToNumpy", torch.uint8)
    chain.row_type = np.ndarray


TIMM_TRANSFORMS: dict[str, Rule] = {
    "RandomResizedCropAndInterpolation": _random_resized_crop,
    "CenterCropOrPad": _center_crop_or_pad,
    "RandomCropOrPad": _random_crop_or_pad,
    "RandomErasing": _random_erasing,
    "ToNumpy": _to_numpy,
}
