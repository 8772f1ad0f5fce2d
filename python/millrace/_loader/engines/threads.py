"""ThreadEngine: Python datasets in worker threads. Nothing is copied and nothing pickled; right for code that
releases the GIL, or has none.

Each thread answers get_worker_info() for itself. The dataset is shared by the threads (an iterable-style one
is deep-copied for each, so that each has its own position). How it ends: close() tells the threads to stop;
each finishes the sample it is in and is waited for (one that is inside torch when the interpreter is torn
down aborts the process).

The function get_worker_info() is imported by value all over the world (webdataset, timm, user code), so it
must be that very function object that answers: its code is exchanged for one that asks the thread first. It
stays what it is for all other threads and processes.
"""

from __future__ import annotations

import contextlib
import copy
import queue
import random
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from ... import _core
from ..._common.batch_place import Place, at_place
from ..._common.lowering.recognising import NotLowered
from ..._common.torch_private import _DatasetKind, _utils
from ..._pictures.asking import asks, stops_asking
from ..._pictures.counts import PictureCounts, add
from ..._profiling.stacks import StackSampler
from ..._profiling.stages import IDLE, SAMPLE, SEND, START, WAIT, clock_rows, during, enter
from ...collate import as_shipped, runs_natively
from ..arguments import recognise_worker_init
from ..engine import Setup, closed_error
from .fetchers import Sink, begin_at, make_fetcher, worker_state, wrapped_error
from .workers import Answer, WorkerEngine

_NAME = "_millrace_thread_worker"  # in torch's module, because its globals are what the function's code sees
_here = threading.local()


def _install() -> None:
    module = _utils.worker
    if hasattr(module, _NAME):
        return

    def get_worker_info():  # type: ignore[no-untyped-def]
        return getattr(_millrace_thread_worker, "info", None) or _worker_info  # type: ignore[name-defined] # noqa: F821

    setattr(module, _NAME, _here)
    module.get_worker_info.__code__ = get_worker_info.__code__


def enter_worker(worker_id: int, num_workers: int, base_seed: int, began_in: int, dataset: Any) -> None:
    """Makes the calling thread a worker: get_worker_info() answers, with generators of the thread's own where
    torch knows them.
    """
    _install()
    seed = base_seed + worker_id
    arguments: dict[str, Any] = {
        "id": worker_id,
        "num_workers": num_workers,
        "seed": seed,
        "dataset": dataset,
    }
    if "rng" in getattr(_utils.worker.WorkerInfo, "__dataclass_fields__", ()):
        further = began_in * num_workers  # as process_worker.py has it
        generators = (
            random.Random(seed + further),
            torch.Generator().manual_seed(seed + further),
            np.random.default_rng(_utils.worker._generate_state(base_seed + further, worker_id)),
        )
        arguments["rng"] = _utils.worker._RNG(*generators)
        arguments["worker_method"] = "thread"
    _here.info = _utils.worker.WorkerInfo(**arguments)


@contextlib.contextmanager
def as_no_worker() -> Iterator[None]:
    """While entered, this thread is none: default_collate would put its batches into files of shared memory
    for nothing.
    """
    info, _here.info = _here.info, None
    try:
        yield
    finally:
        _here.info = info


_SIGNAL_SLICE_S = 0.05  # how long Ctrl-C may go unseen
_TURN_CHECK_S = 60.0  # the code that ends the threads wakes them
_RESUME, _ENDED = object(), object()


