"""Tests once whether the engine resizes tensors of bytes as the library does on this machine.

torch has whole-number arithmetic for bytes, with the same results on every CPU; the engine repeats it.
torchvision uses it only where it is fast, and floats elsewhere: the rounding of float sums depends on the
length of the CPU's vectors.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from ... import _core


@cache
def rounds_as_torch(resize: Any, interpolation: Any) -> bool:
    """`resize`: the class of that name, of torchvision's v2 or ours."""
    numbers = torch.arange(3 * 67 * 91, device="cpu")
    pixels = (numbers * numbers * 31 // 7 % 256).to(torch.uint8).reshape(3, 67, 91)
    name = {2: "bilinear", 3: "bicubic"}.get(interpolation, getattr(interpolation, "value", interpolation))
    for height, width in ((40, 33), (90, 64), (20, 120)):
        with torch.no_grad():
            expected = resize((height, width), interpolation=interpolation, antialias=True)(pixels)
        op = {
            "op": "resize",
            "height": height,
            "width": width,
            "max_size": 0,
            "interpolation": name,
            "of_tensor": True,
        }
        engine = _core.ImagePipeline([op, {"op": "to_tensor", "dtype": "uint8"}])
        if not torch.equal(engine.apply(pixels.permute(1, 2, 0).contiguous().numpy(), 0, 0, 0), expected):
            return False
    return True
