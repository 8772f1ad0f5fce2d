"""Replaces a dataset with a __getitem__ that was read (plan/item_prefix.py), if the engine knows only the
first steps of its pictures:

    dataset[index] ─▶ values of the index: paths, label, ... ─▶ KnownSteps of each file ─▶ the rest ─▶ sample
                      seeds the generators                      engine                     Python

After any error, the dataset itself is asked for the sample: it gives the sample, or raises its own error.
"""

from __future__ import annotations

import io
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from ... import _core
from ..._pictures.info import info_of
from ...datasets.pillow_decode import info_in
from .item_form import filled
from .items import added
from .prefix import KnownSteps, StandIn

if TYPE_CHECKING:
    from ..._common.lowering.item_parts import Item

Pictures = list[list[Any]]
"""One for each view of each file."""


@dataclass(frozen=True)
class ItemFiles:
    """The files of one sample at a time. `kinds`, `tickets`, `steps`: of each file. `upright`: whether its
    picture is turned as its EXIF orientation says.
    """

    kinds: tuple[str, ...]
    tickets: tuple[_core.StreamSamples, ...]
    steps: tuple[KnownSteps, ...]
    upright: tuple[bool, ...]

    def pictures(
        self, places: Sequence[Any], number: int, occurrence: int, epoch: tuple[int, int]
    ) -> Pictures:
        """The results of the known steps on these files of a sample. Raises if the engine cannot read one."""
        made = []
        for file, (kind, tickets, steps) in enumerate(zip(self.kinds, self.tickets, self.steps)):
            place = places[file]
            info = None if kind == "pixels" else partial(_info, kind, place, self.upright[file])
            # The keys of ItemCore.
            ticket = added(tickets, place, kind, number * len(self.kinds) + file, occurrence)
            try:
                views = steps(ticket, (*epoch, 0), info)
            finally:
                tickets.drop_before(ticket + 1)
            if views is None:
                raise LookupError("the engine does not read it")
            made.append(views)
        return made


def _info(kind: str, place: Any, upright: bool) -> dict[Any, Any]:
    from PIL import Image, ImageOps

    try:
        if kind == "path":
            return info_in(place, upright)
        image = Image.open(io.BytesIO(place))
        return info_of(ImageOps.exif_transpose(image) if upright else image)
    except Exception:  # the file went after it was read
        return {}


class PrefixedItems(StandIn):
    """Replaces a map-style dataset."""

    def __init__(
        self,
        item: Item,
        length: int,
        order: Sequence[tuple[int, int]],
        index_maps: Sequence[Sequence[int]],
        *options: Any,
    ) -> None:
        """`length`: of the dataset that was read. `order`: the (file, view) pairs with a rest, in the order
        in which Python runs these rests. `options`: StandIn's; its `steps` are ItemFiles.
        """
        super().__init__(*options)
        self._item, self._length, self._index_maps = item, length, index_maps
        self._rests = [(*place, self._rest_of(*place)) for place in order]

    def _rest_of(self, file: int, view: int) -> Callable[[Any], Any]:
        rest = self._steps.steps[file].rests[view]
        assert rest is not None
        return rest

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: Any) -> Any:
        try:
            at: Any = index
            for indices in self._index_maps:
                at = indices[at]
            return self.sample(operator.index(at), getattr(index, "occurrence", 0))
        except Exception:
            pass  # so that its traceback is not that of the dataset's error
        return self._dataset[index]

    def sample(self, index: int, occurrence: int = 0) -> Any:
        """The sample at `index` of the dataset that was read."""
        pictures, values = self.known(index, occurrence)
        for file, view, rest in self._rests:
            pictures[file][view] = rest(pictures[file][view])
        parts = []
        for picture in self._item.pictures:
            ((file, view), *_) = picture.parts
            if self._item.files[file].stacked:
                parts.append(torch.stack(pictures[file]))
            elif picture.stacked:
                parts.append(torch.stack([pictures[file][view] for file, view in picture.parts]))
            else:
                parts.append(pictures[file][view])
        return filled(self._item.form, parts, values)

    def known(self, index: int, occurrence: int = 0) -> tuple[Pictures, tuple[Any, ...]]:
        """The sample's pictures after the known steps, and its other values."""
        number = index + self._length if index < 0 else index
        self.seed(number, occurrence)
        made, count = self._item.values(index), len(self._item.files)
        return self._steps.pictures(made[:count], number, occurrence, self.place), made[count:]
