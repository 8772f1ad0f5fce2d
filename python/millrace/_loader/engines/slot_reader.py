"""What a worker process left in a slot, as an Answer: tensors over the slot where that is possible."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import torch
from torch._utils import ExceptionWrapper
from torch.utils.data import _utils

from ... import _core
from ..._common.devices import locks_for, numa_node
from ..._pictures.counts import add
from ..._profiling.stages import COPY, during
from ..engine import Setup
from . import channel
from .packing import Layout, read_pickle, unpack_value
from .worker_end import WorkerEnd
from .workers import Answer


class SlotReader:
    """A slot is free again when nothing of its batch lies in it: at once, or with the last tensor. Where the
    ring is crowded, batches are copied out of it.
    """

    def __init__(
        self, ring: _core.SharedRing, working_set: int, setup: Setup, counters: dict[str, Any]
    ) -> None:
        self._ring, self._working_set, self._counters = ring, working_set, counters
        self._locks_for: Any = locks_for(setup.loader)
        if self._locks_for is not None:
            ring.prefer_node(numa_node(self._locks_for))
        # Else batches are pinned where they lie.
        self._pin_device = setup.pin_device if self._locks_for is None else None

    def answer(self, end: WorkerEnd, kind: int, slot: int, begin: int, length: int, samples: int) -> Answer:
        """`begin`, `length`: of the pickle in the slot; see channel.py."""
        copy = self._ring.crowded(self._working_set)
        if self._locks_for is not None and not copy:
            self._lock_pages(slot)
        self._counters["overflow_slots"] += copy
        self._counters["bytes"] += begin
        errors: list[dict[str, Any]] = []
        state, draws = None, None
        try:
            batch, errors, state, draws, pictures = self._batch(
                end, kind, self._ring.lease(slot), begin, length, samples, copy
            )
            if pictures is not None:
                add(self._counters["pictures"], pictures)
        except Exception:  # what torch's queue would raise from get()
            batch = ExceptionWrapper(where="while its batch was taken from a worker process")
        if self._pin_device is not None and not isinstance(batch, ExceptionWrapper):
            batch = self._pinned(batch)
        return Answer(samples, errors, batch, state_of_worker(state) if state else None, draws)

    def _lock_pages(self, slot: int) -> None:
        """Copies to the device then read the slot itself."""
        if failure := self._ring.lock_pages(slot, self._locks_for):
            self._locks_for = None
            warnings.warn(
                "batches are copied once more on their way to the device, because their memory could not be"
                f" page-locked: {failure}. Raise the limit (ulimit -l), or use a smaller batch_size or"
                " prefetch_factor",
                stacklevel=5,
            )

    def _batch(
        self,
        end: WorkerEnd,
        kind: int,
        lease: _core.SlotLease,
        begin: int,
        length: int,
        samples: int,
        copy: bool,
    ) -> tuple[Any, list[dict[str, Any]], Any, Any, Any]:
        """(batch, entries of the samples replaced in it, the worker's state as it was pickled, what was drawn
        before it, news of pictures)

        The slot is free again when nothing of the batch lies in it: at the end of this, or with the last
        tensor.
        """
        if kind != channel.ROWS:
            return (
                unpack_value(lease, begin, length, copy)
                if kind == channel.TREE
                else read_pickle(lease, begin, length)
            )
        description, objects, errors, state, draws, pictures = None, None, [], None, None, None
        if length:
            try:
                description, objects, errors, state, draws, pictures = read_pickle(lease, begin, length)
            except Exception:
                end.layout = None  # what was to replace it is lost
                raise
        if description is not None:
            end.layout = Layout(description)  # until the worker says otherwise: it answers in order
        return end.layout.batch(lease, samples, objects, copy), errors, state, draws, pictures

    def _pinned(self, batch: Any) -> Any:
        try:
            with during(COPY):
                return _utils.pin_memory.pin_memory(batch, self._pin_device)
        except Exception:
            return ExceptionWrapper(
                where=f"in pin memory thread for device {torch.accelerator.current_device_index()}"
            )


def state_of_worker(data: bytes) -> Any:
    """A worker's; an error in reading it is one of state_dict(), not of a batch."""
    try:
        return pickle.loads(data)
    except Exception:
        return ExceptionWrapper(where="while the state of its dataset was taken from a worker process")
