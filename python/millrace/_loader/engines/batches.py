"""Whole batches of a BatchDataset, in order, made by Python threads that do native work."""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import _core
from ..._profiling.stages import COLLATE, IDLE, during, enter
from ...datasets.batches import BatchDataset, BatchMaker, MakerOptions
from ...errors import note
from ..engine import empty_counters
from .core import Core, NotInTime, Task, TaskQueue
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
    late = NotInTime

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
        return made[0]

    def lists_ahead(self, batch_size: int | None) -> int:
        """Index lists to have in the engine at once, beyond those that torch would have sent; 0: none."""
        return min(_MOST_LISTS_AHEAD, -(-self.rows_ahead // max(1, batch_size or 1)))


class _PoolTask(Task):
    __slots__ = ("ticket", "began", "thread")

    def __init__(self, ticket: Any, samples: int) -> None:
        super().__init__(samples)
        self.ticket = ticket
        self.began = 0.0  # time.monotonic()
        self.thread = ""  # that makes it


class _Shared(TaskQueue[_PoolTask]):
    """What the threads and the consumer share.

    Invariants, beside those of a TaskQueue: those of `tasks` that do not wait are claimed: made or being
    made, each by one thread. They are at most `slots`, so no more batches than that are in memory. A thread
    claims `at_once` that follow one another, but no more than are claimed already, and one: where the
    consumer waits, it waits for little. Threads with a number below `active` claim; the others sleep apart,
    on `parked`, until set_limits() wakes all of both, so that each looks anew on which side it is. At least
    one is active. A thread that finds nothing to claim reads ahead, one piece at a time, and sleeps when that
    has nothing to do either; every submit() and every batch that is handed out wakes the sleepers. Without
    threads, next() makes the batch.
    Errors: whatever the maker raises, of any type, reaches next(), and no thread ends by it. What make()
    raises is its batch's. What read_ahead() raises is a `failure`, and nothing is read ahead any more.
    Shutdown: threads end after what they are doing. The consumer's calls hold `seat`, so the maker is closed
    only when no call of it is under way.
    """

    def __init__(self, maker: BatchMaker, threads: int, slots: int, at_once: int) -> None:
        super().__init__()
        self.maker, self.threads, self.slots, self.at_once = maker, threads, slots, at_once
        self.parked = threading.Condition(self.lock)
        self.active = sys.maxsize
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
                tasks = [self.waiting.popleft() for _ in range(self._claimable())]
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
        claimed = len(self.tasks) - len(self.waiting)
        count = min(len(self.waiting), self.at_once, claimed + 1)
        return count if claimed + count <= self.slots else 0

    def _make(self, tasks: list[_PoolTask]) -> None:
        batches = None
        if len(tasks) > 1:
            began, thread = time.monotonic(), threading.current_thread().name
            for task in tasks:
                task.began, task.thread = began, thread
            try:
                batches = self.maker.make_several([task.ticket for task in tasks])
            except BaseException:  # one of them meets it again
                pass
        if batches is None:
            for task in tasks:
                self._make_one(task, BaseException)
        with self.lock:
            for task, batch in zip(tasks, batches or ()):
                self.answer(task, batch)
            self.work.notify()  # there may be more to read ahead now

    def _make_one(self, task: _PoolTask, kept: type[BaseException]) -> None:
        """Errors that are `kept` are raised where the batch would be delivered."""
        task.began, task.thread = time.monotonic(), threading.current_thread().name
        before, made, failed = enter(COLLATE), None, None
        try:
            made = self.maker.make(task.ticket)
        except kept as error:
            if kept is BaseException:
                note(error, f"raised while thread {task.thread} made a batch of {task.samples} samples")
            failed = error
        finally:
            enter(before)
        self.answer(task, made, failed)

    def _before(self) -> None:
        if self.threads:
            return
        with self.lock:
            task = self.tasks[0] if self.tasks else None
            if self.waiting and self.waiting[0] is task:
                self.waiting.popleft()
        if task is not None and not task.done:
            self._make_one(task, Exception)  # after Ctrl-C the batch is still to come

    def shut(self) -> None:
        if os.getpid() != self.pid:  # a forked child: a thread that is not there may hold the lock
            return
        with self.lock:
            super().shut()
            self.parked.notify_all()


_MOST_SECONDS = 10.0  # that close() waits


class BatchPool(Core):
    """Index lists in, batches out, in order; `threads` work ahead, or next() does it all.

    close() lets each thread end what it is doing and joins it, for some seconds; the other calls of the
    consumer do nothing from then on. Threads are daemons: an interpreter that goes without closing it does
    not wait for them.
    """

    def __init__(self, maker: BatchMaker, threads: int, slots: int, at_once: int = 1) -> None:
        self._shared = _Shared(maker, threads, slots, at_once)
        self._maker = maker
        self._clocks = [_core.StageClock() for _ in range(threads)]
        self._threads = [
            threading.Thread(target=self._shared.run, args=(i, clock), name=f"millrace-{i}", daemon=True)
            for i, clock in enumerate(self._clocks)
        ]
        for thread in self._threads:
            thread.start()
        self._closing = weakref.finalize(self, self._shared.shut)

    def start_epoch(self, seed: int, epoch: int) -> None:
        shared = self._shared
        with shared.seat:
            if not shared.closed:
                shared.restart()
                shared.reads_ahead = True
                self._maker.discard()

    def submit(self, indices: np.ndarray) -> None:
        shared = self._shared
        with shared.seat:
            if not shared.closed:
                shared.add(_PoolTask(self._maker.expect(indices), len(indices)))

    def next(self, timeout: float = 0.0) -> Any:
        with self._shared.seat:
            return self._shared.next(timeout)

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
        shared.shut()
        if shared.seat._is_owned():  # inside a call of this thread's own, under which nothing may go
            return
        with shared.seat:
            self._end(_MOST_SECONDS)

    def _end(self, seconds: float) -> None:
        """Waits for the threads, and then closes the maker: after `seconds` in a thread of its own, and at
        once where one of the pool's threads came here. The garbage collector calls close() wherever it runs,
        for example in a dataset's code that holds a lock which the others wait for.
        """
        deadline = time.monotonic() + seconds
        if (inside := threading.current_thread() in self._threads) is False:
            for thread in self._threads:
                thread.join(max(0.0, deadline - time.monotonic()))
        if inside or any(thread.is_alive() for thread in self._threads):
            threading.Thread(target=self._end, args=(threading.TIMEOUT_MAX / 2,), daemon=True).start()
        else:
            self._maker.close()

    def snapshot(self) -> dict[str, Any]:
        """As `_core.Loader.snapshot()`; "threads" are those that make a batch."""
        shared, now = self._shared, time.monotonic()
        with shared.lock:
            tasks, complete = list(shared.tasks), shared.ready
            claimed = len(tasks) - len(shared.waiting)
        busy = [
            {"doing": "make", "name": task.thread, "seconds": now - task.began, "samples": task.samples}
            for task in tasks[:claimed] if not task.done and task.began
        ]  # fmt: skip
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
        counters = {**empty_counters(), **self._shared.counted, "slots": self._shared.slots}
        return {**counters, "seconds": {**counters["seconds"], **self._maker.seconds()}}
