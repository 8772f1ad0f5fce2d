"""RemoteCore: a core of NativeEngine whose batches are made by local threads and by members of a pool.

Invariant: each task that was submitted and not delivered is answered, or waits (in `_waiting`, `_own` or
`_checks`), or is held by a local thread or a member's flight, which answers it or puts it back. A task of
which nothing of that holds would never come. Answers to tasks that are not in `_tasks` any more, or are
answered already, are dropped: this is what makes each batch come exactly once.

Threads: the consumer, in next(); `lanes` local ones, which make batches here; the courier (courier.py), which
sends tasks to members and takes their answers. One lock, `changed`, guards all that they share; nobody calls
Ray or a maker under it. A member has a few tasks at most, and no more tasks exist than index lists are drawn
ahead: so much is in memory, and no more.
"""

from __future__ import annotations

import heapq
import statistics
import threading
import time
from collections import Counter, deque
from typing import Any

from ..._history.hashes import BatchHash
from ..._profiling.stages import WAIT, during, note_ready
from ..engines.batches import Made, NotInTime
from .courier import Courier, warn
from .maker import Maker, Work

_SLICE_S = 0.05  # how long Ctrl-C may go unseen
_JOIN_S = 5.0
CHECK_EVERY = 64
_LEAST_HEDGE_S, _HEDGE_TIMES = 0.5, 4.0  # a task is late after so many times what tasks usually take


class Task:
    """One batch. Guarded by the core's lock."""

    __slots__ = ("number", "work", "answered", "answer", "sent", "own")

    def __init__(self, number: int, work: Work) -> None:
        self.number, self.work = number, work
        self.answered, self.answer = False, None
        self.sent: float | None = None  # when a member got it
        self.own = False  # it is to be made here

    def __lt__(self, other: Task) -> bool:
        return self.number < other.number


