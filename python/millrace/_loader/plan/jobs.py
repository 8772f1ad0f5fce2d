"""Jobs: what a lowered loader's iterators run, one class for each kind of dataset behind one small
interface.
"""

from __future__ import annotations

import math
import operator
import os
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch

from ... import _core
from ..._common.lowering.rows import RowSet
from ..._profiling.stages import SAMPLE, during
from ...datasets.pillow_decode import PillowDecoder
from .python_collate import PythonCollate
from .sources import Files

_LARGE_BATCH_BYTES = 64 * 2**20
_MEMORY_BYTES = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


class Engine(Protocol):
    """What makes batches: index lists in, batches out, in order. `_core.Loader` is one; its stub documents
    the calls.

    next() says itself to the profile when it waits, and what it makes in the calling thread
    (profile/stages.py).
    """

    def start_epoch(self, seed: int, epoch: int) -> None: ...
    def submit(self, indices: Any) -> None: ...
    def end_epoch(self) -> None: ...
    def next(self, timeout: float = 0.0) -> Any: ...
    def close(self) -> None: ...
    def stats(self) -> dict[str, Any]: ...
    def snapshot(self) -> dict[str, Any]: ...
    def set_limits(self, threads: int, slots: int) -> None: ...
    def clocks(self) -> list[Any]: ...


class Job(Protocol):
    """A loader's work as an engine takes it."""

    leaves_out: bool
    """Whether samples can turn out to be unreadable; else on_error has nothing to say."""
    counts_occurrences: bool
    """Whether a sample depends on how often its index came before in the epoch."""

    on_device: bool
    """Whether its engine's batches are on the loader's device already. Such an engine has no set_limits()."""

    shares_batches: bool
    """Whether threads share the rows of a batch; else each makes whole ones."""

    grows: bool
    """Whether its engine has a use for more slots than usual."""

    python_collate: PythonCollate | None
    """What makes the consumer's batches of those that collated() returns, if anything does."""

    def usual_slots(self, threads: int, batch_size: int | None) -> int:
        """Batches in memory at once, the consumer's included, unless the engine is told otherwise."""

    def open(
        self, threads: int, batch_size: int | None, on_error: str, drop_last: bool, memory: str
    ) -> Engine:
        """A new engine, which belongs to the caller. threads=0: it works inside next(). memory: batches',
        "system" or "page-locked".
        """

    def rows(self, batch: Any) -> Any:
        """One index list of the sampler, for Engine.submit."""

    def lists_ahead(self, batch_size: int | None) -> int:
        """Index lists that the engine wants to know beforehand, for reading ahead; 0: as many as torch would
        have sent.
        """

    def collated(self, made: Any) -> Any:
        """What Engine.next returned, as default_collate returns it."""


def ring_slots(batch_bytes: int | None) -> int:
    """Batches in memory at once, the consumer's included; None: their size is not known beforehand.

    Three, or two when one takes 64 MiB or more: for batches of 128 x 3 x 224 x 224 floats the third was
    measured to bring 2 % of speed at most, for half as much memory again.
    """
    return 2 if batch_bytes is not None and batch_bytes >= _LARGE_BATCH_BYTES else 3


def slots_for(pipeline: _core.ImagePipeline, batch_size: int | None) -> int:
    """ring_slots() of batches that `pipeline` makes."""
    shape = pipeline.fixed_shape
    if shape is None or batch_size is None:
        return ring_slots(None)
    return ring_slots(batch_size * math.prod(shape) * getattr(torch, pipeline.output_dtype).itemsize)


@dataclass(frozen=True)
class ImageJob:
    """Files, their labels, the transforms, and the way from the sampler's indices to the files."""

    files: Files
    pipeline: _core.ImagePipeline
    index_maps: tuple[Sequence[int], ...]
    python_collate: PythonCollate | None = None
    leaves_out = True
    counts_occurrences = True
    on_device = False
    shares_batches = grows = True

    def open(
        self, threads: int, batch_size: int | None, on_error: str, drop_last: bool, memory: str
    ) -> Engine:
        return _core.Loader(self.dataset(), threads, self.slots(batch_size), on_error, drop_last, memory)

    def dataset(self) -> _core.ImageDataset:
        return _core.ImageDataset(self.files.files, self.files.labels, self.pipeline, PillowDecoder())

    def slots(self, batch_size: int | None) -> int:
        return slots_for(self.pipeline, batch_size)

    def usual_slots(self, threads: int, batch_size: int | None) -> int:
        return self.slots(batch_size)

    def rows(self, batch: Iterable[Any]) -> Any:
        """File indices of one index list of the sampler. Errors are those of indexing a list."""
        if isinstance(batch, np.ndarray) and batch.dtype.kind not in "iu":
            batch = batch.tolist()  # submit() would round floats; a list of them is refused
        for indices in self.index_maps:
            batch = [indices[i] for i in batch]
        return batch

    def collated(self, made: tuple[torch.Tensor, torch.Tensor]) -> list[torch.Tensor]:
        return list(made)

    def lists_ahead(self, batch_size: int | None) -> int:
        return 0


