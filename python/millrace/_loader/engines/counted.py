"""What the iterators over Python datasets share: the loader's record kept up to date, and the process that
may use them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from ..._profiling.stages import HANDOVER, recorded, recording
from ..endings import leave_if_ending
from ..run_record import RunRecord
from ..states import Progress
from .torchs_next import TorchsNext


class Counted(TorchsNext):
    """Mixin before one of torch's iterators: `next()` is timed, batches are counted, forked children are told
    apart.

    `_begin_record` comes after torch's base seed was drawn; `_owner_pid` is set first of all, because
    `__del__` asks for it.
    """

    _record: RunRecord
    _progress: Progress
    _owner_pid: int

    def _begin_record(self, record: RunRecord, progress: Progress, torch_class: str) -> None:
        self._record = record
        self._progress = progress
        progress.begun(self)
        record.seed, record.epoch = self._base_seed, progress.epoch  # type: ignore[attr-defined]
        progress.left_out = record.left_out
        # The profiler's range is named after the class that torch's users know.
        self._profile_name = f"enumerate(DataLoader)#{torch_class}.__next__"

    def __next__(self) -> Any:
        counters, profiler, tuning = self._record.counters, self._record.profiler, self._record.tuning
        started = time.perf_counter()
        before = profiler.begin(HANDOVER)
        try:
            batch = self._torchs_next() if tuning is None else tuning.next(self._torchs_next)
            if self._progress.log is not None:
                self._progress.log.hash(batch)
        except StopIteration:
            self._progress.finish()
            profiler.finish(before)
            raise
        except Exception:
            if self._is_closed():
                leave_if_ending()
            raise
        finally:
            profiler.leave(before)
            counters["wait_seconds"] += time.perf_counter() - started
        counters["batches"] += 1
        return batch

    def _is_closed(self) -> bool:
        """Whether somebody else may have ended it, beside next()."""
        return False

    def _drop_steps(self) -> None:
        """Makes and drops the batches that a saved state is behind what it tells."""
        before = dict(self._record.counters)
        for _ in range(self._progress.steps_to_drop()):
            try:
                next(self)  # type: ignore[call-overload]
            except StopIteration:
                break
            except Exception:  # the consumer had it the first time
                continue
        for name in ("samples", "batches"):
            self._record.counters[name] = before[name]

    def _check_owner(self) -> None:
        if os.getpid() != self._owner_pid:
            raise RuntimeError(
                f"this iterator belongs to process {self._owner_pid}; its workers answer that process, not"
                f" its forked child {os.getpid()}. Make a new iterator here: iter(loader)"
            )

    @staticmethod
    def _made(make: Callable[..., Any], *arguments: Any) -> Any:
        """make(*arguments) in this thread, as a range where torch's profiler records."""
        if not recording():
            return make(*arguments)
        with recorded("make"):
            return make(*arguments)
