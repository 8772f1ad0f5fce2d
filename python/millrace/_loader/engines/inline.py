"""InlineEngine: a dataset that is Python code, in the training loop's own thread."""

from __future__ import annotations

import operator
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.data import IterDataPipe, MapDataPipe
from torch.utils.data.dataloader import _DatasetKind

from ..._pictures.asking import asks, stops_asking
from ..._pictures.counts import PictureCounts
from ..._profiling.stacks import StackSampler
from ..._profiling.stages import SAMPLE, collating, enter, recorded, recording
from ..._tools.history.draws import watch_of
from ..engine import Delivered, Setup
from ..run_record import Counting, add_errors, empty_counters
from ..states import put_dataset_back, put_fetcher_back
from .backfill import Backfill, Positions
from .fetchers import Sink, make_fetcher


class InlineEngine(Counting):
    """torch's fetcher in next(). `fetcher`: what is asked for the dataset's state."""

    lists_ahead = 0
    pins = False

    def __init__(self, setup: Setup) -> None:
        loader, progress, saved = setup.loader, setup.progress, setup.progress.saved
        self.workers: list[Any] = []
        self._profiler, self.counters = setup.record.profiler, empty_counters()
        dataset = setup.dataset
        if isinstance(dataset, (IterDataPipe, MapDataPipe)):
            torch.utils.data.graph_settings.apply_sharding(dataset, *setup.world)
        if saved is not None and not saved.finished and saved.shared_seed is not None:
            seeded = torch.Generator().manual_seed(setup.shared_seed or 0)  # torch has just applied another
            dataset = torch.utils.data.graph_settings.apply_random_seed(dataset, seeded)
        put_dataset_back(dataset, saved)
        self._kind, self._batched = loader._dataset_kind, loader._auto_collation
        self._least = loader.batch_size if loader.drop_last else 1
        self._sink = None if setup.on_error == "raise" else Sink()
        arguments = self._kind, dataset, self._batched
        if self._sink is None:
            collate = collating(loader.collate_fn)
            self.fetcher = _DatasetKind.create_fetcher(*arguments, collate, loader.drop_last)
        else:
            self.fetcher = make_fetcher(
                *arguments, loader.collate_fn, loader.drop_last, self._sink, setup.on_error
            )
        self._pictures = PictureCounts() if loader.pictures == "lazy" else None
        self._stacks: StackSampler | None = None  # of the thread that calls next()
        self._watch = watch_of(progress.log) if self._kind == _DatasetKind.Map else None
        self._streams = self._batched and self._kind == _DatasetKind.Iterable
        self._lists: deque[Any] = deque()
        self._positions: Any = None  # Positions, with on_error="skip"
        self.doing: Any = None  # the index list that was taken last
        put_fetcher_back(self.fetcher, saved, self._kind == _DatasetKind.Iterable)

    @property
    def outstanding(self) -> int:
        return len(self._lists)

    def start_epoch(self, seed: int, epoch: int, shared_seed: int | None = None) -> None:
        """An iterator without workers has one epoch."""

    def submit(self, index: Any) -> None:
        self._lists.append(index)

    def end_epoch(self) -> None:
        self._positions = Positions(self._lists)
        self._lists = deque()

    def next(self, timeout: float) -> Delivered | None:
        began = time.perf_counter()
        try:
            delivered = self._next_list() if self._positions is None else self._next_whole()
        finally:
            self.counters["wait_seconds"] += time.perf_counter() - began
            if self._sink is not None:
                add_errors(self.counters, self._sink.errors)
                self._sink.errors = []
        if delivered is not None and delivered.error is None:
            self.counters["batches"] += 1
        return delivered

    def _next_list(self) -> Delivered | None:
        index = self.doing = self._lists.popleft()
        watch = self._watch
        draws = None if watch is None else watch.before()
        try:
            batch = self._fetched(index)
        except StopIteration:
            return None
        except Exception as error:
            return Delivered(None, error=error, draws=draws)
        delivered = Delivered(batch)
        if watch is not None:
            delivered.draws = watch.after(draws)
        if self._streams:
            self.counters["samples"] += leading_length(batch)
            delivered.rows = getattr(self.fetcher, "names", None)
        else:
            self.counters["samples"] += operator.length_hint(index, 1) if self._batched else 1
        return delivered

    def _next_whole(self) -> Delivered | None:
        """on_error="skip": the next batch that has a sample."""
        positions = self._positions
        while True:
            number, rows = positions.given, next(positions, None)
            if rows is None:
                return None
            self.doing, backfill = rows, Backfill(positions, number)
            errors: list[dict[str, Any]] = []
            draws = None if self._watch is None else self._watch.before()
            try:
                batch = self._fetched(rows)
                while backfill.is_unfinished(batch, errors):
                    draws = None if self._watch is None else self._watch.before()
                    batch = self._fetched(backfill.rows)
            except Exception as error:  # of collate_fn
                backfill.give_up()
                return Delivered(None, error=error, draws=draws)
            finally:
                add_errors(self.counters, errors)
            rows = list(backfill.rows)
            try:
                count = backfill.end()
            except Exception as error:
                return Delivered(None, error=error, draws=draws)
            if count >= max(1, self._least):
                self.counters["samples"] += count
                if self._watch is not None:
                    draws = self._watch.after(draws)
                return Delivered(batch, rows=rows, draws=draws)

    def _fetched(self, index: Any) -> Any:
        stacks = self._stacks
        if stacks is None or not stacks.is_of_this_thread:
            stacks = self._stacks = StackSampler(self.fetcher.dataset, self._profiler.clock)
        before, asked_before = enter(SAMPLE), asks(self._pictures)
        try:
            with stacks:
                return _shown(self.fetcher.fetch, index) if recording() else self.fetcher.fetch(index)
        finally:
            stops_asking(asked_before)
            enter(before)

    def close(self) -> None:
        """Nothing runs behind next()."""

    def stats(self) -> dict[str, Any]:
        counters = super().stats()
        return counters if self._pictures is None else {**counters, "pictures": self._pictures.total()}

    def snapshot(self, stacks: bool) -> dict[str, Any]:
        return {} if self.doing is None else {"indices": self.doing}

    rows = set_limits = None


def _shown(make: Callable[..., Any], *arguments: Any) -> Any:
    """As a range of torch's profiler, which records."""
    with recorded("make"):
        return make(*arguments)


def leading_length(batch: Any) -> int:
    """Samples in a collated batch of an iterable-style dataset: the length of its first part that has one."""
    while isinstance(batch, (dict, list, tuple)) and batch:
        first = next(iter(batch.values())) if isinstance(batch, dict) else batch[0]
        if isinstance(first, (str, bytes)) or not hasattr(first, "__len__"):
            return len(batch)
        batch = first
    try:
        return len(batch)
    except TypeError:  # an object or tensor without a length, made by a collate_fn of its own kind
        return 1
