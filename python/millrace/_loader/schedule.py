"""Which worker gets which index list, and whose batch comes next: the rules of torch's loader.

Lists go to the workers in turn; batches come back in the order of their lists, or with `in_order=False` as
they arrive. A worker whose part of a stream has ended gets nothing more, and lists that it was given are
passed over. Nothing here waits, starts or ends anything, so it is tested by itself, against torch.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

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
