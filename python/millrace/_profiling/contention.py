"""How much of the time in which workers wanted a CPU somebody else had it: what the kernel's scheduler says
of each thread.

/proc/PID/task/TID/schedstat holds nanoseconds on a CPU and nanoseconds ready and waiting for one, since the
thread began. Some systems keep none; then nothing is known of it, and it counts as none.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

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
