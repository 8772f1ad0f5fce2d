"""Budget: the part of the machine that one loader's tuning may use: CPUs, memory, page-locked memory.

The ranks of a node share the machine: CPUs and memory are divided by LOCAL_WORLD_SIZE, which torchrun and
others set. Memory is the memory that is available when the first iterator is made: the smallest of the
machine's and each cgroup's.

CpuUse computes how many threads may work at once, so that together they use no more CPU time than the budget
has.

A thread that sleeps, or waits for a disk or a server, uses no CPU. So the budget's CPUs do not limit the
number of threads, but their CPU use: of `busy` seconds of wall time that workers spent on batches, `cpu` were
on a CPU, so each worker uses cpu / busy of a CPU. A thread that waits for a CPU counts as waiting, too. That
is right: the CPU use of all threads is still the measured one.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Any

from ... import _core
from ..._profiling.stages import IDLE

DEFAULT_SHARE = 0.1  # of the memory that may be taken
PINNED_SHARE = 0.5  # of the budget: page-locked memory is lost to the page cache and to everybody else


def ranks_of_node() -> int:
    try:
        return max(1, int(os.environ.get("LOCAL_WORLD_SIZE", "1")))
    except ValueError:
        return 1


@dataclass(frozen=True)
class Budget:
    cpus: float
    threads: int
    """Whole threads that fit into `cpus`, if each computes all the time."""
    memory_bytes: int
    pinned_bytes: int
    ranks: int
    explicit: bool
    """Whether the user gave the bytes: then batches that do not fit are an error."""

    @staticmethod
    def of_machine(memory: None | int | float) -> Budget:
        ranks = ranks_of_node()
        if isinstance(memory, int):
            held = memory // ranks
        else:
            available, _ = _core.memory_budget()
            held = int(available * (DEFAULT_SHARE if memory is None else memory)) // ranks
        cpu = _core.cpu_budget()
        return Budget(
            float(cpu["cpus"]), cpu["threads"], held, int(held * PINNED_SHARE), ranks, memory is not None
        )

    def batch_bytes(self, pinned: bool) -> int:
        """The budget for batches in memory, in bytes."""
        return self.pinned_bytes if pinned else self.memory_bytes

    def as_dict(self) -> dict[str, Any]:
        memory = {"memory_bytes": self.memory_bytes, "pinned_bytes": self.pinned_bytes}
        return {"cpus": self.cpus, "threads": self.threads, **memory, "ranks": self.ranks}


def slots_within(bytes_: int, batch_bytes: int | None, most: int, least: int = 2) -> int:
    """How many batches of this size fit, `least` to `most`; while the size is unknown, the least."""
    if batch_bytes is None:
        return least
    return min(most, max(least, bytes_ // max(1, batch_bytes)))


LOOK_SECONDS = 0.5
LOOK_BATCHES = 3  # and so many of each thread: a clock knows the CPU time of a stretch at its end
_LEAST_BUSY_SECONDS = 0.05  # a look at less than this says nothing
_NEW = 0.5  # weight of the latest look
_ROOM = 1.25  # more threads are allowed if they are so many times as many
_EXCESS = 1.1  # fewer threads are allowed if they would use so many times the budget


class CpuUse:
    """`cpus`: the budget. Numbers of threads: `fewest` are allowed in any case; `most` exist; `allowed` may
    work at once.
    """

    def __init__(self, cpus: float, fewest: int, most: int, known: int = 0) -> None:
        self._cpus, self._fewest, self._most = cpus, min(fewest, most), most
        self.allowed = min(most, max(self._fewest, known))
        self.share: float | None = None  # of a CPU, that one at work takes
        self.used = 0.0  # CPUs, by all of them, in the latest look
        self._before: tuple[float, int, int] | None = None

    def restart(self) -> None:
        """Begin anew with other threads, with other times."""
        self._before = None

    def look(self, now: float, readings: list[Any]) -> bool:
        """Take `readings` of the threads' clocks (counters.Reading) at `now`, in seconds. Returns whether
        `allowed` has changed.
        """
        busy = sum(sum(reading[3][:IDLE]) for reading in readings)
        cpu = sum(sum(reading[4][:IDLE]) for reading in readings)
        before, self._before = self._before, (now, busy, cpu)
        if before is None or now <= before[0]:
            return False
        spent, used = (busy - before[1]) * 1e-9, max(0.0, (cpu - before[2]) * 1e-9)
        self.used = used / (now - before[0])
        if spent < _LEAST_BUSY_SECONDS:
            return False
        share = min(1.0, used / spent)
        self.share = share if self.share is None else _NEW * share + (1 - _NEW) * self.share
        fit = math.floor(self._cpus / self.share) if self.share * self._most > self._cpus else self._most
        fit = min(self._most, max(self._fewest, fit))
        if fit >= _ROOM * self.allowed or (
            fit < self.allowed and self.allowed * self.share > _EXCESS * self._cpus
        ):
            self.allowed = fit
            return True
        return False
