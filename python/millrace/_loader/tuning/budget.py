"""Budget: what one loader's tuning may use of the machine: CPUs, memory, page-locked memory.

The ranks of a node share it: CPUs and memory are divided by LOCAL_WORLD_SIZE, which torchrun and others set.
Memory is that which may still be taken when the first iterator is made: the smallest of what the machine has
and what each cgroup leaves.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from ... import _core

DEFAULT_SHARE = 0.1  # of the memory that may be taken
PINNED_SHARE = 0.5  # of the budget: page-locked memory is lost to the page cache and to everybody else


def checked_memory(budget: None | int | float) -> None | int | float:
    """The argument `memory_budget`: None, bytes, or a share of what is available."""
    if budget is None or isinstance(budget, float) and 0.0 < budget < 1.0:
        return budget
    if isinstance(budget, (bool, float)) or not isinstance(budget, Integral) or budget < 1:
        raise ValueError(
            f"memory_budget={budget!r} is neither a number of bytes nor a share between 0 and 1; 2**30 is a"
            " GiB, 0.25 a quarter of the memory that may be taken"
        )
    return int(budget)


def ranks_of_node() -> int:
    try:
        return max(1, int(os.environ.get("LOCAL_WORLD_SIZE", "1")))
    except ValueError:
        return 1


@dataclass(frozen=True)
class Budget:
    cpus: float
    threads: int
    """Whole ones that fit into it: what computes all the time."""
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
        """For batches in memory."""
        return self.pinned_bytes if pinned else self.memory_bytes

    def as_dict(self) -> dict[str, Any]:
        memory = {"memory_bytes": self.memory_bytes, "pinned_bytes": self.pinned_bytes}
        return {"cpus": self.cpus, "threads": self.threads, **memory, "ranks": self.ranks}


def slots_within(bytes_: int, batch_bytes: int | None, most: int, least: int = 2) -> int:
    """How many batches of this size fit, `least` to `most`; while the size is unknown, the least."""
    if batch_bytes is None:
        return least
    return min(most, max(least, bytes_ // max(1, batch_bytes)))
