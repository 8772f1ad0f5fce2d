"""WorkerEngine: shared part of engines with workers that run the user's Python: order, limits, backfill.

The schedule says which worker gets which list. Lists wait here until a worker may have them: each as soon as
its number is less than `ahead` above that of the batch which the consumer wants, so no more batches are made
or ready. How many workers are at work at a time is decided where they are, so that none waits for the
consumer: with `turns`, each task has the next turn, which its worker waits for (src/core/turn_gate.h).
Batches depend on neither.

The schedule has the rules of torch's loader. Lists go to the workers in turn; batches come back in the order
of their lists, or with `in_order=False` as they arrive. A worker gets nothing more after its part of a stream
has ended, and its remaining lists are passed over. Nothing in it waits, starts or ends anything, so it
is tested by itself, against torch.
"""

from __future__ import annotations

import abc
import time
from collections import deque
from collections.abc import Collection
from typing import Any, NamedTuple

from ... import _core
from ..._common.batch_place import Place
from ..._common.torch_private import ExceptionWrapper
from ..._profiling.stages import note_ready
from ...errors import CorruptDataError
from ..engine import Counting, Delivered, NeedsIndex, Setup, add_errors, empty_counters
from .backfill import Backfill, Positions
from .epoch_keys import Marked, recorded_rows

WAIT, END = object(), object()


class Schedule:
    """`most`: index lists that may be out at a time, of all `workers` together."""

    def __init__(self, workers: int, in_order: bool, most: int) -> None:
        self._workers, self._in_order, self._most = workers, in_order, most
        self.restart()

    def restart(self, first: int = 0, ended: Collection[int] = ()) -> None:
        """A new epoch; `first`: the worker of its first list; `ended`: workers that have nothing more."""
        self.active = [worker not in ended for worker in range(self._workers)]
        self.sent = self.wanted = 0  # lists that were assigned; the oldest that may still be delivered
        self._next = first % self._workers
        self._worker_of: dict[int, int] = {}  # tasks not delivered
        self._loads = [0] * self._workers
        self._arrived: dict[int, Any] = {}  # tasks made and not delivered

    def assign(self) -> tuple[int, int] | None:
        """(number of the task, worker) of the next index list; None: nobody takes it."""
        for _ in range(self._workers):
            worker, self._next = self._next, (self._next + 1) % self._workers
            if self.active[worker] and (
                self._in_order or self._loads[worker] < self._most // sum(self.active)
            ):
                break
        else:
            return None
        task, self.sent = self.sent, self.sent + 1
        self._worker_of[task] = worker
        self._loads[worker] += 1
        return task, worker

    def arrive(self, task: int, answer: Any) -> None:
        self._arrived[task] = answer

    def take(self) -> Any:
        """(task, worker, answer) of the batch to deliver next; WAIT: it has not arrived; END: none is
        left.
        """
        while self.wanted < self.sent:
            worker = self._worker_of.get(self.wanted)
            if worker is not None and (self.wanted in self._arrived or self.active[worker]):
                break
            self._worker_of.pop(self.wanted, None)
            self.wanted += 1
        else:
            return END
        task = self.wanted if self._in_order else next(iter(self._arrived), self.wanted)
        if task not in self._arrived:
            return WAIT
        worker = self._worker_of.pop(task)
        self._loads[worker] -= 1
        self.wanted += task == self.wanted
        return task, worker, self._arrived.pop(task)

    @property
    def outstanding(self) -> int:
        """Tasks that workers have not answered."""
        return len(self._worker_of) - len(self._arrived)

    @property
    def ready(self) -> int:
        """Batches that have arrived and wait to be delivered."""
        return len(self._arrived)


_EVERYBODY = 1 << 20  # more workers than there ever are


class Answer(NamedTuple):
    """What a worker made of one task."""

    samples: int
    errors: list[dict[str, Any]]  # of samples that on_error replaced
    batch: Any
    state: Any  # of the worker's dataset after it, or None
    draws: Any = None  # of its generators before it, as history/draws.py has them


