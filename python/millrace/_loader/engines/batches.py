"""Whole batches of a BatchDataset, made by Python threads whose work is native, in order."""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from ... import _core
from ..._profiling.stages import COLLATE, IDLE, WAIT, during, enter, note_ready
from ...datasets.batches import BatchDataset, BatchMaker, MakerOptions
from ...errors import note
from ..engine import closed_error, empty_counters
from .native import NativeSpec

_MOST_LISTS_AHEAD = 32768


@dataclass(frozen=True)
class BatchSource:
    """A recognised dataset: the one that makes batches, and int64 maps from the loader's indices to its own,
    outermost first.
    """

    dataset: BatchDataset
    index_maps: tuple[np.ndarray, ...]
    length: int

    @property
    def name(self) -> str:
        return "Subset of " * len(self.index_maps) + type(self.dataset).__name__


@dataclass(frozen=True)
class BatchSpec(NativeSpec):
    """Whole batches of a dataset that makes them."""

    source: BatchSource
    collate: Callable[[list], Any] | None
    rows_ahead: int
    shares_batches = False

    def usual_slots(self, threads: int, batch_size: int | None) -> int:
        return threads * self._at_once(threads, batch_size) + 2

    def _at_once(self, threads: int, batch_size: int | None) -> int:
        return self.source.dataset.batches_at_once(batch_size or 1) if threads and self.collate is None else 1

    def core(
        self, threads: int, batch_size: int | None, on_error: str, drop_last: bool, memory: str
    ) -> BatchPool:
        dataset, slots = self.source.dataset, self.usual_slots(threads, batch_size)
        maker = dataset.batch_maker(MakerOptions(threads, slots + 1, memory, self.collate))
        return BatchPool(maker, threads, slots, self._at_once(threads, batch_size))

    def rows(self, batch: Any) -> np.ndarray:
        """The dataset's indices of one index list of the sampler; IndexError and TypeError as a list's."""
        source = self.source
        if not source.index_maps:
            return source.dataset.checked_indices(batch)
        rows = np.asarray(batch)
        for indices in source.index_maps:
            rows = indices[rows]
        return rows

    def collated(self, made: Any) -> Any:
        return made.value

    def lists_ahead(self, batch_size: int | None) -> int:
        """Index lists to have in the engine at once, beyond those that torch would have sent; 0: none."""
        return min(_MOST_LISTS_AHEAD, -(-self.rows_ahead // max(1, batch_size or 1)))


class _Task:
    __slots__ = ("samples", "ticket", "done", "batch", "error", "began", "thread")

    def __init__(self, ticket: Any, samples: int) -> None:
        self.ticket, self.samples = ticket, samples
        self.done = False
        self.began = 0.0  # time.monotonic()
        self.thread = ""  # that makes it
        self.batch: Any = None
        self.error: BaseException | None = None


class _Shared:
    """What the threads and the consumer share.

    Invariants, under the one lock: `tasks` are the outstanding batches in the order of submit(); the first
    `claimed` of them are made or being made, each by one thread, the others untouched; `claimed` is at most
    `slots`, so no more batches than that are in memory. A thread claims `at_once` that follow one another,
    but no more than are claimed already, and one: where the consumer waits, it waits for little. A task's
    batch and error are written by its thread before `done`, which is set under the lock. Threads with a
    number below `active` claim; the others sleep apart, on `parked`, until set_limits() wakes all of both, so
    that each looks anew on which side it is. At least one is active. A thread that finds nothing to claim
    reads ahead, one piece at a time, and sleeps when that has nothing to do either; every submit() and every
    batch that is handed out wakes the sleepers. Errors: whatever the maker raises, of any type, reaches
    next(), and no thread ends by it. What make() raises is its batch's; what read_ahead() raises, which
    belongs to no batch, takes the place of the next one (`failure`), and nothing is read ahead any more.
    Shutdown: `closed` is set under the lock, and everybody is woken; threads end after what they are doing,
        a waiting consumer comes out. The consumer's calls hold `seat`, so the maker is closed only when no
        call of it is under way.
    """

    def __init__(self, maker: BatchMaker, slots: int, at_once: int) -> None:
        self.maker, self.slots, self.at_once = maker, slots, at_once
        self.lock = threading.Lock()
        self.work = threading.Condition(self.lock)
        self.finished = threading.Condition(self.lock)
        self.parked = threading.Condition(self.lock)
        self.active = sys.maxsize
        self.tasks: deque[_Task] = deque()
        self.claimed = 0
        self.closed = False
        self.failure: BaseException | None = None
        self.reads_ahead = True
        self.seat: Any = threading.RLock()
        self.pid = os.getpid()

    def run(self, number: int, clock: _core.StageClock) -> None:
        clock.attach(COLLATE)
        try:
            self._work(number)
        finally:
            clock.end()
            clock.detach()

    def _work(self, number: int) -> None:
        while True:
            with self.lock:
                while number >= self.active and not self.closed:
                    with during(IDLE):
                        self.parked.wait()
                if self.closed:
                    return
                tasks = self._claim()
            if tasks:
                self._make(tasks)
            elif not self._reads_ahead():
                with self.lock:
                    if not self.closed and not self._claimable() and number < self.active:
                        with during(IDLE):
                            self.work.wait()

    def _reads_ahead(self) -> bool:
        try:
            if not self.reads_ahead or not self.maker.read_ahead():
                return False
        except BaseException as error:
            note(error, f"raised while thread {threading.current_thread().name} read ahead")
            with self.lock:
                self.failure, self.reads_ahead = self.failure or error, False
            return False
        with self.lock:
            self.work.notify()  # there may be more to read ahead now, or a batch that waited for this
        return True

    def _claimable(self) -> int:
        """How many batches a thread may claim now. None while there are slots for some of them only."""
        count = min(len(self.tasks) - self.claimed, self.at_once, self.claimed + 1)
        return count if self.claimed + count <= self.slots else 0

    def _claim(self) -> list[_Task]:
        first, self.claimed = self.claimed, self.claimed + self._claimable()
        return [self.tasks[number] for number in range(first, self.claimed)]

    def _make(self, tasks: list[_Task]) -> None:
        if len(tasks) > 1:
            began, thread = time.monotonic(), threading.current_thread().name
            for task in tasks:
                task.began, task.thread = began, thread
            try:
                batches = self.maker.make_several([task.ticket for task in tasks])
            except BaseException:  # one of them meets it again
                pass
            else:
                for task, batch in zip(tasks, batches):
                    task.batch = batch
                self._finish(tasks)
                return
        for task in tasks:
            self.make(task, BaseException)

    def make(self, task: _Task, kept: type[BaseException]) -> None:
        """Errors that are `kept` are raised where the batch would be delivered."""
        task.began, task.thread = time.monotonic(), threading.current_thread().name
        before = enter(COLLATE)
        try:
            task.batch = self.maker.make(task.ticket)
        except kept as error:
            if kept is BaseException:
                note(error, f"raised while thread {task.thread} made a batch of {task.samples} samples")
            task.error = error
        finally:
            enter(before)
        self._finish([task])

    def _finish(self, tasks: list[_Task]) -> None:
        with self.lock:
            for task in tasks:
                task.done = True
            self.finished.notify_all()
            self.work.notify()


class NotInTime(TimeoutError):
    """next() has waited for long enough; a dataset's own TimeoutError is another one."""


class BatchPool:
    """Index lists in, batches out, in order; `threads` work ahead, or next() does it all.

    submit(), next() and start_epoch() belong to one thread at a time, the consumer's; close() may come from
    any, at any moment. It lets each thread end what it is doing and joins it; the consumer's raise
    UnavailableError from then on, also the one that waits. Threads are daemons: an interpreter that goes
    without closing it does not wait for them.
    """

    late = NotInTime

    def __init__(self, maker: BatchMaker, threads: int, slots: int, at_once: int = 1) -> None:
        self._shared = _Shared(maker, slots, at_once)
        self._maker = maker
        self._counters = empty_counters()
        self._clocks = [_core.StageClock() for _ in range(threads)]
        self._threads = [
            threading.Thread(target=self._shared.run, args=(i, clock), name=f"millrace-{i}", daemon=True)
            for i, clock in enumerate(self._clocks)
        ]
        for thread in self._threads:
            thread.start()
        self._closing = weakref.finalize(self, _end, self._shared)

    def start_epoch(self, seed: int, epoch: int) -> None:
        """Throws away what is outstanding."""
        shared = self._shared
        with shared.seat:
            self._check_open()
            with shared.lock:
                shared.tasks = deque()
                shared.claimed, shared.failure, shared.reads_ahead = 0, None, True
            self._maker.discard()

    def submit(self, indices: np.ndarray) -> None:
        shared = self._shared
        with shared.seat:
            self._check_open()
            task = _Task(self._maker.expect(indices), len(indices))
            with shared.lock:
                if not shared.closed:
                    shared.tasks.append(task)
                    shared.work.notify()

    def _check_open(self) -> None:
        if self._shared.closed:
            raise closed_error()

    def end_epoch(self) -> None:
        """Nothing: batches depend on no other batch."""

    def next(self, timeout: float = 0.0) -> Any:
        """The next batch; None when nothing is outstanding. TimeoutError after `timeout` seconds, and it is
        still to come.
        """
        with self._shared.seat:
            self._check_open()
            return self._next(timeout)

    def _next(self, timeout: float) -> Any:
        shared, started = self._shared, time.perf_counter()
        tasks = shared.tasks  # close() puts others in their place
        if not tasks:
            return None
        task = tasks[0]
        note_ready(sum(made.done for made in islice(tasks, shared.claimed)))
        if not self._threads:
            if not task.done:
                shared.claimed = 1
                shared.make(task, Exception)  # after Ctrl-C the batch is still to come
        else:
            before = enter(WAIT)  # a range of torch's profiler already, by the iterator
            try:
                with shared.lock:
                    if not shared.finished.wait_for(
                        lambda: task.done or shared.closed, timeout if timeout > 0 else None
                    ):
                        raise NotInTime("no batch was ready in time")
            finally:
                enter(before)
        with shared.lock:
            if shared.closed:
                raise closed_error()
            shared.tasks.popleft()
            shared.claimed -= 1
            shared.work.notify()
            error = task.error
            if error is None:
                error, shared.failure = shared.failure, None
        self._counters["wait_seconds"] += time.perf_counter() - started
        if error is not None:
            try:
                raise error
            finally:
                del task, error  # its traceback holds this frame
        self._counters["samples"] += task.samples
        self._counters["batches"] += 1
        return Made(task.batch)

    def set_limits(self, threads: int, slots: int) -> None:
        """How many threads work, and how many batches may be in memory, from now on; at least 1 each. Batches
        stay the same.
        """
        if threads < 1 or slots < 1:
            raise ValueError(f"at least one thread and one slot, got {threads} and {slots}")
        shared = self._shared
        with shared.lock:
            shared.active, shared.slots = threads, slots
            shared.work.notify_all()
            shared.parked.notify_all()

    def close(self) -> None:
        shared = self._shared
        _end(shared)
        if shared.seat._is_owned():  # inside a call of this thread's own, under which nothing may go
            return
        with shared.seat:
            for thread in self._threads:
                if thread is not threading.current_thread():
                    thread.join()
            self._threads = []
            self._maker.close()

    def snapshot(self) -> dict[str, Any]:
        """What it is doing, as `_core.Loader.snapshot()` says it; "threads" are those that make a batch. Any
        thread.
        """
        shared, now = self._shared, time.monotonic()
        with shared.lock:
            tasks, claimed = list(shared.tasks), shared.claimed
        busy = [
            {"doing": "make", "name": task.thread, "seconds": now - task.began, "samples": task.samples}
            for task in tasks[:claimed] if not task.done and task.began
        ]  # fmt: skip
        complete = sum(task.done for task in tasks)
        return {
            "threads": busy,
            "outstanding": len(tasks),
            "claimed": claimed,
            "complete": complete,
            "slots": shared.slots,
        }

    def clocks(self) -> list[Any]:
        return [clock.read() for clock in self._clocks]

    def stats(self) -> dict[str, Any]:
        seconds = {**self._counters["seconds"], **self._maker.seconds()}
        return {**self._counters, "seconds": seconds, "slots": self._shared.slots, "errors": [], "bytes": 0}


class Made:
    """Around a batch, which may be None or empty, so that no batch looks like the end."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def _end(shared: _Shared) -> None:
    if os.getpid() != shared.pid:  # a forked child: a thread that is not there may hold the lock
        return
    with shared.lock:
        shared.closed = True
        shared.tasks = deque()
        shared.claimed = 0
        shared.work.notify_all()
        shared.parked.notify_all()
        shared.finished.notify_all()
