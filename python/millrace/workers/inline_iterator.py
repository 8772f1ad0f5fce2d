"""num_workers=0 over a dataset that is Python code: torch's own iterator, timed and counted."""

from __future__ import annotations

import operator
from typing import Any, Optional

from torch.utils.data import _utils
from torch.utils.data.dataloader import _DatasetKind, _SingleProcessDataLoaderIter

from ..run_record import RunRecord
from .counted import Counted
from .fetchers import Sink, make_fetcher
from .holes import Mending, Positions


class InlineIter(Counted, _SingleProcessDataLoaderIter):
    """torch's iterator without workers. Type, laziness, random draws and messages are torch's."""

    def __init__(self, loader: Any, record: RunRecord) -> None:
        self._sink: Optional[Sink] = None
        self._asked = 0  # samples in the index list that was taken last
        super().__init__(loader)
        self._begin_record(record, "_SingleProcessDataLoaderIter")
        self._skip = loader.on_error == "skip"
        self._least = loader.batch_size if loader.drop_last else 1
        if loader.on_error != "raise":
            self._sink = Sink()
            self._dataset_fetcher = make_fetcher(
                self._dataset_kind, self._dataset, self._auto_collation, self._collate_fn, self._drop_last, self._sink, loader.on_error
            )

    def _next_data(self) -> Any:
        if self._skip:
            return self._next_whole_batch()
        try:
            return super()._next_data()
        finally:
            if self._sink is not None:
                self._record.add_errors(self._sink.errors)
                self._sink.errors = []

    def _next_whole_batch(self) -> Any:
        if type(self._sampler_iter) is not Positions:
            self._sampler_iter = Positions(self._sampler_iter)
        while True:
            number, rows = self._sampler_iter.given, self._next_index()
            mending, errors = Mending(self._sampler_iter, number), []  # type: ignore[var-annotated]
            try:
                batch = self._dataset_fetcher.fetch(rows)
                while mending.is_unfinished(batch, errors):
                    batch = self._dataset_fetcher.fetch(mending.rows)
            except Exception:  # of collate_fn
                mending.give_up()
                raise
            finally:
                self._record.add_errors(errors)
            self._asked = mending.end()
            if self._asked >= max(1, self._least):
                return _utils.pin_memory.pin_memory(batch, self._pin_memory_device) if self._pin_memory else batch

    def _next_index(self) -> Any:
        index = super()._next_index()
        self._asked = operator.length_hint(index, 1) if self._auto_collation else 1
        return index

    def __next__(self) -> Any:
        batch = super().__next__()
        streamed = self._dataset_kind == _DatasetKind.Iterable and self._auto_collation
        self._record.counters["samples"] += _leading_length(batch) if streamed else self._asked
        return batch


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
