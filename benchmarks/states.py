"""What a loader's state costs: microseconds of state_dict() in mid-epoch, its bytes as JSON, microseconds
from a state to the next batch.

    python -m benchmarks.states [--rounds 15] [--against FOLDER] [--out FILE.jsonl]

Before anything is timed, a loader resumed from the state must give the rest of the epoch. Each repeat is one
line of JSON. `--against`: a folder with another revision of millrace, built; both are then measured in turns,
by two processes on one CPU that stay, and the table has the ratios within pairs, with 95 % bootstrap
intervals. On a shared machine only that shows less than a factor of two.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import millrace
import torch
from millrace import DataLoader, samplers
from torch.utils.data import TensorDataset, WeightedRandomSampler

from benchmarks import probes
from benchmarks.compare import interval
from benchmarks.harness import QUIET_SHARE, revision, run_facts
from benchmarks.runs import hold_to_cpus, options, stored

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

PAIRED = ("in order", "permutation", "shuffle buffer", "shuffled")


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


def serve() -> None:
    """A side of --against: for each [order, workers] on standard input, a line with the smallest times of
    some repeats.
    """
    hold_to_cpus(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of workers on one CPU
        kept = {key: stopped(*key) for key in itertools.product(PAIRED, (0, 2))}
        print(json.dumps(millrace.__file__), flush=True)
        for line in sys.stdin:
            order, workers = json.loads(line)
            loader, _ = kept[order, workers]
            state = loader.state_dict()
            resumed, again = [], []
            for _ in range(4 if order.startswith("shuffle") else 12):  # these draw a permutation each time
                twin = make(order, workers)
                start = time.perf_counter()
                twin.load_state_dict(state)
                next(iter(twin))
                resumed.append(time.perf_counter() - start)
            for _ in range(40):
                start = time.perf_counter()
                loader.state_dict()
                again.append(time.perf_counter() - start)
            print(json.dumps({"us": min(again) * 1e6, "resume_us": min(resumed) * 1e6}), flush=True)


class Side:
    """A process that serves with the millrace of `folder`."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.states", "--serve"],
            env={**os.environ, "PYTHONPATH": str(folder / "python")},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        found = Path(self.answer())
        if folder.resolve() not in found.resolve().parents:
            raise SystemExit(f"{folder} has no millrace that is built: what was imported is {found}")

    def answer(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def ask(self, order: str, workers: int) -> dict[str, float]:
        assert self.process.stdin is not None
        print(json.dumps([order, workers]), file=self.process.stdin, flush=True)
        return self.answer()


def pairs(against: Path, rounds: int, common: dict[str, Any], out: str) -> None:
    here = Path(__file__).resolve().parents[1]
    sides = {"other": Side(against), "this": Side(here)}
    revisions = {name: revision(folder) for name, folder in (("other", against), ("this", here))}

    def records() -> Iterator[dict[str, Any]]:
        for order, workers in itertools.product(PAIRED, (0, 2)):
            for repeat in range(rounds):
                for name in sorted(sides, reverse=bool(repeat % 2)):
                    yield {
                        **common,
                        "scenario": order,
                        "workers": workers,
                        "repeat": repeat,
                        "side": name,
                        "revision": revisions[name],
                        **sides[name].ask(order, workers),
                    }

    kept = stored(records(), out)
    print("| order | workers | state_dict(), this : other | from state to batch, this : other |")
    print("|---|---:|---:|---:|")
    for order, workers in itertools.product(PAIRED, (0, 2)):
        cells = []
        for key in ("us", "resume_us"):
            mine = [r for r in kept if (r["scenario"], r["workers"]) == (order, workers)]
            found = {name: [r[key] for r in mine if r["side"] == name] for name in sides}
            ratios = [a / b for a, b in zip(found["this"], found["other"], strict=True)]
            low, high = interval(ratios, statistics.median)
            cells.append(f"{statistics.median(ratios):.2f} ({low:.2f} - {high:.2f})")
        print(f"| {order} | {workers} | {cells[0]} | {cells[1]} |")
    for side in sides.values():
        side.process.terminate()


def main() -> None:
    parser = options(__doc__, "states", 15)
    parser.add_argument("--against", type=Path, help="a folder with another revision, built")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve()
        return
    cpus = hold_to_cpus(1 if arguments.against else 2)
    os.makedirs(os.path.dirname(os.path.abspath(arguments.out)), exist_ok=True)
    common = {
        "cpus": len(cpus),
        **run_facts(("torch",)),
        "data": {"samples": SAMPLES, "batch": BATCH, "steps": STEPS},
    }
    if arguments.against:
        pairs(arguments.against, arguments.rounds, common, arguments.out)
        return
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
