"""RemoteCore: a core of NativeEngine; local threads and members of a pool make its batches.

Invariant, besides those of a TaskQueue: each task that was submitted and not delivered is done, or waits (in
`waiting`, `_own` or `_checks`), or is held by a local thread or a member's flight, which answers it or puts
it back. Any other task would never be delivered.

Threads: the consumer, in next(); `lanes` local threads, which make batches here; the courier (courier.py),
which sends tasks to members and takes their answers. The queue's lock guards all that they share; no thread
calls Ray or a maker while it holds the lock. A member has a few tasks at most, and there are no more tasks
than index lists drawn ahead: this bounds the memory.
"""

from __future__ import annotations

import bisect
import itertools
import statistics
import threading
import time
from collections import Counter, deque
from typing import Any

from ..._history.hashes import BatchHash
from ..engines.core import Core, Task, TaskQueue
from .courier import Courier, warn
from .maker import Maker, Work

_SLICE_S = 0.05  # a late member is noticed within this time
_JOIN_S = 5.0
CHECK_EVERY = 64
_LEAST_HEDGE_S, _HEDGE_TIMES = 0.5, 4.0  # a task is late after so many times the usual time


class RemoteTask(Task):
    __slots__ = ("number", "work", "sent", "own")

    def __init__(self, number: int, work: Work) -> None:
        super().__init__(len(work.rows))
        self.number, self.work = number, work
        self.sent: float | None = None  # when a member got it
        self.own = False  # it is to be made here

    def __lt__(self, other: RemoteTask) -> bool:
        return self.number < other.number


