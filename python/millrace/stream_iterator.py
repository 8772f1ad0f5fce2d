"""StreamIter: a WebDataset's batches by the native engine.

The dataset's stages run here, in the consumer's thread, a few batches ahead, over samples whose pictures are still files; the engine's
threads make these into batches. Seen from outside it is InlineIter: torch's iterator without workers, its state that of a dataset
which this process runs, so it is resumed with any number of threads, and by Python code, too.

Order: a batch is drawn (`_Drawn`: samples, tickets, the dataset's state behind it), submitted, made, handed out. An error in drawing
comes when it is its batch's turn, and ends the stream, as generators end.
"""

from __future__ import annotations

import copy
import os
from collections import deque
from dataclasses import dataclass
from typing import Any, Optional

import numpy as np

from . import _core
from .devices import batch_memory
from .iterators import close_at_exit
from .lowering import StreamJob
from .run_record import RunRecord
from .state import Progress
from .workers import InlineIter


def seen_as_inline(loader: Any) -> Any:
    """`loader` as torch's iterator without workers takes it."""
    view = copy.copy(loader)
    view.__dict__.update(num_workers=0, prefetch_factor=None, persistent_workers=False, timeout=0)
    return view


class StreamIter(InlineIter):
    """Closes its engine at the last batch, in `_shutdown_workers()` or at its end, in the process that made it."""

    def __init__(self, loader: Any, job: StreamJob, record: RunRecord, progress: Progress) -> None:
        self._workers: list[Any] = []
        self._engine_pid = os.getpid()
        self._stream: Optional[StreamFetcher] = None
        self._timeout_seconds = loader.timeout
        self._job, self._threads, self._loader_memory = job, loader.num_workers, batch_memory(loader)
        super().__init__(seen_as_inline(loader), record, progress)

    def _make_fetcher(self) -> Any:
        self._stream = StreamFetcher(self._job, self._threads, self._loader_memory, self._base_seed, self._timeout_seconds, self._collate_fn)
        self._record.live = self._stream.engine.stats
        close_at_exit(self)
        return self._stream

    def _next_data(self) -> Any:
        if os.getpid() != self._engine_pid:
            raise RuntimeError(
                f"this iterator belongs to process {self._engine_pid}; its threads did not follow the fork into process {os.getpid()}. "
                "Make a new iterator here: iter(loader)"
            )
        try:
            return super()._next_data()
        except (StopIteration, KeyboardInterrupt, SystemExit):
            self._shutdown_workers()
            raise

    def _shutdown_workers(self) -> None:
        if self._stream is None or os.getpid() != self._engine_pid or self._stream.closed:
            return
        self._stream.close()
        self._record.freeze()

    def __del__(self) -> None:
        super().__del__()
        self._shutdown_workers()


@dataclass
class _Drawn:
    samples: list[tuple[Any, ...]]
    behind: int  # its last ticket + 1
    state: dict[str, Any]  # of the dataset, behind this batch
    error: Optional[Exception] = None


class StreamFetcher:
    """What torch's iterator asks for batches, and Progress for states: `fetch`, `dataset`, `dataset_iter`, `ended`."""

    def __init__(self, job: StreamJob, threads: int, memory: str, seed: int, timeout: float, convert: Any) -> None:
        self._job, self._timeout = job, timeout
        self._convert = None if job.by_torch else convert
        self._tickets = _core.StreamSamples()
        self._state = job.dataset.state_dict()
        self._batches = job.batches()
        self._drawn: deque[_Drawn] = deque()
        self._ahead = job.slots + 1 if threads else 1
        self._drained = False
        self.ended = self.closed = False
        self.dataset = self
        self.dataset_iter = object()  # has no state of its own
        self.engine = job.open(self._tickets, threads, memory)
        self.engine.start_epoch(seed, 0)

    def state_dict(self) -> dict[str, Any]:
        return copy.deepcopy(self._job.dataset.state_dict() if self.ended else self._state)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._job.dataset.load_state_dict(state)

    def fetch(self, index: Any) -> Any:
        while not self._drained and len(self._drawn) < self._ahead:
            self._draw()
        if not self._drawn:
            self.ended = True
            raise StopIteration
        first = self._drawn[0]
        if first.error is not None:
            self._drawn.popleft()
            raise first.error
        try:
            pictures, _ = self.engine.next(self._timeout)
        except Exception as error:
            if isinstance(error, TimeoutError) and error.errno is None:
                raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds") from None
            self._handed_out()
            raise
        self._handed_out()
        batch = self._job.collated(pictures, first.samples)
        return batch if self._convert is None else self._convert(batch)

    def _handed_out(self) -> None:
        first = self._drawn.popleft()
        self._tickets.drop_before(first.behind)
        self._state = first.state

    def _draw(self) -> None:
        job = self._job
        try:
            samples = next(self._batches, None)
            if samples is None or (len(samples) < job.batch_size and not job.partial):
                self._drained = True
                return
            tickets = [self._ticket(sample[job.position]) for sample in samples]
            self.engine.submit(np.array(tickets, np.int64))
        except Exception as error:
            self._drained = True
            self._drawn.append(_Drawn([], 0, self._state, error.with_traceback(None)))
            return
        self._drawn.append(_Drawn(samples, tickets[-1] + 1, job.dataset.state_dict()))

    def _ticket(self, picture: Any) -> int:
        return self._tickets.add(picture.content, picture.url, picture.key, picture.number, picture.number_of_pass)

    def close(self) -> None:
        self.closed = True
        self.engine.close()
        self._drawn.clear()
