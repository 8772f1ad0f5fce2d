"""Compose of torchvision's transforms, v1 and v2, over pictures that wait: a conversion and the following
steps that only change numbers are one pass from the file to the tensor, with torchvision's values, memory
layout and type.

    ToTensor, Normalize                               planes, as torchvision makes them
    ToImage or PILToTensor, ToDtype, Normalize        of v2: rows of pixels seen as planes, as there
    ToImage or PILToTensor, ToDtype                   the same

v2's chains also take structures of pictures, boxes, masks and labels: then each picture has its one pass.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image

from .. import _core
from .._common.shipped import replaced, replaced_in
from .._common.torch_private import tree_flatten, tree_unflatten
from .asking import asked
from .pillow import looked_at, record_of
from .replaced import around, replacements
from .torchvision_calls import record_to_convert, values_of

_FUNCTIONS = "torchvision.transforms.functional"
_CLASSES = "torchvision.transforms.transforms"
_V2_FUNCTIONS = "torchvision.transforms.v2.functional"
_V2_CONVERSIONS = "torchvision.transforms.v2.functional._type_conversion"
_V2_CONTAINERS = "torchvision.transforms.v2._container"
_V2_CLASSES = "torchvision.transforms.v2"

_V1_METHODS = ("__call__", "__init__", "forward")
_V2_METHODS = (
    *("__call__", "forward", "transform", "check_inputs", "make_params"),
    *("_needs_transform_list", "_call_kernel"),
)


class _Family:
    """torchvision's v1 or v2: its parts, while nobody has replaced one of them, and before."""

    def __init__(self) -> None:
        self._parts: list[tuple[Any, str, Any]] = []
        self.normalize: type | None = None  # None: not imported yet, or not torchvision's

    def look(self, owners: Iterable[tuple[Any, Iterable[str]]], normalize: type) -> bool:
        """False if one of the parts, a name of an owner, is not what torchvision or torch ships by now."""
        self._parts.clear()
        is_shipped = all([self.add(*owner) for owner in owners])
        self.normalize = normalize if is_shipped else None
        return is_shipped

    def add(self, owner: Any, names: Iterable[str]) -> bool:
        """A class or a module, to be looked at; False if it is no longer as it was shipped."""
        if (replaced_in(owner) if isinstance(owner, type) else replaced(owner.__name__, *names)) is not None:
            return False
        self._parts += [(owner, name, getattr(owner, name)) for name in names if hasattr(owner, name)]
        return True

    def is_as_it_was(self) -> bool:
        return all(getattr(owner, name, None) is part for owner, name, part in self._parts)


class _Tail(NamedTuple):
    """Steps `begin` to `end` of a chain as one pass."""

    begin: int
    end: int
    values: _core.TensorValues
    channels: int  # that Normalize is for; 1: any number
    row_type: type[torch.Tensor] | None  # of v2: of what type its tensors are


