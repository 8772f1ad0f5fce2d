"""The protocol between an iterator and the engine that makes its batches; and the record of its run.

    iterator.py ── submit(index list) ──▶ Engine ── next() ──▶ Delivered ──▶ iterator.py

A spec makes the engine: the planner found the spec (plan/), or the spec runs the user's Python
(engines/python.py). To add an engine, add a file with a spec and an engine, and a line in the planner.

The record describes a loader's latest iterator and what it has done. The loader and the iterator share it, so
that neither has to hold the other. A copy or a pickle of it is a snapshot in plain values: frameworks pickle
and deep-copy loaders, and copy their `__dict__`.

How an iterator ends when another thread or the interpreter ends it, with any engine:
- One consumer is inside next(), on any thread. Any other thread may call `_shutdown_workers()` at any moment.
- `_shutdown_workers()` marks the engine closed and wakes the consumer. The closing thread tears down the
  consumer's parts if no consumer is inside; else they go after the consumer has left. A consumer that waits
  gets closed_error().
- At the interpreter's end, this module's atexit handler closes all living iterators. Non-daemon threads have
  been joined by then, so a thread inside next() or iter(), or one that asks for a batch or an iterator later,
  is a daemon thread with a moment left. It ends as the interpreter would have ended it: by SystemExit, which
  `threading` does not report. torch's workers are gone by then, too.
- Threads inside native code that ask for the GIL later sleep until the process is gone
  (python/bindings/gil_at_exit.h).
The main thread may still make iterators then, in atexit handlers that run later than this one.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import torch

from .._common.devices import locks_for, numa_node
from .._common.states import deep_copy
from .._pictures.counts import NONE as NO_PICTURES
from .._profiling import Profiler, snapshot
from ..errors import UnavailableError
from .states import Progress

if TYPE_CHECKING:
    from .engines.prefix import PrefixSpec

MOST_ERRORS = 1000  # that stats() lists: a data set that is largely unreadable would fill the memory


def empty_counters() -> dict[str, Any]:
    """Return the keys of `DataLoader.stats()` except "engine", all zero."""
    return {
        "samples": 0,
        "batches": 0,
        "bytes": 0,
        "seconds": {"read": 0.0, "decode": 0.0, "transform": 0.0, "collate": 0.0},
        "wait_seconds": 0.0,
        "slots": 0,
        "overflow_slots": 0,
        "pictures": {**NO_PICTURES, "calls": {}},
        "errors": [],
        "left_out": 0,
    }


def add_errors(counters: dict[str, Any], errors: list[dict[str, Any]]) -> None:
    """Count samples left out, and list the first MOST_ERRORS of them."""
    listed = counters["errors"]
    listed += errors[: max(0, MOST_ERRORS - len(listed))]
    counters["left_out"] += len(errors)


class Counting:
    """Shared part of engines that count in Python."""

    counters: dict[str, Any]

    def uncount(self) -> None:
        self.counters |= {"samples": 0, "batches": 0}

    def stats(self) -> dict[str, Any]:
        return deep_copy(self.counters)


class RunRecord:
    """`engine` ("threads", "processes" or "inline"), `seed` (None until drawn), `epoch`, and the counters
    that `stats()` returns.

    torch's iterators count in `counters`; `live`, when set, asks a running native engine instead.
    """

    def __init__(self, engine: str, profile: Profiler | None = None) -> None:
        self.engine = engine
        self.seed: int | None = None
        self.epoch = 0
        self.counters = empty_counters()
        self.live: Callable[[], dict[str, Any]] | None = None
        self.profiler = profile or Profiler({})
        self.tuning: Any | None = None  # the loader's Tuning, while an iterator follows it
        self.frozen_profile: dict[str, Any] | None = None  # of a copy

    def stats(self) -> dict[str, Any]:
        counters = self.live() if self.live is not None else deep_copy(self.counters)
        return {"engine": self.engine, **counters}

    def left_out(self) -> int:
        """Samples that on_error left out."""
        return self.stats()["left_out"]

    def opened(self, engine: Engine) -> None:
        """Follow the engine of an iterator that begins."""
        self.live = engine.stats
        self.profiler.opened(engine)
        if self.tuning is not None:
            self.tuning.opened(engine, self)

    def ended(self, engine: Engine) -> None:
        """Close the engine, keep its last counters, and drop it."""
        self.profiler.workers_end()
        engine.close()
        self.counters, self.live = engine.stats(), None
        if self.tuning is not None:
            self.tuning.ended(self)
        self.profiler.freeze()

    def __getstate__(self) -> dict[str, Any]:
        counters = self.live() if self.live is not None else self.counters
        return {
            **self.__dict__,
            "counters": counters,
            "live": None,
            "tuning": None,
            "profiler": None,
            "frozen_profile": snapshot(self),
        }


@dataclass(slots=True, eq=False)
class Delivered:
    """One batch on its way to the consumer, or `error` in its place."""

    batch: Any
    error: Exception | None = None
    number: int = -1  # of its index list, where batches come in any order
    worker: int | None = None  # number of the worker that made it, if workers have parts of the dataset
    state: Any = None  # of that worker's dataset after the batch
    rows: Any = None  # the samples it was made of, if they are not those of its index list
    draws: Any = None  # states of the random generators before it, as history/draws.py has them
    finish: Callable[[Any], Any] | None = None  # the consumer calls it on the batch, as the last step

    def without_batch(self) -> Delivered:
        """Return a copy without the batch, the error and `finish`."""
        return Delivered(None, None, self.number, self.worker, self.state, self.rows, self.draws)

    def value(self) -> Any:
        """Return the batch or raise the error; call it once. The error's traceback holds frames that hold
        this object, so this object must not hold the error.
        """
        error, self.error = self.error, None
        if error is None:
            return self.batch if self.finish is None else self.finish(self.batch)
        try:
            raise error
        finally:
            del error


class NeedsIndex:
    """Returned by Engine.next() after a worker's part of a stream has ended: another worker gets a further
    task.
    """


class Engine(Protocol):
    """Makes batches: index lists in, batches out, in the order that torch's loader has.

    All calls but close(), set_limits(), snapshot(), stats() and rows() come from the consumer's thread.
    """

    workers: list[Any]
    """Processes or threads, as `iterator._workers` shows them; empty for native ones."""

    @property
    def outstanding(self) -> int:
        """Number of index lists that were submitted and not delivered."""

    lists_ahead: int
    """Index lists that the engine wants to know beforehand; 0: as many as torch would have sent."""

    @property
    def fetcher(self) -> Any:
        """The fetcher of a dataset in this process, like torch's: it knows the dataset's position. None:
        there is no such dataset.
        """

    pins: bool
    """Whether batches are where pin_memory=True wants them already."""

    def start_epoch(self, seed: int, epoch: int, shared_seed: int | None = None) -> None:
        """Forget the outstanding index lists and start an epoch. `shared_seed`: the seed of data pipes."""

    def submit(self, index: Any) -> None:
        """Take one index list of the sampler."""

    def end_epoch(self) -> None:
        """Say that no further index list comes."""

    def next(self, timeout: float) -> Delivered | NeedsIndex | None:
        """Return the next batch; None at the end. If it raises, nothing was delivered. RuntimeError after
        `timeout` seconds (0: no limit); the batch is still to come.
        """

    def close(self) -> None:
        """End the engine, from any thread: mark it closed and wake the consumer. The consumer's parts are
        torn down after the consumer has left.
        """

    def stats(self) -> dict[str, Any]:
        """Return the counters of DataLoader.stats()."""

    def uncount(self) -> None:
        """Reset the counters: the run that saved the state delivered these batches."""

    def snapshot(self, stacks: bool) -> dict[str, Any]:
        """Say what each worker is doing, for dump_state(). `stacks`: with the stacks of worker processes,
        which interrupts them.
        """

    @property
    def rows(self) -> Callable[[], list[Any]] | None:
        """A function that reads the workers' clocks, as rows of the profile; None: there are no workers."""

    @property
    def set_limits(self) -> Callable[[int, int], None] | None:
        """A function of (how many workers work at a time, how many batches may be in memory); None: both
        numbers are fixed.
        """


