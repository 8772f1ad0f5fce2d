"""ProcessEngine: Python datasets in worker processes, over pipes and a shared ring of batches.

No thread runs in the training process. How it ends: workers that do not end within 5 seconds are terminated,
and killed 5 seconds later; so are all when the interpreter ends. When this process is killed, they end
themselves (process_worker.py). Batches that live on keep their slots. close() beside a next() on another
thread (engine.py): next() holds `_seat`; a closing thread that cannot take it marks `_closing` and wakes the
consumer, which tears down on its way out. A dead worker: its earlier answers are used, then the consumer gets
torch's RuntimeError. Its unfinished slot is not accepted.
"""

from __future__ import annotations

import contextlib
import functools
import os
import select
import threading
import time
from multiprocessing.util import Finalize
from typing import Any

import torch
import torch.multiprocessing
from torch.utils.data import IterDataPipe, MapDataPipe

from ... import _core
from ..._common.batch_place import Place
from ..._common.torch_private import _sharding_worker_init_fn, _utils
from ..._history.stacks import stacks_of
from ..._profiling.stacks import prepare
from ..._profiling.stages import WAIT, WorkerCounters, during
from ..engine import Delivered, NeedsIndex, Setup, closed_error
from . import channel
from .channel import MESSAGE, Parcel, RingHandle
from .process_worker import WorkerSetup, run_worker
from .worker_end import (
    MOST_OUTSTANDING,
    SlotReader,
    Wake,
    WorkerEnd,
    end_workers,
    forget_deaths,
    is_stopped,
    preload,
    start,
    state_of_worker,
    want_of_memory,
)
from .workers import WorkerEngine

_LEAST_SLOTS = 256  # sparse: a slot that was never used costs nothing
_MOST_FILES = 8  # of the ring, each a descriptor in every worker
_NO_PIDFD_TICK_S = 0.1


