"""torchvision's conversions of pictures that wait: from the file to the tensor in one pass, with the values,
the memory layout and the type that torchvision's own steps give.

Functions: to_tensor, pil_to_tensor, adjust_hue and to_grayscale. A Compose of torchvision.transforms looks
ahead: ToTensor and the Normalize behind it are one pass.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable
from typing import Any

import torch
from PIL import Image

from .. import _core
from .asking import asked
from .pillow import derived, looked_at, record_of, recorded
from .replaced import Replaced, can_be_redirected

_FUNCTIONS = "torchvision.transforms.functional"
_PILLOW_FUNCTIONS = "torchvision.transforms._functional_pil"
_CLASSES = "torchvision.transforms.transforms"


@functools.lru_cache(64)
def _values(mean: tuple[float, ...] = (), std: tuple[float, ...] = ()) -> _core.TensorValues | None:
    """None for what Normalize refuses."""
    chain: list[dict[str, Any]] = [{"op": "to_tensor", "dtype": "float32"}]
    if mean:
        chain.append({"op": "normalize", "mean": list(mean), "std": list(std)})
    try:
        return _core.TensorValues(_core.ImagePipeline(chain))
    except ValueError:
        return None


def _record(image: Any) -> _core.RecordedPicture | None:
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


def _to_tensor(original: Callable[..., Any]) -> Callable[..., Any]:
    def to_tensor(pic: Any) -> Any:
        record = _record(pic) if torch.get_default_dtype() is torch.float32 else None
        return original(pic) if record is None else looked_at(pic, record, "tensor", _values())

    return to_tensor


def _pil_to_tensor(original: Callable[..., Any]) -> Callable[..., Any]:
    """A view of rows, columns and channels, as torchvision's is."""

    def pil_to_tensor(pic: Any) -> Any:
        record = _record(pic)
        if record is None:
            return original(pic)
        array = looked_at(pic, record, "array", record.mode)
        return torch.from_numpy(array[..., None] if record.mode == "L" else array).permute(2, 0, 1)

    return pil_to_tensor


def _adjust_hue(original: Callable[..., Any]) -> Callable[..., Any]:
    def adjust_hue(img: Any, hue_factor: float) -> Any:
        record = recorded(img) if isinstance(img, Image.Image) else None
        if record is not None and -0.5 <= hue_factor <= 0.5:
            with contextlib.suppress(_core.NotRecorded):
                return derived(img, record.recolor("hue", hue_factor), info=False)
        return original(img, hue_factor)

    return adjust_hue


def _to_grayscale(original: Callable[..., Any]) -> Callable[..., Any]:
    def to_grayscale(img: Any, num_output_channels: int) -> Any:
        record = recorded(img) if isinstance(img, Image.Image) and num_output_channels == 3 else None
        if record is not None:
            return derived(img, record.convert("L").convert("RGB"), info=False)
        return original(img, num_output_channels)

    return to_grayscale


# ------------------------------------------------------------------ Compose


def _compose(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def __call__(self: Any, img: Any) -> Any:  # noqa: N807
        waits = isinstance(img, Image.Image) and (record_of(img) is not None or asked() is not None)
        if not waits or torch.get_default_dtype() is not torch.float32 or not _shipped.is_as_it_was():
            return original(self, img)
        steps = self.transforms
        at = next((i for i, step in enumerate(steps) if type(step) in _shipped.conversions), len(steps))
        values, channels = (None, 0) if at + 1 >= len(steps) else _normalized(steps[at + 1])
        if values is None:
            return original(self, img)
        for step in steps[:at]:
            img = step(img)
        record = _record(img)
        if record is None or channels not in (1, 1 if record.mode == "L" else 3):
            rest = steps[at:]
        else:
            img, rest = looked_at(img, record, "tensor", values), steps[at + 2 :]
        for step in rest:
            img = step(img)
        return img

    return __call__


def _normalized(step: Any) -> tuple[_core.TensorValues | None, int]:
    """(what ToTensor and this Normalize make of bytes, of how many channels), or None and any number."""
    if type(step) is not _shipped.normalize or step._forward_hooks or step._forward_pre_hooks:
        return None, 0
    if "forward" in step.__dict__ or "__call__" in step.__dict__:
        return None, 0
    try:
        mean, std = tuple(map(float, step.mean)), tuple(map(float, step.std))
    except (TypeError, ValueError):
        return None, 0
    channels = max(len(mean), len(std))
    if min(len(mean), len(std)) not in (1, channels) or channels not in (1, 3):
        return None, 0
    return _values(mean, std), channels


class _Shipped:
    """What a Compose may look ahead to: torchvision's own steps, while nobody has replaced a part of them."""

    def __init__(self) -> None:
        self.conversions: tuple[type, ...] = ()
        self.normalize: Any = None
        self._parts: list[tuple[Any, str, Any]] = []

    def look(self) -> None:
        functions, classes = sys.modules[_FUNCTIONS], sys.modules[_CLASSES]
        self.normalize, conversion = classes.Normalize, classes.ToTensor  # type: ignore[attr-defined]
        self._parts = [(functions, name, getattr(functions, name)) for name in ("to_tensor", "normalize")]
        self._parts += [
            (conversion, "__call__", conversion.__call__),
            (conversion, "__init__", conversion.__init__),
        ]
        self._parts += [(self.normalize, "forward", self.normalize.forward)]
        self.conversions = (conversion,)

    def is_as_it_was(self) -> bool:
        timm = sys.modules.get("timm.data.transforms")
        if timm is not None and len(self.conversions) == 1:
            self.conversions += (timm.MaybeToTensor,)  # for pictures the same
        hooked = torch.nn.modules.module._has_any_global_hook()
        return not hooked and all(getattr(owner, name, None) is part for owner, name, part in self._parts)


_shipped = _Shipped()

# ------------------------------------------------------------------ in and out of torchvision's modules

_PLACES: list[tuple[str, str, Callable[..., Any]]] = [
    (_FUNCTIONS, "to_tensor", _to_tensor),
    (_FUNCTIONS, "pil_to_tensor", _pil_to_tensor),
    (_PILLOW_FUNCTIONS, "adjust_hue", _adjust_hue),
    (_PILLOW_FUNCTIONS, "to_grayscale", _to_grayscale),
]
_replaced = Replaced()


def install() -> bool:
    """False while torchvision is being imported."""
    classes = sys.modules.get(_CLASSES)
    if not hasattr(classes, "Normalize"):
        return False
    for module, name, wrap in _PLACES:
        function = getattr(sys.modules.get(module), name, None)
        if can_be_redirected(function):
            _replaced.redirect(function, wrap)
    _replaced.put(classes.Compose, "__call__", _compose)  # type: ignore[union-attr]
    _shipped.look()
    return True


def uninstall() -> None:
    _replaced.put_back()
