"""The frame of a benchmark that runs in one process: the CPUs it is held to, each record stored as it comes,
a table at its end.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch.utils.data import Sampler

from benchmarks import probes
from benchmarks.harness import choose_cpus, quiet_rounds


def options(
    about: str | None, name: str, rounds: int, scenarios: Iterable[str] = ()
) -> argparse.ArgumentParser:
    """What benchmarks are asked alike: --rounds, --out, and --scenario where there are some to choose from.
    `about`: the module's text; `name`: of its folder of results.
    """
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    if known := list(scenarios):
        parser.add_argument("--scenario", nargs="+", default=known, choices=known)
    parser.add_argument("--rounds", type=int, default=rounds)
    out = f"benchmarks/results/{name}/local.jsonl"
    parser.add_argument("--out", default=out, help="results are appended to this file")
    return parser


def hold_to_cpus(most: int) -> list[int]:
    """Holds this process to `most` CPUs, or as many as there are, and torch to one thread. Returns the
    CPUs.
    """
    torch.set_num_threads(1)
    cpus = choose_cpus(min(most, len(os.sched_getaffinity(0))))
    os.sched_setaffinity(0, cpus)
    return cpus


def stored(records: Iterable[dict], out: str) -> list[dict]:
    """All of them, each appended to the file `out` as it comes, a line of JSON."""
    os.makedirs(os.path.dirname(os.path.abspath(out)), exist_ok=True)
    kept = []
    with open(out, "a") as file:
        for record in records:
            kept.append(record)
            print(json.dumps(record), file=file, flush=True)
    return kept


def timed_epoch(
    batches: Iterable,
    cpus: list[int],
    rows_of: Callable[[Any], int] = len,
    spent: Callable[[], float] | None = None,
) -> dict:
    """What probes.Epoch, which has `spent`, tells of it, its rows and batches, and the seconds to its first
    batch.
    """
    timer, rows, count = probes.Epoch(cpus, spent), 0, 0
    start, first = time.perf_counter(), None
    for batch in batches:
        first = first or time.perf_counter() - start
        rows += rows_of(batch)
        count += 1
    return {**timer.stop(), "rows": rows, "batches": count, "first_s": first}


Sides = dict[
    str, tuple[int, Callable[[], Iterable]]
]  # name: (workers, epochs); epochs() begins one epoch and returns its batches


def rows_in_turns(
    sides: Sides, rounds: int, cpus: list[int], common: dict, rows_of: Callable[[Any], int] = len
) -> Iterator[dict]:
    """The records of quiet_rounds() of one epoch of each side, in alternating direction."""

    def one_round(repeat: int) -> list[dict]:
        records = []
        for name in list(sides)[:: -1 if repeat % 2 else 1]:
            workers, epochs = sides[name]
            times = timed_epoch(epochs(), cpus, rows_of)
            records.append(
                {
                    **common,
                    "loader": name,
                    "workers": workers,
                    "kind": "epoch",
                    "repeat": repeat,
                    **times,
                    "rows_per_s": times["rows"] / times["seconds"],
                }
            )
        return records

    return quiet_rounds(rounds, one_round)


class Some(Sampler):
    """`count` of `rows` numbers, the same ones in another order each epoch. RandomSampler would draw an order
    of all rows for them, and an
    epoch left early would leave workers at work while the next side is timed.
    """

    def __init__(self, rows: int, count: int) -> None:
        self.chosen = torch.randperm(rows)[:count]

    def __iter__(self) -> Iterator[int]:
        return iter(self.chosen[torch.randperm(len(self.chosen))].tolist())

    def __len__(self) -> int:
        return len(self.chosen)


def rounds_told(records: list[dict], kind: str = "epoch") -> str:
    """How many rounds were quiet, of how many, on which CPU."""
    rounds = {(r["scenario"], r["repeat"]): r["quiet"] for r in records if r["kind"] == kind}
    return f"{sum(rounds.values())} quiet rounds of {len(rounds)}, {records[0]['machine']['cpu']}"


def run_scenarios(
    names: Iterable[str],
    out: str,
    measure: Callable[[str, list[int]], Iterator[dict]],
    table: Callable[[list[dict]], str],
) -> None:
    """Stores the records of measure(name, cpus) in the file `out` and prints table(records) of each scenario,
    on two CPUs at most.
    """
    cpus = hold_to_cpus(2)
    for name in names:
        records = stored(measure(name, cpus), out)
        print(f"**{name}**, {rounds_told(records)}\n\n{table(records)}\n")
