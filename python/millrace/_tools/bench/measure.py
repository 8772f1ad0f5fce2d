"""One measurement of one configuration, in a process of its own: a loop that takes batches and does nothing
with them, or a step.

Timed apart: the first batch, from `iter()`. Then batches that fill the queues are taken without being
counted, then comes the window. Epochs follow each other; what it costs to begin one is part of the time.
Clocks are monotonic, so a change of the date is not seen.
"""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import processes
from .configurations import Configuration, make_loader
from .targets import Source

_KEPT = 2000  # times of single batches that a record has
_BUSY = bytes(1 << 16)


@dataclass(frozen=True)
class Task:
    """`step_s`: what the loop does between two batches takes so long; asleep, or busy on one CPU. `seconds`
    or `steps` to measure.

    `warm_s`: what comes before it at least, for workers whose memory is fresh; `limit_s`: when to end with
        what there is.
    """

    seconds: float
    steps: int | None = None
    step_s: float = 0.0
    step_busy: bool = False
    limit_s: float = 60.0
    warm_s: float = 0.0


class NoBatches(ValueError):
    """An epoch of the loader is empty."""


class Batches:
    """`next()` without end: epoch after epoch."""

    def __init__(self, loader: Any) -> None:
        self._loader, self.epochs = loader, 1
        self._iterator, self._in_epoch = iter(loader), 0

    def next(self) -> Any:
        while True:
            try:
                batch = next(self._iterator)
            except StopIteration:
                if not self._in_epoch:
                    raise NoBatches(_why_empty(self._loader)) from None
                self._iterator, self._in_epoch = iter(self._loader), 0
                self.epochs += 1
            else:
                self._in_epoch += 1
                return batch


def _why_empty(loader: Any) -> str:
    try:
        length = len(loader.dataset)
    except TypeError:
        return f"the {type(loader.dataset).__name__} yields no samples"
    if length and loader.drop_last:
        return f"{length} samples are less than a batch of {loader.batch_size}, and drop_last=True drops it"
    return f"the loader yields no batches of its {length} samples"


def samples_in(batch: Any, batch_size: int | None) -> int:
    """How many samples a batch has: the length of its first field, at most `batch_size`. Of loaders without
    batches 1.
    """
    if batch_size is None:
        return 1
    while True:
        if isinstance(batch, dict) and batch:
            batch = next(iter(batch.values()))
        elif (
            isinstance(batch, (list, tuple)) and batch and not isinstance(batch[0], (str, bytes, int, float))
        ):
            batch = batch[0]
        else:
            break
    try:
        return min(len(batch), batch_size) or batch_size
    except TypeError:
        return batch_size


def _batch_size(loader: Any) -> int | None:
    if loader.batch_size is not None:
        return loader.batch_size
    return None if loader.batch_sampler is None else 1 << 62


def step_of(task: Task) -> Callable[[], None]:
    if task.step_s <= 0:
        return lambda: None
    if not task.step_busy:
        return lambda: time.sleep(task.step_s)

    def busy() -> None:
        end = time.perf_counter() + task.step_s
        while time.perf_counter() < end:
            zlib.crc32(_BUSY)  # without the GIL, as the operators of torch

    return busy


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
    clock, step, size = time.perf_counter, step_of(task), _batch_size(loader)
    start = clock()
    batches = Batches(loader)
    batch = batches.next()
    first = clock() - start
    deadline = start + task.limit_s
    filled, warm = clock(), 0
    while (now := clock()) < deadline:
        seconds = now - filled
        if seconds >= task.warm_s and (warm >= configuration.queue or seconds >= task.seconds):
            break
        step()
        batch = batches.next()
        warm += 1

    waits, ends = [], []
    samples = step_cpu = 0.0
    epochs = batches.epochs
    together = max(
        1, configuration.workers
    )  # worker processes deliver in turns: windows of whole turns are all alike
    cpu, own = processes.cpu_seconds(os.getpid()), time.thread_time
    begin = end = clock()
    while True:
        before = own()
        step()
        step_cpu += own() - before
        called = clock()
        batch = batches.next()
        end = clock()
        waits.append(end - called)
        ends.append(end - begin)
        samples += samples_in(batch, size)
        if task.steps is not None and len(waits) >= task.steps or end >= deadline:
            break
        if (
            task.steps is None
            and end - begin >= task.seconds
            and (len(waits) % together == 0 or end - begin >= 2 * task.seconds)
        ):
            break
    seconds = end - begin
    cpu = max(0.0, processes.cpu_seconds(os.getpid()) - cpu - step_cpu * task.step_busy)
    memory = processes.memory_bytes(root) + processes.given_back_bytes(os.getpid())
    send(
        {
            "samples": int(samples),
            "batches": len(waits),
            "seconds": seconds,
            "rate": samples / seconds,
            "wait_seconds": sum(waits),
            "first_seconds": first,
            "cpu_seconds": cpu,
            "memory_bytes": memory,
            "epochs": batches.epochs - epochs + 1,
            "engine": _engine(loader),
            "waits": waits[:_KEPT],
            "ends": ends[:_KEPT],
            **_left_out(loader),
        }
    )


def _engine(loader: Any) -> str:
    return loader.stats()["engine"] if hasattr(loader, "stats") else ""


def _left_out(loader: Any) -> dict[str, Any]:
    stats = loader.stats() if hasattr(loader, "stats") else {}
    errors = [
        {"index": error["index"], "reason": str(error["reason"])} for error in stats.get("errors", [])[:5]
    ]
    return {"left_out": stats.get("left_out", 0), "errors": errors}
