"""Several views of one picture: which transforms make each, and how a sample arranges them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .read_source import read
from .read_values import NotRead, Picture, Stacked, leaves
from .recognising import loaded


@dataclass(frozen=True)
class Views:
    """`arrangement`: lists, tuples and dicts with the views' numbers where a sample has the views. `stacked`:
    the views are one tensor (views, C, H, W), which has the number 0.
    """

    arrangement: Any
    stacked: bool = False

    def sample(self, views: Sequence[Any]) -> Any:
        return _arranged(self.arrangement, list(views), as_batch=False)

    def batch(self, views: Sequence[Any]) -> Any:
        """As default_collate arranges it: tuples have become lists, and no tensor stands there twice."""
        return _arranged(self.arrangement, list(views), as_batch=True)

    def in_order(self, batch: Any) -> list[Any]:
        """The views of what batch() has returned."""
        found: dict[int, Any] = {}
        _collect(self.arrangement, batch, found)
        return [found[number] for number in range(len(found))]


@dataclass(frozen=True)
class Seen:
    """What a transform makes of a picture: `lines` has the pictures on the way to each view."""

    views: Views
    lines: list[list[Picture]]

    def shared(self) -> list[list[Picture]]:
        """The ways, from the beginning, that several views have in common."""
        by_end: dict[int, list[Picture]] = {}
        count: dict[int, int] = {}
        for line in self.lines:
            for end, picture in enumerate(line):
                by_end[id(picture)] = line[: end + 1]
                count[id(picture)] = count.get(id(picture), 0) + 1
        return [line for key, line in by_end.items() if count[key] > 1]


def seen_views(transform: Any) -> Seen | None:
    """None where `transform` makes one picture of a picture, or what it makes is not known."""
    try:
        made = _of_multi_view(transform) if _is_multi_view(transform) else read(transform)
        if made is None or isinstance(made, Picture):
            return None
        found = leaves(made)
    except (NotRead, RecursionError):
        return None
    different = list({id(leaf): leaf for leaf in found}.values())
    numbers = {id(leaf): number for number, leaf in enumerate(different)}
    if not different:
        return None
    lines = [leaf.line() for leaf in different]
    if isinstance(made, Stacked):
        return Seen(Views(0, stacked=True), lines) if len(different) == len(found) else None
    return Seen(Views(_numbered(made, numbers)), lines)


def _is_multi_view(transform: Any) -> bool:
    return type(transform) is loaded("millrace.transforms.views", "MultiView")


def _of_multi_view(value: Any) -> Any:
    """Of millrace's MultiView: each of its transforms, of the whole picture."""
    if _is_multi_view(value):
        value = value.views
    if isinstance(value, dict):
        return {key: _of_multi_view(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return (tuple if isinstance(value, tuple) else list)(map(_of_multi_view, value))
    return Picture().then(value)


def _numbered(value: Any, numbers: dict[int, int]) -> Any:
    if isinstance(value, Picture):
        return numbers[id(value)]
    if isinstance(value, dict):
        return {key: _numbered(part, numbers) for key, part in value.items()}
    return (tuple if isinstance(value, tuple) else list)(_numbered(part, numbers) for part in value)


def _arranged(value: Any, views: list[Any], as_batch: bool, used: set[int] | None = None) -> Any:
    """No inner function calls itself: such a cycle would hold the views, and their slot, until the collector
    runs.
    """
    used = set() if used is None else used
    if isinstance(value, dict):
        return {key: _arranged(part, views, as_batch, used) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        parts = [_arranged(part, views, as_batch, used) for part in value]
        return parts if as_batch or isinstance(value, list) else tuple(parts)
    again = as_batch and value in used
    used.add(value)
    return views[value].clone() if again else views[value]


def _collect(arrangement: Any, batch: Any, found: dict[int, Any]) -> None:
    if isinstance(arrangement, int):
        found[arrangement] = batch
        return
    keys = arrangement if isinstance(arrangement, dict) else range(len(arrangement))
    for key in keys:
        _collect(arrangement[key], batch[key], found)
