"""Steps that a callable's source says, as they are added to a chain."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from .as_shipped import family_of
from .chain import Chain, describe, is_fixed, pair, step_name
from .crops import STACKED, CropOf, OfEach
from .read_values import Maybe, Op
from .recognising import OURS, V1, V2, NotLowered, loaded


def add_read(chain: Chain, step: Op | Maybe | CropOf | OfEach) -> None:
    """What a callable's source says."""
    if chain.is_array:
        raise NotLowered("an array is no PIL image; give the transforms one")
    if isinstance(step, CropOf):
        _add_crop(chain, step)
    elif isinstance(step, OfEach):
        _add_of_each(chain, step.transform)
    elif step is STACKED:
        if chain.dtype is None or chain.row_type is np.ndarray:
            raise NotLowered("torch.stack takes tensors; convert each picture to one before it")
        chain.stacked_at, chain.row_type = len(chain.picture), torch.Tensor
    elif isinstance(step, Maybe):
        by_chance = SimpleNamespace(transforms=list(step.steps), p=step.p)
        chain.rules["RandomApply"](chain, by_chance, V1)
        inner = ", ".join(step_name(part) for part in step.steps)
        chain.names.append(f"{inner} by chance")
    elif step.op["op"] in _OF_SOURCES:
        _OF_SOURCES[step.op["op"]](chain, step)
        chain.names.append(step.name)
    else:
        chain.change_picture(step.op, step.name)
        chain.names.append(step.name)


def _add_crop(chain: Chain, step: CropOf) -> None:
    name, family = type(step.transform).__name__, family_of(type(step.transform))
    if chain.erasing or chain.row_type is np.ndarray:
        raise NotLowered(f"{name} follows RandomErasing or ToNumpy; put it before these")
    if family != OURS:
        chain.families.add(str(family))
    if family != V2 and chain.row_type is not torch.Tensor:
        chain.row_type = None
    height, width = pair(name, step.transform.size)
    if step.flip is not None:
        chain.change({"op": step.flip, "p": 1.0})
    chain.change({"op": "center_crop", "height": height, "width": width, "place": step.place})
    chain.names.append(name)


def _add_of_each(chain: Chain, transform: Any) -> None:
    """v2's steps draw once for several pictures, and of several plain tensors they change the first."""
    name, before = describe(transform), len(chain.picture)
    if chain.dtype is not None and chain.row_type is not loaded("torchvision.tv_tensors", "Image"):
        raise NotLowered(f"{name} changes only the first of several tensors; put ToImage before it")
    drawn = len(chain.noise) + len(chain.erasing)
    chain.add(transform)
    if not all(map(is_fixed, chain.picture[before:])) or drawn < len(chain.noise) + len(chain.erasing):
        raise NotLowered(f"{name} draws once for several pictures; put it before them")


def _converted(rule: str) -> Callable[[Chain, Op], None]:
    """Pillow's convert()."""

    def lower(chain: Chain, step: Op) -> None:
        if chain.dtype is not None:
            raise NotLowered(f"a tensor has no {step.name}")
        chain.rules[rule](chain, SimpleNamespace(num_output_channels=1), V1)

    return lower


def _as_array(chain: Chain, step: Op) -> None:
    if chain.dtype is not None:
        raise NotLowered(f"{step.name} is made of what is no PIL image")
    chain.is_array = True


def _to_floats(chain: Chain, step: Op) -> None:
    if chain.dtype is None:
        chain.convert(step.name, torch.uint8)
    if chain.dtype is not torch.uint8:
        raise NotLowered("floats are divided by 255")
    chain.dtype = torch.float32


# What only a dataset's source does (read_items.py).
_OF_SOURCES: dict[str, Callable[[Chain, Op], None]] = {
    "rgb": _converted("RGB"),
    "grey": _converted("Grayscale"),
    "as_array": _as_array,
    "to_bytes": lambda chain, step: chain.convert(step.name, torch.uint8),
    "to_floats": _to_floats,
}
