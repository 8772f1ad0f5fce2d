"""The stages that a thread's or process's time is booked to, and how code says which one it is in.

    before = enter(FETCH)
    try: ...
    finally: enter(before)

`enter` does nothing on a thread that no clock counts, returns -1 there, and takes -1 for nothing. src/trace/stage_clock.h has the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import _core

NAMES = (
    "fetch", "decode", "transform", "collate", "sample", "send", "idle",
    "start", "draw", "wait", "copy", "handover", "step", "ended",
)  # fmt: skip
FETCH, DECODE, TRANSFORM, COLLATE, SAMPLE, SEND, IDLE, START, DRAW, WAIT, COPY, HANDOVER, STEP, ENDED = range(len(NAMES))

MAKING = ("fetch", "decode", "transform", "collate", "sample")
"""The stages in which batches are made."""

enter = _core.enter_stage
note_ready = _core.note_ready
"""Inside `next()`: how many batches were ready when it was called."""


def collating(collate_fn: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The same function, its time booked as such."""

    def collate(samples: Any) -> Any:
        before = enter(COLLATE)
        try:
            return collate_fn(samples)
        finally:
            enter(before)

    return collate


class during:
    """`with during(FETCH):`, for what is not done thousands of times a second."""

    __slots__ = ("_before", "_stage")

    def __init__(self, stage: int) -> None:
        self._stage = stage

    def __enter__(self) -> None:
        self._before = enter(self._stage)

    def __exit__(self, *_: Any) -> None:
        enter(self._before)