class _Chains:
    """The chains that are known: v1's and v2's once these are imported, if they are torchvision's then."""

    def __init__(self) -> None:
        self._v1, self._v2 = _Family(), _Family()
        # Conversions, and what v2's make of pictures; v1's: None.
        self._row_types: dict[type, type[torch.Tensor] | None] = {}
        self._floats: tuple[type, ...] = ()

    def look_at_v1(self, functions: ModuleType, classes: Any) -> None:
        if self._v1.normalize is not None:
            return
        steps = (classes.ToTensor, classes.Normalize)
        owners = [(functions, ("to_tensor", "normalize")), *((step, _V1_METHODS) for step in steps)]
        if self._v1.look(owners, classes.Normalize):
            self._row_types[classes.ToTensor] = None

    def look_at_v2(self, functions: ModuleType, conversions: ModuleType, classes: Any) -> None:
        if self._v2.normalize is not None:
            return
        floats = (classes.ToDtype, classes.ConvertImageDtype)
        steps = (classes.ToImage, classes.PILToTensor, *floats, classes.Normalize)
        owners = [
            (functions, ("to_image", "pil_to_tensor", "to_dtype", "normalize")),
            (conversions, ("pil_to_tensor",)),
            *((step, _V2_METHODS) for step in steps),
        ]
        if self._v2.look(owners, classes.Normalize):
            image = sys.modules["torchvision.tv_tensors"].Image
            self._row_types |= {classes.ToImage: image, classes.PILToTensor: torch.Tensor}
            self._floats = floats

    def tail_of(self, steps: Sequence[Any]) -> _Tail | None:
        timm = sys.modules.get("timm.data.transforms")
        if timm is not None and timm.MaybeToTensor not in self._row_types and self._v1.normalize is not None:
            if self._v1.add(timm.MaybeToTensor, _V1_METHODS):
                self._row_types[timm.MaybeToTensor] = None  # for pictures the same as ToTensor
        for at, step in enumerate(steps):
            if type(step) in self._row_types:
                return self._tail(steps, at, self._row_types[type(step)]) if _nothing_is_hooked() else None
        return None

    def _tail(self, steps: Sequence[Any], begin: int, row_type: type[torch.Tensor] | None) -> _Tail | None:
        family = self._v1 if row_type is None else self._v2
        end = begin + 1
        if end == len(steps) or not _is_plain(steps[begin]) or not family.is_as_it_was():
            return None
        if row_type is not None:
            if not self._makes_floats(steps[end], row_type):
                return None
            end += 1
        elif torch.get_default_dtype() is not torch.float32:  # ToTensor's
            return None
        interleaved = row_type is not None
        if end < len(steps) and type(steps[end]) is family.normalize:
            values, channels = _normalized(steps[end], interleaved)
            if values is not None:
                return _Tail(begin, end + 1, values, channels, row_type)
        values = values_of(interleaved=True) if interleaved else None
        return None if values is None else _Tail(begin, end, values, 1, row_type)

    def _makes_floats(self, step: Any, row_type: type) -> bool:
        """Whether this is a ToDtype that scales bytes to floats."""
        if type(step) not in self._floats or not _is_plain(step) or not getattr(step, "scale", True):
            return False
        dtype = step.dtype
        if isinstance(dtype, dict):
            dtype = dtype.get(row_type, dtype.get("others"))
        return dtype is torch.float32


def _nothing_is_hooked() -> bool:
    return not torch.nn.modules.module._has_any_global_hook()


def _is_plain(step: Any) -> bool:
    """Whether the instance has no hooks and no methods of its own."""
    own = step.__dict__
    hooked = own.get("_forward_hooks") or own.get("_forward_pre_hooks")
    return not hooked and own.keys().isdisjoint(_V2_METHODS)


def _normalized(step: Any, interleaved: bool) -> tuple[_core.TensorValues | None, int]:
    """(what a conversion and this Normalize make of bytes, of how many channels), or None and any number."""
    if not _is_plain(step):
        return None, 0
    try:
        mean, std = tuple(map(float, step.mean)), tuple(map(float, step.std))
    except (TypeError, ValueError):
        return None, 0
    channels = max(len(mean), len(std))
    if min(len(mean), len(std)) not in (1, channels) or channels not in (1, 3):
        return None, 0
    return values_of(mean, std, interleaved), channels


_chains = _Chains()

# ------------------------------------------------------------------ Compose


def _tail(steps: Any, image: Any) -> _Tail | None:
    """The steps that are one pass; None if torchvision is to take all steps."""
    if not isinstance(image, Image.Image) or (record_of(image) is None and asked() is None):
        return None
    return _chains.tail_of(steps)


def _fits(tail: _Tail, record: _core.RecordedPicture) -> bool:
    """Of grey pictures and single pixels, how v2's tensors lie in memory is torch's own affair."""
    if record.mode == "L":
        return tail.channels == 1 and tail.row_type is None
    return tail.channels in (1, 3) and (tail.row_type is None or record.size != (1, 1))


def _row(tail: _Tail, image: Any, record: _core.RecordedPicture) -> torch.Tensor:
    tensor = looked_at(image, record, "tensor", tail.values)
    return tensor if tail.row_type is None else _typed(tail, tensor.permute(2, 0, 1))


