"""The stages that the time of a thread or process is booked to, and how code says which one it is in.

    before = enter(FETCH)
    try: ...
    finally: enter(before)

`enter` does nothing on a thread that no clock counts, returns -1 there, and takes -1 for nothing.
src/trace/stage_clock.h has the rest.

What workers' clocks have counted is read in this process, or in counters that worker processes write. These
are a slot of the workers' ring (src/core/shared_ring.h) that holds no batches but a row for each worker. A
worker is the only writer of its row, without a lock, so one that is killed leaves nothing to repair; the row
says how far it came. No descriptor is needed but the ring's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import Any, NamedTuple

from torch.autograd import _profiler_enabled as recording
from torch.autograd.profiler import record_function

from .. import _core
from ..collate import native_collate

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
    """`with during(FETCH):`, for what is not done thousands of times a second.

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
