"""Batches of any nesting: their tensors, and the same batch with other tensors in their places; and Around:
an iterator of batches around another one, which frameworks may ask for what they ask that one for.
"""

from __future__ import annotations

import copy
import dataclasses
from collections import UserDict
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any

import torch

_LEAVES = (str, bytes, bytearray, int, float, complex, bool, type(None))


def moves_itself(value: Any) -> bool:
    """Whether a value that is no tensor has a `.to(device)` of its own, like PackedSequence. That of a
    UserDict, such as transformers' batches are, moves its items: these can be had without it.
    """
    return not isinstance(value, (torch.Tensor, UserDict)) and callable(getattr(value, "to", None))


def leaves(value: Any, found: list[Any]) -> list[Any]:
    """All tensors and values that move themselves in `value`, each once per place, appended to `found`."""
    if isinstance(value, torch.Tensor) or moves_itself(value):
        found.append(value)
    elif isinstance(value, Mapping):
        for part in value.values():
            leaves(part, found)
    elif isinstance(value, Sequence) and not isinstance(value, _LEAVES):
        for part in value:
            leaves(part, found)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            leaves(getattr(value, field.name, None), found)
    return found


def rebuilt(value: Any, new: Callable[[Any], Any], known: bool = False) -> Any:
    """`value` with `new(leaf)` in place of each leaf. Containers keep their types; what holds no leaf stays
    the same object. `known`: so does a container of a class that only its own __init__ can make.
    """
    if isinstance(value, torch.Tensor) or moves_itself(value):
        return new(value)
    if isinstance(value, Mapping):
        if known and not isinstance(value, (dict, UserDict)):
            return value
        parts = {key: rebuilt(part, new, known) for key, part in value.items()}
        return value if all(parts[key] is value[key] for key in parts) else _like_mapping(value, parts)
    if isinstance(value, Sequence) and not isinstance(value, _LEAVES):
        if known and not isinstance(value, (list, tuple)):
            return value
        items = [rebuilt(part, new, known) for part in value]
        return value if all(a is b for a, b in zip(items, value)) else _like_sequence(value, items)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = {
            field.name: getattr(value, field.name)
            for field in dataclasses.fields(value)
            if hasattr(value, field.name)
        }
        changed = {
            name: made for name, part in parts.items() if (made := rebuilt(part, new, known)) is not part
        }
        if not changed:
            return value
        clone = copy.copy(value)
        for name, made in changed.items():
            object.__setattr__(clone, name, made)
        return clone
    return value


def _like_mapping(value: Any, parts: dict[Any, Any]) -> Any:
    if type(value) is dict:
        return parts
    try:
        if not isinstance(value, MutableMapping):
            return type(value)(parts)
        clone = copy.copy(value)  # keeps what a subclass has beside its items
        for key, part in parts.items():  # not update(), which a Counter adds by
            clone[key] = part
        return clone
    except TypeError:
        return parts


def _like_sequence(value: Any, items: list[Any]) -> Any:
    if type(value) in (list, tuple):
        return type(value)(items)
    try:
        if isinstance(value, list):  # copies keep what a subclass has beside its items
            clone = copy.copy(value)
            for at, item in enumerate(items):
                clone[at] = item
            return clone
        if isinstance(value, tuple) and not hasattr(value, "n_sequence_fields"):  # torch.return_types have
            made = tuple.__new__(type(value), items)
            getattr(made, "__dict__", {}).update(getattr(value, "__dict__", {}))
            return made
        return type(value)(items)
    except TypeError:
        return items


def arranged(views: Any, made: Callable[[Any], Any], tuples: type = tuple) -> Any:
    """Lists, tuples and dicts in each other as in `views`, with what `made` gives of each view in its place.
    `tuples`: what becomes of tuples. No inner function here calls itself: such a cycle would hold what was
    made, a slot's tensors, until the garbage collector runs.
    """
    if isinstance(views, Mapping):
        return {key: arranged(part, made, tuples) for key, part in views.items()}
    if isinstance(views, (list, tuple)):
        return (tuples if isinstance(views, tuple) else list)(arranged(part, made, tuples) for part in views)
    return made(views)


class Around(Iterator[Any]):
    """A class derived from it says `__next__`, from `_batches`."""

    def __init__(self, batches: Iterator[Any]) -> None:
        self._batches = batches

    def __len__(self) -> int:
        return len(self._batches)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_batches":
            raise AttributeError(name)
        return getattr(self._batches, name)
