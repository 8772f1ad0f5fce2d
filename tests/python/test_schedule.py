"""Which worker gets which list and whose batch comes next: torch's own code decides what is right."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from millrace import _core
from millrace._loader.engines.workers import END, WAIT, Schedule
from simulated_engine import SimulatedEngine, drained, setup_of
from torch.utils.data import _utils
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter


class Torchs(_MultiProcessingDataLoaderIter):
    """torch's iterator over queues in place of processes."""

    def __init__(self, workers, prefetch, in_order, count, seed, shares):
        self._num_workers, self._prefetch_factor, self._in_order = workers, prefetch, in_order
        self._dataset_kind, self._persistent_workers = int(shares is not None), False
        self._workers_status, self._workers_num_tasks = [True] * workers, [0] * workers
        self._worker_queue_idx_cycle = itertools.cycle(range(workers))
        self._send_idx = self._rcvd_idx = self._tasks_outstanding = 0
        self._task_info, self._shutdown = {}, False
        self._lists = iter(range(count))
        self._index_queues = [self.Queue() for _ in range(workers)]
        self._random, self._shares = random.Random(seed), shares and list(shares)
        for _ in range(prefetch * workers):
            self._try_put_index()

    class Queue(list):
        put = list.append

    def _next_index(self):
        return next(self._lists)

    def _get_data(self):
        worker = self._random.choice([n for n, queue in enumerate(self._index_queues) if queue])
        task, index = self._index_queues[worker].pop(0)
        if self._shares is not None:
            if self._shares[worker] == 0:
                self._index_queues[worker].clear()
                return task, _utils.worker._IterableDatasetStopIteration(worker)
            self._shares[worker] -= 1
        return task, (worker, index)

    def _mark_worker_as_unavailable(self, worker_id, shutdown=False):
        self._workers_status[worker_id] = False

    def _shutdown_workers(self):
        pass

    def __del__(self):
        pass

    def all(self):
        found = []
        while True:
            try:
                found.append(self._next_data())
            except StopIteration:
                return found


@settings(derandomize=True, deadline=None, max_examples=300)
@given(
    workers=st.integers(1, 5),
    prefetch=st.integers(1, 4),
    in_order=st.booleans(),
    count=st.integers(0, 40),
    seed=st.integers(0, 10**6),
    ends=st.booleans(),
)
def test_order_and_workers_are_torchs(workers, prefetch, in_order, count, seed, ends):
    draw = random.Random(seed)
    shares = [draw.randrange(8) for _ in range(workers)] if ends else None
    expected = Torchs(workers, prefetch, in_order, count, seed, shares).all()
    engine = SimulatedEngine(setup_of(workers, prefetch, in_order), seed, shares)
    engine.start_epoch(0, 0)
    assert drained(engine, range(count), prefetch * workers) == expected


def test_a_schedule_by_hand():
    schedule = Schedule(2, True, 4)
    assert schedule.take() is END
    assert [schedule.assign() for _ in range(3)] == [(0, 0), (1, 1), (2, 0)]
    assert schedule.take() is WAIT
    schedule.arrive(1, "b")
    assert schedule.take() is WAIT and schedule.outstanding == 2 and schedule.ready == 1
    schedule.active[0] = False
    assert schedule.take() == (1, 1, "b") and schedule.take() is END
    schedule.restart(first=3, ended=[0])
    assert schedule.assign() == (0, 1)


# ---------------------------------------------------------------- limits


def test_no_task_leaves_that_is_too_far_ahead():
    engine = SimulatedEngine(setup_of(2, tuned=True))
    engine.start_epoch(0, 0)
    engine.set_limits(99, 4)
    for number in range(6):
        engine.submit(number)
    assert [task for _, task, _, _ in engine.log] == [0, 1, 2]
    assert engine.next(0.0).value() == 0 and engine.next(0.0).value() == 1
    assert [task for _, task, _, _ in engine.log] == [0, 1, 2, 3, 4]
    engine.set_limits(99, 11)
    assert [(worker, task) for worker, task, _, _ in engine.log] == [(n % 2, n) for n in range(6)]
    for limits in ((0, 2), (1, 1)):
        with pytest.raises(ValueError, match="at least one thread and two slots"):
            engine.set_limits(*limits)


def test_tasks_get_turns_in_the_order_in_which_they_leave():
    engine = SimulatedEngine(setup_of(2, tuned=True))
    turns = engine._turns = _core.TurnGate()
    engine.start_epoch(0, 0)
    engine.set_limits(1, 4)
    for number in range(4):
        engine.submit(number)
    assert [turn for *_, turn in engine.log] == [0, 1, 2]
    assert turns.wait(0, 0.0) and not turns.wait(1, 0.0)
    turns.end()
    assert turns.wait(1, 0.0) and not turns.wait(2, 0.0)
    engine.start_epoch(0, 1)  # what was held goes out before the workers begin anew
    assert [turn for *_, turn in engine.log] == [0, 1, 2, 3] and engine.resumed == 1


@settings(derandomize=True, deadline=None, max_examples=100)
@given(
    workers=st.integers(1, 5),
    prefetch=st.integers(1, 3),
    changes=st.lists(st.tuples(st.integers(1, 9), st.integers(2, 9)), min_size=1, max_size=8),
    seed=st.integers(0, 1000),
)
def test_every_batch_comes_whatever_the_limits_do(workers, prefetch, changes, seed):
    engine = SimulatedEngine(setup_of(workers, prefetch, tuned=True), seed)
    engine.start_epoch(0, 0)
    lists, found = iter(range(60)), []
    for _ in range(workers * prefetch):
        engine.submit(next(lists))
    while (delivered := engine.next(0.0)) is not None:
        found.append(delivered.value())
        most = changes[len(found) % len(changes)]
        engine.set_limits(*most)
        if (index := next(lists, None)) is not None:
            engine.submit(index)
        assert len(engine.log) <= max(len(found) + max(slots for _, slots in changes), 0)
    assert found == list(range(60))
