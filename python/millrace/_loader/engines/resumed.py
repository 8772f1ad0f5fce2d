"""What the iterators with workers add to torch's logic so that they can begin in the middle, and say where
they are.
"""

from __future__ import annotations

import functools
import weakref
from typing import Any, NamedTuple

from torch.utils.data.dataloader import _BaseDataLoaderIter

from ... import _core
from ..run_record import RunRecord
from ..states import CursorSampler, Progress
from .task_gate import EVERYBODY, TaskGate


class Answer(NamedTuple):
    """What a worker made of one task."""

    number: int  # of the task
    samples: int
    errors: list[dict[str, Any]]  # of samples that on_error replaced
    batch: Any
    state: Any  # the worker's behind it, or None
    draws: Any = None  # of its generators before it, as history/draws.py has them
    rows: Any = None  # indices that it was made of, where they are not those of its task


class Resumed:
    """Mixin before torch's iterator with workers. `_begin` comes first, `_fed` before the first `_reset`."""

    _progress: Progress
    _gate: TaskGate | None = None
    _turns: _core.TurnGate | None = None  # where the number of workers at work is tuned
    _handed_out: Any = None  # the Answer that torch's logic is given the batch of

    def _begin(self, loader: Any, record: RunRecord, progress: Progress) -> None:
        """torch's draws, and what the loader says of its workers."""
        progress.prepare()
        progress.workers_begin(loader.dataset, resumes=True)
        _BaseDataLoaderIter.__init__(self, loader)  # type: ignore[arg-type]
        self._begin_record(record, progress, "_MultiProcessingDataLoaderIter")  # type: ignore[attr-defined]
        self._prefetch_factor = loader.prefetch_factor
        self._in_order = loader.in_order
        self._on_error = loader.on_error
        if self._num_workers <= 0:
            raise AssertionError("num_workers must be greater than 0 for MultiProcessingDataLoaderIter")
        if self._prefetch_factor <= 0:
            raise AssertionError("prefetch_factor must be greater than 0 for MultiProcessingDataLoaderIter")

    def _fed(self) -> None:
        self._index_sampler = CursorSampler(self._index_sampler, self._progress.cursor)
        if (tuning := self._record.tuning) is not None:  # type: ignore[attr-defined]
            gate = self._gate = TaskGate(self._index_queues, self._turns)  # type: ignore[has-type]
            self._index_queues = gate.queues
            tuning.attach(functools.partial(_set_limits, weakref.ref(gate), self._num_workers), self._record)  # type: ignore[attr-defined]

    @property
    def _tunes_threads(self) -> bool:
        tuning = self._record.tuning  # type: ignore[attr-defined]
        return tuning is not None and tuning.room.tunes_threads

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        self._check_owner()  # type: ignore[attr-defined]
        if not first_iter:
            self._record.epoch += 1  # type: ignore[attr-defined]
            self._progress.epoch = self._record.epoch  # type: ignore[attr-defined]
            self._progress.workers_begin(loader.dataset, resumes=False)
        self._in_position, self._are_new = False, first_iter
        with self._record.profiler.starting(None if first_iter else self._record.stats(), first_iter):  # type: ignore[attr-defined]
            super()._reset(loader, first_iter)  # type: ignore[misc]
            if first_iter:
                self._drop_steps()  # type: ignore[attr-defined]

    def _try_put_index(self) -> None:
        if not self._in_position:  # torch's _reset has just made its lists, and begins with worker 0
            self._in_position = True
            self._progress.starts(None if self._are_new else self._shared_seed)  # type: ignore[attr-defined]
            self._num_yielded = self._progress.yielded
            for worker in self._progress.places.ended:
                self._workers_status[worker] = False  # type: ignore[attr-defined]
            for _ in range((self._progress.places.last + 1) % self._num_workers):  # type: ignore[attr-defined]
                next(self._worker_queue_idx_cycle)  # type: ignore[attr-defined]
        if self._gate is not None:
            self._gate.pump(self._rcvd_idx)  # type: ignore[attr-defined]
        super()._try_put_index()  # type: ignore[misc]

    def _get_data(self) -> Any:
        """The next answer of any worker: (task number, data for _process_data); (_ResumeIteration, None) at
        the start of an epoch.
        """
        if self._gate is not None:
            self._gate.pump(self._rcvd_idx)  # type: ignore[attr-defined]
        return self._take_answer()  # type: ignore[attr-defined]

    def _process_data(self, data: Any, worker_idx: int) -> Any:
        answer, self._handed_out = self._handed_out, None
        if answer is not None:
            self._progress.turn(answer.number, worker_idx, answer.state, answer.rows, answer.draws)
        return super()._process_data(data, worker_idx)  # type: ignore[misc]


def _set_limits(gate: weakref.ref[TaskGate], workers: int, threads: int, slots: int) -> None:
    """With all of `workers` at work none waits for a turn; the consumer's batch is not one ahead."""
    if (alive := gate()) is not None:
        alive.set_limits(threads if threads < workers else EVERYBODY, slots - 1)
