"""TaskGate: tasks on their way to workers that run Python, held back as long as enough of them are out.

Which worker gets which task, and in which order, is torch's logic and stays what it is: so batches do not
depend on the gate, nor do states, or the random numbers that workers draw. It only says when. Tasks leave in
the order of their numbers, each as soon as its number is less than `ahead` above that of the batch which the
consumer wants, so at most that many are made or ready. A message that begins an epoch (_ResumeIteration)
opens the gate for all that is before it.

How many workers are at work at a time is decided where they are, so that none waits for the consumer to come
back: with `turns`, each task that leaves has the next turn, which its worker waits for
    (src/core/turn_gate.h).

For one thread, the consumer's.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from torch.utils.data import _utils

from ... import _core

EVERYBODY = 1 << 20  # more workers than there ever are


class TaskGate:
    def __init__(self, queues: list[Any], turns: _core.TurnGate | None = None) -> None:
        self.queues = [_Gated(self, queue) for queue in queues]
        self._turns = turns
        self._turn = 0  # of the next task
        self._waiting: deque[tuple[Any, Any]] = deque()
        self._resumes = 0  # among them
        self._position = 0
        self._ahead = 1

    def set_limits(self, working: int, ahead: int) -> None:
        if working < 1 or ahead < 1:
            raise ValueError(f"at least one task has to be out, got working={working} and ahead={ahead}")
        if self._turns is not None:
            self._turns.set_limit(working)
        self._ahead = ahead
        self.pump(self._position)

    def put(self, queue: Any, item: Any) -> None:
        self._resumes += isinstance(item, _utils.worker._ResumeIteration)
        self._waiting.append((queue, item))
        self.pump(self._position)

    def pump(self, position: int) -> None:
        """Lets out what may go; `position`: the number of the batch that the consumer wants."""
        self._position = position
        while self._waiting:
            queue, item = self._waiting[0]
            resumes = isinstance(item, _utils.worker._ResumeIteration)
            if not resumes and item[0] >= position + self._ahead and self._resumes == 0:
                return
            self._waiting.popleft()
            if resumes:
                self._resumes -= 1
            if resumes or self._turns is None:
                queue.put(item)
            else:
                queue.put(item, self._turn)
                self._turn += 1


class _Gated:
    """Where torch's logic puts a worker's tasks."""

    def __init__(self, gate: TaskGate, queue: Any) -> None:
        self._gate, self._queue = gate, queue

    def put(self, item: Any) -> None:
        if item is None:  # the end waits for nothing
            self._queue.put(item)
        else:
            self._gate.put(self._queue, item)
