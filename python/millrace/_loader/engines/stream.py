"""StreamSpec: a stream with pictures made by the C++ loader, and the choice of its engine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ... import _core
from ..._common.torch_private import default_collate
from ...datasets.pillow_decode import PillowDecoder
from ...datasets.webdataset import WebDataset
from ...datasets.webdataset.collation import default_collation_fn
from ...datasets.webdataset.flow import Context, Stage
from ...datasets.webdataset.handlers import Handler
from ...datasets.webdataset.shards import ShardFlow
from ..engine import Setup
from ..states import put_dataset_back, put_fetcher_back
from .native import NativeSpec, slots_for
from .stream_backfill import BackfillingEngine
from .stream_engine import PictureFlow, StreamEngine, as_pil

if TYPE_CHECKING:
    from ..._common.lowering.views import Views


@dataclass(frozen=True)
class StreamSpec(NativeSpec):
    """A stream with batches that the engine makes, of `batch_size` samples; the last one may have fewer if
    `partial`.

    `stages` give tuples, or dicts, with a Picture at `position`. `by_torch`: torch's default_collate makes
    columns of them; else webdataset's default_collation_fn does.
    """

    dataset: WebDataset
    stages: tuple[Stage, ...]
    pipelines: tuple[_core.ImagePipeline, ...]
    """One for each view."""
    views: Views | None
    """How samples arrange the views; None: a sample has the only view."""
    position: int | str
    batch_size: int
    partial: bool
    by_torch: bool
    handler: Handler | None  # of pictures that cannot be decoded
    readers: int  # as many as Python code would have; with_epoch() counts for each of them
    threads: int
    timeout: float  # seconds
    memory: str

    def open(self, setup: Setup) -> StreamEngine:
        convert = None if setup.loader._auto_collation else setup.loader.collate_fn
        put_dataset_back(self.dataset, setup.progress.saved)
        engine_class = StreamEngine if self.handler is None else BackfillingEngine
        engine = engine_class(self, setup.base_seed, convert)
        put_fetcher_back(engine, setup.progress.saved, True)
        return engine

    def samples(self) -> Iterator[Any]:
        """Iterate over the samples of the epoch that begins, or over its rest. The dataset's state is the one
        after the last sample given.
        """
        return self.dataset.iterate(self._source, self.stages, self.most if self.handler is None else None)

    @property
    def most(self) -> int | None:
        """Items of an epoch; None without with_epoch()."""
        return None if self.dataset.most is None else self.dataset.most * self.readers

    def loader(self, samples: _core.StreamSamples) -> _core.Loader:
        """A loader for tickets of `samples`; the caller owns it."""
        made = samples, np.empty(0, np.int64), list(self.pipelines), PillowDecoder()
        dataset = _core.ImageDataset(*made, stacked=self.views is not None and self.views.stacked)
        on_error = "raise" if self.handler is None else "leave"
        return _core.Loader(dataset, self.threads, self.slots, on_error, False, self.memory)

    @property
    def slots(self) -> int:
        return slots_for(self.pipelines, self.batch_size)

    def usual_slots(self, threads: int, batch_size: int | None) -> int:
        return self.slots

    def columns(self, made: torch.Tensor | list[torch.Tensor], samples: list[Any]) -> Any:
        """A batch's columns. `made`: the pictures, or the blocks of their views; the rule (`by_torch`) makes
        the other columns of the samples, which are tuples or dicts.
        """
        pictures: Any = made
        if self.views is not None:
            pictures = self.views.batch(made if isinstance(made, list) else [made])
        if isinstance(self.position, str):
            fields = [
                {name: as_pil(value) for name, value in sample.items() if name != self.position}
                for sample in samples
            ]
            made = (default_collate if self.by_torch else default_collation_fn)(fields)
            return {name: pictures if name == self.position else made[name] for name in samples[0]}
        others = [sample[: self.position] + sample[self.position + 1 :] for sample in samples]
        columns = list((default_collate if self.by_torch else default_collation_fn)(others))
        columns.insert(self.position, pictures)
        return columns if self.by_torch else tuple(columns)

    def _source(self, context: Context, own: Any) -> ShardFlow:
        return PictureFlow(self.dataset.shards, context, own)