class ProcessEngine(WorkerEngine):
    """Batches of a Python dataset, made by worker processes."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        workers = setup.threads
        self._seat, self._closing, self._wake = threading.RLock(), False, Wake()
        self._owner, self._closed, self._resuming = os.getpid(), False, False
        self.ends: list[WorkerEnd] = []
        self._working_set = self._depth + 2
        self.ring = _core.SharedRing(
            max(_LEAST_SLOTS, 4 * self._working_set), self._working_set, min(workers, _MOST_FILES)
        )
        self._clocks, self._accepted = WorkerCounters(self.ring, workers), 0
        turns = self.ring.take() if self._tunes_threads else -1
        self._turns = _core.TurnGate.on(self.ring, turns) if self._tunes_threads else None
        self.counters["slots"] = self._working_set
        self._kills_before = _core.memory_kills()[0]
        self._slots = SlotReader(self.ring, self._working_set, setup, self.counters)
        self.pins = True
        # Also called when the interpreter ends, before multiprocessing waits for its children; in this
        # process alone.
        self._end_workers = Finalize(None, end_workers, (id(self), self.workers), exitpriority=0)
        try:
            self._start(setup, turns)
        except BaseException:
            self.close()
            raise
        self._pids = [worker.pid for worker in self.workers]
        _utils.signal_handling._set_worker_pids(id(self), tuple(self._pids))
        _utils.signal_handling._set_SIGCHLD_handler()

    # ---------------------------------------------------------------- start and end

    def _start(self, setup: Setup, turns: int) -> None:
        self._poll = select.poll()
        self._poll.register(self._wake.fd, select.POLLIN)
        self._end_of_fd: dict[int, WorkerEnd] = {}
        if _core.StageClock.enabled:
            prepare()  # here, so that forked workers need not
        context = setup.loader.multiprocessing_context or torch.multiprocessing
        preload(context)
        common = self._common_to_workers(setup, turns)
        for worker in range(setup.threads):
            self._start_worker(context, common, worker)

    def _common_to_workers(self, setup: Setup, turns: int) -> dict[str, Any]:
        loader, progress = setup.loader, setup.progress
        init_fn = loader.worker_init_fn
        if isinstance(setup.dataset, (IterDataPipe, MapDataPipe)):
            init_fn = functools.partial(_sharding_worker_init_fn, init_fn, *setup.world)
        return {
            "dataset_kind": loader._dataset_kind,
            "dataset": setup.dataset,
            "auto_collation": loader._auto_collation,
            "collate_fn": loader.collate_fn,
            "drop_last": loader.drop_last,
            "base_seed": setup.base_seed,
            "began_in": progress.began_in,
            "worker_init_fn": init_fn,
            "num_workers": progress.workers_then or setup.threads,
            "shared_seed": setup.shared_seed,
            "on_error": setup.on_error,
            "ring": RingHandle(self.ring),
            "parent_pid": os.getpid(),
            "between_epochs": progress.between_epochs,
            "watches": progress.recorder is not None and not progress.streams and setup.prefix is None,
            "prefix": None if setup.prefix is None else setup.prefix.standing(setup),
            "draws": progress.draws,
            "pictures": loader.pictures != "pillow",
            "turns": turns,
        }

    def _start_worker(self, context: Any, common: dict[str, Any], worker: int) -> None:
        progress = self._progress
        tasks_out, tasks_in, answers_out, answers_in = channel.pipes()
        channel.parents_ends.update((tasks_in.fd, answers_out.fd))
        stacks = channel.new_stacks()
        setup = WorkerSetup(
            **common,
            worker_id=progress.worker_number(worker),
            tasks=tasks_out,
            answers=answers_in,
            state=progress.positions.state_of(worker),
            stacks=stacks,
            board=self._clocks.row_of(worker),
        )
        parcel = Parcel(setup)
        process = context.Process(target=run_worker, args=(parcel,))
        process.daemon = True
        try:
            start(process)
        except BaseException:
            channel.parents_ends.difference_update((tasks_in.fd, answers_out.fd))
            for unused in filter(None, (tasks_in, answers_out, stacks)):
                unused.close()
            raise
        finally:
            parcel.close()
            tasks_out.close()
            answers_in.close()
        end = WorkerEnd(self.ring, process, tasks_in, answers_out, worker, stacks)
        self.ends.append(end)
        self.workers.append(process)
        self._end_of_fd[end.answers.fd] = end
        if stacks is not None:
            channel.parents_ends.add(stacks.fd)  # from here on: this worker has its own
        self._poll.register(end.answers.fd, select.POLLIN)
        if end.pidfd >= 0:
            channel.parents_ends.add(end.pidfd)
            self._poll.register(end.pidfd, select.POLLIN)

    def close(self) -> None:
        if self._closed or os.getpid() != self._owner:
            return
        if _utils is None or _utils.python_exit_status is True or _utils.python_exit_status is None:
            return  # the interpreter ends: multiprocessing terminates its daemons
        if not self._seat.acquire(blocking=False):
            self._closing = True
            self._wake.ring()
            if not self._seat.acquire(timeout=_utils.MP_STATUS_CHECK_INTERVAL):
                return  # the consumer will, when it comes out of what it is in
        try:
            if not self._closed:
                self._tear_down()
        finally:
            self._seat.release()

    def _tear_down(self) -> None:
        self._closed = True
        if self._turns is not None:
            self._turns.close()
        # Of workers that end here, torch's handler of SIGCHLD says nothing: it would raise in any line below,
        # one that has just reaped a process and not noted it among them.
        forget_deaths(id(self))
        try:
            for end in self.ends:
                end.stop()
            for worker in self.workers:
                if not is_stopped(worker):
                    worker.join(timeout=_utils.MP_STATUS_CHECK_INTERVAL)
        finally:
            self._end_workers()
            for number in range(len(self.workers)):
                self._clocks.end(number)
            for end in self.ends:
                end.close()
            self._schedule.restart()
            self._wake.close()

    # ---------------------------------------------------------------- tasks

    def _send(self, worker: int, task: int, place: Place, index: Any, turn: int) -> None:
        if not self._closed:  # else another thread has closed the engine, and the pipes are gone
            wants_state = self._progress.wants_state(task)
            self.ends[worker].put(channel.TASK, task, (index, place), wants_state, turn)

    def _resume(self, shared_seed: int | None) -> None:
        self._resumed, self._resuming = 0, True
        try:
            self._raise_if_workers_died(self._ended_workers(), None)
            for end in self.ends:
                end.put(channel.RESUME, 0, shared_seed)
            while self._resumed < len(self.ends):
                self._receive(None, 0.0)
        finally:
            self._resuming = False

    def _dismiss(self, worker: int) -> None:
        self.ends[worker].stop()

    # ---------------------------------------------------------------- answers

    def next(self, timeout: float) -> Delivered | NeedsIndex | None:
        with self._seat:
            try:
                if self._closing or self._closed:
                    raise closed_error()
                return super().next(timeout)
            finally:
                if self._closing:
                    self.close()

    def _receive(self, deadline: float | None, timeout: float) -> None:
        try:
            self._wait(deadline, timeout)
        except Exception as error:  # torch's SIGCHLD handler raises here
            self._raise_if_workers_died(self._ended_workers(), error)
            raise

    def _wait(self, deadline: float | None, timeout: float) -> None:
        """Until something has arrived, a worker has died, or the time is over."""
        for end in self.ends:
            end.pump()
        if not any(end.outstanding for end in self.ends) and self.ring.free_slots == 0:
            raise RuntimeError(
                "all slots of the worker processes' ring hold batches that processes forked meanwhile may"
                " still read; end those processes, let them execute another program, or drop batches before"
                " forking"
            )
        seconds = None if deadline is None else max(0.0, deadline - time.monotonic())
        if any(end.pidfd < 0 for end in self.ends):
            seconds = _NO_PIDFD_TICK_S if seconds is None else min(seconds, _NO_PIDFD_TICK_S)
        with during(WAIT):
            ready = self._poll.poll(None if seconds is None else seconds * 1000 + 1)
        if self._closing:
            raise closed_error()
        heard, dead = 0, False
        for fd, _ in ready:
            speaker = self._end_of_fd.get(fd)
            if speaker is None:
                dead = True
            else:
                heard += self._read(speaker)
        if heard:
            return
        if dead or not ready:
            ended = self._ended_workers()
            heard = sum(self._read(end) for end in self.ends)  # what a worker said before it died counts
            if not heard:
                self._raise_if_workers_died(ended, None)
        if deadline is not None and not heard and time.monotonic() >= deadline:
            raise RuntimeError(f"DataLoader timed out after {timeout} seconds")

    def _ended_workers(self) -> list[WorkerEnd]:
        return [end for end in self.ends if end.has_ended()]

    def _raise_if_workers_died(self, ended: list[WorkerEnd], cause: Exception | None) -> None:
        """`ended`: workers that have ended, and what they said has been read. They may, if their part of a
        stream is over and no epoch is about to begin.
        """
        for end in (end for end in ended if end.pidfd >= 0):
            with contextlib.suppress(KeyError):
                self._poll.unregister(end.pidfd)  # else poll() would return at once from now on
        failed = [end.number for end in ended if self._resuming or self._schedule.active[end.number]]
        if not failed:
            return
        pids = ", ".join(str(self.workers[i].pid) for i in failed)
        if cause is None:  # torch's handler may know the signal
            try:
                torch._C._error_if_any_worker_fails()
            except RuntimeError as error:
                cause = error
        for i in failed:
            self._clocks.end(i)
            self._lost(i)
            self.ends[i].stop()
        why = want_of_memory(self._kills_before, [self.workers[i] for i in failed])
        raise RuntimeError(f"DataLoader worker (pid(s) {pids}) exited unexpectedly{why}") from cause

    def _read(self, end: WorkerEnd) -> int:
        """Takes all answers that wait in a worker's pipe, and says how many."""
        if end.answers.fd < 0:
            return 0
        try:
            data = os.read(end.answers.fd, MOST_OUTSTANDING * MESSAGE.size)
        except BlockingIOError:
            return 0
        if not data:  # its other end is closed
            with contextlib.suppress(KeyError):
                self._poll.unregister(end.answers.fd)
            return 0
        for message in MESSAGE.iter_unpack(data):
            end.answered()
            self._accept(end, *message)
        end.pump()
        return len(data) // MESSAGE.size

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
        ring, worker = self.ring, end.number
        ring.set_reserved(slot, reserved)
        if kind in (channel.RESUMED, channel.ENDED, channel.DROPPED):
            state = state_of_worker(ring.get(slot, 0, length)) if length else None
            ring.give_back(slot)
            if kind == channel.RESUMED:
                self._progress.positions.restarted(worker, state)
                self._resumed += 1
            elif kind == channel.ENDED:
                self._ended(worker, state)
            return
        self._accepted += 1
        answer = self._slots.answer(end, kind, slot, begin, length, samples)
        self._arrived(task, answer, worker)

    def _on_their_way(self) -> int:
        return self._clocks.made - self._accepted

    # ---------------------------------------------------------------- asked by others

    def rows(self) -> list[Any]:
        return self._clocks.rows(self._pids)

    def snapshot(self, stacks: bool) -> dict[str, Any]:
        ends = list(self.ends)
        found = stacks_of(ends) if stacks else [None] * len(ends)
        queue = {
            **self._queue(self._schedule.ready),
            "slots": self.ring.slots,
            "free_slots": self.ring.free_slots,
        }
        return {
            "workers": [{**end.snapshot(), "stack": stack} for end, stack in zip(ends, found)],
            "queue": queue,
        }