def _typed(tail: _Tail, tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tail.row_type in (None, torch.Tensor) else tensor.as_subclass(tail.row_type)


def _through(steps: Any, tail: _Tail, image: Any) -> Any:
    for step in steps[: tail.begin]:
        image = step(image)
    record = record_to_convert(image)
    if record is None or not _fits(tail, record):
        rest = steps[tail.begin :]
    else:
        image, rest = _row(tail, image, record), steps[tail.end :]
    for step in rest:
        image = step(image)
    return image


def _through_structure(steps: Any, tail: _Tail, sample: Any, several: bool) -> Any:
    """As _through(), of a sample that has pictures among other things. torchvision's own steps of the tail
    take what they may change, with a small tensor for each picture: they decide by types and their order
    which tensors they change.
    """

    def taken(sample: Any, steps: Any) -> Any:
        for step in steps:
            sample = step(*sample) if several else step(sample)
        return sample

    sample = taken(sample, steps[: tail.begin])
    flat, spec = tree_flatten(sample)
    pictures = {}
    for at, leaf in enumerate(flat):
        if isinstance(leaf, Image.Image) and leaf.mode == "RGB":
            record = record_to_convert(leaf)
            if record is not None and _fits(tail, record):
                pictures[at] = record
    if not pictures:
        return taken(sample, steps[tail.begin :])
    places = [at for at, leaf in enumerate(flat) if isinstance(leaf, (torch.Tensor, np.ndarray, Image.Image))]
    small = _typed(tail, torch.zeros(3, 1, 1, dtype=torch.uint8, device="cpu"))
    made = [small if at in pictures else flat[at] for at in places]
    for step in steps[tail.begin : tail.end]:
        made = step(made)
    for at, value in zip(places, made):
        if at not in pictures:
            flat[at] = value
        elif value.dtype is torch.float32:
            flat[at] = _row(tail, flat[at], pictures[at])
        else:
            flat[at] = steps[tail.begin](flat[at])
    return taken(tree_unflatten(flat, spec), steps[tail.end :])


@around
def _compose(self: Any, img: Any, *, original: Callable[..., Any]) -> Any:
    tail = _tail(self.transforms, img)
    return original(self, img) if tail is None else _through(self.transforms, tail, img)


@around
def _compose_v2(self: Any, *inputs: Any, original: Callable[..., Any]) -> Any:
    if len(inputs) == 1 and isinstance(inputs[0], Image.Image):
        tail = _tail(self.transforms, inputs[0])
        return original(self, *inputs) if tail is None else _through(self.transforms, tail, inputs[0])
    tail = None if asked() is None else _chains.tail_of(self.transforms)
    if tail is None or tail.row_type is None:
        return original(self, *inputs)
    several = len(inputs) > 1
    sample = inputs if several else inputs[0]
    if not any(isinstance(leaf, Image.Image) for leaf in tree_flatten(sample)[0]):
        return original(self, *inputs)
    return _through_structure(self.transforms, tail, sample, several)


# ------------------------------------------------------------------ in and out of torchvision's classes


def install() -> bool:
    """False while torchvision is being imported."""
    modules = sys.modules
    classes = modules.get(_CLASSES)
    if not hasattr(classes, "Normalize"):
        return False
    if replaced_in(classes.Compose) is None:  # type: ignore[union-attr]
        replacements.put(classes.Compose, "__call__", _compose)  # type: ignore[union-attr]
    _chains.look_at_v1(modules[_FUNCTIONS], classes)
    if _V2_CONTAINERS in modules:
        v2 = modules.get(_V2_CLASSES)
        if not hasattr(v2, "ToImage") or not hasattr(v2, "Normalize"):
            return False
        if replaced_in(v2.Compose) is None:  # type: ignore[union-attr]
            replacements.put(v2.Compose, "forward", _compose_v2)  # type: ignore[union-attr]
        _chains.look_at_v2(modules[_V2_FUNCTIONS], modules[_V2_CONVERSIONS], v2)
    return True


def uninstall() -> None:
    global _chains
    _chains = _Chains()
