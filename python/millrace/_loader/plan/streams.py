"""Streams: a WebDataset whose pictures are decoded and transformed by known transforms, as a job of the
native engine.

The dataset's own stages run as they are, in the consumer's thread, over samples whose pictures were not read
yet (Picture): shuffles, splits, labels, epochs and the place to resume at are the same objects' work. Only
what happens to the pictures is the engine's.

    shards -> {"jpg": Picture, "cls": b"3"} -> shuffle, decode the rest, to_tuple -> (Picture, 3) -> a ticket
    for the engine's threads
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils.data import default_collate

from ... import _core
from ..._common.lowering.refusal import NotLowered
from ...datasets.pillow_decode import PillowDecoder
from ...datasets.webdataset import WebDataset
from ...datasets.webdataset.collation import default_collation_fn
from ...datasets.webdataset.flow import Context, Stage
from ...datasets.webdataset.handlers import Handler
from ...datasets.webdataset.holding import Batched
from ...datasets.webdataset.shards import ShardFlow, Shards
from ..tuning.numbers import Auto
from .jobs import slots_for
from .shard_stages import Picture, Recogniser, as_pil, is_picture_name


@dataclass(frozen=True)
class StreamJob:
    """A stream as the engine makes its batches: of `batch_size` samples, the last one with fewer if
    `partial`.

    `stages` give tuples, or dicts, with a Picture at `position`. `by_torch`: whose rule makes columns of
    them, torch's default_collate or webdataset's default_collation_fn.
    """

    dataset: WebDataset
    stages: tuple[Stage, ...]
    pipeline: _core.ImagePipeline
    position: int | str
    batch_size: int
    partial: bool
    by_torch: bool
    by_loader: bool  # the loader makes the batches, not the dataset
    in_lists: bool  # the stages give lists of the samples of a batch
    handler: Handler | None  # of pictures that cannot be decoded
    readers: int = 1  # as many as Python code would have, for each of which with_epoch() counts
    on_device = grows = False
    shares_batches = True

    def samples(self) -> Iterator[Any]:
        """The samples of the epoch that begins, or of what is left of it. The dataset's state is that behind
        the last one given.
        """
        return self.dataset.iterate(self._source, self.stages, self.most if self.handler is None else None)

    @property
    def most(self) -> int | None:
        """Items of an epoch, where with_epoch() says it."""
        return None if self.dataset.most is None else self.dataset.most * self.readers

    def open(self, samples: _core.StreamSamples, threads: int, memory: str) -> _core.Loader:
        """An engine for tickets of `samples`, which belongs to the caller."""
        dataset = _core.ImageDataset(samples, np.empty(0, np.int64), self.pipeline, PillowDecoder())
        return _core.Loader(
            dataset, threads, self.slots, "raise" if self.handler is None else "leave", False, memory
        )

    @property
    def slots(self) -> int:
        return slots_for(self.pipeline, self.batch_size)

    def usual_slots(self, threads: int, batch_size: int | None) -> int:
        return self.slots

    def collated(self, pictures: torch.Tensor, samples: list[Any]) -> Any:
        """`pictures` and the columns of the other fields, as the rule makes them of tuples, or of dicts."""
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
        return _PictureFlow(self.dataset.shards, context, own)


class _PictureFlow(ShardFlow):
    """ShardFlow whose samples have Pictures."""

    def __init__(self, shards: Shards, context: Context, own: Any) -> None:
        super().__init__(shards, context, own)
        self._numbers = None if shards.resampled else shards.share(context).shards

    def _reader(self, source: Any) -> Any:
        return _PictureReader(super()._reader(source), self)

    def _reads_later(self) -> bool:
        return True

    @property
    def identity(self) -> tuple[int, int]:
        """(number of the present sample, number of the pass): the same for any number of ranks, but of
        resampled shards, where each has
        draws of its own.
        """
        if self._numbers is None:
            reader = self._context.reader
            return self._sample, reader.number + self._shard * reader.readers
        return self._numbers[self._shard] << 32 | self._sample, self._context.repetition


class _PictureReader:
    """Puts Pictures into the samples of one shard. Errors pass through, and the shard goes on behind them as
    its reader does.
    """

    def __init__(self, reader: _core.ShardReader, flow: _PictureFlow) -> None:
        self._reader, self._flow = reader, flow

    def __iter__(self) -> _PictureReader:
        return self

    def __next__(self) -> dict[str, Any]:
        sample = next(self._reader)
        number, number_of_pass = self._flow.identity
        for name, value in sample.items():
            if name.startswith("__"):
                continue
            if is_picture_name(name):
                key = f"{sample['__key__']}.{name}"
                sample[name] = Picture(value, sample["__url__"], key, number, number_of_pass)
            elif isinstance(value, _core.LocatedFile):
                sample[name] = value.read()
        return sample


def readers_of(loader: Any) -> int:
    """For how many with_epoch() counts, though one reads: webdataset's workers. Of a number that was found
    out it is one, which stays.
    """
    return 1 if isinstance(loader.num_workers, Auto) else max(1, loader.num_workers)


def is_stream(dataset: Any) -> bool:
    return isinstance(dataset, WebDataset)


_DECISIVE = ("__iter__", "_items", "_flow", "_source", "stages", "iterate")


@dataclass(frozen=True)
class Stream:
    """A recognised dataset. `transform` takes its PIL images; see StreamJob for the rest."""

    name: str
    dataset: WebDataset
    stages: tuple[Stage, ...]
    transform: Any
    position: int | str
    batch: Batched | None
    handler: Handler | None

    def job(self, pipeline: _core.ImagePipeline, loader: Any) -> StreamJob:
        """NotLowered where a handler asks for what the engine cannot do."""
        batch_size, drop_last = loader.batch_size, loader.drop_last
        batch, stages, handler = self.batch, self.stages, self.handler
        size, partial = (batch_size, not drop_last) if batch is None else (batch.batchsize, batch.partial)
        in_lists = batch is not None and handler is None
        by_torch = batch is None or batch.collation_fn is default_collate
        if in_lists:  # before the end of each repetition of the data, whose last batch may be short
            stages = (*stages, Batched(size, None, partial))
        if handler is not None:
            if pipeline.fixed_shape is None:
                raise NotLowered(
                    "a handler leaves pictures out, and these have no fixed size; end with a crop or a resize"
                    " to one"
                )
            if batch is None and (self.dataset.repeats or self.dataset.most is not None):
                raise NotLowered(
                    "with a handler, epochs are declared natively of datasets that end with batched() only"
                )
        return StreamJob(
            self.dataset,
            stages,
            pipeline,
            self.position,
            size,
            partial,
            by_torch,
            batch is None,
            in_lists,
            handler,
            readers_of(loader),
        )


def recognise_stream(loader: Any) -> Stream:
    """The Stream that is `loader`'s dataset; NotLowered names the first stage that stands in the way."""
    dataset = loader.dataset
    for name in _DECISIVE:
        if getattr(type(dataset), name) is not getattr(WebDataset, name):
            raise NotLowered(
                f"{type(dataset).__name__} overrides {name} of WebDataset; use WebDataset itself"
            )
    recogniser = Recogniser()
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
    position, shards = recogniser.finish(), len(dataset.urls)
    name = f"WebDataset of {shards} shard{'s' * (shards != 1)}"
    return Stream(
        name,
        dataset,
        tuple(recogniser.stages),
        recogniser.transform,
        position,
        recogniser.batch,
        recogniser.handler,
    )
