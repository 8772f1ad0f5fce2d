"""The frame of a benchmark with scenarios: the CPUs it is held to, rounds until enough were quiet, each record stored as it comes, a table
of each scenario at its end."""
from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator

import torch

from benchmarks.harness import QUIET_SHARE, choose_cpus


def run_scenarios(
    names: Iterable[str], out: str, measure: Callable[[str, list[int]], Iterator[dict]], table: Callable[[list[dict]], str]
) -> None:
    """Appends the records of measure(name, cpus) to the file `out`, a line of JSON each, and prints table(records) of each scenario.

    Holds this process to two CPUs at most, and torch to one thread.
    """
    torch.set_num_threads(1)
    cpus = choose_cpus(min(2, len(os.sched_getaffinity(0))))
    os.sched_setaffinity(0, cpus)
    os.makedirs(os.path.dirname(os.path.abspath(out)), exist_ok=True)
    for name in names:
        records = []
        with open(out, "a") as file:
            for record in measure(name, cpus):
                records.append(record)
                print(json.dumps(record), file=file, flush=True)
        rounds = {r["repeat"]: r["quiet"] for r in records if r["kind"] == "epoch"}
        print(f"**{name}**, {sum(rounds.values())} quiet rounds of {len(rounds)}, {records[0]['machine']['cpu']}\n\n{table(records)}\n")


def quiet_rounds(rounds: int, one_round: Callable[[int], list[dict]]) -> Iterator[dict]:
    """The records of one_round(0), one_round(1), ..., each with `quiet`, whether nobody else used much of the CPUs in its round: at least
    `rounds` quiet rounds, at most twice as many in all."""
    quiet = repeat = 0
    while quiet < rounds and repeat < 2 * rounds:
        records = one_round(repeat)
        calm = max(record["others_share"] for record in records) <= QUIET_SHARE
        yield from ({**record, "quiet": calm} for record in records)
        quiet += calm
        repeat += 1
