"""The protocol of a core, which NativeEngine drives; and the queue of cores that are written in Python."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from ..._profiling.stages import WAIT, enter, note_ready


class Core(Protocol):
    """Index lists in, batches out, in their order.

    C++ loaders have all of this themselves. Cores in Python derive from this class and inherit its defaults.
    All calls but close(), set_limits(), snapshot(), stats() and clocks() come from the consumer's thread.
    """

    def start_epoch(self, seed: int, epoch: int) -> None:
        """Drop all outstanding batches and start an epoch."""

    def skip(self, indices: Any) -> None:
        """Count indices that came before, if an epoch begins in its middle and samples depend on how often
        their index came.
        """
        return None

    def submit(self, indices: Any) -> None:
        """One more batch to make. Its errors are those of the index list."""

    def end_epoch(self) -> None:
        """No more batches will be submitted."""
        return None

    def next(self, timeout: float = 0.0) -> Any:
        """The next batch, for the spec's collated(); None: there is none, or all is closed. Raises its error;
        or the spec's `late` after `timeout` seconds (0: none), and the batch is still to come.
        """

    @property
    def keys(self) -> Any:
        """The samples of the batch that next() gave last, where the spec leaves some out."""
        return None

    @property
    def set_limits(self) -> Callable[[int, int], None] | None:
        """Called with how many threads work, and how many batches may be in memory; None: fixed."""
        return None

    def close(self) -> None:
        """Close, from any thread at any moment: wake the thread inside next(), and wait until it has left."""

    def stats(self) -> dict[str, Any]:
        """The counters of DataLoader.stats()."""

    def snapshot(self) -> dict[str, Any]:
        """What its "threads" are doing, and its queue, for dump_state()."""

    def clocks(self) -> list[Any]:
        """StageClock.read() of each of its threads."""


class NotInTime(TimeoutError):
    """next() has waited for long enough; a dataset's own TimeoutError is another one."""


class Task:
    """One batch, of so many `samples`. `done`: it has its `value` or `error`, or nobody wants it any more.
    The queue's lock guards these three.
    """

    __slots__ = ("samples", "done", "value", "error")

    def __init__(self, samples: int) -> None:
        self.samples, self.done = samples, False
        self.value: Any = None
        self.error: BaseException | None = None


T = TypeVar("T", bound=Task)


class TaskQueue(Generic[T]):
    """Gives tasks in the order in which they were added, whichever thread answers them, and at any time.

    Invariants, under the one `lock`: `tasks` were added and not given, and `waiting` are those of them that
    no thread has begun, both in order; `ready` of `tasks` are done. A task is done once: its first answer
    counts, and none if its epoch was left. So each batch comes exactly once.
    Threads: the consumer alone calls restart(), add() and next(); any thread calls answer() and shut().
    Threads that make batches take tasks from `waiting`, and may wait for `work` to come.
    next() waits, on `finished`, until the first task is done, all is shut, or its time is over. After
    NotInTime, and after Ctrl-C, the task is still the first.
    Errors: a task's is raised in its place, and `failure`, which is no task's, in the place of the next one.
    Shut: what was added before is forgotten, all sleepers wake, and next() gives None from then on.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.finished, self.work = threading.Condition(self.lock), threading.Condition(self.lock)
        self.tasks: deque[T] = deque()
        self.waiting: deque[T] = deque()
        self.ready = self.duplicates = 0
        self.closed = False
        self.failure: BaseException | None = None
        self.counted = {"samples": 0, "batches": 0, "wait_seconds": 0.0}  # of what was given

    def restart(self) -> None:
        with self.lock:
            for task in self.tasks:
                task.done = True
            self.tasks.clear()
            self.waiting.clear()
            self.ready, self.failure = 0, None

    def add(self, task: T) -> None:
        with self.lock:
            self.tasks.append(task)
            self.waiting.append(task)
            self.work.notify()

    def answer(self, task: T, value: Any, error: BaseException | None = None) -> bool:
        """Whether it is the first answer to a task that is wanted."""
        with self.lock:
            if task.done:
                self.duplicates += 1
                return False
            task.value, task.error, task.done = value, error, True
            self.ready += 1
            if self.tasks and self.tasks[0] is task:  # next() waits for the first task alone
                self.finished.notify_all()
        return True

    def next(self, timeout: float = 0.0) -> tuple[Any] | None:
        """(value of the next task,), which is the caller's alone; None: there is no task, or all is shut.
        NotInTime after `timeout` seconds, if that is not 0.
        """
        began = time.monotonic()
        self._before()
        with self.lock:
            if not self.tasks:
                return None
            task = self.tasks[0]
            note_ready(self.ready)
            before = enter(WAIT)  # a range of torch's profiler already, by the iterator
            try:
                while not (task.done or self.closed):
                    left = began + timeout - time.monotonic() if timeout > 0 else None
                    if left is not None and left <= 0:
                        raise NotInTime("no batch was ready in time")
                    self._wait(task, left)
            finally:
                enter(before)
                waited = time.monotonic() - began
                self.counted["wait_seconds"] += waited
            if self.closed:
                return None
            self.tasks.popleft()
            self.ready -= 1
            self.work.notify()
            value, task.value = task.value, None  # others may hold the task
            error, task.error = task.error, None  # the error's traceback will hold this frame
            if error is None:
                error, self.failure = self.failure, None
            if error is None:
                self.counted["samples"] += task.samples
                self.counted["batches"] += 1
                self._given(task, waited)
                return (value,)
        try:
            raise error
        finally:
            del error

    def _before(self) -> None:
        """Called by next(), without the lock."""

    def _wait(self, task: T, seconds: float | None) -> None:
        """Returns at the latest when `task`, the first one, is done."""
        self.finished.wait(seconds)

    def _given(self, task: T, waited: float) -> None:
        """next() gives it, after so many seconds. Under the lock."""

    def shut(self) -> None:
        with self.lock:
            self.closed = True
            self.tasks.clear()
            self.waiting.clear()
            self.finished.notify_all()
            self.work.notify_all()
