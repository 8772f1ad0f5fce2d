"""What a loader's latest iterator is and has done, kept where the loader can be asked for it.

Shared by the loader and the iterator, so that neither has to hold the other. A copy or a pickle of it is a
snapshot in plain values: loaders are pickled, deep-copied and have their `__dict__` copied by frameworks.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from .._pictures.counts import NONE as NO_PICTURES
from .._profiling import Profiler, snapshot

# that stats() lists; behind them a data set that is largely unreadable would fill the memory, epoch by epoch
MOST_ERRORS = 1000


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
        return copy.deepcopy(self.counters)


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
        self.tuning: Any | None = None  # the loader's Tuning, while an iterator is told by it
        self.frozen_profile: dict[str, Any] | None = None  # of a copy

    def stats(self) -> dict[str, Any]:
        counters = self.live() if self.live is not None else copy.deepcopy(self.counters)
        return {"engine": self.engine, **counters}

    def profile_now(self, steps: bool = False) -> dict[str, Any] | None:
        return snapshot(self, steps)

    def left_out(self) -> int:
        """Samples that on_error left out."""
        return self.stats()["left_out"]

    def freeze(self) -> None:
        """Keeps the engine's last word and lets go of the engine."""
        if self.live is not None:
            self.counters, self.live = self.live(), None
        if self.tuning is not None:
            self.tuning.detach(self)
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
