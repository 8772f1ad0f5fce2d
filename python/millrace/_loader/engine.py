"""The protocol between an iterator and what makes its batches; and the record of its run.

    iterator.py ── submit(index list) ──▶ Engine ── next() ──▶ Delivered ──▶ iterator.py

An engine is made by its spec, which the planner found (plan/) or which runs the user's Python
(engines/python.py). Adding one is a file with a spec and an engine, and a line in the planner.

The record, of what a loader's latest iterator is and has done, is shared by the loader and the iterator, so
that neither has to hold the other. A copy or a pickle of it is a snapshot in plain values: loaders are
pickled, deep-copied and have their `__dict__` copied by frameworks.

How iterators end when somebody else ends them, another thread or the interpreter, whatever the engine:
- one consumer is inside next(), on any thread. `_shutdown_workers()` may come from any other, at any moment;
- it marks and wakes. What the consumer uses is torn down when the consumer is outside: by whoever closes,
  where nobody is inside, else after it. What waits, comes out with closed_error();
- the interpreter's end is the same for all iterators that live: this module's atexit handler. Non-daemon
  threads have been joined by then, so whoever is inside next() or iter(), or comes for another batch or
  iterator later, is a daemon thread that has a moment left. It ends as the interpreter would have ended it:
  by SystemExit, of which `threading` says nothing. torch's workers are gone by then, too.
- threads inside native code that come for the GIL later sleep until the process is gone
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
    """The keys of `DataLoader.stats()` but "engine", all zero."""
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
    """Counts samples left out, and lists them as long as the list is short."""
    listed = counters["errors"]
    listed += errors[: max(0, MOST_ERRORS - len(listed))]
    counters["left_out"] += len(errors)


class Counting:
    """What engines share that count in Python."""

    counters: dict[str, Any]

    def uncount(self) -> None:
        self.counters |= {"samples": 0, "batches": 0}

    def stats(self) -> dict[str, Any]:
        return deep_copy(self.counters)


class RunRecord:
    """`engine` ("threads", "processes" or "inline"), `seed` (None until drawn), `epoch`, and the counters
    behind `stats()`.

    `counters` is counted up by torch's iterators; `live`, when set, asks a running native engine instead.
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
        """An iterator's engine begins."""
        self.live = engine.stats
        self.profiler.opened(engine)
        if self.tuning is not None:
            self.tuning.opened(engine, self)

    def ended(self, engine: Engine) -> None:
        """Closes it, keeps its last word, and lets go of it."""
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
    worker: int | None = None  # who made it, where workers have parts of the dataset
    state: Any = None  # of that worker's dataset after the batch
    rows: Any = None  # the samples it was made of, where they are not those of its index list
    draws: Any = None  # what random generators were at before it, as history/draws.py has them
    finish: Callable[[Any], Any] | None = None  # what is left to be done with the batch, by the consumer

    def without_batch(self) -> Delivered:
        """What is known of it."""
        return Delivered(None, None, self.number, self.worker, self.state, self.rows, self.draws)

    def value(self) -> Any:
        """Once. An error's traceback holds frames that hold this object, so it must not hold the error."""
        error, self.error = self.error, None
        if error is None:
            return self.batch if self.finish is None else self.finish(self.batch)
        try:
            raise error
        finally:
            del error


class NeedsIndex:
    """Returned by Engine.next(): a worker's part of a stream has ended, so another one gets a further
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
        """Index lists that were submitted and not delivered."""

    lists_ahead: int
    """Index lists that the engine wants to know beforehand; 0: as many as torch would have sent."""

    @property
    def fetcher(self) -> Any:
        """What says where a dataset in this process stands, as torch's fetchers do; None: no such dataset."""

    pins: bool
    """Whether batches are where pin_memory=True wants them already."""

    def start_epoch(self, seed: int, epoch: int, shared_seed: int | None = None) -> None:
        """Forgets what is outstanding. `shared_seed`: what data pipes are seeded with."""

    def submit(self, index: Any) -> None:
        """One index list of the sampler."""

    def end_epoch(self) -> None:
        """No index list comes any more."""

    def next(self, timeout: float) -> Delivered | NeedsIndex | None:
        """The next batch; None at the end. Exceptions: nothing was delivered; RuntimeError after `timeout`
        seconds (0: none), and the batch is still to come.
        """

    def close(self) -> None:
        """Ends it, from any thread: marks and wakes; what the consumer uses goes after the consumer."""

    def stats(self) -> dict[str, Any]:
        """The counters of DataLoader.stats()."""

    def uncount(self) -> None:
        """What was delivered so far was delivered before, to whom the state is from."""

    def snapshot(self, stacks: bool) -> dict[str, Any]:
        """What everybody is doing, for dump_state(); `stacks`: of worker processes, whom that interrupts."""

    @property
    def rows(self) -> Callable[[], list[Any]] | None:
        """Reads the workers' clocks, as rows of the profile; None: there are no workers."""

    @property
    def set_limits(self) -> Callable[[int, int], None] | None:
        """Called with how many work at a time, and how many batches may be in memory; None: fixed."""


