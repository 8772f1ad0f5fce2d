"""What the GPU benchmarks run on, and their clock."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch


class Machine:
    """The GPU, or what stands for it in a dry run: sizes, the clock, and how a tensor gets there."""

    def __init__(self, fake: bool) -> None:
        self.fake = fake
        self.device = torch.device("cpu" if fake else "cuda:0")
        self.batch, self.batches, self.pictures = (4, 6, 12) if fake else (64, 60, 2048)
        self.workers = 2 if fake else len(os.sched_getaffinity(0))
        self.side = 32 if fake else 224
        #: batches that are made ahead before the clock starts: more than any side holds ready
        self.warm = 2 if fake else 2 * self.workers + 8
        self.total = self.warm + self.batches

    def sync(self) -> None:
        if not self.fake:
            torch.cuda.synchronize()

    def pinned(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor if self.fake else tensor.pin_memory()

    def host_allocations(self) -> int:
        return 0 if self.fake else torch.cuda.host_memory_stats()["num_host_alloc"]


class Repeated(torch.utils.data.Sampler):
    """The indices of a data set for `count` samples: in order, or in another random order each time round."""

    def __init__(self, length: int, count: int, shuffle: bool = False) -> None:
        order = torch.randperm if shuffle else torch.arange
        rounds = [order(length) for _ in range(-(-count // length))]
        self.indices = torch.cat(rounds)[:count].tolist()

    def __len__(self) -> int:
        return len(self.indices)

    def __iter__(self) -> Iterator[int]:
        return iter(self.indices)


def moved(loader: Iterable[Any], here: Machine) -> Iterator[Any]:
    for batch in loader:
        yield [part.to(here.device, non_blocking=True) for part in batch]


def timed(
    here: Machine, batches: Iterable[Any], each: Callable[[Any], Any] = lambda batch: None
) -> tuple[float, int]:
    """Seconds of the batches behind the first `here.warm`, and their number; `each` is the step."""
    start, count = 0.0, -here.warm
    for batch in batches:
        each(batch)
        count += 1
        if count == 0:
            here.sync()
            start = time.perf_counter()
    here.sync()
    return time.perf_counter() - start, count