@dataclass
class Setup:
    """Arguments of an engine: the iterator's parts, as torch's iterator has them, and its bookkeeping.

    Engines must not keep it: it holds the loader, which keeps the iterator.
    """

    loader: Any
    dataset: Any
    threads: int  # workers; 0: next() makes each batch
    on_error: str
    base_seed: int
    shared_seed: int | None
    world: tuple[int, int]  # size and rank, of data pipes
    progress: Progress
    record: RunRecord
    memory: str  # of batches, as batch_memory() says it
    pin_device: str | None  # of pin_memory=True, where batches are copied for it
    prefix: PrefixSpec | None = None  # its StandIn replaces the dataset, if any

    @property
    def drop_last(self) -> bool:
        return bool(self.loader.drop_last)

    @property
    def batch_size(self) -> int | None:
        return self.loader.batch_size or getattr(self.loader.batch_sampler, "batch_size", None)


def batch_memory(loader: Any) -> str:
    """Return the engine's name of the memory to make a loader's batches in: page-locked memory for batches
    that go to a device.
    """
    goes_to_a_device = (
        loader.pin_memory or (wanted := loader._millrace_device) is not None and wanted.type != "cpu"
    )
    if not goes_to_a_device or not torch.accelerator.is_available():
        return "system"
    node = -1 if (device := locks_for(loader)) is None else numa_node(device)
    return "page-locked" if node < 0 else f"page-locked on node {node}"


