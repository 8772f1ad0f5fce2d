"""torch's own iterators, counted: what a loader runs on when its samples are made by Python.

Type, laziness, random draws, worker processes and messages are torch's; `next()` is timed, and samples are counted.
"""

from __future__ import annotations

import operator
import time
from collections import deque
from typing import Any

from torch.utils.data.dataloader import _DatasetKind, _MultiProcessingDataLoaderIter, _SingleProcessDataLoaderIter

from .run_record import RunRecord


class _Counted:
    """Mixin before one of torch's iterators: fills `record`."""

    def __init__(self, loader: Any, record: RunRecord) -> None:
        self._record = record
        self._asked: deque[int] = deque()  # samples asked for by each index list that is out, in order
        super().__init__(loader)
        record.seed = self._base_seed
        # The profiler's range is named after the class that torch's users know.
        self._profile_name = f"enumerate(DataLoader)#{type(self).__mro__[2].__name__}.__next__"

    def _next_index(self) -> Any:
        index = super()._next_index()
        self._asked.append(operator.length_hint(index, 1) if self._auto_collation else 1)
        return index

    def __next__(self) -> Any:
        counters = self._record.counters
        started = time.perf_counter()
        try:
            batch = super().__next__()
        finally:
            counters["wait_seconds"] += time.perf_counter() - started
        counters["batches"] += 1
        counters["samples"] += self._samples_in(batch)
        return batch

    def _samples_in(self, batch: Any) -> int:
        if self._dataset_kind == _DatasetKind.Iterable:
            return _leading_length(batch) if self._auto_collation else 1
        return self._received


class CountedInlineIter(_Counted, _SingleProcessDataLoaderIter):
    """torch's iterator without workers."""

    def _next_index(self) -> Any:
        self._asked.clear()  # of a batch that raised
        return super()._next_index()

    @property
    def _received(self) -> int:
        return self._asked[0]


class CountedProcessIter(_Counted, _MultiProcessingDataLoaderIter):
    """torch's iterator over worker processes."""

    _shutdown = True  # until torch's __init__ has workers to stop: __del__ runs even where it raises before
    _received = 0

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        self._asked.clear()
        if not first_iter:
            self._record.epoch += 1
        super()._reset(loader, first_iter)

    def _process_data(self, data: Any, worker_idx: int) -> Any:
        self._received = self._asked.popleft()
        return super()._process_data(data, worker_idx)


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
