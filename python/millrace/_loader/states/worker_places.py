"""Where each worker's dataset stands, as far as the consumer has come: workers are ahead of it, by different
numbers of batches.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch._utils import ExceptionWrapper


class WorkerPlaces:
    """Of `count` workers. `ended`: those whose share of an iterable dataset is used up, all their batches
    handed out.
    """

    def __init__(
        self, count: int, streams: bool, states: dict[int, Any] | None = None, ended: Iterable[int] = ()
    ) -> None:
        self._streams = streams
        self._states: dict[int, Any] = dict(states or {})  # after the batches that were delivered
        self._waiting = [0] * count  # batches that it does not have yet
        self._ending: dict[
            int, Any
        ] = {}  # the states of those that have ended, until it has all their batches
        self.ended = set(ended)
        self.last = count - 1  # whose batch was handed out last

    def forget(self) -> None:
        """New workers begin an epoch."""
        self._states.clear()

    def start_epoch(self, last: int, goes_on: bool) -> None:
        """`last`: whose batch was handed out last before, or -1; `goes_on`: the epoch is resumed in its
        middle.
        """
        if not goes_on:
            self.ended.clear()
        self.last = last if last >= 0 else len(self._waiting) - 1
        self._waiting = [0] * len(self._waiting)
        self._ending.clear()

    def restarted(self, worker: int, state: Any) -> None:
        """One that stays is at the start of the epoch. What it had answered before was of the epoch that was
        left.
        """
        self._waiting[worker] = 0
        self._ending.pop(worker, None)
        self.ended.discard(worker)
        self._keep(worker, state)

    def arrived(self, worker: int) -> None:
        """A batch of its waits to be delivered."""
        self._waiting[worker] += 1

    def handed_out(self, worker: int, state: Any) -> None:
        """`state`: its dataset's after that batch, or None."""
        self.last = worker
        self._keep(worker, state)
        self._waiting[worker] -= 1
        if worker in self._ending and self._waiting[worker] == 0:
            self._end(worker, self._ending.pop(worker))

    def has_ended(self, worker: int, state: Any) -> None:
        """Its share is used up; the consumer may not have all of it yet."""
        if self._waiting[worker]:
            self._ending[worker] = state
        else:
            self._end(worker, state)

    def state_of(self, worker: int) -> Any:
        """As torchdata nests it; None when it has said nothing: the dataset is not Stateful, or the consumer
        has no batch of it yet.
        """
        return self._states.get(worker)

    def states(self) -> dict[str, Any]:
        """By torchdata's names."""
        return {f"worker_{i}": self._states.get(i) or self._unknown(i) for i in range(len(self._waiting))}

    def check(self) -> None:
        """Raises what a dataset's state_dict() raised in a worker."""
        for state in self._states.values():
            if isinstance(state, ExceptionWrapper):
                state.reraise()

    def _keep(self, worker: int, state: Any) -> None:
        if state is not None:
            self._states[worker] = state

    def _end(self, worker: int, state: Any) -> None:
        self.ended.add(worker)
        self._keep(worker, state)

    def _unknown(self, worker: int) -> dict[str, Any]:
        unread = (
            {"dataset_iter_state": None, "fetcher_ended": worker in self.ended} if self._streams else None
        )
        return {"worker_id": worker, "fetcher_state": unread, "dataset_state": None}
