"""torchvision's conversions of waiting pictures: from the file to the tensor in one pass, with the values
that torchvision's own steps give.

Functions: to_tensor and pil_to_tensor. A Compose looks ahead: a conversion and the ToDtype and Normalize
behind it are one pass.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from PIL import Image

from .. import _core
from .._common.lowering.transforms import lowered_steps
from .asking import asked
from .pillow import derived, recorded, rendered

_CONVERSIONS = {"ToTensor", "MaybeToTensor", "PILToTensor", "ToImage"}
_BEHIND = {"ToImage", "ToDtype", "ConvertImageDtype", "Normalize", "ToPureTensor"}

_tails: weakref.WeakKeyDictionary[Any, _Tail] = weakref.WeakKeyDictionary()  # what is known of a Compose
_originals: list[tuple[Any, str, Any]] = []


@functools.cache
def _values(floats: bool) -> _core.TensorValues:
    dtype = "float32" if floats else "uint8"
    return _core.TensorValues(_core.ImagePipeline([{"op": "to_tensor", "dtype": dtype}]))


def _tensor(image: Image.Image, values: _core.TensorValues, channels: int = 0) -> torch.Tensor | None:
    """`channels`: that `values` are for, 0 for any. None where torchvision is to make the tensor."""
    record = recorded(image)
    if image.mode not in ("RGB", "L") or channels not in (0, 1 if image.mode == "L" else 3):
        return None
    if record is not None:
        return rendered(record, record.tensor, values)
    if asked() is None or 0 in image.size:
        return None
    pixels = image.tobytes("raw", "L" if image.mode == "L" else "RGBX")
    return _core.RecordedPicture.of_pixels(image.size, image.mode, pixels).tensor(values)


# ------------------------------------------------------------------ functions


def _to_tensor(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def to_tensor(pic: Any) -> Any:
        if isinstance(pic, Image.Image) and torch.get_default_dtype() is torch.float32:
            tensor = _tensor(pic, _values(True))
            if tensor is not None:
                return tensor
        return original(pic)

    return to_tensor


def _pil_to_tensor(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def pil_to_tensor(pic: Any) -> Any:
        tensor = _tensor(pic, _values(False)) if isinstance(pic, Image.Image) else None
        return original(pic) if tensor is None else tensor

    return pil_to_tensor


def _adjust_hue(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def adjust_hue(img: Any, hue_factor: float) -> Any:
        record = recorded(img) if isinstance(img, Image.Image) else None
        if record is not None and -0.5 <= hue_factor <= 0.5:
            with contextlib.suppress(_core.NotRecorded):
                return derived(img, record.recolor("hue", hue_factor), info=False)
        return original(img, hue_factor)

    return adjust_hue


def _to_grayscale(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def to_grayscale(img: Any, num_output_channels: int) -> Any:
        record = recorded(img) if isinstance(img, Image.Image) and num_output_channels == 3 else None
        if record is not None:
            return derived(img, record.convert("L").convert("RGB"), info=False)
        return original(img, num_output_channels)

    return to_grayscale


# ------------------------------------------------------------------ Compose


@dataclass(frozen=True)
class _Tail:
    """Steps `begin` to `end` of a Compose: a conversion, and what only changes numbers behind it."""

    steps: list[Any]  # all of the Compose's, when it was looked at
    settings: list[Any]  # of those that might have been in it
    begin: int
    end: int
    values: _core.TensorValues | None  # None: there is nothing to be done in one pass
    row_type: type
    channels: int


def _plan(steps: list[Any]) -> _Tail:
    names = [type(step).__name__ for step in steps]
    begin = next((i for i, name in enumerate(names) if name in _CONVERSIONS), len(names))
    end = begin + 1
    while end < len(names) and names[end] in _BEHIND:
        end += 1
    settings = _settings(steps[begin:end])
    for last in range(min(end, len(names)), begin, -1):
        try:
            found = lowered_steps([_as_torchvisions(step) for step in steps[begin:last]])
            values = _core.TensorValues(_core.ImagePipeline(found.chain))
        except Exception:  # no form, or a mistake in a step, of which torchvision tells in its own words
            continue
        if found.row_type is not None:
            lengths = {len(step["mean"]) for step in found.chain if step["op"] == "normalize"} - {1}
            return _Tail(steps, settings, begin, last, values, found.row_type, max(lengths, default=0))
    return _Tail(steps, settings, begin, begin, None, torch.Tensor, 0)


def _settings(steps: Sequence[Any]) -> list[Any]:
    """What a script may set on steps after their Compose was looked at: their numbers, methods and hooks."""
    found: list[Any] = []
    for step in steps:
        own = getattr(step, "__dict__", {})
        numbers = [_numbers(own.get(name)) for name in ("mean", "std", "scale")]
        hooked = bool(own.get("_forward_hooks")) or bool(own.get("_forward_pre_hooks"))
        found.append((len(own), own.get("dtype"), hooked, numbers))
    return found


def _numbers(value: Any) -> Any:
    """A copy, since lists are changed in place."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return tuple(value) if isinstance(value, (list, tuple)) else value


