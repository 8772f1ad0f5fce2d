"""num_workers=0 over a dataset that is Python code: torch's own iterator, timed and counted."""

from __future__ import annotations

import contextlib
import operator
from typing import Any

import torch
from torch.utils.data import IterDataPipe, MapDataPipe, _utils
from torch.utils.data.dataloader import _BaseDataLoaderIter, _DatasetKind, _SingleProcessDataLoaderIter

from ..._profiling.stacks import StackSampler
from ..._profiling.stages import COPY, SAMPLE, collating, during, enter
from ..._tools.history.draws import DrawWatch
from ..run_record import RunRecord
from ..states import Progress, SavedState, put_back
from .backfill import Backfill, Positions
from .counted import Counted
from .fetchers import Sink, make_fetcher


class InlineIter(Counted, _SingleProcessDataLoaderIter):
    """torch's iterator without workers. Type, laziness, random draws and messages are torch's."""

    def __init__(self, loader: Any, record: RunRecord, progress: Progress) -> None:
        self._sink: Sink | None = None
        self.doing: Any = None  # the index list that was taken last
        self._asked = 0  # samples in the index list that was taken last
        self._rows: Any = None  # of the batch made last, where on_error exchanged some
        self._draws: Any = None  # of the generators, before that batch
        self._progress = progress
        saved = progress.saved
        progress.prepare()
        if saved is not None and saved.finished:
            put_back(loader.dataset, saved.dataset_state)
        _BaseDataLoaderIter.__init__(self, loader)
        if self._timeout != 0:
            raise AssertionError("_SingleProcessDataLoaderIter requires timeout == 0")
        if self._num_workers != 0:
            raise AssertionError("_SingleProcessDataLoaderIter requires num_workers == 0")
        if isinstance(self._dataset, (IterDataPipe, MapDataPipe)):
            torch.utils.data.graph_settings.apply_sharding(self._dataset, self._world_size, self._rank)
        self._begin_record(record, progress, "_SingleProcessDataLoaderIter")
        # torch has just applied another
        if saved is not None and saved.shared_seed is not None and not saved.finished:
            seeded = torch.Generator().manual_seed(self._shared_seed)
            self._dataset = torch.utils.data.graph_settings.apply_random_seed(self._dataset, seeded)
        self._sampler_iter = progress.cursor(self._index_sampler, self._sampler_iter)
        self._num_yielded = progress.yielded
        if saved is not None and not saved.finished:
            put_back(
                self._dataset, saved.dataset_state
            )  # behind the draws of its epoch: it may hold the state of torch's generator
        self._dataset_fetcher = self._make_fetcher()
        self._stacks: StackSampler | None = None  # of the thread that calls next()
        self._skip = loader.on_error == "skip"
        self._least = loader.batch_size if loader.drop_last else 1
        if loader.on_error != "raise":
            self._sink = Sink()
            self._dataset_fetcher = make_fetcher(
                self._dataset_kind,
                self._dataset,
                self._auto_collation,
                self._collate_fn,
                self._drop_last,
                self._sink,
                loader.on_error,
            )

        self._watch: DrawWatch | None = None
        if self._dataset_kind == _DatasetKind.Map and progress.log is not None:
            self._watch = progress.log.recorder.watch = DrawWatch(progress.log.recorder.watch)
        progress.runs_inline(self)
        if saved is not None:
            self._go_on(saved)

    def _make_fetcher(self) -> Any:
        return _DatasetKind.create_fetcher(
            self._dataset_kind,
            self._dataset,
            self._auto_collation,
            collating(self._collate_fn),
            self._drop_last,
        )

    def _go_on(self, saved: SavedState) -> None:
        fetcher, parts = self._dataset_fetcher, saved.fetcher_state
        if parts is not None and self._dataset_kind == _DatasetKind.Iterable:
            if not saved.finished:
                put_back(fetcher.dataset_iter, parts["dataset_iter_state"])
                fetcher.ended = parts["fetcher_ended"]
            elif fetcher.dataset_iter is fetcher.dataset:
                put_back(fetcher.dataset, parts["dataset_iter_state"])
                fetcher.dataset_iter = iter(fetcher.dataset)
        self._drop_steps()

    def __del__(self) -> None:
        fetcher = getattr(self, "_dataset_fetcher", None)
        if fetcher is not None:
            with contextlib.suppress(
                Exception
            ):  # a dataset that cannot say where it stands says so in state_dict()
                self._progress.ends_inline(fetcher)

    def _next_data(self) -> Any:
        progress = self._progress
        try:
            if self._skip:
                data = self._made(self._next_whole_batch)
            else:
                data = self._made(self._fetched, self._next_index())
                if self._pin_memory:
                    data = self._pinned(data)
        except StopIteration:
            raise
        except Exception:
            progress.failed(draws=self._draws)
            raise
        finally:
            if self._sink is not None:
                self._record.add_errors(self._sink.errors)
                self._sink.errors = []
        if self._watch is not None:
            self._draws = self._watch.after(self._draws)
        progress.turn(rows=self._rows or getattr(self._dataset_fetcher, "names", None), draws=self._draws)
        streamed = self._auto_collation and self._dataset_kind == _DatasetKind.Iterable
        self._record.counters["samples"] += _leading_length(data) if streamed else self._asked
        return data

    def _next_whole_batch(self) -> Any:
        if type(self._sampler_iter) is not Positions:
            self._sampler_iter = Positions(self._sampler_iter, self._progress.left_out_before)
        while True:
            number, rows = self._sampler_iter.given, self._next_index()
            backfill, errors = Backfill(self._sampler_iter, number), []  # type: ignore[var-annotated]
            try:
                batch = self._fetched(rows)
                while backfill.is_unfinished(batch, errors):
                    self._draws = None if self._watch is None else self._watch.before()
                    batch = self._fetched(backfill.rows)
            except Exception:  # of collate_fn
                backfill.give_up()
                raise
            finally:
                self._record.add_errors(errors)
            self._asked, self._rows = backfill.end(), list(backfill.rows)
            if self._asked >= max(1, self._least):
                return self._pinned(batch) if self._pin_memory else batch

    def _fetched(self, index: Any) -> Any:
        if self._stacks is None or not self._stacks.is_of_this_thread:
            self._stacks = StackSampler(self._dataset, self._record.profiler.clock)
        before = enter(SAMPLE)
        try:
            with self._stacks:
                return self._dataset_fetcher.fetch(index)
        finally:
            enter(before)

    def _pinned(self, batch: Any) -> Any:
        with during(COPY):
            return _utils.pin_memory.pin_memory(batch, self._pin_memory_device)

    def _next_index(self) -> Any:
        if not self._skip:
            self._progress.drawing()
        index = self.doing = next(self._sampler_iter)
        self._asked = operator.length_hint(index, 1) if self._auto_collation else 1
        if self._watch is not None:
            self._draws = self._watch.before()
        return index


def _leading_length(batch: Any) -> int:
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
