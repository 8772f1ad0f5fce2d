"""torchvision's functions over pictures that wait: to_tensor and pil_to_tensor, from the file to the tensor
in one pass, with the values, the memory layout and the type that torchvision's own give; adjust_hue,
to_grayscale and v2's permute_channels, which are recorded. What several steps of a chain are together says
torchvision_chains.py.
"""

from __future__ import annotations

import contextlib
import functools
import operator
import sys
from collections.abc import Callable
from typing import Any

import torch
from PIL import Image

from .. import _core
from .._common.shipped import replaced
from .asking import asked
from .pillow import derived, looked_at, recorded
from .replaced import around, can_be_redirected, replacements

_FUNCTIONS = "torchvision.transforms.functional"
_PILLOW_FUNCTIONS = "torchvision.transforms._functional_pil"


@functools.lru_cache(64)
def values_of(
    mean: tuple[float, ...] = (), std: tuple[float, ...] = (), interleaved: bool = False
) -> _core.TensorValues | None:
    """Of v1's ToTensor and Normalize; `interleaved`: of v2's ToImage, ToDtype and Normalize, which multiply
    by 1 / 255 where v1 divides by 255. None for what Normalize refuses.
    """
    chain: list[dict[str, Any]] = [{"op": "to_tensor", "dtype": "float32"}]
    if interleaved:
        chain[0]["multiply"] = True
    if mean:
        chain.append({"op": "normalize", "mean": list(mean), "std": list(std)})
    try:
        return _core.TensorValues(_core.ImagePipeline(chain), interleaved)
    except ValueError:
        return None


def record_to_convert(image: Any) -> _core.RecordedPicture | None:
    """Of any picture of bytes that a dataset has; those that do not wait are copied."""
    if not isinstance(image, Image.Image) or image.mode not in ("RGB", "L"):
        return None
    record = recorded(image)
    if record is None and asked() is not None and 0 not in image.size:
        pixels = image.tobytes("raw", "L" if image.mode == "L" else "RGBX")
        with contextlib.suppress(_core.NotRecorded):  # too long a side
            return _core.RecordedPicture.of_pixels(image.size, image.mode, pixels)
    return record


# ------------------------------------------------------------------ functions


@around
def _to_tensor(pic: Any, *, original: Callable[..., Any]) -> Any:
    record = record_to_convert(pic) if torch.get_default_dtype() is torch.float32 else None
    return original(pic) if record is None else looked_at(pic, record, "tensor", values_of())


@around
def _pil_to_tensor(pic: Any, *, original: Callable[..., Any]) -> Any:
    """A view of rows, columns and channels, as torchvision's is."""
    record = record_to_convert(pic)
    if record is None:
        return original(pic)
    tensor = torch.from_numpy(looked_at(pic, record, "array", record.mode))
    return (tensor.unsqueeze(-1) if record.mode == "L" else tensor).permute(2, 0, 1)


@around
def _adjust_hue(img: Any, hue_factor: float, *, original: Callable[..., Any]) -> Any:
    record = recorded(img) if isinstance(img, Image.Image) else None
    if record is not None and -0.5 <= hue_factor <= 0.5:
        with contextlib.suppress(_core.NotRecorded):
            return derived(img, record.recolor("hue", hue_factor), info=False)
    return original(img, hue_factor)


@around
def _to_grayscale(img: Any, num_output_channels: int, *, original: Callable[..., Any]) -> Any:
    record = recorded(img) if isinstance(img, Image.Image) and num_output_channels == 3 else None
    if record is not None:
        return derived(img, record.convert("L").convert("RGB"), info=False)
    return original(img, num_output_channels)


@around
def _permute_channels(image: Any, permutation: Any, *, original: Callable[..., Any]) -> Any:
    record = recorded(image) if isinstance(image, Image.Image) and image.mode == "RGB" else None
    if record is not None:
        with contextlib.suppress(_core.NotRecorded, TypeError):
            source = [operator.index(channel) for channel in permutation]
            return derived(image, record.permute(source), info=False)
    return original(image, permutation)


# ------------------------------------------------------------------ in and out of torchvision's modules

_V2_COLOURS = "torchvision.transforms.v2.functional._color"
_PLACES: list[tuple[str, str, Callable[..., Any]]] = [
    (_FUNCTIONS, "to_tensor", _to_tensor),
    (_FUNCTIONS, "pil_to_tensor", _pil_to_tensor),
    (_PILLOW_FUNCTIONS, "adjust_hue", _adjust_hue),
    (_PILLOW_FUNCTIONS, "to_grayscale", _to_grayscale),
    (_V2_COLOURS, "_permute_channels_image_pil", _permute_channels),
]


def install() -> bool:
    """False while torchvision is being imported."""
    if not hasattr(sys.modules.get(_FUNCTIONS), "to_grayscale"):
        return False
    for module, name, wrap in _PLACES:
        function = getattr(sys.modules.get(module), name, None)
        if can_be_redirected(function) and replaced(module, name) is None:
            replacements.redirect(function, wrap)
    return True
