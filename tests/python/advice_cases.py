"""Loaders that can be improved in a known way. What they do takes its time by sleeping, so that what a change
brings is known, too.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import torch
from millrace import DataLoader
from millrace_tools.advice import Suggestion
from torch.utils.data import Dataset


class Sleeps(Dataset):
    """Samples that take `seconds`. `uneven`: one batch of 2 in seven takes all that the seven would."""

    def __init__(self, length, seconds, uneven=False):
        self.length, self.seconds, self.uneven = length, seconds, uneven

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        if not self.uneven:
            time.sleep(self.seconds)
        elif index // 2 % 7 == 3:
            time.sleep(self.seconds * 7)
        return index


class SlowOrder(torch.utils.data.Sampler):
    def __init__(self, length, seconds):
        self.length, self.seconds = length, seconds

    def __len__(self):
        return self.length

    def __iter__(self):
        for i in range(self.length):
            time.sleep(self.seconds)
            yield i


def slow_collate(samples):
    time.sleep(0.04)
    return torch.tensor(samples)


def slow_start(worker):
    time.sleep(0.4)


@dataclass
class Case:
    name: str
    dataset: Dataset
    options: dict[str, Any]
    step: float
    changes: str  # the argument that the first suggestion must change; "" where nothing is to be gained
    epochs: int = 1
    whole: bool = False  # the start of an epoch counts

    def loader(self, **changes: Any) -> DataLoader:
        return DataLoader(self.dataset, **{"batch_size": 2, **self.options, **changes})

    def run(self, loader: DataLoader) -> tuple[float, Any]:
        """(samples per second of the last epoch, behind its first batch, or of all of it; the loader's
        advice)
        """
        for _ in range(self.epochs):
            for _ in loader:
                if self.step:
                    time.sleep(self.step)
        profile, advice = loader.profile(), loader.advice()
        rate = profile["samples"] / profile["wall_seconds"] if self.whole else advice.samples_per_second
        return rate, advice


THREADS = {"worker_method": "thread"}
CASES = [
    Case("one process is too few", Sleeps(80, 0.02), {"num_workers": 1}, 0.015, "num_workers"),
    Case("two threads are too few", Sleeps(200, 0.02), {"num_workers": 2, **THREADS}, 0.008, "num_workers"),
    Case("no workers", Sleeps(80, 0.015), {}, 0.01, "num_workers"),
    Case("no workers, a loop that takes as long", Sleeps(80, 0.01), {}, 0.02, "num_workers"),
    Case("no workers, threads", Sleeps(80, 0.015), THREADS, 0.015, "num_workers"),
    Case("two processes of three", Sleeps(120, 0.02), {"num_workers": 2}, 0.013, "num_workers"),
    Case(
        "slow collate", Sleeps(80, 0.001), {"num_workers": 1, "collate_fn": slow_collate}, 0.02, "num_workers"
    ),
    Case(
        "uneven batches",
        Sleeps(280, 0.015, True),
        {"num_workers": 3, "prefetch_factor": 1, **THREADS},
        0.015,
        "prefetch_factor",
    ),
    Case(
        "a slow sampler",
        Sleeps(80, 0.0),
        {"num_workers": 1, "sampler": SlowOrder(80, 0.01)},
        0.015,
        "sampler",
    ),
    Case("a slow sampler, no workers", Sleeps(80, 0.008), {"sampler": SlowOrder(80, 0.01)}, 0.0, "sampler"),
    Case(
        "a start in each epoch",
        Sleeps(80, 0.005),
        {"num_workers": 2, "worker_init_fn": slow_start},
        0.015,
        "persistent_workers",
        2,
        True,
    ),
    Case("a slow loop", Sleeps(80, 0.005), {"num_workers": 2, **THREADS}, 0.03, ""),
]


def followed(case: Case) -> tuple[float, float, float, Suggestion | None]:
    """(samples per second before, foretold, after the first suggestion was followed, the suggestion)"""
    before, advice = case.run(case.loader())
    if not advice:
        after, _ = case.run(case.loader(num_workers=2 * case.options.get("num_workers", 1)))
        return before, advice.samples_per_second, after, None
    first = advice[0]
    after, _ = case.run(case.loader(**first.arguments))
    return before, first.samples_per_second, after, first