class EngineSpec(Protocol):
    """The planner's result: which engine to open, over which dataset."""

    native: bool
    """Without workers, a native engine is made when the first batch is requested. A stream's engine is made
    at once: its position is that of a dataset in this process.
    """
    leaves_out: bool
    """Whether on_error has an effect."""

    @property
    def place(self) -> Callable[[], Any] | None:
        """A function that returns the device on which batches are made; None: batches are in CPU memory."""

    @property
    def repeats(self) -> Any:
        """Marks indices that come again in an epoch, if samples of Python code draw from their keys alone;
        else None.
        """

    def open(self, setup: Setup) -> Engine: ...


@dataclass(frozen=True)
class PythonSpec:
    """A dataset that is Python code; `engine` runs it in threads, processes or the loop's thread."""

    engine: Callable[[Setup], Engine]
    native, leaves_out, place = False, True, None
    repeats: ClassVar[Any] = None

    def open(self, setup: Setup) -> Engine:
        return self.engine(setup)


# ---------------------------------------------------------------- how iterators end

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_LOOKS_AT_REST, _MOST_LOOKS = 500, 5000  # 1 ms apart; counted, not timed: a busy machine starves all threads
_live: weakref.WeakSet[Any] = weakref.WeakSet()
_ending_in: int | None = None  # the thread that ends the interpreter


def close_at_exit(iterator: Any) -> None:
    """Have `iterator._shutdown_workers()` called before the interpreter ends, if the iterator still lives.

    Threads inside an engine may need the interpreter (Pillow decodes pictures other than JPEG), so they must
    end before it.
    """
    _live.add(iterator)
    if is_ending():  # the atexit handler may have listed the iterators before
        iterator._shutdown_workers()
        raise SystemExit


def is_ending() -> bool:
    """Whether the interpreter is ending, in another thread."""
    return _ending_in is not None and _ending_in != threading.get_ident()


def closed_error() -> UnavailableError:
    return UnavailableError(
        "the loader was closed while a batch was asked for; make a new iterator: iter(loader)"
    )


def leave_if_ending() -> None:
    """End the calling thread if the interpreter is shutting down."""
    if is_ending():
        raise SystemExit from None


def _living() -> list[Any]:
    while True:
        try:
            return list(_live)
        except RuntimeError:  # another thread has just added one
            continue


@atexit.register
def _end_all() -> None:
    global _ending_in
    _ending_in = threading.get_ident()
    for iterator in _living():
        iterator._shutdown_workers()
    _let_consumers_leave()


def _let_consumers_leave() -> None:
    """Wait for threads inside next() or iter(), longest for those that make progress (imports, a sampler's
    code). The interpreter would unwind the frames of a thread inside torch, which aborts the process.
    """
    places: set[tuple[int, int]] = set()
    rested = 0
    for _ in range(_MOST_LOOKS):
        frames = sys._current_frames()
        frames.pop(threading.get_ident(), None)
        before, places = places, {(id(at), at.f_lasti) for at in frames.values() if _is_consuming(at)}
        rested = rested + 1 if places == before else 0
        if not places or rested == _LOOKS_AT_REST:
            return
        del frames
        time.sleep(0.001)


def _is_consuming(frame: FrameType | None) -> bool:
    while frame is not None:
        code = frame.f_code
        if code.co_name in ("__next__", "__iter__") and code.co_filename.startswith(_PACKAGE):
            return True
        frame = frame.f_back
    return False
