"""Samplers: the first index, every index, the state and the memory; millrace against torch where torch has
the sampler.

    python -m benchmarks.samplers [--scenario random_1e8 ...] [--rounds 7] [--out FILE.jsonl]

Before anything is timed, both sides must give the same indices and leave the generators in the same state.
Then each round gives every side its turn, in alternating direction. Each repeat is one line of JSON: `kind`
is `first` (seconds from iter() to the first index), `index` (ns for each of `indices` behind the first, as
Python ints one by one), `epoch` (ns for each index of a whole epoch in batches of 256, the first and what it
waits for included: lists from torch, arrays from millrace), `state` (microseconds and bytes of state_dict()
in mid-epoch) or `memory` (bytes that a process gains by an epoch's order).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
from millrace import samplers
from torch.utils import data
from torch.utils.data.distributed import DistributedSampler

from benchmarks import probes
from benchmarks.compare import told
from benchmarks.harness import quiet_rounds, run_facts
from benchmarks.runs import hold_to_cpus, options, rounds_told, stored

BATCH = 256
MOST = 10**8  # indices of an epoch that are drawn
ALONE = {"num_replicas": 1, "rank": 0}
Make = Callable[[], Any]


@dataclass(frozen=True)
class SamplerScenario:
    """`ours` and, where torch has the sampler, `torchs`; one by one they are timed over `indices` indices of
    an epoch of `length`.
    """

    length: int
    indices: int
    ours: Make
    torchs: Make | None = None


def weights(n: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(0).random(n))


def whole_numbers(low: int, high: int, n: int) -> np.ndarray:
    return np.random.default_rng(0).integers(low, high, n)


def shuffled(n: int) -> SamplerScenario:
    rows = range(n)
    return SamplerScenario(
        n, min(n, 10**6), lambda: samplers.RandomSampler(rows), lambda: data.RandomSampler(rows)
    )


def torch_and_ours(name: str, length: int, *arguments: Any) -> SamplerScenario:
    torchs = DistributedSampler if name == "DistributedSampler" else getattr(data, name)
    return SamplerScenario(
        length, min(length, 10**6), lambda: getattr(samplers, name)(*arguments), lambda: torchs(*arguments)
    )


SCENARIOS: dict[str, Callable[[], SamplerScenario]] = {
    "sequential_1e7": lambda: torch_and_ours("SequentialSampler", 10**7, range(10**7)),
    "random_1e6": lambda: shuffled(10**6),
    "random_1e7": lambda: shuffled(10**7),
    "random_1e8": lambda: shuffled(10**8),
    "replacement_1e7": lambda: torch_and_ours("RandomSampler", 10**7, range(10**7), True),
    "subset_1e6": lambda: torch_and_ours("SubsetRandomSampler", 10**6, list(range(10**6))),
    "weighted_1e6": lambda: torch_and_ours("WeightedRandomSampler", 10**6, weights(10**6), 10**6),
    "distributed_1e7": lambda: torch_and_ours("DistributedSampler", 10**7 // 8, range(10**7), 8, 3),
    "alias_1e6": lambda: SamplerScenario(
        10**7, 10**6, lambda w=weights(10**6): samplers.WeightedRandomSampler(w, 10**7, method="alias")
    ),
    "permutation_1e9": lambda: SamplerScenario(
        10**9, 10**6, lambda: samplers.PermutationSampler(10**9, **ALONE)
    ),
    "two_tier_1e7": lambda: SamplerScenario(
        10**7, 10**6, lambda: samplers.TwoTierShuffle([10**4] * 1000, 10_000, **ALONE)
    ),
    "mixture_1e7": lambda: SamplerScenario(
        10**7, 10**6, lambda: samplers.MixtureSampler([10**8, 10**7, 10**6], [0.7, 0.2, 0.1], 10**7, **ALONE)
    ),
    "stratified_1e6": lambda: SamplerScenario(
        10**6,
        10**6,
        lambda labels=whole_numbers(0, 10, 10**6): samplers.StratifiedBatchSampler(labels, BATCH, **ALONE),
    ),
    "lengths_1e6": lambda: SamplerScenario(
        10**6, 10**6, lambda n=whole_numbers(5, 500, 10**6): samplers.LengthGroupedSampler(n, BATCH, **ALONE)
    ),
}


def check(scenario: SamplerScenario) -> None:
    """The same indices and the same generator behind them. Raises AssertionError."""
    assert scenario.torchs is not None
    seen = []
    for make in (scenario.torchs, scenario.ours):
        torch.manual_seed(1)
        iterator = iter(make())
        indices = [*islice(iterator, 300_000)]
        if scenario.length <= 10**6:
            indices += iterator
        seen.append((indices, torch.get_rng_state().tolist()))
    assert seen[0] == seen[1], "the sides do not give the same indices"


def timed_first(make: Make) -> dict:
    sampler = make()
    start = time.perf_counter()
    iterator = iter(sampler)
    next(iterator)
    return {"seconds": time.perf_counter() - start}


def timed_indices(make: Make, count: int) -> dict:
    iterator = iter(make())
    rows = len(first) if isinstance(first := next(iterator), list) else 1
    steps = (count - rows) // rows
    start = time.perf_counter()
    deque(islice(iterator, steps), maxlen=0)
    return {"ns_per_index": (time.perf_counter() - start) / (steps * rows) * 1e9}


def timed_epoch(make: Make, length: int) -> dict:
    start, seen = time.perf_counter(), 0
    iterator = iter(make())
    if hasattr(iterator, "take"):
        while seen < length and (got := len(iterator.take(BATCH))):
            seen += got
    else:
        while seen < length and (batch := [*islice(iterator, BATCH)]):
            seen += len(batch)
    return {"ns_per_index": (time.perf_counter() - start) / seen * 1e9}


def timed_state(make: Make) -> dict:
    iterator = iter(make())
    for _ in islice(iterator, 1000):
        pass
    iterator.state_dict()
    start = time.perf_counter()
    for _ in range(1000):
        state = iterator.state_dict()
    return {"us": (time.perf_counter() - start) * 1e3, "bytes": len(json.dumps(state))}


def gained_memory(name: str, side: str) -> int:
    """What an epoch's order takes, in a process of its own: torch has it at the first index, millrace when
    all were drawn.
    """
    return int(
        subprocess.run(
            [sys.executable, "-m", "benchmarks.samplers", "--memory-of", name, side],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    )


def memory_of(name: str, side: str) -> int:
    scenario = SCENARIOS[name]()
    sampler = (scenario.ours if side == "millrace" else scenario.torchs)()

    def walk(iterator: Any, length: int) -> int:
        with probes.PeakMemory(os.getpid()) as peak:
            next(iterator)
            if side == "millrace" and hasattr(iterator, "take"):
                for _ in range(min(length, MOST) // 1024):
                    iterator.take(1024)
            time.sleep(0.2)
        return peak.bytes

    for _ in range(3):  # whatever the first uses take for good
        walk(iter(samplers.PermutationSampler(10**6, **ALONE)), 10**6)
    before = probes.tree_pss_bytes(os.getpid())
    return max(walk(iter(sampler), scenario.length) - before, 0)


def measure(name: str, rounds: int, cpus: list[int], memory: bool = True) -> Iterator[dict]:
    """At least `rounds` quiet rounds, at most twice as many."""
    scenario = SCENARIOS[name]()
    common = {
        "scenario": name,
        "cpus": len(cpus),
        **run_facts(("torch", "numpy")),
        "data": {"length": scenario.length, "indices": scenario.indices},
    }
    sides = {"millrace": scenario.ours, **({"torch": scenario.torchs} if scenario.torchs else {})}
    if scenario.torchs:
        print(f"{name}: checking", file=sys.stderr, flush=True)
        check(scenario)

    def one_round(repeat: int) -> list[dict]:
        records, timer = [], probes.Epoch(cpus)
        for side in list(sides)[:: -1 if repeat % 2 else 1]:
            records.append(
                {**common, "loader": side, "kind": "first", "repeat": repeat, **timed_first(sides[side])}
            )
            records.append(
                {
                    **common,
                    "loader": side,
                    "kind": "index",
                    "repeat": repeat,
                    **timed_indices(sides[side], scenario.indices),
                }
            )
            if side == "torch" or hasattr(iter(sides[side]()), "take"):  # no batches
                whole = timed_epoch(sides[side], min(scenario.length, MOST))
                records.append({**common, "loader": side, "kind": "epoch", "repeat": repeat, **whole})
            if side == "millrace":
                records.append(
                    {**common, "loader": side, "kind": "state", "repeat": repeat, **timed_state(sides[side])}
                )
        others = timer.stop()["others_share"]
        return [{**record, "others_share": others} for record in records]

    yield from quiet_rounds(rounds, one_round)
    for side in sides if memory else ():
        yield {**common, "loader": side, "kind": "memory", "bytes": gained_memory(name, side), "quiet": True}


def table(records: list[dict]) -> str:
    """A line for each scenario; ratios are torch over millrace, round by round, with their 95 % intervals."""
    lines = [
        (
            "| sampler | first index, ms | torch's | sooner by | ns per index | torch's | ns, whole epoch |"
            " torch's | state, µs / bytes | memory, MB | torch's |"
        ),
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name in dict.fromkeys(record["scenario"] for record in records):
        mine = [r for r in records if r["scenario"] == name]
        mine = (
            [r for r in mine if r["quiet"]]
            if any(r["quiet"] and r["kind"] == "first" for r in mine)
            else mine
        )

        def values(side: str, kind: str, key: str) -> dict[int, float]:
            return {
                r.get("repeat", 0): r[key]
                for r in mine
                if (r["loader"], r["kind"]) == (side, kind) and key in r
            }

        def median(side: str, kind: str, key: str, scale: float = 1, form: str = ".1f") -> str:
            found = values(side, kind, key)
            return f"{statistics.median(found.values()) * scale:{form}}" if found else ""

        ours, torchs = values("millrace", "first", "seconds"), values("torch", "first", "seconds")
        ratios = [torchs[repeat] / ours[repeat] for repeat in ours if repeat in torchs]
        sooner = told(ratios, ",.1f") if ratios else ""
        cells = [
            name,
            median("millrace", "first", "seconds", 1e3, ".3f"),
            median("torch", "first", "seconds", 1e3, ".3f"),
            sooner,
        ]
        for kind in ("index", "epoch"):
            cells += [median(side, kind, "ns_per_index") for side in ("millrace", "torch")]
        cells.append(
            f"{median('millrace', 'state', 'us')} / {median('millrace', 'state', 'bytes', 1, ',.0f')}"
        )
        cells += [median(side, "memory", "bytes", 1e-6, ",.1f") for side in ("millrace", "torch")]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = options(__doc__, "samplers", 7, SCENARIOS)
    parser.add_argument("--memory-of", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.memory_of:
        torch.set_num_threads(1)
        print(memory_of(*arguments.memory_of))
        return
    cpus, records = hold_to_cpus(1), []
    for name in arguments.scenario:
        records += stored(measure(name, arguments.rounds, cpus), arguments.out)
    print(f"{rounds_told(records, 'first')}\n\n{table(records)}")


if __name__ == "__main__":
    main()
