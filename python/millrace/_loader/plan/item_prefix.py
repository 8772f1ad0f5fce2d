"""Plans for datasets with a __getitem__ that was read and with picture steps that the engine does not know.
The engine does each picture's steps before the first unknown step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ... import _core
from ..._common.lowering.as_shipped import check_getitems
from ..._common.lowering.chain import type_of
from ..._common.lowering.crops import STACKED
from ..._common.lowering.item_parts import Item
from ..._common.lowering.prefix import NO_CHANGE, Prefix, flattened, prefix_of_steps
from ..._common.lowering.read_items import read_item
from ..._common.lowering.read_values import NotRead, Op, Picture
from ..._common.lowering.recognising import NotLowered, holder_name
from ..engines.item_prefix import ItemFiles, PrefixedItems
from ..engines.prefix import KnownSteps, PrefixSpec
from .pictures import unwrapped
from .prefix import Measured


@dataclass(frozen=True)
class KnownView:
    """The known steps of a view (`prefix`). `rest`: the calls that were read and are part of the rest; the
    first of them may begin with known steps.
    """

    prefix: Prefix
    rest: tuple[Picture, ...]
    begins_known: bool


@dataclass(frozen=True)
class KnownItems:
    """The part of a dataset's samples that the engine makes. `views`: of each file. `modes`: as in
    `_core.ImageDataset`.
    """

    item: Item
    length: int
    index_maps: tuple[Sequence[int], ...]
    views: tuple[tuple[KnownView, ...], ...]
    pipelines: tuple[tuple[_core.ImagePipeline, ...], ...]
    modes: tuple[str, ...]
    counted: str

    tells_refusal: ClassVar[bool] = False

    @property
    def names(self) -> list[str]:
        made = dict.fromkeys(
            ", ".join(view.prefix.lowered.names) or "decoding" for views in self.views for view in views
        )
        files = f"{len(self.views)} pictures of a sample: " if len(self.views) > 1 else ""
        return [files + "; ".join(made)]

    @property
    def prefixes(self) -> list[Prefix]:
        return [view.prefix for views in self.views for view in views]

    def words_of_the_rest(self) -> str:
        return "; ".join(dict.fromkeys(filter(None, (part.words_of_the_rest() for part in self.prefixes))))

    @property
    def told(self) -> tuple[str, ...]:
        """Lines of explain()."""
        words: dict[tuple[str, int], str] = {}
        for file, views in zip(self.item.files, self.views):
            for view, pictures in zip(views, file.views):
                known = {picture.place for picture in pictures if picture not in view.rest}
                if view.begins_known:
                    known.add(view.rest[0].place)
                for place in (picture.place for picture in view.rest if picture.place is not None):
                    words[place] = "native, then python" if place in known else "python"
        return self.item.told(words)

    def order(self) -> tuple[tuple[int, int], ...]:
        """Return the (file, view) pairs with a rest, in Python's order. NotLowered if rests interleave."""
        found = sorted(
            (view.rest[0].number, view.rest[-1].number, file, number)
            for file, views in enumerate(self.views)
            for number, view in enumerate(views)
            if view.rest
        )
        if any(one[1] > other[0] for one, other in zip(found, found[1:])):
            raise NotLowered("steps that are not known take turns between the pictures of a sample")
        return tuple((file, view) for *_, file, view in found)

    def measured(self, dataset: Any) -> Measured:
        """Return the arguments to measure the rest's steps picture by picture."""
        stand_in = self.stand_in(dataset, (0, 0), False)

        def step_of(step: Any, file: int, view: int) -> Any:
            def taken(pictures: Any) -> Any:
                pictures[file][view] = step(pictures[file][view])
                return pictures

            taken.__name__ = holder_name(step)
            return taken

        rest = [
            step_of(step, file, view)
            for file, view in self.order()
            for step in self.views[file][view].prefix.rest
        ]
        return self.index_maps, lambda index: stand_in.known(index)[0], rest

    def spec(self, engine: Any, opens: Any) -> PrefixSpec:
        """`engine`: runs the rest."""
        return PrefixSpec(engine, opened_items, self.index_maps, self.length)

    def stand_in(self, dataset: Any, place: tuple[int, int], seeds: bool) -> PrefixedItems:
        """Return the replacement of `dataset`, the dataset that this plan was found for."""
        tickets = tuple(_core.StreamSamples() for _ in self.views)
        steps = [
            KnownSteps(held, np.empty(0, np.int64), pipelines, [view.prefix for view in views], modes)
            for held, pipelines, views, modes in zip(tickets, self.pipelines, self.views, self.modes)
        ]
        upright = (
            any(op["op"] == "exif_transpose" for op in views[0].prefix.lowered.chains[0])
            for views in self.views
        )
        kinds = tuple(file.kind for file in self.item.files)
        files = ItemFiles(kinds, tickets, tuple(steps), tuple(upright))
        return PrefixedItems(
            self.item, self.length, self.order(), self.index_maps, dataset, files, place, seeds
        )