@dataclass
class Setup:
    """What an engine begins with: the iterator's parts, as torch's iterator has them, and its bookkeeping.

    Not to be kept: the loader keeps the iterator.
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
    prefix: PrefixSpec | None = None  # whose StandIn stands in the dataset's place

    @property
    def drop_last(self) -> bool:
        return bool(self.loader.drop_last)

    @property
    def batch_size(self) -> int | None:
        return self.loader.batch_size or getattr(self.loader.batch_sampler, "batch_size", None)


def batch_memory(loader: Any) -> str:
    """The memory that a loader's batches are to be made in, by the engine's name of it: page-locked where
    they go to a device.
    """
    goes_to_a_device = (
        loader.pin_memory or (wanted := loader._millrace_device) is not None and wanted.type != "cpu"
    )
    if not goes_to_a_device or not torch.accelerator.is_available():
        return "system"
    node = -1 if (device := locks_for(loader)) is None else numa_node(device)
    return "page-locked" if node < 0 else f"page-locked on node {node}"


class EngineSpec(Protocol):
    """What the planner gives: which engine, over what."""

    native: bool
    """Without workers, a native engine is made when the first batch is asked for; but a stream's, whose
    position is that of a dataset in this process.
    """
    leaves_out: bool
    """Whether on_error has something to say."""

    @property
    def place(self) -> Callable[[], Any] | None:
        """Gives the device on which batches are made; None: they come in the CPU's memory."""

    @property
    def repeats(self) -> Any:
        """Marks what comes again in an epoch, where samples of Python code draw from their keys alone; else
        None.
        """

    def open(self, setup: Setup) -> Engine: ...


@dataclass(frozen=True)
class PythonSpec:
    """A dataset that is Python code, in `engine`: of threads, processes, or the training loop's thread."""

    engine: Callable[[Setup], Engine]
    native, leaves_out, place = False, True, None
    repeats: ClassVar[Any] = None

    def open(self, setup: Setup) -> Engine:
        return self.engine(setup)


# ---------------------------------------------------------------- how iterators end

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_LOOKS_AT_REST, _MOST_LOOKS = 500, 5000  # 1 ms apart; counted: what starves this thread starves others
_live: weakref.WeakSet[Any] = weakref.WeakSet()
_ending_in: int | None = None  # the thread that ends the interpreter


def close_at_exit(iterator: Any) -> None:
    """Its `_shutdown_workers()` is called before the interpreter goes, if the iterator is still there.

    Threads inside an engine may need the interpreter (Pillow decodes what is not JPEG): they go before it.
    """
    _live.add(iterator)
    if is_ending():  # the handler may have looked before
        iterator._shutdown_workers()
        raise SystemExit


def is_ending() -> bool:
    """Whether the interpreter ends, and another thread does that."""
    return _ending_in is not None and _ending_in != threading.get_ident()


def closed_error() -> UnavailableError:
    return UnavailableError(
        "the loader was closed while a batch was asked for; make a new iterator: iter(loader)"
    )


def leave_if_ending() -> None:
    """For who comes for an iterator, or has a closed one's error to raise: nobody is there to hear it."""
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
    """Waits for threads inside next() or iter(), longest for those that get on (imports, a sampler's code):
    the interpreter would unwind the frames of one that is inside torch, which aborts the process.
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
