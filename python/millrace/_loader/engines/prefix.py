"""Datasets of pictures with transforms of which the engine knows a prefix: the engine reads, decodes and
changes each sample's picture up to the first unknown step, and Python does the rest. This runs where the
dataset's samples are made, in the engines of Python datasets: a StandIn replaces the dataset there.

    dataset[index] ─▶ engine: read, draw, decode the region, known steps ─▶ PIL image or tensor ─▶ the rest

The engine draws from the key of the sample, as in a loader that is all native. The rest draws from generators
that are seeded with the same key before each sample: so no sample depends on another sample, nor on the
worker that makes it. Threads share their generators with the training loop; there, the generators are left
alone.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ... import _core
from ..._pictures.info import LazyInfo
from ...datasets.pillow_decode import PillowDecoder
from ..engine import Engine, PythonSpec, Setup
from .epoch_keys import Repeats
from .native import Files
from .seeding import generators_seeded, seed_all

if TYPE_CHECKING:
    from ..._common.lowering.prefix import Prefix

ReadsInfo = Callable[[], dict[Any, Any]]


@dataclass(frozen=True)
class PrefixSpec(PythonSpec):
    """`opens`: (dataset, seed, epoch, whether samples are seeded) -> a StandIn, or the dataset itself;
    found by name in worker processes. `index_maps`, `length`: from the sampler's indices to pictures, of
    which there are so many.
    """

    opens: Callable[[Any, int, int, bool], Any] = lambda dataset, *_: dataset
    index_maps: tuple[Sequence[int], ...] = ()
    length: int | None = None
    """None of streams: their samples have no indices, and ranks have seeds of their own, as in Python."""

    def open(self, setup: Setup) -> Engine:
        setup.prefix = self
        return self.engine(setup)

    @property
    def repeats(self) -> Repeats | None:
        return None if self.length is None else Repeats(self.index_maps, self.length)

    def standing(self, setup: Setup, seeds: bool = True) -> Standing:
        return Standing(self.opens, (setup.base_seed, setup.progress.epoch), seeds)


class Standing:
    """Makes and keeps the StandIn of one worker's dataset, epoch by epoch. Pickled for a worker process."""

    def __init__(self, opens: Callable[..., Any], place: tuple[int, int], seeds: bool) -> None:
        self._opens, self._place, self._seeds = opens, place, seeds
        self._made: Any = None

    def next_epoch(self) -> None:
        self._place = self._place[0], self._place[1] + 1

    def in_place_of(self, dataset: Any) -> Any:
        """Return the StandIn of `dataset`, or the dataset itself if nothing of it is known after all."""
        if self._made is None:
            self._made = self._opens(dataset, *self._place, self._seeds)
        elif isinstance(self._made, StandIn):
            self._made.place = self._place
        return self._made


class StandIn:
    """Replaces `dataset`: makes the same samples, with the engine doing the known steps of the pictures."""

    def __init__(self, dataset: Any, steps: Any, place: tuple[int, int], seeds: bool) -> None:
        """`steps`: KnownSteps, or what has several of them. `place`: seed and epoch. `seeds`: whether the
        rest draws from generators that are seeded for each sample.
        """
        self._dataset, self._steps, self.place, self._seeds = dataset, steps, place, seeds

    def seed(self, *key: int) -> None:
        """Seed the generators for the sample with this key."""
        if self._seeds:
            seed_all(repr((*self.place, *key)).encode())

    def guarded(self) -> AbstractContextManager[None]:
        """Return a context for making a batch in the training loop's thread: it keeps that thread's
        generators as they are.
        """
        return generators_seeded(self.place, torch_alone=False) if self._seeds else nullcontext()


class KnownSteps:
    """Makes of one picture of `files` the inputs of the rests: one for each view of the picture."""

    def __init__(
        self,
        files: Any,
        labels: np.ndarray,
        pipelines: Sequence[_core.ImagePipeline],
        prefixes: Sequence[Prefix],
        modes: Any = "any",
    ) -> None:
        """`modes`: as `_core.ImageDataset` has them."""
        made = pipelines[0] if len(pipelines) == 1 else list(pipelines)
        self._images = _core.ImageDataset(files, labels, made, PillowDecoder(), modes=modes)
        self._prefixes = prefixes
        self.rests = [prefix.rest_as_one() for prefix in prefixes]
        by_planes = any(
            op["op"] in ("gaussian_noise", "random_erasing") for op in prefixes[0].lowered.chains[0]
        )
        self._interleaved = len(prefixes) == 1 and prefixes[0].side_by_side and not by_planes

    def __call__(self, index: int, key: tuple[int, int, int], info: ReadsInfo | None) -> list[Any] | None:
        """`key`: seed, epoch, occurrence. `info`: reads Pillow's info of the picture's file. Returns None if
        the engine cannot read the picture; the dataset's own code then meets and raises the error.
        """
        try:
            made = self._images.row(index, *key, self._interleaved)
        except Exception:
            return None
        rows = made if isinstance(made, list) else [made]
        return [self._given(prefix, row, info) for prefix, row in zip(self._prefixes, rows)]

    def _given(self, prefix: Prefix, row: torch.Tensor, info: ReadsInfo | None) -> Any:
        if prefix.side_by_side and not self._interleaved:
            row = row.permute(1, 2, 0).contiguous()
        if prefix.makes_picture:
            pixels = row.numpy()
            pixels = pixels[..., 0] if pixels.shape[2] == 1 else pixels
            return pixels if prefix.makes_array else _as_image(pixels, info)
        if prefix.side_by_side:
            row = row.permute(2, 0, 1)
        kind = prefix.lowered.row_type
        return row if kind is None or kind is torch.Tensor else row.as_subclass(kind)


def _as_image(pixels: np.ndarray, info: ReadsInfo | None) -> Any:
    from PIL import Image

    image = Image.fromarray(pixels)
    if info is not None:
        image.info = LazyInfo(info)
    return image


class Prefixed(StandIn):
    """Replaces a map-style dataset, but asks it for samples that the engine cannot read: errors are the
    dataset's own.
    """

    def __init__(
        self,
        index_maps: Sequence[Sequence[int]],
        files: Files,
        info: Callable[[str], dict[Any, Any]],
        *options: Any,
    ) -> None:
        """`info`: returns Pillow's info of the picture in a file. `options`: as StandIn's."""
        super().__init__(*options)
        self._index_maps, self._files, self._info = index_maps, files, info
        (self._rest,) = self._steps.rests

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: Any) -> Any:
        position = self._position(index)
        if position < 0:
            return self._dataset[index]  # the dataset raises the error
        occurrence = getattr(index, "occurrence", 0)
        self.seed(position, occurrence)
        picture = self.known(position, occurrence)
        if picture is None:
            return self._dataset[index]
        if self._rest is not None:
            picture = self._rest(picture)
        label, targets = int(self._files.labels[position]), self._files.targets
        return picture, label if targets is None else targets([label])[0]

    def known(self, position: int, occurrence: int) -> Any:
        """Return a picture after the known steps; None: the engine cannot read it."""
        files = self._files
        info = None if files.paths is None else lambda: self._info(files.files.name(position))
        made = self._steps(position, (*self.place, occurrence), info)
        return None if made is None else made[0]

    def _position(self, index: Any) -> int:
        """The picture's; -1: there is none."""
        length = len(self._files.files)
        try:
            position = operator.index(index)
            for indices in self._index_maps:
                position = operator.index(indices[position])
        except (TypeError, LookupError, ValueError):
            return -1
        if position < 0:
            position += length
        return position if 0 <= position < length else -1
