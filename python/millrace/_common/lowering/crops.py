"""Steps that make several pictures of one, FiveCrop and TenCrop, and what may be called with all of these:

    Compose([Resize(256), FiveCrop(224), lambda crops: torch.stack([ToTensor()(crop) for crop in crops])])

Each picture is a view with its own chain: the steps before the crop, a crop in a known place, the steps
after.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from .as_shipped import check_class, check_object, container_parts, family_of, makes_crops
from .read_values import NotRead, Op, Picture, Stacked, require
from .recognising import V2, NotLowered, loaded

_PLACES = ("top_left", "top_right", "bottom_left", "bottom_right", "middle")  # in torchvision's order
_FLIPS = {"FiveCrop": (None,), "TenCrop": (None, "horizontal_flip")}
# These compute each value of a tensor alone, so they treat a stack of pictures like one picture.
_BY_VALUE = ("Normalize", "ConvertImageDtype", "ToDtype")
STACKED = Op({"op": "stacked"}, "torch.stack")


@dataclass(frozen=True)
class CropOf:
    """One of the pictures that `transform` makes: cut at `place` out of the picture after `flip`, if any."""

    transform: Any
    place: str
    flip: str | None


@dataclass(frozen=True)
class OfEach:
    """One of v2's steps, called with several pictures; it changes all of them alike."""

    transform: Any


def applied(transform: Any, value: Any, read: Callable[[Any, Any], Any]) -> Any:
    """The result of `transform(value)` for a picture, a tuple of pictures, or a stack of them. `read` does
    the same for a callable, by reading its source.
    """
    if isinstance(value, Picture) and not makes_crops(transform):
        return value.then(transform)
    try:
        check_class(type(transform))
        check_object(transform)
    except NotLowered:
        raise NotRead from None
    if (parts := container_parts(transform)) is not None:
        for part in parts:
            value = applied(part, value, read)
        return value
    name, family = type(transform).__name__, family_of(type(transform))
    if isinstance(value, Picture):
        flips = ("vertical_flip" if flip and transform.vertical_flip else flip for flip in _FLIPS[name])
        return tuple(value.then(CropOf(transform, place, flip)) for flip in flips for place in _PLACES)
    if family is None or name == "Lambda" and family != V2:
        return read(transform, value)
    if isinstance(value, Stacked) and name in _BY_VALUE:
        return Stacked([picture.then(transform) for picture in value.pictures])
    if isinstance(value, tuple) and family == V2:
        return tuple(picture.then(OfEach(transform)) for picture in value)
    raise NotRead


def are_several(value: Any) -> bool:
    """Whether a callable may be called with it that takes what FiveCrop makes."""
    pictures = isinstance(value, tuple) and value and all(isinstance(part, Picture) for part in value)
    return isinstance(value, Stacked) or bool(pictures)


def stacked(tensors: Any, dim: Any = 0) -> Stacked:
    """torch.stack."""
    require(type(dim) is int and dim == 0 and isinstance(tensors, (list, tuple)) and tensors)
    require(all(isinstance(part, Picture) for part in tensors))
    return Stacked([picture.then(STACKED) for picture in tensors])


def made_object(cls: Any, arguments: list[Any], keywords: dict[str, Any]) -> Any:
    """A library's transform, of plain arguments, as `ToTensor()(crop)` makes it, which draws and
    counts nothing; NotRead: it is another call.
    """
    is_known = isinstance(cls, type) and family_of(cls) and cls is loaded(cls.__module__, cls.__name__)
    require(is_known and all(map(_is_plain, [*arguments, *keywords.values()])))
    try:
        check_class(cls)
        return cls(*arguments, **keywords)
    except (NotLowered, TypeError, ValueError):
        raise NotRead from None


def _is_plain(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, value))
    return value is None or type(value) in (bool, int, float, str, torch.dtype)
