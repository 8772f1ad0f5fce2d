"""One measurement of one configuration, in a process of its own: a loop that takes batches and does nothing
with them, or a step; and what Linux knows of that process and its descendants.

Timed apart: the first batch, from `iter()`. Then batches that fill the queues are taken without being
counted, then comes the window. Epochs follow each other; what it costs to begin one is part of the time.
Clocks are monotonic, so a change of the date is not seen.
"""

from __future__ import annotations

import itertools
import os
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ..measured_rate import is_batched, samples_in
from ..system_files import SystemFiles
from .configurations import Configuration, make_loader
from .targets import Source

_TICK = os.sysconf("SC_CLK_TCK")
_FILES = SystemFiles()


def tree(pid: int) -> list[int]:
    """`pid` and its living descendants."""
    found = [pid]
    for parent in found:  # those that ended meanwhile have none
        for task in _FILES.names(f"/proc/{parent}/task"):
            found += map(int, _FILES.text(f"/proc/{parent}/task/{task}/children").split())
    return found


def cpu_seconds(pid: int) -> float:
    """User and system time of `pid`, its living descendants and those already waited for; in hundredths of a
    second.
    """
    stats = (_FILES.text(f"/proc/{process}/stat").rpartition(")")[2].split() for process in tree(pid))
    return sum(sum(map(int, stat[11:15])) for stat in stats) / _TICK


def memory_bytes(pid: int) -> int:
    """Memory of the tree, where pages that n processes share count once (proportional set size). Takes
    milliseconds per process.
    """
    return sum(_field(process, "smaps_rollup", "Pss") for process in tree(pid))


def given_back_bytes(pid: int) -> int:
    """By how much the processes of the tree had more memory at their peaks, summed: what they took for a
    while.
    """
    return sum(
        max(0, _field(process, "status", "VmHWM") - _field(process, "status", "VmRSS"))
        for process in tree(pid)
    )


def _field(pid: int, file_name: str, name: str) -> int:
    """Bytes; 0 for a process that is gone."""
    return 1024 * int(_FILES.values(f"/proc/{pid}/{file_name}").get(name, "0").partition(" ")[0])


_KEPT = 2000  # times of single batches that a record has
_BUSY = bytes(1 << 16)
_ANY_SIZE = 1 << 62  # of the batches of a batch_sampler
_MOST_ERRORS = 5


@dataclass(frozen=True)
class Task:
    """`step_s`: time of the loop between two batches, asleep or busy on one CPU. `seconds` or `steps` to
    measure.

    `warm_s`: at least so long before the measurement, for workers with fresh memory; `limit_s`: when to end
        with the results so far.
    """

    seconds: float
    steps: int | None = None
    step_s: float = 0.0
    step_busy: bool = False
    limit_s: float = 60.0
    warm_s: float = 0.0


class NoBatches(ValueError):
    """An epoch of the loader is empty."""


def endless(loader: Any) -> Iterator[tuple[int, Any]]:
    """(which epoch, batch), epoch after epoch. NoBatches where one is empty."""
    for epoch in itertools.count(1):
        empty = True
        for batch in loader:
            empty = False
            yield epoch, batch
        if empty:
            raise NoBatches(_why_empty(loader))


def _why_empty(loader: Any) -> str:
    try:
        length = len(loader.dataset)
    except TypeError:
        return f"the {type(loader.dataset).__name__} yields no samples"
    if length and loader.drop_last:
        return f"{length} samples are less than a batch of {loader.batch_size}, and drop_last=True drops it"
    return f"the loader yields no batches of its {length} samples"


def counted(batch: Any, loader: Any) -> int:
    """Samples of a batch, at most as many as the loader puts into one."""
    size = loader.batch_size
    return min(size or _ANY_SIZE, samples_in(batch, is_batched(loader), unknown=size or 1))


def step_of(task: Task) -> Callable[[], None]:
    """What the loop does between two batches."""

    def step() -> None:
        end = time.perf_counter() + task.step_s
        if not task.step_busy:
            time.sleep(task.step_s)
        while time.perf_counter() < end:
            zlib.crc32(_BUSY)  # without the GIL, as the operators of torch

    return step if task.step_s > 0 else lambda: None


def measure(
    source: Source,
    configuration: Configuration,
    task: Task,
    facts: dict[str, Any],
    root: int,
    send: Callable[[Any], None],
) -> None:
    """Calls `send` with a record of plain values, before the iterator is closed, which may take a while.

    samples, batches, seconds, rate (samples/s), wait_seconds, first_seconds, cpu_seconds (of the loader:
    without that of a busy step), memory_bytes (of the tree of process `root`, with what was there for a
    while), waits and ends of single batches (seconds), left_out and errors (by on_error).
    """
    loader = make_loader(configuration, source, facts)
    clock, own, step = time.perf_counter, time.thread_time, step_of(task)
    start = clock()
    batches = endless(loader)
    epoch, batch = next(batches)
    filled = clock()
    first, deadline, warm = filled - start, start + task.limit_s, 0
    while (now := clock()) < deadline:
        seconds = now - filled
        if seconds >= task.warm_s and (warm >= configuration.queue or seconds >= task.seconds):
            break
        step()
        epoch, batch = next(batches)
        warm += 1

    waits: list[float] = []
    ends: list[float] = []
    samples, step_cpu, first_epoch = 0, 0.0, epoch
    # Worker processes deliver in turns: windows of whole turns are all alike.
    together = max(1, configuration.workers)
    cpu, begin = cpu_seconds(os.getpid()), clock()
    while True:
        before = own()
        step()
        step_cpu += own() - before
        called = clock()
        epoch, batch = next(batches)
        end = clock()
        waits.append(end - called)
        ends.append(end - begin)
        samples += counted(batch, loader)
        turns = len(waits) % together == 0 or end - begin >= 2 * task.seconds
        enough = end - begin >= task.seconds and turns if task.steps is None else len(waits) >= task.steps
        if enough or end >= deadline:
            break
    cpu = max(0.0, cpu_seconds(os.getpid()) - cpu - step_cpu * task.step_busy)
    stats = loader.stats() if hasattr(loader, "stats") else {}
    errors = stats.get("errors", [])[:_MOST_ERRORS]
    send(
        {
            "samples": samples,
            "batches": len(waits),
            "seconds": end - begin,
            "rate": samples / (end - begin),
            "wait_seconds": sum(waits),
            "first_seconds": first,
            "cpu_seconds": cpu,
            "memory_bytes": memory_bytes(root) + given_back_bytes(os.getpid()),
            "epochs": epoch - first_epoch + 1,
            "engine": stats.get("engine", ""),
            "waits": waits[:_KEPT],
            "ends": ends[:_KEPT],
            "left_out": stats.get("left_out", 0),
            "errors": [{"index": error["index"], "reason": str(error["reason"])} for error in errors],
        }
    )
