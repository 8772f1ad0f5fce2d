"""Datasets that are Python code in worker processes: torch's loader and millrace, taking turns in one
process.

    python -m benchmarks.python_workers [--pairs 15] [--workers 2] [--out
    benchmarks/results/python_workers/NAME.jsonl] [scenario ...]

First both sides deliver the same batches, compared value by value; then they run in pairs, the order within a
pair alternating. Each repeat is stored. Printed: the median of each side, and the median ratio of the pairs
with its 95 % bootstrap interval.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import millrace
import numpy as np
import torch
from torch.utils.data import DataLoader as TorchLoader
from torch.utils.data import Dataset, IterableDataset, get_worker_info

from benchmarks.compare import interval
from benchmarks.harness import run_facts
from benchmarks.probes import Epoch, tree_cpu_seconds

BATCH = 64


class Wide(Dataset):
    """602 kB of floats from a cheap __getitem__."""

    def __init__(self, batches: int) -> None:
        self.length = BATCH * batches

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> np.ndarray:
        sample = np.empty((3, 224, 224), dtype=np.float32)
        sample.fill(index)
        return sample


class SmallDicts(Wide):
    """Three small fields, at hand when they are asked for."""

    floats, more = list(torch.rand(1000, 16)), list(torch.rand(1000, 4))

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"x": self.floats[index % 1000], "y": index, "z": self.more[index % 1000]}


class Scalars(Wide):
    def __getitem__(self, index: int) -> float:
        return index * 0.5


class Texts(Wide):
    def __getitem__(self, index: int) -> tuple[str, int]:
        return f"sentence number {index} of many", index


class Payloads(Wide):
    """Encoded pictures, which nobody decodes: 108 kB of bytes, at hand when they are asked for."""

    payloads = [bytes([number]) * 108_000 for number in range(8)]

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"key": f"{index:08}", "jpg": self.payloads[index % 8], "label": index % 10}


class Stream(IterableDataset):
    def __init__(self, batches: int) -> None:
        self.length = BATCH * batches

    def __iter__(self) -> Any:
        info = get_worker_info()
        for index in range(info.id, self.length, info.num_workers):
            yield {"x": torch.full((100,), float(index)), "y": index}


def stack(samples: list[np.ndarray]) -> torch.Tensor:
    return torch.stack([torch.from_numpy(sample) for sample in samples])


def as_list(samples: list) -> list:
    return samples


#: name -> (dataset, number of batches, arguments, whether the consumer reads every value)
SCENARIOS: dict[str, tuple[Callable[[int], Any], int, dict[str, Any], bool]] = {
    "wide_rows": (Wide, 200, {}, False),
    "wide_rows_read": (Wide, 120, {}, True),
    "wide_rows_own_collate": (Wide, 40, {"collate_fn": stack}, False),
    "small_dicts": (SmallDicts, 800, {}, False),
    "small_dicts_batch_8": (SmallDicts, 200, {"batch_size": 8}, False),
    "scalars": (Scalars, 1000, {}, False),
    "texts": (Texts, 600, {}, False),
    "bytes": (Payloads, 100, {"batch_size": 16}, False),
    "bytes_own_collate": (Payloads, 100, {"batch_size": 16, "collate_fn": as_list}, False),
    "lists": (Scalars, 600, {"collate_fn": as_list}, False),
    "stream_of_dicts": (Stream, 400, {}, False),
    "one_by_one": (SmallDicts, 30, {"batch_size": None}, False),
}


def flat(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [part for key in value for part in (key, *flat(value[key]))]
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, *(part for item in value for part in flat(item))]
    return [value]


def same(a: Any, b: Any) -> bool:
    a, b = flat(a), flat(b)
    return len(a) == len(b) and all(
        torch.equal(x, y) and x.dtype == y.dtype if isinstance(x, torch.Tensor) else x == y
        for x, y in zip(a, b)
    )


class Side:
    def __init__(self, name: str, loader_class: Any, scenario: str, workers: int) -> None:
        make, batches, arguments, self.reads = SCENARIOS[scenario]
        arguments = {"batch_size": BATCH, **arguments}
        self.name = name
        self.fresh = loader_class(make(batches), num_workers=workers, **arguments)
        self.kept = loader_class(make(4 * workers), num_workers=workers, persistent_workers=True, **arguments)

    def rate(self) -> dict[str, float]:
        """Batches per second after the first; milliseconds to the first batch of new workers, and of workers
        that stayed.
        """
        started = time.perf_counter()
        iterator = iter(self.fresh)
        next(iterator)
        first = time.perf_counter() - started
        cpu, started, count = tree_cpu_seconds(os.getpid()), time.perf_counter(), 0
        for batch in iterator:
            count += 1
            if self.reads:
                batch.sum()
        seconds = time.perf_counter() - started
        del batch, iterator
        cpu = tree_cpu_seconds(os.getpid()) - cpu
        for _ in self.kept:
            pass
        started = time.perf_counter()
        iterator = iter(self.kept)
        next(iterator)
        restart = time.perf_counter() - started
        for _ in iterator:
            pass
        return {
            "batches_per_s": count / seconds,
            "cpu_ms_per_batch": 1000 * cpu / count,
            "first_ms": 1000 * first,
            "restart_ms": 1000 * restart,
        }


def measure(scenario: str, workers: int, pairs: int) -> list[dict[str, Any]]:
    sides = [
        Side("torch", TorchLoader, scenario, workers),
        Side("millrace", millrace.DataLoader, scenario, workers),
    ]
    for a, b in zip(sides[0].fresh, sides[1].fresh):
        if not same(a, b):
            raise SystemExit(f"{scenario}: the two sides do not deliver the same batches")
    assert sides[1].fresh.stats()["engine"] == "processes"
    cpus = sorted(os.sched_getaffinity(0))
    records = []
    for pair in range(-1, pairs):  # pair -1 warms up
        for side in sides if pair % 2 else reversed(sides):
            timer = Epoch(cpus)
            record = side.rate()
            others = timer.stop()["others_share"]
            if pair >= 0:
                records.append(
                    {
                        "scenario": scenario,
                        "workers": workers,
                        "pair": pair,
                        "loader": side.name,
                        "others_share": others,
                        **record,
                    }
                )
    return records


def report(scenario: str, records: list[dict[str, Any]]) -> None:
    def column(loader: str, key: str) -> list[float]:
        return [
            record[key] for record in sorted(records, key=lambda r: r["pair"]) if record["loader"] == loader
        ]

    print(f"{scenario} ({len(column('torch', 'first_ms'))} pairs)")
    for key, better in (("batches_per_s", 1), ("cpu_ms_per_batch", -1), ("first_ms", -1), ("restart_ms", -1)):
        torchs, ours = column("torch", key), column("millrace", key)
        ratios = [(b / a) ** better for a, b in zip(torchs, ours)]
        low, high = interval(ratios)
        print(
            # fmt: skip
            f"  {key:18} torch {statistics.median(torchs):10.2f}  millrace {statistics.median(ours):10.2f}  "
            f"better by {statistics.median(ratios):6.2f} x ({low:.2f} - {high:.2f})",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("scenarios", nargs="*", help=", ".join(SCENARIOS))
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/python_workers/local.jsonl"))
    options = parser.parse_args()
    common = {**run_facts(("torch",)), "kind": "python_workers"}
    with open(options.out, "w") as out:
        for scenario in options.scenarios or SCENARIOS:
            records = measure(scenario, options.workers, options.pairs)
            for record in records:
                print(json.dumps({**common, **record}), file=out, flush=True)
            report(scenario, records)


if __name__ == "__main__":
    main()
