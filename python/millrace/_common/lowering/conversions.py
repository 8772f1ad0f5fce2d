"""Conversions: of pictures to tensors, of tensors between types, and what normalises them."""

from __future__ import annotations

from typing import Any

import torch

from .chain import FLOATS, Chain, Rule, floats
from .recognising import V1, V2, NotLowered, loaded


def _to_tensor(chain: Chain, t: Any, family: str) -> None:
    dtype = torch.get_default_dtype()
    if dtype is torch.float64:
        raise NotLowered(
            "ToTensor makes torch's default dtype, and divides doubles, which the engine does not; take v2's"
            " ToDtype(torch.float64, scale=True)"
        )
    chain.convert("ToTensor", dtype)


def _to_bytes(chain: Chain, t: Any, family: str) -> None:
    if type(t).__name__ == "ToImage" and family == V2:
        chain.row_type = loaded("torchvision.tv_tensors", "Image")
    if type(t).__name__ == "ToImage" and chain.dtype is not None:
        return  # torchvision only relabels a tensor
    chain.convert(type(t).__name__, torch.uint8)


def _to_picture(chain: Chain, t: Any, family: str) -> None:
    if not chain.is_array or t.mode not in (None, "RGB"):
        raise NotLowered("ToPILImage is native only of an array of bytes, where __getitem__ is read")
    chain.is_array = False


def _to_dtype(chain: Chain, t: Any, family: str) -> None:
    name, dtype = type(t).__name__, t.dtype
    if chain.dtype is None:
        raise NotLowered(f"{name} does nothing to PIL images; put ToImage() or PILToTensor() before it")
    if dtype is chain.dtype:
        return
    if isinstance(dtype, dict) or dtype not in FLOATS:
        raise NotLowered(
            f"{name}({dtype}) has no native form; the engine makes uint8, float16, bfloat16, float32 and"
            " float64"
        )
    if chain.dtype is torch.uint8 and not getattr(t, "scale", True):
        raise NotLowered("ToDtype to a float type without scale=True keeps 0..255; pass scale=True")
    if chain.normalize or chain.noise:
        before = "Normalize" if chain.normalize else "GaussianNoise"
        raise NotLowered(
            f"{name} follows {before}, whose results it rounds once more; put it before {before}"
        )
    if chain.dtype is not torch.uint8 and torch.finfo(dtype).bits > torch.finfo(chain.dtype).bits:
        raise NotLowered(f"{name} widens {chain.dtype} to {dtype}; convert once")
    if chain.dtype not in (torch.uint8, torch.float32):
        raise NotLowered(f"{name} rounds {chain.dtype} once more, to {dtype}; convert once")
    if dtype is torch.float64 and family == V1:
        raise NotLowered(
            f"v1's {name}({dtype}) divides doubles, which the engine does not; take v2's ToDtype"
        )
    if chain.dtype is torch.uint8:
        chain.multiply = family != V1
    chain.dtype = dtype


def _normalize(chain: Chain, t: Any, family: str) -> None:
    if chain.dtype not in FLOATS:
        raise NotLowered(
            "Normalize needs a float tensor; put ToTensor() or ToDtype(torch.float32, scale=True) before it"
        )
    chain.normalize.append({"op": "normalize", "mean": floats(t.mean), "std": floats(t.std)})


CONVERSIONS: dict[str, Rule] = {
    "ToTensor": _to_tensor,
    "PILToTensor": _to_bytes,
    "ToImage": _to_bytes,
    "ToPILImage": _to_picture,
    "ToDtype": _to_dtype,
    "ConvertImageDtype": _to_dtype,
    "Normalize": _normalize,
}
