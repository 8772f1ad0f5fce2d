"""InlineEngine: a dataset that is Python code, in the training loop's own thread."""

from __future__ import annotations

import operator
import sys
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.utils.data import IterDataPipe, MapDataPipe

from ..._common.batch_place import here
from ..._common.torch_private import _DatasetKind
from ..._history.draws import watch_of
from ..._pictures import asking
from ..._pictures.asking import Asker, this_thread
from ..._pictures.counts import PictureCounts
from ..._profiling.stacks import StackSampler
from ..._profiling.stages import SAMPLE, collating, enter, recorded, recording
from ..engine import Counting, Delivered, Setup, add_errors, empty_counters
from ..states import put_dataset_back, put_fetcher_back
from ..states.kept_states import begin_epoch
from .backfill import Backfill, Positions
from .epoch_keys import Marked, recorded_rows
from .fetchers import Sink, make_fetcher
from .prefix import StandIn


class InlineEngine(Counting):
    """Runs torch's fetcher in next(). `fetcher`: gives the dataset's state."""

    lists_ahead = 0
    pins = False

    def __init__(self, setup: Setup) -> None:
        loader, progress, saved = setup.loader, setup.progress, setup.progress.saved
        self.workers: list[Any] = []
        self._progress = progress
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
        self._repeats, self._stand_in = None, None
        if setup.prefix is not None:
            self._repeats = setup.prefix.repeats
            dataset = setup.prefix.standing(setup).in_place_of(dataset)
            self._stand_in = dataset if isinstance(dataset, StandIn) else None
        arguments = self._kind, dataset, self._batched
        make: Callable[[], Any]
        if self._sink is None:
            collate = collating(loader.collate_fn)
            make = partial(_DatasetKind.create_fetcher, *arguments, collate, loader.drop_last)
        else:
            how = loader.collate_fn, loader.drop_last, self._sink, setup.on_error
            make = partial(make_fetcher, *arguments, *how)
        goes_on = saved is not None and not saved.finished
        self.fetcher = make() if goes_on else begin_epoch(setup.dataset, make)
        self._pictures = PictureCounts() if loader.pictures != "pillow" else None
        # of the thread that calls next(): which one it is, and what looks at its stack
        self._asker: Asker | None = None
        self._stacks: StackSampler
        self._watch = watch_of(progress.log) if self._kind == _DatasetKind.Map else None
        self._streams = self._batched and self._kind == _DatasetKind.Iterable
        self._lists: deque[Any] = deque()
        self._taken = 0  # of them
        self._positions: Any = None  # Positions, with on_error="skip"
        self.doing: Any = None  # the index list that was taken last
        put_fetcher_back(self.fetcher, saved, self._kind == _DatasetKind.Iterable)

    @property
    def outstanding(self) -> int:
        return len(self._lists)

    def start_epoch(self, seed: int, epoch: int, shared_seed: int | None = None) -> None:
        """An iterator without workers has one epoch."""
        if self._repeats is not None:
            self._repeats.restart(self._progress.indices_before())

    def submit(self, index: Any) -> None:
        self._lists.append(index if self._repeats is None else self._repeats.of(index))

    def end_epoch(self) -> None:
        self._positions = Positions(self._lists)
        self._lists = deque()

    def next(self, timeout: float) -> Delivered | None:
        began, counters = time.perf_counter(), self.counters
        try:
            delivered = self._next_list() if self._positions is None else self._next_whole()
        finally:
            counters["wait_seconds"] += time.perf_counter() - began
            if (sink := self._sink) is not None:
                add_errors(counters, sink.errors)
                sink.errors = []
        if delivered is not None and delivered.error is None:
            counters["batches"] += 1
        return delivered

    def _next_list(self) -> Delivered | None:
        index = self.doing = self._lists.popleft()
        number, self._taken = self._taken, self._taken + 1
        watch = self._watch
        draws = None if watch is None or watch.tasks < watch.due else watch.before()
        try:
            batch = self._fetched(number, index)
        except StopIteration:
            return None
        except Exception as error:
            return Delivered(None, error=error, draws=draws)
        if watch is not None:
            if watch.looking:
                draws = watch.after(draws)
            else:
                watch.tasks += 1
        if not self._streams:
            self.counters["samples"] += operator.length_hint(index, 1) if self._batched else 1
            return Delivered(batch, None, -1, None, None, index if type(index) is Marked else None, draws)
        self.counters["samples"] += leading_length(batch)
        return Delivered(batch, rows=getattr(self.fetcher, "names", None), draws=draws)

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
                batch = self._fetched(number, rows)
                while backfill.is_unfinished(batch, errors):
                    draws = None if self._watch is None else self._watch.before()
                    batch = self._fetched(number, backfill.rows)
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
                return Delivered(batch, rows=recorded_rows(rows), draws=draws)

    def _fetched(self, number: int, index: Any) -> Any:
        fetcher, pictures, mine = self.fetcher, self._pictures, this_thread.asker
        if mine is not self._asker:
            self._asker, self._stacks = mine, StackSampler(fetcher.dataset, self._profiler.clock)
        stacks = self._stacks
        if pictures is not None and len(sys.modules) != asking.modules_seen:
            asking.look_around()
        before, asked_before = enter(SAMPLE), mine.counts
        outside, here.place = here.place, self._progress.place_of(number)  # at_place() costs a microsecond
        mine.counts = pictures or False
        try:
            stacks.begin()
            try:
                if self._stand_in is not None:
                    with self._stand_in.guarded():
                        return _shown(fetcher.fetch, index) if recording() else fetcher.fetch(index)
                return _shown(fetcher.fetch, index) if recording() else fetcher.fetch(index)
            finally:
                stacks.end()
        finally:
            mine.counts, here.place = asked_before, outside
            enter(before)

    def close(self) -> None:
        """Do nothing: nothing runs outside next()."""

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
