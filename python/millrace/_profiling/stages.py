"""The stages that the time of a thread or process is booked to, and how code says which one it is in; and
Profiler: the clocks of one iterator, the consumer's and its workers', and where its epochs begin and end.

    before = enter(FETCH)
    try: ...
    finally: enter(before)

`enter` does nothing on a thread that no clock counts, returns -1 there, and takes -1 for nothing.
src/trace/stage_clock.h has the rest.

What workers' clocks have counted is read in this process, or in counters that worker processes write. These
are a slot of the workers' ring (src/core/shared_ring.h) that holds no batches but a row for each worker. A
worker is the only writer of its row, without a lock, so one that is killed leaves nothing to repair; the row
says how far it came. No descriptor is needed but the ring's.

How much of the time in which workers wanted a CPU somebody else had it, the kernel's scheduler says of each
thread: /proc/PID/task/TID/schedstat holds nanoseconds on a CPU and nanoseconds ready and waiting for one,
since the thread began. Some systems keep none; then nothing is known of it, and it counts as none.
"""

from __future__ import annotations

import json
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple

from torch.autograd.profiler import record_function

from .. import _core
from .._common.torch_private import _profiler_enabled as recording
from ..collate import native_collate

if TYPE_CHECKING:
    from .._loader.engine import Engine

NAMES = (
    "fetch", "decode", "transform", "collate", "sample", "send", "idle",
    "start", "draw", "wait", "copy", "handover", "step", "ended",
)  # fmt: skip
FETCH, DECODE, TRANSFORM, COLLATE, SAMPLE, SEND, IDLE, START, DRAW, WAIT, COPY, HANDOVER, STEP, ENDED = range(
    len(NAMES)
)

MAKING = ("fetch", "decode", "transform", "collate", "sample")
"""The stages in which batches are made."""

enter = _core.enter_stage
note_ready = _core.note_ready
"""Inside `next()`: how many batches were ready when it was called."""