class _Thread(threading.Thread):
    """A worker; also what `iterator._workers` shows. Holds no reference to the engine, which could then never
    be collected.
    """

    pid = None
    exitcode: int | None = None

    def __init__(self, worker: int, setup: Setup, turns: Any, answers: Any) -> None:
        super().__init__(name="pt_data_worker", daemon=True)
        loader, progress = setup.loader, setup.progress
        self._worker, self._answers, self._turns = worker, answers, turns
        self._number = progress.worker_number(worker)  # that it is told
        self._info = progress.workers_then or setup.threads, setup.base_seed, progress.began_in
        self._kind = loader._dataset_kind
        self._dataset = setup.dataset if self._kind == _DatasetKind.Map else _own_copy(setup.dataset)
        self._how = loader._auto_collation, _quiet(loader.collate_fn), loader.drop_last
        self._on_error, self._init_fn = setup.on_error, _needed(loader.worker_init_fn)
        self.tasks: queue.SimpleQueue = queue.SimpleQueue()
        self._stopping = False
        self.doing: Any = None  # (task, index list, time.monotonic() when it began)
        self._begin = progress.positions.state_of(worker), progress.between_epochs
        self._where = f"in DataLoader worker thread {self._number}"
        self._prefix = None if setup.prefix is None else setup.prefix.standing(setup, seeds=False)
        self.clock = _core.StageClock()
        self._pictures = PictureCounts() if loader.pictures != "pillow" else None

    def terminate(self) -> None:
        self._stopping = True
        self.tasks.put(None)

    def run(self) -> None:
        self.clock.attach(START)
        try:
            self._work()
        finally:
            self.clock.end()
            self.clock.detach()

    def _work(self) -> None:
        fetcher: Any
        sink, fetcher, failure = Sink(), None, None  # a failure is reported in place of batches
        try:
            enter_worker(self._number, *self._info, self._dataset)
            if self._init_fn is not None:
                self._init_fn(self._number)
        except BaseException:  # sys.exit() as well: the thread that may end the program is the consumer's
            begun, failure = False, wrapped_error(self._where)
        else:
            begun, (fetcher, failure) = True, self._fetcher(sink)
        ended, stacks = False, StackSampler(self._dataset, self.clock)
        while (task := self._next_task(stacks)) is not None and not self._stopping:
            if task is _RESUME:
                ended = False
                if self._prefix is not None:
                    self._prefix.next_epoch()
                if begun:
                    fetcher, failure = self._fetcher(sink)
                state = None if failure is not None else self._state(fetcher)
                self._answers.put((-1, _RESUME, self._worker, state))
                continue
            if ended:
                continue
            number, place, index, with_state, turn = task
            if turn >= 0 and not self._turn_comes(turn):
                break
            self.doing = number, index, time.monotonic()
            sink.open()
            try:
                asks(self._pictures)
                with stacks, at_place(place):
                    made: Any = failure or fetcher.fetch(index)
            except BaseException as error:
                sink.samples, with_state = 0, False
                ended = isinstance(error, StopIteration) and self._kind == _DatasetKind.Iterable
                made = _ENDED if ended else wrapped_error(self._where)
            state = self._state(fetcher) if with_state or ended else None
            if turn >= 0:
                self._turns.end()
            enter(SEND)
            stops_asking(None)
            news = None if self._pictures is None else self._pictures.news()
            made = _ENDED if ended else (sink.samples, sink.errors, made, news)
            self._answers.put((number, made, self._worker, state))
            self.doing = None
            del task, made
        self.exitcode = 0

    def _next_task(self, stacks: StackSampler) -> Any:
        enter(IDLE)
        try:
            if (tells_in := stacks.tells_in()) is not None:
                with contextlib.suppress(queue.Empty):
                    return self.tasks.get(timeout=tells_in)
                stacks.notify()
            return self.tasks.get()
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

    def _fetcher(self, sink: Sink) -> tuple[Any, Any]:
        """(fetcher, None), or (None, the error of the dataset's __iter__), which is reported in place of
        batches.
        """
        dataset = self._dataset
        try:
            if self._prefix is not None:
                dataset = self._prefix.in_place_of(dataset)
            fetcher = begin_at(
                *self._begin,
                self._dataset,
                lambda: make_fetcher(self._kind, dataset, *self._how, sink, self._on_error),
            )
        except BaseException:
            return None, wrapped_error(self._where)
        self._begin = None, self._begin[1]
        return fetcher, None

    def _state(self, fetcher: Any) -> Any:
        """Return the dataset's state in this thread; None if it has none."""
        try:
            return worker_state(self._worker, fetcher)
        except BaseException:
            return wrapped_error(self._where)


def _quiet(collate_fn: Any) -> Any:
    if not runs_natively(collate_fn):
        return collate_fn

    def quietly(samples: Any) -> Any:
        with as_no_worker():
            table = _utils.collate.default_collate_fn_map
            if as_shipped():
                table = {**table, torch.Tensor: _as_the_first}
            return _utils.collate.collate(samples, collate_fn_map=table)

    return quietly


