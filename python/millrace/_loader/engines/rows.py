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
    """Rows in memory, and torch's own way of fetching a batch of them."""

    row_set: RowSet
    fetch: Callable[[Any], Any]
    in_order: bool = False  # rows are asked for one after the other
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
        """Tells the system what mapped files are to be used for. Returns whether to say in advance which rows
        are needed.

        At random places in files that fit into memory its usual reading ahead fills the cache sooner; in
        larger ones that would read many pages for one, so it is told to leave that alone, and gets each row's
        pages as one request instead.
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
    """As `_core.Loader`: `_core.RowGather`, with torch's fetcher for index lists that it does not take.

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
