"""What recognisers have in common: how they say no, and what transforms hold.

Callables may only hold transforms: torchvision's presets, a user's class around a Compose, partials, bound
methods, lambdas. Nothing is called to find out: read_source.py shows that such an object does nothing but
call what it holds, one after the other.
"""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Sequence
from typing import Any

import torch


class NotLowered(Exception):
    """A stage stays in Python; the text says why and what to change. Caught by the planner, never seen by
    users.
    """


def loaded(module: str, name: str) -> Any:
    """`module.name` if that module was imported already, else None: recognisers must not import optional
    libraries.
    """
    return getattr(sys.modules.get(module), name, None)


def is_a(value: Any, module: str, name: str) -> bool:
    """Whether it is an instance of that class, if it is loaded. A user's module may be called alike."""
    kind = loaded(module, name)
    return isinstance(kind, type) and isinstance(value, kind)


OURS, V1, V2 = "millrace.transforms", "torchvision.transforms.transforms", "torchvision.transforms.v2"
V1_POLICIES, TIMM = "torchvision.transforms.autoaugment", "timm.data"

# What docs/native.md says of callables that hold transforms (scripts/native_table.py).
HOLDERS = (
    "Compose, `nn.Sequential`, torchvision's presets (`Weights.DEFAULT.transforms()`), and [any"
    " callable that only holds known ones](#presets-and-other-holders); transforms that make [several"
    " views](#several-views-of-a-picture)"
)


def held_directly(transform: Any) -> Sequence[Any] | None:
    """What calling `transform` is another way to call; None: it is a callable of its own."""
    if type(transform) is functools.partial and not transform.args and not transform.keywords:
        return [transform.func]
    if isinstance(transform, types.MethodType) and _is_call(transform):
        return [transform.__self__]
    if type(transform) is loaded("torchvision.transforms._presets", "ImageClassification"):
        return _image_classification(transform)
    return None


def holder_name(transform: Any) -> str:
    while type(transform) is functools.partial:
        transform = transform.func
    if isinstance(transform, types.MethodType):
        return f"{type(transform.__self__).__name__}.{transform.__name__}"
    return getattr(transform, "__name__", None) or type(transform).__name__


def _is_call(method: types.MethodType) -> bool:
    """Whether it is what calling its object would call. A module's forward is not, where that has hooks."""
    owner: Any = method.__self__
    if method.__func__ is type(owner).__call__:
        return True
    is_module = isinstance(owner, torch.nn.Module) and type(owner).__call__ is torch.nn.Module.__call__
    return (
        is_module
        and method.__func__ is type(owner).forward
        and not (owner._forward_hooks or owner._forward_pre_hooks)
    )


def _image_classification(preset: Any) -> Sequence[Any]:
    """Of `Weights.transforms()`, for PIL images: torchvision's functions in its forward, as the transforms
    that call them.
    """
    from torchvision.transforms import transforms as v1  # loaded: the preset's module imports it

    return [
        v1.Resize(preset.resize_size, interpolation=preset.interpolation, antialias=preset.antialias),
        v1.CenterCrop(preset.crop_size),
        v1.PILToTensor(),
        v1.ConvertImageDtype(torch.float),
        v1.Normalize(mean=preset.mean, std=preset.std),
    ]
