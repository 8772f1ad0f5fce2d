"""The training process's side of worker processes: torch's own logic of order, over pipes and the shared
ring.

Derived from torch's iterator, whose `_next_data`, `_try_put_index` and `_reset` are the contract (which
worker gets which task, what comes back when); replaced is everything that moves data. No thread runs in the
training process.

Who may touch an iterator: one consumer thread at a time, in the process that made it; elsewhere nothing
happens (a forked child that collects it) or an error says so. How it ends: the last batch,
`_shutdown_workers()`, garbage collection; workers that do not end within 5 seconds are terminated, and killed
5 seconds later; so are all when the interpreter ends. When this process is killed, they end themselves
(`process_worker.py`). Batches that live on keep their slots. `_shutdown_workers()` beside a next() on another
thread (endings.py): next() holds `_seat`; whoever cannot take it marks `_closing` and wakes the consumer by
`_wake`, which tears down on its way out. At the interpreter's end next() says nothing of workers that are
gone.

A dead worker: what it had answered before is used, then the consumer gets torch's RuntimeError. Its
unfinished slot is not accepted.
"""

from __future__ import annotations

import contextlib
import functools
import os
import pickle
import select
import threading
import time
import warnings
from collections import deque
from multiprocessing.util import Finalize
from typing import Any

import torch
import torch.multiprocessing
from torch._utils import ExceptionWrapper
from torch.utils.data import IterDataPipe, MapDataPipe, _utils
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter, _sharding_worker_init_fn

from ... import _core
from ..._common.devices import locks_for, numa_node
from ..._profiling.counters import WorkerCounters
from ..._profiling.stacks import prepare
from ..._profiling.stages import COPY, WAIT, during
from ..._tools.history.stacks import new_stacks
from ..endings import closed_error, is_ending
from ..run_record import RunRecord
from ..states import Progress
from . import channel
from .backfill import Backfilled
from .batches import Layout, read_pickle, unpack_value
from .channel import MESSAGE, RingHandle
from .process_worker import WorkerJob, run_worker
from .resumed import Answer, Resumed
from .worker_end import MOST_OUTSTANDING, Wake, WantOfMemory, WorkerEnd, end_workers, is_stopped, start

_LEAST_SLOTS = 256  # sparse: a slot that was never used costs nothing
_MOST_FILES = 8  # of the ring, each a descriptor in every worker
_NO_PIDFD_TICK_S = 0.1


