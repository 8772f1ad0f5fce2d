"""The Stateful protocol: objects with state_dict() and load_state_dict(state), as torchdata and others define
it.
"""

from __future__ import annotations

import copy
import inspect
from typing import Any

import torch

from .checksum import unsigned_state


def is_stateful(thing: Any) -> bool:
    """Whether `thing` can say where it stands and be put there. A model is not meant: its state is weights,
    not a place in data.
    Nor is a class, whose objects can.
    """
    if isinstance(thing, (type, torch.nn.Module)):
        return False
    return all(_has(thing, name) for name in ("state_dict", "load_state_dict"))


def _has(thing: Any, name: str) -> bool:
    """Whether it is defined: a __getattr__ that has an answer to any name, as wrappers have, does not
    count.
    """
    return callable(getattr(thing, name, None)) and inspect.getattr_static(thing, name, None) is not None


def state_of(thing: Any) -> Any:
    """Its state, as it is now and stays, for a state that has a checksum; None for what is not Stateful."""
    return copy.deepcopy(unsigned_state(thing)) if is_stateful(thing) else None


def put_back(thing: Any, state: Any) -> None:
    """Loads a copy of `state`, which the caller may want to use again."""
    if state is not None and is_stateful(thing):
        thing.load_state_dict(copy.deepcopy(state))
