"""What the GPU benchmarks run on, and their clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import torch


class Machine:
    """The GPU, or what stands for it in a dry run: sizes, the clock, and how a tensor gets there."""

    def __init__(self, fake: bool) -> None:
        self.fake = fake
        self.device = torch.device("cpu" if fake else "cuda:0")
        self.batch, self.batches, self.pictures, self.workers = (4, 6, 12, 2) if fake else (64, 60, 2048, 16)
        self.side = 32 if fake else 224

    def sync(self) -> None:
        if not self.fake:
            torch.cuda.synchronize()

    def pinned(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor if self.fake else tensor.pin_memory()

    def host_allocations(self) -> int:
        return 0 if self.fake else torch.cuda.host_memory_stats()["num_host_alloc"]


def timed(
    here: Machine, batches: Iterable[Any], each: Callable[[Any], Any] = lambda batch: None, warm: int = 3
) -> tuple[float, int]:
    """Seconds of the batches behind the first `warm`, and their number; `each` is the step."""
    start, count = 0.0, -warm
    for batch in batches:
        each(batch)
        count += 1
        if count == 0:
            here.sync()
            start = time.perf_counter()
    here.sync()
    return time.perf_counter() - start, count
