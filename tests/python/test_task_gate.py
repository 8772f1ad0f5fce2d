"""Tasks leave in order, no further ahead than allowed, and nothing waits for ever."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from millrace import _core
from millrace._loader.engines.task_gate import TaskGate
from torch.utils.data import _utils


class Recorder:
    def __init__(self, name, log):
        self.name, self.log, self.turns = name, log, []

    def put(self, item, *turn):
        self.log.append((self.name, item))
        self.turns += turn


def gate_of(workers, working, ahead, turns=None):
    log = []
    gate = TaskGate([Recorder(i, log) for i in range(workers)], turns)
    gate.set_limits(working, ahead)
    return gate, log


def test_no_task_leaves_that_is_too_far_ahead():
    gate, log = gate_of(2, 99, 3)
    for number in range(6):
        gate.queues[number % 2].put((number, []))
    assert [item[0] for _, item in log] == [0, 1, 2]
    gate.pump(2)
    assert [item[0] for _, item in log] == [0, 1, 2, 3, 4]
    gate.set_limits(99, 10)
    assert [(worker, item[0]) for worker, item in log] == [(n % 2, n) for n in range(6)]


def test_tasks_get_turns_in_the_order_in_which_they_leave():
    turns = _core.TurnGate()
    gate, log = gate_of(2, 2, 3, turns)
    for number in range(3):
        gate.queues[number % 2].put((number, []))
    for queue in gate.queues:
        queue.put(_utils.worker._ResumeIteration(1))
    gate.queues[0].put((0, []))  # of the next epoch
    assert [queue._queue.turns for queue in gate.queues] == [[0, 2, 3], [1]] and len(log) == 6
    assert turns.wait(1, 0.0) and not turns.wait(2, 0.0)
    gate.set_limits(3, 3)
    assert turns.wait(2, 0.0) and not turns.wait(3, 0.0)
    turns.end()
    assert turns.wait(3, 0.0)


def test_the_end_is_told_at_once_and_a_new_epoch_opens_the_gate():
    gate, log = gate_of(2, 1, 1)
    for number in range(4):
        gate.queues[number % 2].put((number, []))
    assert len(log) == 1
    gate.queues[0].put(None)
    assert log[-1] == (0, None)
    for queue in gate.queues:
        queue.put(_utils.worker._ResumeIteration(1))
    assert [item[0] for _, item in log if type(item) is tuple] == [0, 1, 2, 3]
    assert [type(item).__name__ for _, item in log[-2:]] == ["_ResumeIteration"] * 2
    with pytest.raises(ValueError, match="at least one task"):
        gate.set_limits(0, 1)


@settings(derandomize=True, deadline=None, max_examples=100)
@given(
    workers=st.integers(1, 5),
    changes=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=8),
    ahead=st.integers(1, 12),
)
def test_every_task_comes_whatever_the_limits_do(workers, changes, ahead):
    gate, log = gate_of(workers, 1, 1)
    total, put = 60, 0
    for position in range(total):
        while put < min(total, position + ahead):  # torch's logic
            gate.queues[put % workers].put((put, []))
            put += 1
        working, most = changes[position % len(changes)]
        gate.set_limits(working, most)
        gate.pump(position)
        numbers = [item[0] for _, item in log]
        assert numbers == list(range(len(numbers))) and len(numbers) > position  # the wanted one is out
    assert [(worker, item[0]) for worker, item in log] == [(n % workers, n) for n in range(total)]
