"""What the iterators with workers add to torch's logic so that they can begin in the middle, and say where they are."""

from __future__ import annotations

from typing import Any

from ..state import FedSampler, Progress


class Resumed:
    """Mixin before torch's iterator with workers, behind Counted.

    `_fed` comes before the first `_reset`. What arrives from workers is (samples, batch, the worker's state or None).
    """

    _progress: Progress

    def _fed(self) -> None:
        self._index_sampler = FedSampler(self._index_sampler, self._progress.feed)
        self._got = -1  # the task whose answer was taken last

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        self._in_position = False
        super()._reset(loader, first_iter)  # type: ignore[misc]
        if first_iter:
            self._drop_steps()  # type: ignore[attr-defined]

    def _try_put_index(self) -> None:
        if not self._in_position:  # torch's _reset has just made its lists, and begins with worker 0
            self._in_position = True
            self._num_yielded = self._progress.yielded
            for worker in self._progress.ended_workers:
                self._workers_status[worker] = False  # type: ignore[attr-defined]
            for _ in range((self._progress.last_worker + 1) % self._num_workers):  # type: ignore[attr-defined]
                next(self._worker_queue_idx_cycle)  # type: ignore[attr-defined]
        super()._try_put_index()  # type: ignore[misc]

    def _process_data(self, data: Any, worker_idx: int) -> Any:
        samples, batch, state = data
        self._record.counters["samples"] += samples  # type: ignore[attr-defined]
        self._progress.turn(self._got, worker_idx, state)
        return super()._process_data(batch, worker_idx)  # type: ignore[misc]
