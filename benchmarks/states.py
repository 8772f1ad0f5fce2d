"""What a loader's state costs: microseconds of state_dict() in mid-epoch, its bytes as JSON, microseconds
from a state to the next batch.

    python -m benchmarks.states [--rounds 15] [--out FILE.jsonl]

Before anything is timed, a loader resumed from the state must give the rest of the epoch. Each repeat is one
line of JSON. Two revisions are compared by benchmarks/revisions.py.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from millrace import DataLoader, samplers
from torch.utils.data import TensorDataset, WeightedRandomSampler

from benchmarks import probes
from benchmarks.harness import QUIET_SHARE, run_facts
from benchmarks.runs import hold_to_cpus, options

SAMPLES, BATCH, STEPS = 10**6, 256, 1000  # the epoch is resumed behind STEPS of its batches
ROWS = TensorDataset(torch.arange(SAMPLES))
ORDERS: dict[str, Callable[[], dict[str, Any]]] = {
    "in order": dict,
    "shuffled": lambda: {"shuffle": True},
    "shuffled, own generator": lambda: {"shuffle": True, "generator": torch.Generator().manual_seed(1)},
    "weighted": lambda: {"sampler": WeightedRandomSampler(torch.ones(SAMPLES), SAMPLES)},
    "permutation": lambda: {"sampler": samplers.PermutationSampler(SAMPLES)},
    "shuffle buffer": lambda: {
        "sampler": samplers.ShuffleBuffer(10_000)(samplers.PermutationSampler(SAMPLES))
    },
}


def make(order: str, workers: int) -> DataLoader:
    return DataLoader(ROWS, BATCH, num_workers=workers, native="require", **ORDERS[order]())


def stopped(order: str, workers: int) -> tuple[DataLoader, Any]:
    loader = make(order, workers)
    iterator = iter(loader)
    for _ in range(STEPS):
        next(iterator)
    return loader, iterator


def check(order: str, workers: int) -> None:
    loader, iterator = stopped(order, workers)
    state = json.loads(json.dumps(loader.state_dict()))
    resumed = make(order, workers)
    resumed.load_state_dict(state)
    for (theirs,), (ours,) in zip(iterator, resumed, strict=True):
        assert torch.equal(theirs, ours), f"{order}: the resumed epoch is another"


def timed(order: str, workers: int) -> dict[str, Any]:
    loader, _iterator = stopped(order, workers)
    start = time.perf_counter()
    first = loader.state_dict()
    once = time.perf_counter() - start
    start = time.perf_counter()
    for _ in range(200):
        loader.state_dict()
    again = (time.perf_counter() - start) / 200
    resumed = make(order, workers)
    start = time.perf_counter()
    resumed.load_state_dict(first)
    next(iter(resumed))
    return {
        "us": again * 1e6,
        "first_us": once * 1e6,
        "bytes": len(json.dumps(first)),
        "resume_us": (time.perf_counter() - start) * 1e6,
    }


def main() -> None:
    parser = options(__doc__, "states", 15)
    arguments = parser.parse_args()
    cpus = hold_to_cpus(2)
    os.makedirs(os.path.dirname(os.path.abspath(arguments.out)), exist_ok=True)
    common = {
        "cpus": len(cpus),
        **run_facts(("torch",)),
        "data": {"samples": SAMPLES, "batch": BATCH, "steps": STEPS},
    }
    print("| order | workers | state_dict(), µs | the first one | bytes of JSON | from state to batch, µs |")
    print("|---|---:|---:|---:|---:|---:|")
    with open(arguments.out, "a") as out:
        for order in ORDERS:
            for workers in (0, 2):
                print(f"{order}: checking", file=sys.stderr, flush=True)
                check(order, workers)
                records = []
                for repeat in range(arguments.rounds):
                    timer = probes.Epoch(cpus)
                    record = {
                        **common,
                        "scenario": order,
                        "workers": workers,
                        "repeat": repeat,
                        **timed(order, workers),
                    }
                    others = timer.stop()["others_share"]
                    records.append({**record, "others_share": others, "quiet": others <= QUIET_SHARE})
                    print(json.dumps(records[-1]), file=out, flush=True)
                counted = [record for record in records if record["quiet"]] or records
                cells = [
                    statistics.median(record[key] for record in counted)
                    for key in ("us", "first_us", "bytes", "resume_us")
                ]
                print(
                    f"| {order} | {workers} | {cells[0]:.1f} | {cells[1]:.1f} | {cells[2]:,.0f} |"
                    f" {cells[3]:,.0f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
