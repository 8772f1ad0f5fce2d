"""Several views of one picture: which transforms make each, and how a sample arranges them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..batch_tree import arranged
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
        return arranged(self.arrangement, views.__getitem__)

    def batch(self, views: Sequence[Any]) -> Any:
        """Arrange the views of a batch as default_collate does: tuples become lists, and no tensor occurs
        twice. Ragged views are tuples of rows; in_order() makes samples of them again.
        """
        used: set[int] = set()

        def view(number: int) -> Any:
            again, made = number in used, views[number]
            used.add(number)
            return made.clone() if again and not isinstance(made, tuple) else made

        return arranged(self.arrangement, view, tuples=list)

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
        ways = [(id(picture), line[: end + 1]) for line in self.lines for end, picture in enumerate(line)]
        count = Counter(key for key, _ in ways)
        return [way for key, way in dict(ways).items() if count[key] > 1]


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
    return Seen(Views(arranged(made, lambda picture: numbers[id(picture)])), lines)


def _is_multi_view(transform: Any) -> bool:
    return type(transform) is loaded("millrace.transforms.views", "MultiView")


def _of_multi_view(view: Any) -> Any:
    """Of millrace's MultiView: each of its transforms, of the whole picture."""
    if _is_multi_view(view):
        return arranged(view.views, _of_multi_view)
    return Picture().then(view)


def _collect(arrangement: Any, batch: Any, found: dict[int, Any]) -> None:
    if isinstance(arrangement, int):
        found[arrangement] = batch
        return
    keys = arrangement if isinstance(arrangement, dict) else range(len(arrangement))
    for key in keys:
        _collect(arrangement[key], batch[key], found)
