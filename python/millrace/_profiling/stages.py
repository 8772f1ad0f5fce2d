"""The stages that a thread's or process's time is booked to, and how code says which one it is in.

    before = enter(FETCH)
    try: ...
    finally: enter(before)

`enter` does nothing on a thread that no clock counts, returns -1 there, and takes -1 for nothing.
src/trace/stage_clock.h has the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
