"""Tasks leave in order, no further ahead than allowed, and nothing waits for ever."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import _utils

from millrace.workers.task_gate import TaskGate


class Recorder:
    def __init__(self, name, log):
        self.name, self.log = name, log

    def put(self, item):
        self.log.append((self.name, item))


def gate_of(workers, working, ahead):
    log = []
    gate = TaskGate([Recorder(i, log) for i in range(workers)])
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


def test_so_many_are_out_and_no_more():
    gate, log = gate_of(4, 2, 8)
    for number in range(8):
        gate.queues[number % 4].put((number, []))
    assert len(log) == 2
    gate.answered()
    gate.pump(0)
    assert len(log) == 3
    gate.pump(3)  # what the consumer wants goes at once
    assert [item[0] for _, item in log] == [0, 1, 2, 3]


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
    answered = 0
    for position in range(total):
        while put < min(total, position + ahead):  # torch's logic
            gate.queues[put % workers].put((put, []))
            put += 1
        working, most = changes[position % len(changes)]
        gate.set_limits(working, most)
        gate.pump(position)
        numbers = [item[0] for _, item in log]
        assert numbers == list(range(len(numbers))) and len(numbers) > position  # the wanted one is out
        while answered <= position:
            gate.answered()
            answered += 1
    assert [(worker, item[0]) for worker, item in log] == [(n % workers, n) for n in range(total)]
