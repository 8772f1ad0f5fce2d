"""Python datasets in worker threads: nothing is copied and nothing pickled; right for code that releases the
GIL, or has none.

Order, schedule and messages are those of torch's iterator, as with processes. Each thread answers
get_worker_info() for itself. The dataset is shared by the threads (an iterable-style one is deep-copied for
each, so that each has its own position).

Who may touch an iterator: one consumer thread, in the process that made it. How it ends: the last batch,
`_shutdown_workers()`, garbage collection or the interpreter's exit tell the threads to stop; each finishes
the sample it is in and is waited for (one that is inside torch when the interpreter is torn down aborts the
process). Beside a next() on another thread (endings.py): `_shutdown` is the mark, which next() looks at in
every slice of its waiting, and nothing that it uses is torn down.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import os
import queue
import threading
import time
from typing import Any

from torch.utils.data import _utils
from torch.utils.data.dataloader import _DatasetKind, _MultiProcessingDataLoaderIter

from ... import _core
from ..._profiling.counters import clock_rows
from ..._profiling.stacks import StackSampler
from ..._profiling.stages import COPY, IDLE, SAMPLE, SEND, START, WAIT, during, enter
from ..endings import close_at_exit, closed_error
from ..plan.refusal import NotLowered
from ..plan.seeding import recognise_worker_init
from ..run_record import RunRecord
from ..states import Progress
from .backfill import Backfilled
from .fetchers import Sink, begin_at, make_fetcher, worker_state, wrapped_error
from .resumed import Answer, Resumed
from .thread_info import as_no_worker, enter_worker

_SIGNAL_SLICE_S = 0.05  # how long Ctrl-C may go unseen
_TURN_CHECK_S = 60.0  # whoever ends the threads wakes them


class _Thread(threading.Thread):
    """A worker; also what `iterator._workers` shows. Holds no reference to the iterator, which could then
    never be collected.
    """

    pid = None
    exitcode: int | None = None

    def __init__(self, worker_id: int, iterator: ThreadIter, answers: queue.SimpleQueue) -> None:
        super().__init__(name="pt_data_worker", daemon=True)
        self._worker_id = worker_id
        self._number = iterator._progress.worker_number(worker_id)  # that it is told
        self._num_workers = iterator._progress.workers_then or iterator._num_workers
        self._base_seed = iterator._base_seed
        self._kind = iterator._dataset_kind
        self._arguments = (iterator._auto_collation, _quiet(iterator._collate_fn), iterator._drop_last)
        self._on_error = iterator._on_error
        self._dataset = iterator._dataset if self._kind == _DatasetKind.Map else _own_copy(iterator._dataset)
        self._init_fn = iterator._worker_init_fn
        self._answers = answers
        self._tasks: queue.SimpleQueue = queue.SimpleQueue()
        self.stopping = False
        self.doing: Any = None  # (task, index list, time.monotonic() when it began)
        self._state = iterator._progress.places.state_of(worker_id)
        self._between_epochs = iterator._progress.between_epochs
        self._wants_state = iterator._progress.wants_state
        self._turns = iterator._turns
        self.clock = _core.StageClock()

    def put(self, item: Any, turn: int = -1) -> None:
        """torch's logic puts tasks into it as into a queue, a TaskGate with the turn that they wait for."""
        is_task = item is not None and not isinstance(item, _utils.worker._ResumeIteration)
        self._tasks.put((*item, self._wants_state(item[0]), turn) if is_task else item)

    def terminate(self) -> None:
        self.stopping = True
        self.put(None)

    def run(self) -> None:
        self.clock.attach(START)
        try:
            self._work()
        finally:
            self.clock.end()
            self.clock.detach()

    def _work(self) -> None:
        where = f"in DataLoader worker thread {self._number}"
        failure, fetcher, sink = None, None, Sink()  # a failure is reported in place of batches
        try:
            enter_worker(self._number, self._num_workers, self._base_seed, self._dataset)
            if self._init_fn is not None:
                self._init_fn(self._number)
        except BaseException:  # sys.exit() as well: the thread that may end the program is the consumer's
            init_failure = failure = wrapped_error(where)
        else:
            init_failure, (fetcher, failure) = None, self._fetcher(sink, where)
        ended, stacks = False, StackSampler(self._dataset, self.clock)
        while (task := self._next_task(stacks)) is not None and not self.stopping:
            if isinstance(task, _utils.worker._ResumeIteration):
                ended = False
                if init_failure is None:
                    fetcher, failure = self._fetcher(sink, where)
                state = None if failure is not None else self._worker_state(fetcher, where)
                self._answers.put((task, None, self._worker_id, state))
                continue
            if ended:
                continue
            number, index, with_state, turn = task
            if turn >= 0 and not self._turn_comes(turn):
                break
            self.doing = number, index, time.monotonic()
            state = None
            sink.open()
            try:
                with stacks:
                    data = failure or fetcher.fetch(index)
            except BaseException as error:
                sink.samples = 0
                ended = isinstance(error, StopIteration) and self._kind == _DatasetKind.Iterable
                data = (
                    _utils.worker._IterableDatasetStopIteration(self._worker_id)
                    if ended
                    else wrapped_error(where)
                )
            else:
                state = self._worker_state(fetcher, where) if with_state else None
            if ended:
                state = self._worker_state(fetcher, where)
            if turn >= 0:
                self._turns.end()
            enter(SEND)
            self._answers.put(
                (number, data if ended else (number, sink.samples, sink.errors, data), self._worker_id, state)
            )
            self.doing = None
            del task, data
        self.exitcode = 0

    def _next_task(self, stacks: StackSampler) -> Any:
        enter(IDLE)
        try:
            if (tells_in := stacks.tells_in()) is not None:
                with contextlib.suppress(queue.Empty):
                    return self._tasks.get(timeout=tells_in)
                stacks.tell()
            return self._tasks.get()
        finally:
            enter(SAMPLE)

    def _turn_comes(self, turn: int) -> bool:
        """Waits for it; False when all ends."""
        enter(IDLE)
        while not self._turns.wait(turn % 2**32, _TURN_CHECK_S):
            if self._turns.closed:
                return False
        enter(SAMPLE)
        return True

    def _fetcher(self, sink: Sink, where: str) -> tuple[Any, Any]:
        """(fetcher, None), or (None, the error of the dataset's __iter__), which is reported in place of
        batches.
        """
        try:
            new = functools.partial(
                make_fetcher, self._kind, self._dataset, *self._arguments, sink, self._on_error
            )
            fetcher, self._state = begin_at(self._state, self._between_epochs, self._dataset, new), None
            return fetcher, None
        except BaseException:
            return None, wrapped_error(where)

    def _worker_state(self, fetcher: Any, where: str) -> Any:
        """Where the dataset stands here; None when it does not say."""
        try:
            return worker_state(self._worker_id, fetcher)
        except BaseException:
            return wrapped_error(where)