def _as_the_first(batch: Any, *, collate_fn_map: Any = None) -> torch.Tensor:
    """As in a worker process, a batch of several dtypes has that of its first sample; without workers torch
    finds one that holds them all.
    """
    first = batch[0]
    if all(getattr(tensor, "dtype", first.dtype) is first.dtype for tensor in batch):
        return _utils.collate.collate_tensor_fn(batch, collate_fn_map=collate_fn_map)
    return torch.stack(batch, 0, out=first.new_empty((len(batch), *first.shape)))


def _own_copy(dataset: Any) -> Any:
    try:
        return copy.deepcopy(dataset)
    except Exception as error:
        raise TypeError(
            "each worker thread needs its own copy of an iterable-style dataset, but"
            f" {type(dataset).__name__} cannot be deep-copied "
            f'({error!r}); use worker_method="process", or give it a __deepcopy__'
        ) from error


class ThreadEngine(WorkerEngine):
    """Batches of a Python dataset, made by threads of this process. close() marks and wakes: the thread in
    next() looks at `_closed` in every slice of waiting, and nothing that it uses is torn down.
    """

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._turns = _core.TurnGate() if self._tunes_threads else None
        self._closed = False
        self._answers: queue.SimpleQueue = queue.SimpleQueue()
        for worker in range(setup.threads):
            self.workers.append(_Thread(worker, setup, self._turns, self._answers))
        for thread in self.workers:
            thread.start()

    def _send(self, worker: int, task: int, place: Place, index: Any, turn: int) -> None:
        self.workers[worker].tasks.put((task, place, index, self._progress.wants_state(task), turn))

    def _resume(self, shared_seed: int | None) -> None:
        for thread in self.workers:
            thread.tasks.put(_RESUME)
        resumed = 0
        while resumed < len(self.workers):
            resumed += self._receive(None, 0.0) is _RESUME

    def _dismiss(self, worker: int) -> None:
        self.workers[worker].tasks.put(None)

    def _receive(self, deadline: float | None, timeout: float) -> Any:
        while True:
            if self._closed:
                raise closed_error()
            try:
                with during(WAIT):
                    task, made, worker, state = self._answers.get(timeout=_SIGNAL_SLICE_S)
            except queue.Empty:
                self._raise_if_late(deadline, timeout)
                continue
            if made is _ENDED:
                self._ended(worker, state)
            elif made is _RESUME:
                self._progress.positions.restarted(worker, state)
            else:
                samples, errors, batch, news = made
                if news is not None:
                    add(self.counters["pictures"], news)
                self._arrived(task, Answer(samples, errors, batch, state), worker)
            return made

    def _raise_if_late(self, deadline: float | None, timeout: float) -> None:
        if deadline is not None and time.monotonic() >= deadline:
            raise RuntimeError(f"DataLoader timed out after {timeout} seconds")
        active = self._schedule.active
        dead = [n for n, thread in enumerate(self.workers) if active[n] and not thread.is_alive()]
        if dead and self._answers.empty():
            self._lost(dead[0])
            raise RuntimeError(f"DataLoader worker thread {dead[0]} exited unexpectedly")

    def _on_their_way(self) -> int:
        return self._answers.qsize()

    def close(self) -> None:
        self._closed = True
        if self._turns is not None:
            self._turns.close()
        for thread in self.workers:
            thread.terminate()
        deadline = time.monotonic() + _utils.MP_STATUS_CHECK_INTERVAL
        for thread in self.workers:
            if thread is not threading.current_thread() and thread.ident is not None:
                thread.join(max(0.0, deadline - time.monotonic()))

    def rows(self) -> list[Any]:
        return clock_rows([thread.clock for thread in self.workers])

    def snapshot(self, stacks: bool) -> dict[str, Any]:
        found = _core.stacks_of_threads()
        entries = []
        for number, thread in enumerate(self.workers):
            doing, entry = thread.doing, {"name": f"thread {number}", "alive": thread.is_alive()}
            if doing is None:
                entry["doing"] = "idle"
            else:
                task, indices, since = doing
                seconds = time.monotonic() - since
                entry |= {"doing": "sample", "task": task, "indices": indices, "seconds": seconds}
            entry["stack"] = found.get(thread.ident)
            entries.append(entry)
        return {"workers": entries, "queue": self._queue(self._answers.qsize())}


def _needed(worker_init_fn: Any) -> Any:
    """None for functions that only seed global generators: those are the training process's here, and must
    stay as they are.
    """
    try:
        recognise_worker_init(worker_init_fn, 1)
    except NotLowered:
        return worker_init_fn
    return None
