"""The spec of engines that read pictures, on the CPU, or with a device's part in it: files, what they are
labelled, and the transforms.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ... import _core
from ...datasets.pillow_decode import PillowDecoder
from .mixing import Mixed
from .native import NativeSpec, slots_for

if TYPE_CHECKING:
    from ..._common.lowering.views import Views
    from ...transforms.batch_size import RandomBatchSize


class Targets:
    """Targets that are more than one int64 number each: looked up and transformed when their batch is handed
    out. The engine's labels are then positions: which row holds which sample is known only behind it, where a
    policy for errors may have put other samples into a batch.

    `parts`: one for each of the datasets that follow one another: its samples' targets, and the function
    that makes the consumer's of them, or None. Holds both; calls the function once for each sample of a
    batch, in the batch's order.
    """

    def __init__(self, parts: Sequence[tuple[Sequence[Any], Callable[[Any], Any] | None]]) -> None:
        self.parts = tuple(parts)
        self._ends = list(accumulate(len(values) for values, _ in self.parts))

    def __call__(self, positions: Iterable[int]) -> list[Any]:
        return [self._target(position) for position in positions]

    def _target(self, position: int) -> Any:
        number = bisect_right(self._ends, position)
        values, function = self.parts[number]
        target = values[position - (self._ends[number - 1] if number else 0)]
        return target if function is None else function(target)


LooksUp = Callable[[Iterable[int]], list[Any]]
"""Makes the targets of samples at some positions."""


@dataclass(frozen=True)
class Files:
    """Where the pictures are and what they are labelled: `labels` is an int64 array of shape
    (len(files),). With `targets` these are the samples' positions, from which it makes the consumer's
    targets. `paths`: of `files`, where these lie in folders.
    """

    files: _core.SampleFiles
    labels: np.ndarray
    paths: _core.PathTable | None = None
    targets: LooksUp | None = None


@dataclass(frozen=True)
class ImageSpec(NativeSpec):
    """Files, their labels, the transforms, and the way from the sampler's indices to the files."""

    files: Files
    pipelines: tuple[_core.ImagePipeline, ...]
    """One for each view."""
    views: Views | None
    """How samples arrange them; None: a sample is the only one."""
    index_maps: tuple[Sequence[int], ...]
    python_collate: Any = None
    on_error: str | None = None  # of a dataset that has a policy of its own
    arrangement: type[list] | type[tuple] = list  # of pictures and labels
    drawn_size: RandomBatchSize | None = None
    """`pipelines` are one for each of its sizes, in place of each view."""
    leaves_out = counts_occurrences = True

    def core(self, threads: int, batch_size: int | None, on_error: str, drop_last: bool, memory: str) -> Any:
        policy = self.on_error or on_error
        return _core.Loader(self.dataset(), threads, self.slots(batch_size), policy, drop_last, memory)

    def dataset(self) -> _core.ImageDataset:
        stacked = self.views is not None and self.views.stacked
        made = self.files.files, self.files.labels, list(self.pipelines), PillowDecoder()
        forms = self.drawn_size is not None
        return _core.ImageDataset(*made, stacked=stacked, forms=forms, ragged=self.ragged)

    @property
    def ragged(self) -> bool:
        """Whether pictures of a batch may differ in size; only a function of samples can take these."""
        collate = self.python_collate
        if collate is None or collate.of_batch:
            return False
        return any(pipeline.fixed_shape is None for pipeline in self.pipelines)

    def form(self, epoch: int, batch: int) -> int | None:
        return None if self.drawn_size is None else self.drawn_size.place_of(epoch, batch)

    def slots(self, batch_size: int | None) -> int:
        if self.drawn_size is None:
            return slots_for(self.pipelines, batch_size)
        return min(slots_for([pipeline], batch_size) for pipeline in self.pipelines)

    def usual_slots(self, threads: int, batch_size: int | None) -> int:
        return self.slots(batch_size)

    def rows(self, batch: Iterable[Any]) -> Any:
        """File indices of one index list of the sampler. Errors are those of indexing a list."""
        if isinstance(batch, np.ndarray) and batch.dtype.kind not in "iu":
            batch = batch.tolist()  # submit() would round floats; a list of them is refused
        for indices in self.index_maps:
            batch = [indices[i] for i in batch]
        return batch

    def mixes(self, core: Any, on_error: str) -> bool:
        collate = self.python_collate
        if collate is None or not collate.of_batch or collate.function is None or self.on_device:
            return False
        if self.drawn_size is not None:
            return False
        labelled = self.files.targets is None and self.files.labels.size > 0
        return labelled and (self.on_error or on_error) == "raise" and core.mixes

    def traced(self, rows: Any, *place: int) -> Mixed:
        size = self.pipelines[0].fixed_shape
        assert size is not None
        labels = torch.from_numpy(self.files.labels[np.asarray(rows, dtype=np.int64)])
        return self.python_collate.traced(labels, (len(labels), *size), *place)

    def collated(self, made: tuple[Any, torch.Tensor]) -> Any:
        if self.views is None:
            return self.arrangement(made)
        pictures, labels = made
        return [self.views.batch(pictures if isinstance(pictures, list) else [pictures]), labels]


@dataclass(frozen=True)
class DeviceImageSpec(ImageSpec):
    """The same, its batches made on a device: JPEGs are decoded and augmented there, all that can be, or a
    share that keeps both busy.
    """

    place: Callable[[], Any] = tuple
    balances: bool = False
    ahead: int = 0
    on_device = True

    def core(self, threads: int, batch_size: int | None, on_error: str, drop_last: bool, memory: str) -> Any:
        slots = self.slots(batch_size) + 1  # one is being copied
        options = threads, slots, self.on_error or on_error, drop_last, memory
        device, decoding = self.place()
        return _core.DeviceLoader(self.dataset(), *options, device, decoding, self.balances, self.ahead)