@dataclass(frozen=True)
class DeviceImageJob(ImageJob):
    """The same, its batches made on a device: JPEGs are decoded and augmented there, all that can be, or a
    share that keeps both busy.
    """

    place: Callable[[], tuple[Any, Any]] = tuple
    balances: bool = False
    ahead: int = 0
    on_device = True

    def open(
        self, threads: int, batch_size: int | None, on_error: str, drop_last: bool, memory: str
    ) -> Engine:
        slots = self.slots(batch_size) + 1  # one is being copied
        return _core.DeviceLoader(
            self.dataset(),
            threads,
            slots,
            on_error,
            drop_last,
            memory,
            *self.place(),
            self.balances,
            self.ahead,
        )


@dataclass(frozen=True)
class RowsJob:
    """Rows in memory, and torch's own way of fetching a batch of them."""

    row_set: RowSet
    fetch: Callable[[Any], Any]
    in_order: bool = False  # rows are asked for one behind the other
    python_collate: PythonCollate | None = None
    leaves_out = False
    counts_occurrences = False
    on_device = False
    shares_batches = grows = True

    def usual_slots(self, threads: int, batch_size: int | None) -> int:
        return ring_slots(None if batch_size is None else batch_size * self.row_set.row_bytes)

    def open(
        self, threads: int, batch_size: int | None, on_error: str, drop_last: bool, memory: str
    ) -> Engine:
        ahead = self._advise()
        fields = [column.field(ahead) for column in self.row_set.columns]
        gather = _core.RowGather(
            fields, self.row_set.length, threads, self.usual_slots(threads, batch_size), memory
        )
        return RowsEngine(gather, self.row_set.collated(), self.fetch, self.row_set.counts_back)

    def _advise(self) -> bool:
        """Tells the system what mapped files are to be used for. Returns whether to say in advance which rows
        are needed.

        At random places in files that fit into memory its usual reading ahead fills the cache sooner; in
        larger ones that would read many pages for one, so it is told to leave that alone, and gets each row's
        pages as one request instead.
        """
        files = self.row_set.mapped_files
        larger = sum(file.size for file in files) > _MEMORY_BYTES // 2
        for file in files:
            file.advise("sequential" if self.in_order else "random" if larger else "normal")
        return larger and not self.in_order

    def rows(self, batch: Any) -> Any:
        if (
            type(batch) is torch.Tensor
            and batch.dtype is torch.int64
            and batch.dim() == 1
            and batch.device.type == "cpu"
        ):
            return batch.numpy()
        return batch

    def collated(self, made: Any) -> Any:
        return made

    def lists_ahead(self, batch_size: int | None) -> int:
        return 0


_GATHERED = object()


def _any_below_zero(indices: Any) -> bool:
    numbers = np.asarray(indices)
    return numbers.size > 0 and numbers.dtype.kind in "if" and bool(numbers.min() < 0)


class RowsEngine:
    """`_core.RowGather`, with torch's fetcher for index lists that it does not take.

    Those hold an index that the dataset does not have, something else than ints, or nothing; or a tensor was
    resized meanwhile. torch then gives the batch, or says what is wrong in its own words, when the batch's
    turn comes.
    """

    def __init__(
        self,
        gather: _core.RowGather,
        collated: Callable[[Any], Any],
        fetch: Callable[[Any], Any],
        counts_back: bool,
    ) -> None:
        self._gather = gather
        self._counts_back = counts_back
        self._collated = collated
        self._fetch = fetch
        self._turns: deque[Any] = deque()  # in order: _GATHERED, or the index list that torch has to fetch
        self._fetched = {"samples": 0, "batches": 0}

    def start_epoch(self, seed: int, epoch: int) -> None:
        self._gather.start_epoch()
        self._turns.clear()

    def submit(self, indices: Any) -> None:
        taken = (self._counts_back or not _any_below_zero(indices)) and self._gather.submit(indices)
        self._turns.append(_GATHERED if taken else indices)

    def end_epoch(self) -> None:
        """Nothing: batches depend on no other batch."""

    def next(self, timeout: float = 0.0) -> Any:
        if not self._turns:
            return None
        if self._turns[0] is _GATHERED:
            try:
                fields = self._gather.next(timeout)
            except OSError as error:
                # after a time-out the batch is still to come
                if not isinstance(error, TimeoutError) or error.errno is not None:
                    self._turns.popleft()
                raise
            self._turns.popleft()
            return self._collated(fields)
        indices = self._turns.popleft()
        with during(SAMPLE):
            batch = self._fetch(indices)
        self._fetched["batches"] += 1
        self._fetched["samples"] += operator.length_hint(indices)
        return batch

    def set_limits(self, threads: int, slots: int) -> None:
        self._gather.set_limits(threads, slots)

    def close(self) -> None:
        self._gather.close()
        self._turns.clear()

    def snapshot(self) -> dict[str, Any]:
        """What it is doing, as far as it is known: batches that were asked for."""
        return {"threads": [], "outstanding": len(self._turns)}

    def clocks(self) -> list[Any]:
        return self._gather.clocks()

    def stats(self) -> dict[str, Any]:
        stats = self._gather.stats()
        return {**stats, **{name: stats[name] + count for name, count in self._fetched.items()}}