class RemoteCore(TaskQueue[RemoteTask], Core):
    """keys: of samples, from index lists (maker.py). pool: the members that help (courier.py). memory: of
    batches, as batch_memory() returns it.
    """

    keys: Any = None

    def __init__(self, maker: Maker, keys: Any, pool: Any, memory: str) -> None:
        super().__init__()
        self._maker, self._keys = maker, keys
        self.counts = {"local": 0, "again": 0, "hedged": 0, "checked": 0}
        self.took: deque[float] = deque(maxlen=64)
        self._own: deque[RemoteTask] = deque()
        self._checks: deque[tuple[RemoteTask, Any, Any]] = deque()  # (task, member, what it made)
        self._numbers = itertools.count()
        self._place = 0, 0
        self._repeats = True  # as far as is known, a batch that is made twice is the same
        self._courier = Courier(self, pool, maker.facts(), memory)
        self._threads = [
            threading.Thread(target=self._local, name=f"millrace local {lane}", daemon=True)
            for lane in range(maker.lanes)
        ]
        self._threads.append(threading.Thread(target=self._courier.run, name="millrace courier", daemon=True))
        for thread in self._threads:
            thread.start()

    # ---------------------------------------------------------------- the consumer

    def start_epoch(self, seed: int, epoch: int) -> None:
        with self.lock:
            self.restart()
            self._own.clear()
            self._checks.clear()
            self._place = seed, epoch
            self._keys.restart()

    def skip(self, indices: Any) -> None:
        self._keys.of(indices)

    def submit(self, indices: Any) -> None:
        task = RemoteTask(next(self._numbers), Work(self._place, *self._keys.of(indices)))
        with self.lock:
            self.add(task)
            self.work.notify_all()

    def _given(self, task: RemoteTask, waited: float) -> None:
        self.keys = task.work.rows, task.work.occurrences
        self._courier.delivered(waited)

    def _wait(self, task: RemoteTask, seconds: float | None) -> None:
        """Wait for a task. If a member has kept it for too long, it is made here, too."""
        usual = statistics.median(self.took) if self.took else 0.0
        late = time.monotonic() - max(_LEAST_HEDGE_S, _HEDGE_TIMES * usual)
        if task.sent is not None and task.sent < late and not task.own:
            self.counts["hedged"] += 1
            self.make_here(task)
        self.finished.wait(_SLICE_S)

    def close(self) -> None:
        self.shut()
        self._maker.close()
        until = time.monotonic() + _JOIN_S
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, until - time.monotonic()))

    # ---------------------------------------------------------------- tasks, for all threads

    def take(self, count: int) -> list[RemoteTask]:
        """Take up to `count` waiting tasks, for members that get them now."""
        with self.lock:
            tasks = [self.waiting.popleft() for _ in range(min(count, len(self.waiting)))]
            for task in tasks:
                task.sent = time.monotonic()
        return tasks

    def put_back(self, task: RemoteTask) -> None:
        with self.lock:
            if not task.done and not task.own:
                self.counts["again"] += 1
                task.sent = None
                bisect.insort(self.waiting, task)
                self.work.notify_all()

    def make_here(self, task: RemoteTask) -> None:
        with self.lock:
            if not task.done and not task.own:
                task.own = True
                self._own.append(task)
                self.work.notify_all()

    def check(self, task: RemoteTask, member: Any, made: Any) -> None:
        """Let a local thread compare the member's batch, and answer the task."""
        with self.lock:
            self._checks.append((task, member, made))
            self.work.notify_all()

    # ---------------------------------------------------------------- batches made here

    def _local(self) -> None:
        while True:
            with self.lock:
                while not (self.closed or self._checks or self._own or self.waiting):
                    self.work.wait()
                if self.closed:
                    return
                check = self._checks.popleft() if self._checks else None
                if check is None:
                    task = (self._own or self.waiting).popleft()
            if check is not None:
                self._check_guarded(*check)
            elif not task.done and self.answer(task, *self._made_here(task.work)):
                with self.lock:
                    self.counts["local"] += 1
            check = task = None  # type: ignore[assignment]  # they would hold a batch while this thread waits

    def _made_here(self, work: Work) -> tuple[Any, BaseException | None]:
        try:
            return self._maker.make(work), None
        except BaseException as error:  # whatever it is, no thread ends by it
            return None, error.with_traceback(None)  # a traceback would hold the frames of this thread

    def _check_guarded(self, task: RemoteTask, member: Any, made: Any) -> None:
        try:
            self._check(task, member, made)
        except BaseException as error:
            self._courier.expel(member, f"its batch cannot be compared with one made here ({error!r})")
            self.make_here(task)

    def _check(self, task: RemoteTask, member: Any, made: Any) -> None:
        """Compare rows of a member's batch with the same rows made here. If they differ, expel the member and
        make the batch again; unless rows made here twice differ, too: then no comparison can tell.
        """
        work, count = task.work, len(task.work.rows)
        if self._maker.rows_to_check is not None:
            count = min(self._maker.rows_to_check, count)
            occurrences = None if work.occurrences is None else work.occurrences[:count]
            work = Work(work.place, work.rows[:count], occurrences)
        here, error = self._made_here(work)
        with self.lock:
            self.counts["checked"] += 1
        if error is not None:  # the batch's own error, if it is made as a whole
            self.make_here(task)
            return
        some = made if count == len(task.work.rows) else self._maker.first(made, count)
        mine, theirs = BatchHash.of(here), BatchHash.of(some)
        difference = mine.difference(theirs)
        if difference is not None and self._repeats_here(work, mine):
            row = _first_row(mine, theirs, len(work.rows))
            # no sample is named if a field has other rows than the samples, as concatenated graphs have
            named = row < len(work.rows)
            what = f"sample {self._maker.name(work, row)}" if named else f"a batch ({difference})"
            self._courier.expel(member, f"{what} has other bytes there than here")
            self.make_here(task)
            return
        member.until_check = CHECK_EVERY
        self._courier.received(task, member, made)

    def _repeats_here(self, work: Work, mine: BatchHash) -> bool:
        if self._repeats:
            again, error = self._made_here(work)
            self._repeats = error is None and mine.difference(BatchHash.of(again)) is None
            if not self._repeats:
                warn(
                    f"sample {self._maker.name(work, 0)} or others of its batch are not the same when made"
                    " twice: they depend on more than their index and the generators of torch, random and"
                    " numpy. So batches depend on who makes them, and remote workers cannot be checked"
                )
        return self._repeats

    # ---------------------------------------------------------------- counters and snapshots

    def stats(self) -> dict[str, Any]:
        with self.lock:
            remote = {**self.counts, "duplicates": self.duplicates, **self._courier.stats()}
            return {**self._maker.stats(), **self.counted, "remote": remote}

    def clocks(self) -> list[Any]:
        return self._maker.clocks()

    def snapshot(self) -> dict[str, Any]:
        with self.lock:
            waiting = {"outstanding": len(self.tasks), "waiting": len(self.waiting)}
        return {**self._maker.snapshot(), **waiting}


def _first_row(mine: BatchHash, theirs: BatchHash, count: int) -> int:
    """The first of `count` rows that differs; `count` if it is not known. Rows of several sizes are fields,
    with their numbers at the end of their paths.
    """
    rows = [count]
    of_list = Counter(field.path.rpartition("[")[0] for field in mine.fields)
    for one, two in zip(mine.fields, theirs.fields):
        if len(one.rows) == len(two.rows) and not (one.rows != two.rows).any():
            continue
        before, _, number = one.path.rstrip("]").rpartition("[")
        if len(one.rows) == len(two.rows) == count:
            rows.append(int((one.rows != two.rows).nonzero()[0][0]))
        elif number.isdecimal() and of_list[before] == count:
            rows.append(int(number))
    return min(rows)
