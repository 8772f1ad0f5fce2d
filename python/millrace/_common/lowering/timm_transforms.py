"""timm's own crop and erasing, and its conversion for a prefetcher of its own."""

from __future__ import annotations

import math
from typing import Any

from .chain import FLOATS, Chain, Rule
from .recognising import NotLowered, interpolation_name, pair


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


def _to_numpy(chain: Chain, t: Any, family: str) -> None:
    raise NotLowered(
        "timm's ToNumpy makes numpy arrays, and the engine tensors; use MaybePILToTensor(), whose tensors are"
        " the same bytes"
    )


TIMM_TRANSFORMS: dict[str, Rule] = {
    "RandomResizedCropAndInterpolation": _random_resized_crop,
    "RandomErasing": _random_erasing,
    "ToNumpy": _to_numpy,
}