def collating(collate_fn: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The same function, its time booked as such; default_collate in C++."""
    collate_fn = native_collate(collate_fn)

    def collate(samples: Any) -> Any:
        before = enter(COLLATE)
        try:
            return collate_fn(samples)
        finally:
            enter(before)

    return collate


class during:
    """`with during(FETCH):`, for work that is not done thousands of times a second.

    While one of torch's profilers records this thread it is a range there, too: "millrace: fetch", or
    "millrace: " and `name`.
    """

    __slots__ = ("_before", "_name", "_range", "_stage")

    def __init__(self, stage: int, name: str = "") -> None:
        self._stage, self._name = stage, name

    def __enter__(self) -> None:
        self._range = recorded(self._name or NAMES[self._stage]) if recording() else None
        self._before = enter(self._stage)
        if self._range is not None:
            self._range.__enter__()

    def __exit__(self, *error: Any) -> None:
        if self._range is not None:
            self._range.__exit__(*error)
        enter(self._before)


def recorded(name: str) -> record_function:
    """A range of torch's profiler; worth its price only while `recording()`."""
    return record_function(f"millrace: {name}")


Reading = tuple[int, int, int, list[int], list[int]]
"""(stage, born, until, wall by stage, CPU by stage), in nanoseconds of the monotonic clock; StageClock.read()
has it.
"""


class Row(NamedTuple):
    """A worker as its clock has it, and the note that a StackSampler left beside it."""

    name: str
    reading: Reading
    note: bytes = b""

    def since(self, before: Row | None) -> Row:
        """What came after `before`, the same row read earlier."""
        if before is None:
            return self
        stage, _, until, wall, cpu = self.reading
        _, _, begin, wall_before, cpu_before = before.reading
        return self._replace(
            reading=(
                stage,
                begin,
                until,
                [a - b for a, b in zip(wall, wall_before)],
                [a - b for a, b in zip(cpu, cpu_before)],
            )
        )

    def as_dict(self) -> dict[str, Any]:
        """The worker's entry in the profile."""
        _, born, until, wall, cpu = self.reading
        own = range(IDLE)
        seconds = {NAMES[stage]: wall[stage] * 1e-9 for stage in own if wall[stage]}
        # with its start; a device's thread also waits for rows
        seconds["idle"] = sum(wall[IDLE:ENDED]) * 1e-9
        return {
            "name": self.name,
            "wall_seconds": (until - born) * 1e-9,
            "seconds": seconds,
            "cpu_seconds": {NAMES[stage]: cpu[stage] * 1e-9 for stage in own if cpu[stage]},
        }


def notes_of(note: bytes) -> dict[str, Any]:
    """{"split": {stage: seconds}, "cpu": the same, "hot": [[stage, where, seconds], ...]} of a thread's
    Python code (stacks.py); {} when nobody looked.
    """
    try:
        found = json.loads(note) if note else {}
    except ValueError:  # written by a worker that was killed meanwhile
        return {}
    return found if isinstance(found, dict) else {}


def thread_rows(readings: Sequence[Reading | None], last: str | None = None) -> list[Row]:
    """Of an engine's threads, numbered; `last`: another name for the last one. Threads that have not begun
    are left out.
    """
    names = [f"thread {number}" for number in range(len(readings))]
    if last is not None and names:
        names[-1] = last
    return _begun(names, readings)


def clock_rows(clocks: Sequence[_core.StageClock]) -> list[Row]:
    """Of threads that run Python code."""
    names = [f"thread {number}" for number in range(len(clocks))]
    return _begun(names, [clock.read() for clock in clocks], [clock.read_note() for clock in clocks])


def _begun(
    names: Sequence[str], readings: Sequence[Reading | None], notes: Iterable[bytes] = repeat(b"")
) -> list[Row]:
    return [
        Row(name, reading, note) for name, reading, note in zip(names, readings, notes) if reading is not None
    ]


class WorkerCounters:
    """The training process's side: takes a slot of `ring` for good, and reads what `workers` processes write
    there.
    """

    def __init__(self, ring: _core.SharedRing, workers: int) -> None:
        self._slot, self._workers = ring.take(), workers
        self._counters = _core.StageBoard(ring, self._slot, workers)

    def row_of(self, worker: int) -> tuple[int, int, int]:
        """Where that worker writes, as clock_on() takes it."""
        return self._slot, self._workers, worker

    def rows(self, pids: Sequence[Any]) -> list[Row]:
        names, numbers = [f"process {pid}" for pid in pids], range(len(pids))
        return _begun(names, list(map(self._counters.read, numbers)), map(self._counters.read_note, numbers))

    @property
    def made(self) -> int:
        """Batches that the workers have answered."""
        return self._counters.made

    def end(self, row: int) -> None:
        """The worker is dead; if it did not say so itself, its last stage ends now."""
        self._counters.end(row)


def clock_on(ring: _core.SharedRing, slot: int, workers: int, number: int) -> _core.StageClock:
    """A worker's own clock, in its process."""
    return _core.StageBoard(ring, slot, workers).clock(number)


_MOST_THREADS = 128  # that are asked; one costs about 15 us


def contention(pids: Sequence[int], consumer: int, workers: bool, proc: str = "/proc") -> float:
    """0 to 1. `pids`: of worker processes; where there are none, workers are this process's threads, but for
    the thread `consumer`, and without `workers` that thread itself.
    """
    if pids:
        found = [f"{proc}/{pid}/schedstat" for pid in pids]
    elif not workers:
        found = [f"{proc}/self/task/{consumer}/schedstat"]
    else:
        found = [f"{proc}/self/task/{thread}/schedstat" for thread in _threads(proc) if thread != consumer]
    return _share(found)


def _threads(proc: str) -> list[int]:
    try:
        return sorted(map(int, os.listdir(f"{proc}/self/task")), reverse=True)[:_MOST_THREADS]
    except OSError:
        return []


def _share(paths: Iterable[str]) -> float:
    ran = waited = 0
    for path in paths:
        try:
            with open(path, "rb") as file:
                on, ready = map(int, file.read().split()[:2])
        except (OSError, ValueError):  # it has ended, or nobody counts
            continue
        ran, waited = ran + on, waited + ready
    return waited / (ran + waited) if ran + waited else 0.0


_COUNTS = ("samples", "batches", "bytes")


class Profiler:
    """Lives as long as the loader wants to know of its latest iterator, which may be gone.

    The consumer's clock is in exactly one stage at any moment between `iter()` and the end, so its stages sum
    to the wall time by construction; the same holds for each worker's. The iterator tells: `starting()`
    around its start and each further epoch's, `begin()` and `leave()` around `next()`, `finish()` after the
    last batch, `close()` when it goes before that. Several iterators may be around one another (batches on a
    device): only what the outermost does counts as the loop's step. Monotonic time throughout; `started`
    alone is the wall clock's, to be shown.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.native = False
        self.clock = _core.StageClock()
        self.begin, self.leave = self.clock.begin, self.clock.leave
        self.started = 0.0
        self._counted: dict[str, int] = {}  # before this epoch
        self._live: Callable[[], list[Row]] | None = None
        self._rows: list[Row] = []  # as of the epoch's end, or of the workers'
        self._rows_before: dict[str, Row] = {}  # at the epoch's start
        # of this process: when the epoch had started; and in it, once it has ended
        self._cpu_before, self._cpu = time.process_time(), 0.0
        self._pids: list[int] = []
        self._thread, self._contention = 0, None if _core.StageClock.enabled else 0.0
        self._ended = False

    def opened(self, engine: Engine) -> None:
        """Its workers have started, if it has any; some may be processes."""
        if engine.rows is not None:
            self._live, self._rows_before, self._counted = engine.rows, {}, {}
            self._pids = [worker.pid for worker in engine.workers if worker.pid is not None]

    @contextmanager
    def starting(self, before: dict[str, Any] | None = None, goes_on: bool = False) -> Iterator[None]:
        """While an epoch's iterator is made. `before`: the iterator's counters, if workers stay from the
        epoch before.
        `goes_on`: this is part of a start that has been announced.
        """
        if not goes_on:
            self.started = time.time()
            self._ended, self._contention = False, None if _core.StageClock.enabled else 0.0
            self._rows_before = {row.name: row for row in self._read()}
            self._counted = {name: before[name] for name in _COUNTS} if before else {}
            self.clock.restart()
        stage = self.begin(START)
        try:
            yield
        finally:
            self.leave(stage)
            self._cpu_before, self._thread = time.process_time(), threading.get_native_id()

    def finish(self, before: int) -> None:
        """Inside `next()`: no batch is left. `before`: what begin() said."""
        if not self._ended:
            self._keep()
        if before == STEP:
            self.clock.end_when_left()

    def _keep(self) -> None:
        self.workers_end()
        self._cpu = self.process_cpu()
        self._rows, self._ended = self._read(), True

    def _read(self) -> list[Row]:
        return self._rows if self._live is None else self._live()

    def process_cpu(self) -> float:
        """Seconds of CPU time of all threads of this process, since the epoch had started."""
        return self._cpu if self._ended else time.process_time() - self._cpu_before

    def contention(self) -> float:
        """Of the time in which workers, or without them the loop's thread, wanted a CPU: the share in which
        others had it.
        """
        if self._contention is None:
            return contention(self._pids, self._thread, self._live is not None)
        return self._contention

    def workers_end(self) -> None:
        """Before they do: what the kernel knows of them goes with them."""
        if self._contention is None:
            self._contention = self.contention()

    def readings(self) -> list[Reading]:
        """The workers' clocks as of now, counted from their own beginnings."""
        return [row.reading for row in self._read()]

    def freeze(self) -> None:
        """The workers have ended: keeps what they counted and lets go of them."""
        if self._live is not None:
            if not self._ended:
                self._rows = self._live()
            self._live = None

    def ends_with(self, iterator: Any) -> None:
        """Loops that are left early, or by an error, end with their iterator."""
        weakref.finalize(iterator, self.close).atexit = False

    def close(self) -> None:
        """The iterator is gone."""
        if not self._ended:
            self._keep()
        self.clock.end()

    def rows(self) -> list[Row]:
        """The workers, as of now or the epoch's end, counted from its start."""
        rows = self._rows if self._ended else self._read()
        return [row.since(self._rows_before.get(row.name)) for row in rows]

    def counts(self, counters: dict[str, Any]) -> dict[str, int]:
        """Samples, batches and bytes of this epoch."""
        return {name: counters[name] - self._counted.get(name, 0) for name in _COUNTS}


def settings_of(loader: Any) -> dict[str, Any]:
    """What a snapshot says of how the loader was set."""
    device = loader._millrace_device
    return {
        "num_workers": loader.num_workers,
        "prefetch_factor": loader.prefetch_factor,
        "batch_size": loader.batch_size,
        "pin_memory": bool(loader.pin_memory),
        "device": None if device is None else str(device),
        "decode": loader.decode,
    }