class Failed:
    """In the place of a batch."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        self.error = error.with_traceback(None)  # it would hold the frames of its thread


class RemoteCore:
    """keys: of samples, from index lists (maker.py). pool: who helps (courier.py). memory: of batches, as
    batch_memory() says.
    """

    mixes, late = False, NotInTime

    def __init__(self, maker: Maker, keys: Any, pool: Any, memory: str) -> None:
        self._maker, self._keys = maker, keys
        self.changed = threading.Condition()
        self.closed = False
        self.counts = {"local": 0, "again": 0, "hedged": 0, "duplicates": 0, "checked": 0}
        self.took: deque[float] = deque(maxlen=64)
        self._tasks: dict[int, Task] = {}
        self._waiting: list[Task] = []
        self._own: deque[Task] = deque()
        self._checks: deque[tuple[Task, Any, Any]] = deque()  # (task, member, what it made)
        self._submitted = self._wanted = 0
        self._place = 0, 0
        self.keys: Any = None
        self._samples = self._batches = 0
        self._waited = 0.0
        self._repeats = True  # a batch that is made twice is the same, as far as is known
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
        with self.changed:
            for waiting in (self._tasks, self._waiting, self._own, self._checks):
                waiting.clear()
            self._submitted = self._wanted = 0
            self._place = seed, epoch
            self._keys.restart()

    def skip(self, indices: Any) -> None:
        self._keys.of(indices)

    def submit(self, indices: Any) -> None:
        task = Task(self._submitted, Work(self._place, *self._keys.of(indices)))
        with self.changed:
            self._tasks[task.number] = task
            self._submitted += 1
            heapq.heappush(self._waiting, task)
            self.changed.notify_all()

    def end_epoch(self) -> None:
        """Nothing: who asks for a batch beyond the last task gets None."""

    def next(self, timeout: float = 0.0) -> Made | None:
        began = time.monotonic()
        with self.changed:
            note_ready(sum(task.answered for task in self._tasks.values()))
            try:
                with during(WAIT):
                    task = self._answered(began + timeout if timeout > 0 else None)
            finally:
                waited = time.monotonic() - began
                self._waited += waited
            if task is None:
                return None
            del self._tasks[task.number]
            self._wanted += 1
            work, answer, task.answer = task.work, task.answer, None
            if isinstance(answer, Failed):
                try:
                    raise answer.error
                finally:
                    del answer, task  # the error's traceback holds this frame
            self.keys = work.rows, work.occurrences
            self._batches += 1
            self._samples += len(work.rows)
            self._courier.delivered(waited)
            return Made(answer)

    def _answered(self, deadline: float | None) -> Task | None:
        """The next batch's task; None: no more, or closed. Under the lock."""
        while not self.closed and (task := self._tasks.get(self._wanted)) is not None:
            if task.answered:
                return task
            now = time.monotonic()
            if deadline is not None and now >= deadline:
                raise NotInTime
            self._hedge(task, now)
            self.changed.wait(_SLICE_S)
        return None

    def _hedge(self, task: Task, now: float) -> None:
        """What the consumer waits for, and a member keeps for long, is made here too."""
        if task.sent is None or task.own:
            return
        usual = statistics.median(self.took) if self.took else 0.0
        if now - task.sent > max(_LEAST_HEDGE_S, _HEDGE_TIMES * usual):
            self.counts["hedged"] += 1
            self.make_here(task)

    def close(self) -> None:
        with self.changed:
            self.closed = True
            self.changed.notify_all()
        self._maker.close()
        until = time.monotonic() + _JOIN_S
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, until - time.monotonic()))

    # ---------------------------------------------------------------- tasks, for all threads

    def take(self, count: int) -> list[Task]:
        """Up to `count` tasks that wait, for members that get them now."""
        with self.changed:
            tasks = [heapq.heappop(self._waiting) for _ in range(min(count, len(self._waiting)))]
            for task in tasks:
                task.sent = time.monotonic()
        return tasks

    def arrive(self, task: Task, answer: Any) -> bool:
        """Whether it was the first answer to the task."""
        with self.changed:
            if task.answered or self._tasks.get(task.number) is not task:
                self.counts["duplicates"] += 1
                return False
            task.answered, task.answer = True, answer
            self.changed.notify_all()
            return True

    def put_back(self, task: Task) -> None:
        with self.changed:
            if not task.answered and self._tasks.get(task.number) is task and not task.own:
                self.counts["again"] += 1
                task.sent = None
                heapq.heappush(self._waiting, task)
                self.changed.notify_all()

    def make_here(self, task: Task) -> None:
        with self.changed:
            if not task.own and self._tasks.get(task.number) is task:
                task.own = True
                self._own.append(task)
                self.changed.notify_all()

    def check(self, task: Task, member: Any, made: Any) -> None:
        """A local thread compares what the member made, and answers the task."""
        with self.changed:
            self._checks.append((task, member, made))
            self.changed.notify_all()

    # ---------------------------------------------------------------- batches made here

    def _local(self) -> None:
        while True:
            with self.changed:
                while not (self.closed or self._checks or self._own or self._waiting):
                    self.changed.wait()
                if self.closed:
                    return
                check = self._checks.popleft() if self._checks else None
                if check is None:
                    task = self._own.popleft() if self._own else heapq.heappop(self._waiting)
            if check is not None:
                self._check_guarded(*check)
            elif not task.answered and self.arrive(task, self._made_here(task.work)):
                with self.changed:
                    self.counts["local"] += 1
            check = task = None  # type: ignore[assignment]  # they would hold a batch while this thread waits

    def _made_here(self, work: Work) -> Any:
        try:
            return self._maker.make(work)
        except BaseException as error:  # whatever it is, no thread ends by it
            return Failed(error)

    def _check_guarded(self, task: Task, member: Any, made: Any) -> None:
        try:
            self._check(task, member, made)
        except BaseException as error:
            self._courier.expel(member, f"its batch cannot be compared with one made here ({error!r})")
            self.make_here(task)

    def _check(self, task: Task, member: Any, made: Any) -> None:
        """Compares rows of a member's batch with what is made of them here. Rows differ: it is expelled, and
        the batch is made again. Unless they differ here, too, from one time to the next: then nobody can
        tell.
        """
        work, count = task.work, len(task.work.rows)
        if self._maker.rows_to_check is not None:
            count = min(self._maker.rows_to_check, count)
            occurrences = None if work.occurrences is None else work.occurrences[:count]
            work = Work(work.place, work.rows[:count], occurrences)
        here = self._made_here(work)
        with self.changed:
            self.counts["checked"] += 1
        if isinstance(here, Failed):  # the batch's own error, if it is made as a whole
            self.make_here(task)
            return
        some = made if count == len(task.work.rows) else self._maker.first(made, count)
        mine, theirs = BatchHash.of(here), BatchHash.of(some)
        difference = mine.difference(theirs)
        if difference is not None and self._repeats_here(work, mine):
            row = _first_row(mine, theirs, len(work.rows))
            # where a field has other rows than the samples, as graphs that are concatenated, none is named
            named = row < len(work.rows)
            what = f"sample {self._maker.name(work, row)}" if named else f"a batch ({difference})"
            self._courier.expel(member, f"{what} has other bytes there than here")
            self.make_here(task)
            return
        member.until_check = CHECK_EVERY
        self._courier.received(task, member, made)

    def _repeats_here(self, work: Work, mine: BatchHash) -> bool:
        if self._repeats:
            again = self._made_here(work)
            self._repeats = not isinstance(again, Failed) and mine.difference(BatchHash.of(again)) is None
            if not self._repeats:
                warn(
                    f"sample {self._maker.name(work, 0)} or others of its batch are not the same when made"
                    " twice: they depend on more than their index and the generators of torch, random and"
                    " numpy. So batches depend on who makes them, and remote workers cannot be checked"
                )
        return self._repeats

    # ---------------------------------------------------------------- what is known of it

    def stats(self) -> dict[str, Any]:
        with self.changed:
            return {
                **self._maker.stats(),
                "samples": self._samples,
                "batches": self._batches,
                "wait_seconds": self._waited,
                "remote": {**self.counts, **self._courier.stats()},
            }

    def clocks(self) -> list[Any]:
        return self._maker.clocks()

    def snapshot(self) -> dict[str, Any]:
        with self.changed:
            waiting = {"outstanding": len(self._tasks), "waiting": len(self._waiting)}
        return {**self._maker.snapshot(), **waiting}


def _first_row(mine: BatchHash, theirs: BatchHash, count: int) -> int:
    """The first of `count` rows that differs; `count` where none is known. Rows of several sizes are fields,
    numbered at the end of their paths.
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