def _as_torchvisions(step: Any) -> Any:
    """timm's MaybeToTensor is torchvision's ToTensor for pictures."""
    if type(step).__name__ == "MaybeToTensor" and type(step).__module__ == "timm.data.transforms":
        return sys.modules["torchvision.transforms"].ToTensor()
    return step


def _tail_of(compose: Any) -> _Tail:
    steps = compose.transforms
    try:
        tail = _tails.get(compose)
    except TypeError:  # a class of the script's, without a hash
        return _plan(list(steps))
    if (
        tail is None
        or len(tail.steps) != len(steps)
        or any(a is not b for a, b in zip(tail.steps, steps))
        or tail.settings != _settings(tail.steps[tail.begin : tail.begin + len(tail.settings)])
    ):
        tail = _tails[compose] = _plan(list(steps))
    return tail


def _run(tail: _Tail, values: _core.TensorValues, image: Any) -> Any:
    steps: Sequence[Any] = tail.steps
    for step in steps[: tail.begin]:
        image = step(image)
    tensor = _tensor(image, values, tail.channels) if isinstance(image, Image.Image) else None
    if tensor is None:
        rest = steps[tail.begin :]
    else:
        image = tensor if tail.row_type is torch.Tensor else tensor.as_subclass(tail.row_type)
        rest = steps[tail.end :]
    for step in rest:
        image = step(image)
    return image


def _compose(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(self: Any, *inputs: Any, **named: Any) -> Any:
        if (
            len(inputs) == 1
            and not named
            and isinstance(inputs[0], Image.Image)
            and torch.get_default_dtype() is torch.float32  # ToTensor's
            and (tail := _tail_of(self)).values is not None
            and (recorded(inputs[0]) is not None or asked() is not None)
        ):
            return _run(tail, tail.values, inputs[0])
        return original(self, *inputs, **named)

    return call


# ------------------------------------------------------------------ in and out of torchvision's modules

_FUNCTIONS = "torchvision.transforms.functional"
_PLACES: list[tuple[str, str, str, Callable[..., Any]]] = [  # module, class, name, what is put around it
    (_FUNCTIONS, "", "to_tensor", _to_tensor),
    (_FUNCTIONS, "", "pil_to_tensor", _pil_to_tensor),
    ("torchvision.transforms._functional_pil", "", "adjust_hue", _adjust_hue),
    ("torchvision.transforms._functional_pil", "", "to_grayscale", _to_grayscale),
    ("torchvision.transforms.v2.functional", "", "pil_to_tensor", _pil_to_tensor),
    ("torchvision.transforms.v2.functional._type_conversion", "", "pil_to_tensor", _pil_to_tensor),
    ("torchvision.transforms.transforms", "Compose", "__call__", _compose),
    ("torchvision.transforms.v2._container", "Compose", "forward", _compose),
]


def install() -> None:
    """In the modules that are imported by now."""
    done = {(owner, name) for owner, name, _ in _originals}
    for module, inside, name, wrap in _PLACES:
        owner = sys.modules.get(module)
        if owner is not None and inside:
            owner = getattr(owner, inside, None)
        original = getattr(owner, name, None)
        if original is None or (owner, name) in done:
            continue
        _originals.append((owner, name, original))
        setattr(owner, name, wrap(original))


def uninstall() -> None:
    for owner, name, original in _originals:
        setattr(owner, name, original)
    _originals.clear()