def _quiet(collate_fn: Any) -> Any:
    if collate_fn is not _utils.collate.default_collate:
        return collate_fn

    def collate(samples: Any) -> Any:
        with as_no_worker():
            return collate_fn(samples)

    return collate


def _own_copy(dataset: Any) -> Any:
    try:
        return copy.deepcopy(dataset)
    except Exception as error:
        raise TypeError(
            "each worker thread needs its own copy of an iterable-style dataset, but"
            f" {type(dataset).__name__} cannot be deep-copied "
            f'({error!r}); use worker_method="process", or give it a __deepcopy__'
        ) from error


class ThreadIter(Backfilled, Resumed, _MultiProcessingDataLoaderIter):
    """Batches of a Python dataset, made by threads of this process."""

    def __init__(self, loader: Any, record: RunRecord, progress: Progress) -> None:
        self._shutdown = True  # __del__ runs even when the rest raises
        self._owner_pid = os.getpid()
        self._workers: list[_Thread] = []
        self._begin(loader, record, progress)
        self._turns = _core.TurnGate() if self._tunes_threads else None
        self._worker_init_fn = _needed(loader.worker_init_fn)
        self._worker_pids_set = False
        self._answers: queue.SimpleQueue = queue.SimpleQueue()
        self._workers = [_Thread(i, self, self._answers) for i in range(self._num_workers)]
        self._index_queues = self._workers
        self._shutdown = False
        close_at_exit(self)
        for worker in self._workers:
            worker.start()
        clocks = [worker.clock for worker in self._workers]
        record.profiler.watch(lambda: clock_rows(clocks))
        self._fed()
        self._reset(loader, first_iter=True)

    def _take_answer(self) -> Any:
        deadline = time.monotonic() + self._timeout if self._timeout > 0 else None
        while True:
            if self._shutdown:  # by another thread
                raise closed_error()
            try:
                task, data, worker, state = self._answer_of_any()
                if isinstance(data, _utils.worker._IterableDatasetStopIteration):
                    self._progress.places.has_ended(worker, state)
                elif data is None:
                    self._progress.places.restarted(worker, state)
                else:
                    self._progress.places.arrived(worker)
                    data = Answer(*data, state)
                return task, data
            except queue.Empty:
                if deadline is not None and time.monotonic() >= deadline:
                    raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds") from None
                dead = [
                    w for i, w in enumerate(self._workers) if self._workers_status[i] and not w.is_alive()
                ]
                if dead and self._answers.empty():
                    if self._turns is not None:
                        self._turns.open()  # its task will never end
                    raise RuntimeError(
                        f"DataLoader worker thread {dead[0]._worker_id} exited unexpectedly"
                    ) from None

    def _on_their_way(self) -> int:
        """Batches that workers have answered and torch's logic has not seen."""
        return self._answers.qsize()

    def _answer_of_any(self) -> Any:
        with during(WAIT):
            return self._answers.get(timeout=_SIGNAL_SLICE_S)

    def _next_data(self) -> Any:
        batch = super()._next_data()
        if not self._pin_memory:
            return batch
        with during(COPY):
            return _utils.pin_memory.pin_memory(batch, self._pin_memory_device)

    def _mark_worker_as_unavailable(self, worker_id: int, shutdown: bool = False) -> None:
        self._workers[worker_id].put(None)
        self._workers_status[worker_id] = False

    def _is_closed(self) -> bool:
        return self._shutdown

    def _shutdown_workers(self) -> None:
        if self._shutdown or os.getpid() != self._owner_pid:
            return
        self._shutdown = True
        self._record.profiler.workers_end()
        if self._turns is not None:
            self._turns.close()
        for worker in self._workers:
            worker.terminate()
        deadline = time.monotonic() + _utils.MP_STATUS_CHECK_INTERVAL
        for worker in self._workers:
            if worker is not threading.current_thread() and worker.ident is not None:
                worker.join(max(0.0, deadline - time.monotonic()))
        self._record.profiler.freeze()

    def __del__(self) -> None:
        self._shutdown_workers()


def _needed(worker_init_fn: Any) -> Any:
    """None for functions that only seed global generators: those are the training process's here, and must
    stay as they are.
    """
    try:
        recognise_worker_init(worker_init_fn, 1)
    except NotLowered:
        return worker_init_fn
    return None