class ProcessIter(Backfilled, Resumed, _MultiProcessingDataLoaderIter):
    """Batches of a Python dataset, made by worker processes."""

    def __init__(self, loader: Any, record: RunRecord, progress: Progress) -> None:
        self._shutdown = True  # __del__ runs even when the rest raises
        self._owner_pid = os.getpid()
        self._ends: list[WorkerEnd] = []
        self._workers: list[Any] = []
        self._seat, self._closing, self._wake = threading.RLock(), False, Wake()
        self._begin(loader, record, progress)
        self._worker_init_fn = loader.worker_init_fn
        if isinstance(self._dataset, (IterDataPipe, MapDataPipe)):
            self._worker_init_fn = functools.partial(
                _sharding_worker_init_fn, self._worker_init_fn, self._world_size, self._rank
            )
        working_set = self._prefetch_factor * self._num_workers + 2
        self._ring = _core.SharedRing(
            max(_LEAST_SLOTS, 4 * working_set), working_set, min(self._num_workers, _MOST_FILES)
        )
        self._board, self._accepted = WorkerCounters(self._ring, self._num_workers), 0
        self._turns_slot = self._ring.take() if self._tunes_threads else -1
        self._turns = _core.TurnGate.on(self._ring, self._turns_slot) if self._tunes_threads else None
        self._working_set = working_set
        record.counters["slots"] = working_set
        self._want_of_memory = WantOfMemory()
        self._locks_for = locks_for(loader)
        if self._locks_for is not None:
            self._ring.prefer_node(numa_node(self._locks_for))
        self._pin_memory = self._pin_memory and self._locks_for is None  # else they are pinned where they lie
        self._arrived: deque[tuple[Any, Any]] = deque()
        # Also called when the interpreter ends, before multiprocessing waits for its children; in this
        # process alone.
        self._end_workers = Finalize(None, end_workers, (id(self), self._workers), exitpriority=0)
        self._shutdown = False
        try:
            self._start_workers(loader.multiprocessing_context or torch.multiprocessing)
        except BaseException:
            self._shutdown_workers()
            raise
        board, pids = self._board, [worker.pid for worker in self._workers]
        record.profiler.watch(lambda: board.rows(pids), pids)
        self._index_queues = self._ends  # where torch's logic puts tasks
        _utils.signal_handling._set_worker_pids(id(self), tuple(w.pid for w in self._workers))
        _utils.signal_handling._set_SIGCHLD_handler()
        self._fed()
        self._reset(loader, first_iter=True)

    # ---------------------------------------------------------------- start and end

    def _start_workers(self, context: Any) -> None:
        self._poll = select.poll()
        self._poll.register(self._wake.fd, select.POLLIN)
        self._end_of_fd: dict[int, WorkerEnd] = {}
        ring = RingHandle(self._ring)
        if _core.StageClock.enabled:
            prepare()  # here, so that forked workers need not
        for worker_id in range(self._num_workers):
            tasks_out, tasks_in, answers_out, answers_in = channel.pipes()
            channel.parents_ends.update((tasks_in.fd, answers_out.fd))
            stacks = new_stacks()
            job = WorkerJob(
                dataset_kind=self._dataset_kind,
                dataset=self._dataset,
                auto_collation=self._auto_collation,
                collate_fn=self._collate_fn,
                drop_last=self._drop_last,
                base_seed=self._base_seed,
                worker_init_fn=self._worker_init_fn,
                worker_id=self._progress.worker_number(worker_id),
                num_workers=self._progress.workers_then or self._num_workers,
                shared_seed=self._shared_seed,
                on_error=self._on_error,
                ring=ring,
                tasks=tasks_out,
                answers=answers_in,
                parent_pid=os.getpid(),
                state=self._progress.places.state_of(worker_id),
                between_epochs=self._progress.between_epochs,
                watches=self._progress.log_wanted and not self._progress.streams,
                draws=self._progress.draws,
                stacks=stacks,
                turns=self._turns_slot,
                board=(self._board.slot, self._num_workers, worker_id),
            )
            process = context.Process(target=run_worker, args=(job,))
            process.daemon = True
            try:
                start(process)
            except BaseException:
                channel.parents_ends.difference_update((tasks_in.fd, answers_out.fd))
                tasks_in.close()
                answers_out.close()
                if stacks is not None:
                    stacks.close()
                raise
            finally:
                tasks_out.close()
                answers_in.close()
            end = WorkerEnd(
                self._ring, process, tasks_in, answers_out, worker_id, self._progress.wants_state, stacks
            )
            self._ends.append(end)
            self._workers.append(process)
            self._end_of_fd[end.answers.fd] = end
            if stacks is not None:
                channel.parents_ends.add(stacks.fd)  # from here on: this worker has its own
            self._poll.register(end.answers.fd, select.POLLIN)
            if end.pidfd >= 0:
                channel.parents_ends.add(end.pidfd)
                self._poll.register(end.pidfd, select.POLLIN)

    def _mark_worker_as_unavailable(self, worker_id: int, shutdown: bool = False) -> None:
        self._ends[worker_id].put(None)
        self._workers_status[worker_id] = False

    def _shutdown_workers(self) -> None:
        if self._shutdown or os.getpid() != self._owner_pid:
            return
        if _utils is None or _utils.python_exit_status is True or _utils.python_exit_status is None:
            return  # the interpreter ends: multiprocessing terminates its daemons
        if not self._seat.acquire(blocking=False):
            self._closing = True
            self._wake.ring()
            if not self._seat.acquire(timeout=_utils.MP_STATUS_CHECK_INTERVAL):
                return  # the consumer will, when it comes out of what it is in
        try:
            if not self._shutdown:
                self._tear_down()
        finally:
            self._seat.release()

    def _tear_down(self) -> None:
        self._shutdown = True
        self._record.profiler.workers_end()
        if self._turns is not None:
            self._turns.close()
        try:
            for end in self._ends:
                end.put(None)
            for worker in self._workers:
                if not is_stopped(worker):
                    worker.join(timeout=_utils.MP_STATUS_CHECK_INTERVAL)
        finally:
            self._end_workers()
            for number in range(len(self._workers)):
                self._board.end(number)
            self._record.profiler.freeze()
            for end in self._ends:
                end.close()
            self._arrived.clear()
            self._task_info: dict = {}
            self._wake.close()

    def __del__(self) -> None:
        self._shutdown_workers()

    # ---------------------------------------------------------------- epochs and batches

    def __next__(self) -> Any:
        with self._seat:
            try:
                return super().__next__()
            finally:
                if self._closing:
                    self._shutdown_workers()

    def _is_closed(self) -> bool:
        return self._closing or self._shutdown or is_ending()

    def _take_answer(self) -> Any:
        """The next answer of any worker: (task number, data for _process_data); (_ResumeIteration, None) at
        the start of an epoch.
        """
        deadline = time.monotonic() + self._timeout if self._timeout > 0 else None
        while not self._arrived:
            try:
                self._wait(deadline)
            except Exception as error:  # torch's SIGCHLD handler raises here
                self._raise_if_workers_died(error)
                raise
        return self._arrived.popleft()

    def _wait(self, deadline: float | None) -> None:
        """Waits until something has arrived, a worker has died, or the time is over."""
        for end in self._ends:
            end.pump()
        if not any(end.outstanding for end in self._ends) and self._ring.free_slots == 0:
            raise RuntimeError(
                "all slots of the worker processes' ring hold batches that processes forked meanwhile may"
                " still read; end those processes, let them execute another program, or drop batches before"
                " forking"
            )
        seconds = None if deadline is None else max(0.0, deadline - time.monotonic())
        if any(end.pidfd < 0 for end in self._ends):
            seconds = _NO_PIDFD_TICK_S if seconds is None else min(seconds, _NO_PIDFD_TICK_S)
        with during(WAIT):
            ready = self._poll.poll(None if seconds is None else seconds * 1000 + 1)
        if self._closing:
            raise closed_error()
        dead = False
        for fd, _ in ready:
            end = self._end_of_fd.get(fd)
            if end is None:
                dead = True
            elif not self._read(end):
                self._poll.unregister(fd)  # its other end is closed
        if self._arrived:
            return
        if dead or not ready:
            for end in self._ends:  # what a worker said before it died counts
                self._read(end)
            if not self._arrived:
                self._raise_if_workers_died(None)
                self._forget_ended_workers()
        if deadline is not None and not self._arrived and time.monotonic() >= deadline:
            raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds")

    def _forget_ended_workers(self) -> None:
        """A worker that has ended as it should makes no more noise."""
        for end in self._ends:
            if end.pidfd >= 0 and not end.process.is_alive():
                with contextlib.suppress(KeyError):
                    self._poll.unregister(end.pidfd)

    def _raise_if_workers_died(self, cause: Exception | None) -> None:
        failed = [
            i for i, worker in enumerate(self._workers) if self._workers_status[i] and not worker.is_alive()
        ]
        if not failed:
            return
        pids = ", ".join(str(self._workers[i].pid) for i in failed)
        if cause is None:  # torch's handler may know the signal
            try:
                torch._C._error_if_any_worker_fails()
            except RuntimeError as error:
                cause = error
        if self._turns is not None:
            self._turns.open()  # their tasks will never end
        for i in failed:
            self._board.end(i)
            self._mark_worker_as_unavailable(i)
        why = self._want_of_memory.sentence([self._workers[i] for i in failed])
        raise RuntimeError(f"DataLoader worker (pid(s) {pids}) exited unexpectedly{why}") from cause

    # ---------------------------------------------------------------- answers

    def _read(self, end: WorkerEnd) -> bool:
        """Takes all answers that wait in a worker's pipe; False when its other end is closed."""
        if end.answers.fd < 0:
            return False
        try:
            data = os.read(end.answers.fd, MOST_OUTSTANDING * MESSAGE.size)
        except BlockingIOError:
            return True
        for message in MESSAGE.iter_unpack(data):
            end.answered()
            self._accept(end, *message)
        if data:
            end.pump()
        return bool(data)

    def _accept(
        self,
        end: WorkerEnd,
        kind: int,
        slot: int,
        task: int,
        begin: int,
        length: int,
        reserved: int,
        samples: int,
        *_: int,
    ) -> None:
        ring = self._ring
        ring.set_reserved(slot, reserved)
        if kind in (channel.RESUMED, channel.ENDED, channel.DROPPED):
            worker = end.number
            state = _state(ring.get(slot, 0, length)) if length else None
            ring.give_back(slot)
            if kind == channel.RESUMED:
                self._progress.places.restarted(worker, state)
                self._arrived.append((_utils.worker._ResumeIteration(), None))
            elif kind == channel.ENDED:
                self._progress.places.has_ended(worker, state)
                self._arrived.append((task, _utils.worker._IterableDatasetStopIteration(worker)))
            return
        self._accepted += 1
        copy = ring.crowded(self._working_set)
        if self._locks_for is not None and not copy:
            self._lock_pages(slot)
        self._record.counters["overflow_slots"] += copy
        self._record.counters["bytes"] += begin
        errors, state, draws = [], None, None  # type: ignore[var-annotated]
        try:
            batch, errors, state, draws = self._batch(
                end, kind, ring.lease(slot), begin, length, samples, copy
            )
        except Exception:  # what torch's queue would raise from get()
            batch = ExceptionWrapper(where="while its batch was taken from a worker process")
        if self._pin_memory and not isinstance(batch, ExceptionWrapper):
            batch = self._pinned(batch)
        self._progress.places.arrived(end.number)
        self._arrived.append(
            (task, Answer(task, samples, errors, batch, _state(state) if state else None, draws))
        )

    def _on_their_way(self) -> int:
        """Batches that workers have answered and torch's logic has not seen."""
        return len(self._arrived) + self._board.made - self._accepted

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
    ) -> tuple[Any, list[dict[str, Any]], Any, Any]:
        """(batch, entries of the samples replaced in it, the worker's state as it was pickled, what was drawn
        before it)

        The slot is free again when nothing of the batch lies in it: at the end of this, or with the last
        tensor.
        """
        if kind != channel.ROWS:
            return (
                unpack_value(lease, begin, length, copy)
                if kind == channel.TREE
                else read_pickle(lease, begin, length)
            )
        description, objects, errors, state, draws = None, None, [], None, None
        if length:
            try:
                description, objects, errors, state, draws = read_pickle(lease, begin, length)
            except Exception:
                end.layout = None  # what was to replace it is lost
                raise
        if description is not None:
            end.layout = Layout(description)  # until the worker says otherwise: it answers in order
        return end.layout.batch(lease, samples, objects, copy), errors, state, draws

    def _pinned(self, batch: Any) -> Any:
        try:
            with during(COPY):
                return _utils.pin_memory.pin_memory(batch, self._pin_memory_device)
        except Exception:
            return ExceptionWrapper(
                where=f"in pin memory thread for device {torch.accelerator.current_device_index()}"
            )


def _state(data: bytes) -> Any:
    """A worker's; an error in reading it is one of state_dict(), not of a batch."""
    try:
        return pickle.loads(data)
    except Exception:
        return ExceptionWrapper(where="while the state of its dataset was taken from a worker process")