def opened_items(dataset: Any, seed: int, epoch: int, seeds: bool) -> Any:
    """Like plan.opened(), for these datasets."""
    try:
        known = known_items(dataset)
    except NotLowered:
        return dataset
    return known.stand_in(dataset, (seed, epoch), seeds)


def known_items(dataset: Any) -> KnownItems:
    """Return the known part of `dataset`. NotLowered if no change of a picture is known."""
    index_maps, root = unwrapped(dataset)
    item = item_of(root)
    views = tuple(_known_views(file.views) for file in item.files)
    if not any(view.prefix.changes for parts in views for view in parts):
        raise NotLowered(NO_CHANGE)
    known = KnownItems(
        item,
        len(root),
        index_maps,
        views,
        tuple(tuple(_pipelines(parts)) for parts in views),
        tuple(_modes(file.modes, parts) for file, parts in zip(item.files, views)),
        f"{type(root).__name__} of {len(root)} samples, whose __getitem__ is read",
    )
    known.order()
    return known


def item_of(root: Any) -> Item:
    """Return the item read from __getitem__. NotLowered names the part that is not read."""
    check_getitems(root)
    cls, own = type(root), ("__getitems__", "__getattr__")  # with these, samples may come in other ways
    try:
        if any(hasattr(cls, name) for name in own):
            raise NotRead
        return read_item(root)
    except NotRead as reason:
        part = reason.place or "its __getitem__, whose source is not there, or which is no plain function"
        raise NotLowered(f"{cls.__name__} is Python code, and not read is {part}") from None


def _known_views(lines: tuple[tuple[Picture, ...], ...]) -> tuple[KnownView, ...]:
    ways = [id(picture) for line in lines for picture in line]
    shared = {picture for line in lines for picture in line if ways.count(id(picture)) > 1}
    if not all(isinstance(picture.step, Op) for picture in shared):
        raise NotLowered(
            "a step that may draw, or that is not known, stands before several views of a picture"
        )
    views = tuple(map(_known_view, lines))
    if any(
        shared.intersection(view.rest) or shared.issuperset(line)
        for view, line in zip(views, lines)
        if shared
    ):
        raise NotLowered("a view of a picture has no known steps of its own")
    return views


def _known_view(line: tuple[Picture, ...]) -> KnownView:
    line = tuple(picture for picture in line if picture.step is not STACKED)  # that comes last, in Python
    steps = [(picture, step) for picture in line for step in flattened(picture.step)]
    prefix = prefix_of_steps([step for _, step in steps])
    known = len(steps) - len(prefix.rest)
    rest = dict.fromkeys(picture for picture, _ in steps[known:])
    if not all(map(callable, prefix.rest)):
        raise NotLowered(f"{prefix.refusal}, and behind it stands what only pictures of files can go through")
    begins_known = bool(rest) and known > 0 and steps[known - 1][0] in rest
    return KnownView(prefix, tuple(rest), begins_known)


def _pipelines(views: Sequence[KnownView]) -> list[_core.ImagePipeline]:
    chains = [view.prefix.lowered.chains[0] for view in views]
    if len(set(map(type_of, chains))) > 1:
        raise NotLowered("views of a picture have several dtypes in front of what is not known")
    return views[0].prefix.lowered.pipelines(chains)


def _modes(modes: str, views: Sequence[KnownView]) -> str:
    begins = all(view.prefix.lowered.begins_with_rgb for view in views)
    return "any" if modes == "rgb" and begins else modes