class WorkerEngine(Counting, abc.ABC):
    """Derived classes say how tasks go out and answers come back, at the end of the class."""

    lists_ahead = 0
    fetcher: Any = None
    pins = False

    def __init__(self, setup: Setup) -> None:
        loader = setup.loader
        self.workers: list[Any] = []
        self._progress, self.counters = setup.progress, empty_counters()
        self._persistent = setup.progress.keeps_workers
        self._depth = loader.prefetch_factor * setup.threads
        self._schedule = Schedule(setup.threads, loader.in_order, self._depth)
        tuning = setup.record.tuning
        self._tunes_threads = tuning is not None and tuning.room.tunes_threads
        self._turns: _core.TurnGate | None = None
        self._turn = 0  # of the next task
        self._ahead = 1 if tuning is not None else _EVERYBODY
        self._held: deque[tuple[int, int, Any]] = deque()  # tasks that no worker has yet
        self._lists: list[Any] = []
        self._positions: Any = None  # Positions, with on_error="skip"
        self._least = loader.batch_size if loader.drop_last else 1
        self._backfill: Backfill | None = None
        self._refetched: Answer | None = None
        self._needs_index = 0  # workers with ended parts: for each of them another list goes out
        self._epochs = 0
        self._drains = setup.on_error == "skip"
        self._repeats = None if setup.prefix is None else setup.prefix.repeats
        self._marked: dict[int, Any] = {}  # lists with indices that came before, by task

    @property
    def outstanding(self) -> int:
        return self._schedule.outstanding

    # ---------------------------------------------------------------- index lists

    def start_epoch(self, seed: int, epoch: int, shared_seed: int | None = None) -> None:
        positions = self._progress.positions
        if self._epochs:
            while self._held:  # workers do what they would have done without limits
                task, worker, index = self._held.popleft()
                self._out(worker, task, index)
            # what they answer before that they have begun is of the epoch that was left
            self._resume(shared_seed)
        self._schedule.restart(positions.last + 1, positions.ended)
        self._lists, self._positions, self._backfill, self._refetched = [], None, None, None
        self._needs_index = 0
        self._marked.clear()
        if self._repeats is not None:
            self._repeats.restart(self._progress.indices_before())
        self._progress.starts(shared_seed if self._epochs else None)
        self._epochs += 1

    def submit(self, index: Any) -> None:
        if self._repeats is not None:
            index = self._repeats.of(index)
        if self._drains:
            self._lists.append(index)
        elif (assigned := self._schedule.assign()) is not None:
            if type(index) is Marked:
                self._marked[assigned[0]] = index
            self._held.append((*assigned, index))
            self._pump()

    def end_epoch(self) -> None:
        self._positions = Positions(self._lists)
        for _ in range(self._depth):
            self._assign_next()

    def _assign_next(self) -> None:
        if (index := next(self._positions, None)) is not None and (assigned := self._schedule.assign()):
            self._held.append((*assigned, index))
            self._pump()

    def _pump(self) -> None:
        """Tasks go out in order, each as soon as it may."""
        while self._held and self._held[0][0] < self._schedule.wanted + self._ahead:
            task, worker, index = self._held.popleft()
            if self._schedule.active[worker]:
                self._out(worker, task, index)

    def _out(self, worker: int, task: int, index: Any) -> None:
        turn = -1
        if self._turns is not None:
            turn, self._turn = self._turn, self._turn + 1
        self._send(worker, task, self._progress.place_of(task), index, turn)

    def set_limits(self, threads: int, slots: int) -> None:
        """With all workers at work none waits for a turn; the consumer's batch is not one ahead."""
        if threads < 1 or slots < 2:
            raise ValueError(f"at least one thread and two slots, got {threads} and {slots}")
        if self._turns is not None:
            self._turns.set_limit(threads if threads < len(self._schedule.active) else _EVERYBODY)
        self._ahead = slots - 1
        self._pump()

    # ---------------------------------------------------------------- batches

    def next(self, timeout: float) -> Delivered | NeedsIndex | None:
        began = time.perf_counter()
        deadline = time.monotonic() + timeout if timeout > 0 else None
        self._pump()
        note_ready(self._schedule.ready + self._on_their_way())
        try:
            while True:
                delivered = self._deliverable()
                if delivered is not WAIT:
                    return delivered
                self._receive(deadline, timeout)
        finally:
            self.counters["wait_seconds"] += time.perf_counter() - began

    def _deliverable(self) -> Any:
        """What next() returns, or WAIT."""
        while True:
            if self._needs_index:
                self._needs_index -= 1
                return NeedsIndex()
            backfill = self._backfill
            if backfill is None:
                taken = self._schedule.take()
                if taken is WAIT:
                    return WAIT
                if taken is END:
                    return None
                task, worker, answer = taken
                self._pump()
                if self._positions is None:
                    return self._delivered(answer, task, worker)
                backfill = self._backfill = Backfill(self._positions, task, worker)
            elif not self._schedule.active[backfill.worker]:  # it has died, and its batch is lost
                backfill.give_up()
                self._backfill = None
                continue
            else:
                answer, self._refetched = self._refetched, None
                if answer is None:
                    return WAIT
            if (delivered := self._backfilled(backfill, answer)) is not None:
                return delivered

    def _backfilled(self, backfill: Backfill, answer: Answer) -> Any:
        """The batch if it is whole; WAIT if it is fetched again; None if nothing is left of it."""
        errors: list[dict[str, Any]] = []
        unfinished = backfill.is_unfinished(answer.batch, errors)
        add_errors(self.counters, errors)
        if unfinished:
            self._out(backfill.worker, backfill.number, list(backfill.rows))
            return WAIT
        self._backfill, rows = None, list(backfill.rows)
        self._assign_next()
        try:
            count = backfill.end()
        except CorruptDataError as error:
            return Delivered(None, error=error, number=backfill.number, worker=backfill.worker)
        if count == 0 or (count < self._least and not isinstance(answer.batch, ExceptionWrapper)):
            return None
        return self._delivered(answer, backfill.number, backfill.worker, recorded_rows(rows))

    def _delivered(self, answer: Answer, task: int, worker: int, rows: Any = None) -> Delivered:
        if self._positions is None:
            add_errors(self.counters, answer.errors)
            rows = self._marked.pop(task, None)
        self.counters["samples"] += answer.samples
        delivered = Delivered(answer.batch, None, task, worker, answer.state, rows, answer.draws)
        if isinstance(answer.batch, ExceptionWrapper):
            delivered.finish = ExceptionWrapper.reraise
        else:
            self.counters["batches"] += 1
        return delivered

    # ---------------------------------------------------------------- what workers say

    def _arrived(self, task: int, answer: Answer, worker: int) -> None:
        self._progress.positions.arrived(worker)
        if self._backfill is not None and task == self._backfill.number:
            self._refetched = answer
        else:
            self._schedule.arrive(task, answer)

    def _ended(self, worker: int, state: Any) -> None:
        """Its part of a stream is used up."""
        self._progress.positions.has_ended(worker, state)
        self._schedule.active[worker] = False
        if not self._persistent:
            self._dismiss(worker)
        self._needs_index += 1

    def _lost(self, worker: int) -> None:
        """It died."""
        if self._turns is not None:
            self._turns.open()  # its task will never end
        self._schedule.active[worker] = False

    @abc.abstractmethod
    def _send(self, worker: int, task: int, place: Place, index: Any, turn: int) -> None:
        """Gives a worker a task; `place`: of its batch; `turn`: which one it waits for, or -1."""

    @abc.abstractmethod
    def _receive(self, deadline: float | None, timeout: float) -> Any:
        """Waits for what workers say. RuntimeError after the deadline, and when one has died."""

    @abc.abstractmethod
    def _resume(self, shared_seed: int | None) -> None:
        """Tells all workers that a new epoch begins, and waits until they are there."""

    @abc.abstractmethod
    def _dismiss(self, worker: int) -> None:
        """Its part of a stream has ended, and it is not needed any more."""

    @abc.abstractmethod
    def _on_their_way(self) -> int:
        """Batches that workers have made and that were not received."""

    def _queue(self, arrived: int) -> dict[str, Any]:
        """Of snapshot()."""
        schedule = self._schedule
        return {"outstanding": schedule.outstanding, "arrived": arrived, "next_task": schedule.wanted}
