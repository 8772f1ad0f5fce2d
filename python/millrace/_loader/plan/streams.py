"""Loaders of streams: a WebDataset with pictures that known transforms decode and transform."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from torch.utils.data import Subset

from ... import _core
from ..._common.lowering.as_shipped import recognise_collate
from ..._common.lowering.recognising import NotLowered
from ..._common.torch_private import default_collate
from ..arguments import Auto
from ..engine import EngineSpec, batch_memory
from .plan import Recogniser
from .shard_stages import Recogniser as StageRecogniser
from .shard_stages import check_dataset, named
from .stages import Stages

if TYPE_CHECKING:
    from ..._common.lowering.views import Views
    from ...datasets.webdataset import WebDataset
    from ...datasets.webdataset.flow import Stage
    from ...datasets.webdataset.handlers import Handler
    from ...datasets.webdataset.holding import Batched
    from ..engines.stream import StreamSpec
    from .stream_prefix import KnownStream


def readers_of(loader: Any) -> int:
    """For how many with_epoch() counts, though one reads: webdataset's workers. Of a number that was found
    out it is one, which stays.
    """
    return 1 if isinstance(loader.num_workers, Auto) else max(1, loader.num_workers)


def seen_as_inline(loader: Any) -> Any:
    """`loader` as torch's iterator without workers takes it: a stream's position is that of a dataset which
    this process runs, so it is resumed with any number of threads, and by Python code, too.
    """
    view = copy.copy(loader)
    view.__dict__.update(
        num_workers=0,
        prefetch_factor=None,
        persistent_workers=False,
        timeout=0,
        _millrace_readers=readers_of(loader),
    )
    return view


@dataclass(frozen=True)
class Stream:
    """A recognised dataset. `transform` takes its PIL images; see StreamSpec for the rest."""

    dataset: WebDataset
    stages: tuple[Stage, ...]
    transform: Any
    position: int | str
    batch: Batched | None
    handler: Handler | None

    def check_views(self, views: Views) -> None:
        """NotLowered where batches of them are no blocks."""
        if self.handler is not None:
            raise NotLowered("a handler leaves pictures out, and these have several views; let it raise")
        if not views.stacked and self.batch is not None and self.batch.collation_fn is not default_collate:
            raise NotLowered(
                "batched() makes lists of samples that are several views; give it torch's default_collate as"
                " collation_fn"
            )

    def spec(self, pipelines: Sequence[_core.ImagePipeline], views: Views | None, loader: Any) -> StreamSpec:
        """NotLowered where a handler asks for what the engine cannot do."""
        from ...datasets.webdataset.holding import Batched
        from ..engines.stream import StreamSpec

        batch, stages, handler = self.batch, self.stages, self.handler
        by_loader = loader.batch_size, not loader.drop_last
        size, partial = by_loader if batch is None else (batch.batchsize, batch.partial)
        by_torch = batch is None or batch.collation_fn is default_collate
        # before the end of each repetition of the data: its last batch may be short
        if batch is not None and handler is None:
            stages = (*stages, Batched(size, None, partial))
        if handler is not None:
            if pipelines[0].fixed_shape is None:
                raise NotLowered(
                    "a handler leaves pictures out, and these have no fixed size; end with a crop or a resize"
                    " to one"
                )
            if batch is None and (self.dataset.repeats or self.dataset.most is not None):
                raise NotLowered(
                    "with a handler, epochs are declared natively of datasets that end with batched() only"
                )
        return StreamSpec(
            self.dataset,
            stages,
            tuple(pipelines),
            views,
            self.position,
            size,
            partial,
            by_torch,
            handler,
            readers_of(loader),
            loader.num_workers,
            loader.timeout,
            batch_memory(loader),
        )


def recognise_stream(loader: Any) -> tuple[str, Stream]:
    """Return the Stream of `loader`'s dataset; NotLowered names the first stage that prevents it."""
    dataset = loader.dataset
    check_dataset(dataset)
    recogniser = StageRecogniser()
    for stage in dataset.stages:
        recogniser.add(stage)
    if loader.on_error != "raise":
        raise NotLowered(
            f'on_error="{loader.on_error}" takes other indices of a map-style dataset, and a stream has none'
        )
    if recogniser.batch is not None and loader._auto_collation:
        raise NotLowered(
            "the dataset makes batches by batched(), and the loader batches of these; give the loader"
            " batch_size=None"
        )
    if recogniser.batch is None and not loader._auto_collation:
        raise NotLowered("batch_size=None hands out single samples; give a batch_size, or use batched()")
    position = recogniser.finish()
    stages, batch = tuple(recogniser.stages), recogniser.batch
    stream = Stream(dataset, stages, recogniser.transform, position, batch, recogniser.handler)
    return f"{named(dataset)}, its pictures read by the engine's threads, the rest in the consumer's", stream


class Streams(Recogniser):
    def spec(self, loader: Any, stages: Stages) -> EngineSpec | None:
        if type(loader.dataset) is Subset:  # it asks for samples by index, which a stream has not
            return super().spec(loader, stages)
        stream: Stream | None = stages.ask("dataset", lambda: recognise_stream(loader))
        made = None if stream is None else stages.ask("transform", lambda: _transform(stream))
        if loader._auto_collation:
            stages.ask("collate_fn", lambda: (recognise_collate(loader.collate_fn), None))
        stages.ask_worker_init(loader)
        if stream is None or made is None or stages.refusing():
            return None
        pipelines, views = made
        if stream.handler is None:
            return stream.spec(pipelines, views, loader)
        decides = "decides about pictures that cannot be decoded"
        return stages.ask("handler", lambda: (decides, stream.spec(pipelines, views, loader)))

    def part(self, dataset: Any, refusing: list[str]) -> KnownStream:
        from .stream_prefix import known_stream  # most loaders have no use for it

        return known_stream(dataset)


STREAM = Streams()


def _transform(stream: Stream) -> tuple[str, tuple[list[_core.ImagePipeline], Views | None]]:
    from ..._common.lowering.transforms import lowered

    made = lowered(stream.transform)
    if made.views is not None:
        stream.check_views(made.views)
    if made.row_type is np.ndarray:
        raise NotLowered("streams make tensors, and ToNumpy arrays; use MaybePILToTensor")
    return ", ".join(made.names), (made.pipelines(made.chains), made.views)
