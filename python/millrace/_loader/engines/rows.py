"""Rows that lie in memory or in mapped files, gathered by the C++ engine."""

from __future__ import annotations

import operator
import os
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ... import _core
from ..._common.lowering.rows import RowSet
from ..._profiling.stages import SAMPLE, during
from .core import Core
from .native import NativeSpec, ring_slots

_MEMORY_BYTES = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@dataclass(frozen=True)
class RowsSpec(NativeSpec):
    """Rows in memory; `fetch`: torch's own way of fetching a batch of them."""

    row_set: RowSet
    fetch: Callable[[Any], Any]
    in_order: bool = False  # rows are read one after the other
    python_collate: Any = None

    def usual_slots(self, threads: int, batch_size: int | None) -> int:
        return ring_slots(None if batch_size is None else batch_size * self.row_set.row_bytes)

    def core(self, threads: int, batch_size: int | None, on_error: str, drop_last: bool, memory: str) -> Core:
        ahead = self._advise()
        fields = [column.field(ahead) for column in self.row_set.columns]
        gather = _core.RowGather(
            fields, self.row_set.length, threads, self.usual_slots(threads, batch_size), memory
        )
        return RowsCore(gather, self.row_set.collated(), self.fetch, self.row_set.counts_back)

    def _advise(self) -> bool:
        """Tell the system how mapped files will be read. Returns whether to announce rows in advance.

        For random reads of files that fit into memory, the system's usual read-ahead fills the cache sooner.
        In larger files read-ahead would read many pages for one, so it is turned off; one request per row
        fetches the row's pages instead.
        """
        files = self.row_set.mapped_files
        if not files:
            return False
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


_GATHERED = object()


def _any_below_zero(indices: Any) -> bool:
    numbers = np.asarray(indices)
    return numbers.size > 0 and numbers.dtype.kind in "if" and bool(numbers.min() < 0)


class RowsCore(Core):
    """A `_core.RowGather` with the interface of `_core.Loader`; torch's fetcher takes the index lists that
    RowGather refuses.

    Such a list holds an index that the dataset does not have, something other than ints, or nothing; or a
    tensor was resized meanwhile. When the batch's turn comes, torch gives it, or raises its own error.
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
        """The known part of the core's activity: the number of batches submitted and not delivered."""
        return {"threads": [], "outstanding": len(self._turns)}

    def clocks(self) -> list[Any]:
        return self._gather.clocks()

    def stats(self) -> dict[str, Any]:
        stats = self._gather.stats()
        return {**stats, **{name: stats[name] + count for name, count in self._fetched.items()}}
