"""What a Progress tells the history recorder: each epoch's beginning, and of each batch which samples it was
made of.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from ..._tools.history.recorder import EpochLog, recorder_of
from .written import Written


class Remembering(Written):
    """Base of Progress. `number`: of the epoch, counted over all iterators of the loader, also before it was
    resumed; -1 before the first.
    `log` is None where nothing is remembered (history=False).
    """

    saved: Any
    finished: bool
    log: EpochLog | None
    number: int
    _yielded: int
    _asks_workers: bool

    workers_then = 0  # whom a batch is made again for: how many workers there were, if not as many as now
    draws: Any = None  # and where the generators stood

    _forgotten = {
        "log": None,
        "_recorder": None,
        "_dataset": None,
        "iterator": type(None),
    }  # what a pickled copy has instead

    def _begin_remembering(self, loader: Any, previous: Remembering | None) -> None:
        self._recorder, self.log = recorder_of(loader), None
        self.number = -1 if previous is None else previous.number
        self._iterator_seed, self._dataset = 0, None
        self.iterator: Callable[[], Any] = type(None)  # the one that this is the progress of, while it lives

    def worker_number(self, number: int) -> int:
        """What the iterator's worker `number` is called in get_worker_info()."""
        return number

    @property
    def log_wanted(self) -> bool:
        return self._recorder is not None

    def _begin_log(self, start: Any, steps: Any) -> None:
        """`start`: what an epoch is resumed from; `steps`: that all ranks agreed on."""
        if start is not None and not self.saved.finished:
            self.number = max(0, self.saved.number)
        else:
            self.number = 1 + max(self.number, -1 if start is None else self.saved.number)
        if self._recorder is not None:
            self.log = self._recorder.begin(
                self.number, self, self._iterator_seed, self._yielded, self._dataset
            )
            self.log.agreed_steps = steps

    def remember_start(self) -> None:
        """The state at the epoch's beginning. A dataset that cannot say where it stands says so in
        state_dict().
        """
        log = self.log
        if log is None or log.start is not None or log.count > log.first or self.finished:
            return
        with contextlib.suppress(Exception):
            state = self._state()
            if "left_out" in state["millrace"]:  # the first batch's are among them
                state["millrace"]["left_out"] = self.left_out_before
            log.start = state

    def _remember(self, log: EpochLog, rows: Any, worker: int | None, draws: Any) -> None:
        """After a batch is delivered."""
        log.engine_epoch = self.epoch  # of iterators that stay, known after the epoch's beginning
        log.handed_out(self._yielded - 1, rows, -1 if worker is None else worker, draws)
        if self._asks_workers and log.wants_state(self._yielded):
            log.keep_state(self._yielded, self._state())
