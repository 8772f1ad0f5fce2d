"""What starting worker processes costs: torch's loader and millrace, by each start method, taking turns.

    python -m benchmarks.worker_start [--pairs 7] [--workers 2] [--out
    benchmarks/results/worker_start/NAME.jsonl] [scenario ...]

Each repeat is a training process of its own, so that neither side finds what the other has started. It runs
epochs over a loader that keeps no workers. `first_s` is from iter() to the first batch of its first epoch,
`later_s` the median of the same in later epochs, `cpu_s` the CPU seconds of all processes that were started,
the server of forkserver among them, for all epochs. Before a scenario is timed, both sides deliver the same
batches. A scenario is a start method, and the bytes that each worker gets with the dataset.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader as TorchLoader
from torch.utils.data import Dataset

ROOT = Path(__file__).resolve().parents[1]
BATCH = 4
SCENARIOS = {
    f"{method} {name}": (method, size)
    for method in ("fork", "spawn", "forkserver")
    for name, size in (("small", 0), ("20MB", 20_000_000))
}
KEYS = {"first_s": "first batch", "later_s": "later epochs", "cpu_s": "CPU of all epochs"}


class Carried(Dataset):
    """A dataset with `size` bytes that travel to each worker which is not forked."""

    def __init__(self, size: int) -> None:
        self.carried = os.urandom(size)

    def __len__(self) -> int:
        return 16 * BATCH

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((4,), float(index))


def epochs(side: str, method: str, size: int, workers: int, count: int) -> dict[str, Any]:
    """One training process's numbers; runs in it."""
    if side == "torch":
        loader_class: Any = TorchLoader
    else:
        import millrace

        loader_class = millrace.DataLoader
    loader = loader_class(
        Carried(size), batch_size=BATCH, num_workers=workers, multiprocessing_context=method
    )
    firsts, sums = [], []
    for _ in range(count):
        started = time.perf_counter()
        iterator = iter(loader)
        batch = next(iterator)
        firsts.append(time.perf_counter() - started)
        sums.append(float(batch.sum()) + sum(float(batch.sum()) for batch in iterator))
        del iterator
    if method == "forkserver":
        forkserver._forkserver._stop()  # type: ignore[attr-defined]  # waits for it, so that its CPU time is known
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "first_s": firsts[0],
        "later_s": statistics.median(firsts[1:]),
        "cpu_s": children.ru_utime + children.ru_stime,
        "sums": sums,
    }


def in_a_process(side: str, scenario: str, workers: int, count: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.worker_start", "--side", side, scenario]
    command += ["--workers", str(workers), "--epochs", str(count)]
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise SystemExit(f"{side}, {scenario}: {done.stderr}")
    return json.loads(done.stdout)


def measure(scenario: str, workers: int, pairs: int, count: int) -> list[dict[str, Any]]:
    records = []
    for pair in range(pairs):
        found = {}
        for side in ("torch", "millrace") if pair % 2 else ("millrace", "torch"):
            found[side] = in_a_process(side, scenario, workers, count)
            numbers = {key: found[side][key] for key in KEYS}
            records.append(
                {
                    "scenario": scenario,
                    "workers": workers,
                    "epochs": count,
                    "pair": pair,
                    "loader": side,
                    **numbers,
                }
            )
        if found["torch"]["sums"] != found["millrace"]["sums"]:
            raise SystemExit(f"{scenario}: the two sides do not deliver the same batches")
    return records


def table(records: list[dict[str, Any]]) -> str:
    """Medians, and millrace's seconds over torch's, pair by pair, with the interval of their median."""
    from benchmarks.compare import interval

    lines = ["| scenario | | torch, s | millrace, s | millrace / torch |", "|---|---|---:|---:|---:|"]
    for scenario in dict.fromkeys(record["scenario"] for record in records):
        for key, words in KEYS.items():
            sides = {
                side: [
                    record[key]
                    for record in sorted(records, key=lambda record: record["pair"])
                    if (record["scenario"], record["loader"]) == (scenario, side)
                ]
                for side in ("torch", "millrace")
            }
            ratios = [ours / torchs for torchs, ours in zip(sides["torch"], sides["millrace"])]
            low, high = interval(ratios)
            medians = " | ".join(f"{statistics.median(values):.3f}" for values in sides.values())
            ratio = f"{statistics.median(ratios):.2f} ({low:.2f} – {high:.2f})"
            lines.append(f"| {scenario} | {words} | {medians} | {ratio} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("scenarios", nargs="*", help=", ".join(SCENARIOS))
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/worker_start/local.jsonl"))
    parser.add_argument("--side", choices=("torch", "millrace"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        method, size = SCENARIOS[options.scenarios[0]]
        print(json.dumps(epochs(options.side, method, size, options.workers, options.epochs)))
        return
    from benchmarks.harness import run_facts

    common = {**run_facts(("torch",)), "kind": "worker_start"}
    records = []
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with open(options.out, "a") as out:
        for scenario in options.scenarios or SCENARIOS:
            for record in measure(scenario, options.workers, options.pairs, options.epochs):
                records.append({**record, "load": os.getloadavg()[0]})
                print(json.dumps({**common, **records[-1]}), file=out, flush=True)
    print(table(records))


if __name__ == "__main__":
    main()
