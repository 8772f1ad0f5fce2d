"""StreamIter: a WebDataset's batches by the native engine.

The dataset's stages run here, in the consumer's thread, a few batches ahead, over samples whose pictures are
still files; the engine's threads make these into batches (stream_fetchers.py). Seen from outside it is
InlineIter: torch's iterator without workers, its state that of a dataset which this process runs, so it is
    resumed with any number of threads, and by Python code, too.
"""

from __future__ import annotations

import copy
import os
from typing import Any

from ..._common.devices import batch_memory
from ..._profiling.counters import thread_rows
from ..endings import close_at_exit
from ..plan import StreamJob
from ..plan.streams import readers_of
from ..run_record import RunRecord
from ..states import Progress
from . import InlineIter
from .stream import StreamFetcher, fetcher_of


def seen_as_inline(loader: Any) -> Any:
    """`loader` as torch's iterator without workers takes it."""
    view = copy.copy(loader)
    view.__dict__.update(
        num_workers=0,
        prefetch_factor=None,
        persistent_workers=False,
        timeout=0,
        _millrace_readers=readers_of(loader),
    )
    return view


class StreamIter(InlineIter):
    """Closes its engine at the last batch, in `_shutdown_workers()` or at its end, in the process that made
    it.

    `_shutdown_workers()` beside next() (endings.py): the engine comes out, the fetcher's own parts go behind
    the consumer.
    """

    def __init__(self, loader: Any, job: StreamJob, record: RunRecord, progress: Progress) -> None:
        self._workers: list[Any] = []
        self._engine_pid = os.getpid()
        self._stream: StreamFetcher | None = None
        self._timeout_seconds = loader.timeout
        self._job, self._threads, self._loader_memory = job, loader.num_workers, batch_memory(loader)
        super().__init__(seen_as_inline(loader), record, progress)

    def _make_fetcher(self) -> Any:
        seed, convert = self._base_seed, self._collate_fn
        self._stream = fetcher_of(
            self._job, self._threads, self._loader_memory, seed, self._timeout_seconds, convert
        )
        self._record.live = self._stream.engine.stats
        engine = self._stream.engine
        self._record.profiler.watch(lambda: thread_rows(engine.clocks()))
        close_at_exit(self)
        if self._record.tuning is not None:
            self._record.tuning.attach(self._stream.engine.set_limits, self._record)
        return self._stream

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        """torch's, at the next epoch with persistent workers. No process is there to be kept, so that epoch
        has an iterator of its own.
        """
        self._shutdown_workers()
        loader._iterator = loader._get_iterator()  # which torch hands out

    def _next_data(self) -> Any:
        if os.getpid() != self._engine_pid:
            raise RuntimeError(
                f"this iterator belongs to process {self._engine_pid}; its threads did not follow the fork"
                f" into process {os.getpid()}. Make a new iterator here: iter(loader)"
            )
        try:
            return super()._next_data()
        except (StopIteration, KeyboardInterrupt, SystemExit):
            self._shutdown_workers()
            raise

    def _is_closed(self) -> bool:
        return self._stream is not None and self._stream.closed

    def _shutdown_workers(self) -> None:
        if self._stream is None or os.getpid() != self._engine_pid or self._stream.closed:
            return
        self._stream.close()
        self._record.freeze()

    def __del__(self) -> None:
        super().__del__()
        self._shutdown_workers()
