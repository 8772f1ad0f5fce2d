"""The arguments that may be "auto": as numbers that any framework can read, and that know what they were."""

from __future__ import annotations

import math
import multiprocessing
from typing import Any

from torch.utils.data import IterableDataset

from ... import _core

_LISTS_AHEAD = 16
_WAITING_PER_CPU, _FEW = 4, 8


class Auto(int):
    """A number that stands for "auto". Who takes it from a loader's attributes and makes another loader of it
    gives "auto" on.
    """

    def __reduce__(self) -> Any:
        return Auto, (int(self),)


def is_auto(value: Any, name: str) -> bool:
    """Whether an argument is "auto". ValueError for other strings."""
    if isinstance(value, str) and value != "auto":
        raise ValueError(f'{name}={value!r} is neither a number nor "auto"')
    return isinstance(value, (str, Auto))


def resolved_workers(value: Any, dataset: Any = None, context: Any = None, tuned: bool = True) -> Any:
    """How many are started: as many as there are CPUs for, if they compute; where few CPUs are, more, of
    which only those work that wait.

    Just as many as CPUs where nothing is `tuned`, so all work, and where each further one costs: of an
    iterable-style dataset, which they divide, and where a process is started with an interpreter of its own.
    """
    if not is_auto(value, "num_workers"):
        return value
    cpus = _core.cpu_budget()["threads"]
    if not tuned or isinstance(dataset, IterableDataset) or not _forks(context):
        return Auto(cpus)
    return Auto(max(cpus, min(_WAITING_PER_CPU * cpus, _FEW)))


def _forks(context: Any) -> bool:
    """Whether worker processes will be forked; asking must not fix the start method, which the user may still
    set.
    """
    if context is None:
        method = (
            multiprocessing.get_start_method(allow_none=True) or multiprocessing.get_all_start_methods()[0]
        )
    else:
        method = context if isinstance(context, str) else getattr(context, "get_start_method", str)()
    return method == "fork"


def resolved_prefetch(value: Any, workers: Any) -> int | None:
    """Index lists drawn ahead per worker: at least 16 in all, so that so many batches may be in memory. None
    without workers.
    """
    if not is_auto(value, "prefetch_factor"):
        return value
    return (
        Auto(max(2, math.ceil(_LISTS_AHEAD / workers))) if isinstance(workers, int) and workers > 0 else None
    )
