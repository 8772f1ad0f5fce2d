"""What looking at the feed costs: loops with and without millrace.watch(), taking turns within one process.

    python -m benchmarks.drift [--scenario pictures rows tokens] [--step-ms 0 5] [--rounds 7] [--out
    FILE.jsonl]

`pictures`: a folder of JPEGs, RandomResizedCrop to 224 and a flip, batches of 64; `rows`: 64 floats and a
label each, in memory, batches of 256; `tokens`: windows of 2048 tokens, batches of 16. `watched` compares
with a profile of the same data. The consumer sleeps for the step's time after each batch, as a loop that
waits for its device does. Before anything is timed, both sides must hand out the same batches. Each repeat is
one line of JSON, as harness.py stores them, with `rows`, and for the watched side what was looked at.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from PIL import Image

from benchmarks import probes
from benchmarks.compare import factors, kept_epochs, told
from benchmarks.harness import quiet_rounds, run_facts
from benchmarks.runs import options, run_scenarios


@dataclass(frozen=True)
class DriftScenario:
    """`samples` of the data, `epoch_batches` of a timed epoch at most."""

    name: str
    samples: int
    batch: int
    epoch_batches: int


_COUNTED = ("examined", "dropped", "seconds", "handing_seconds")
SCENARIOS = {
    s.name: s
    for s in (
        DriftScenario("pictures", 2_000, 64, 60),
        DriftScenario("rows", 200_000, 256, 4_000),
        DriftScenario("tokens", 20_000, 16, 2_000),
    )
}


def make_dataset(scenario: DriftScenario, folder: str) -> torch.utils.data.Dataset:
    import millrace
    from millrace import transforms

    random = np.random.default_rng(0)
    if scenario.name == "rows":
        data = torch.from_numpy(random.standard_normal((scenario.samples, 64), np.float32))
        return torch.utils.data.TensorDataset(
            data, torch.from_numpy(random.integers(0, 10, scenario.samples))
        )
    if scenario.name == "tokens":
        path = os.path.join(folder, "tokens.bin")
        np.minimum(random.zipf(1.2, scenario.samples * 2048 // 8), 50_000).astype(np.uint16).tofile(path)
        return millrace.datasets.Tokens(path, 2048, "uint16", stride=256)
    for i in range(scenario.samples):
        os.makedirs(os.path.join(folder, "images", str(i % 10)), exist_ok=True)
        small = Image.fromarray(random.integers(0, 256, (12, 16, 3), dtype=np.uint8))
        small.resize((500, 375), Image.Resampling.BICUBIC).save(
            os.path.join(folder, "images", str(i % 10), f"{i:05}.jpg"), quality=90
        )
    chain = [transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(), transforms.ToTensor()]
    return millrace.datasets.ImageFolder(os.path.join(folder, "images"), transforms.Compose(chain))


def loader_of(scenario: DriftScenario, dataset: Any) -> Any:
    import millrace

    sampler = torch.utils.data.RandomSampler(
        dataset, num_samples=min(len(dataset), scenario.epoch_batches * scenario.batch)
    )
    return millrace.DataLoader(
        dataset, scenario.batch, sampler=sampler, num_workers=2, persistent_workers=True, native="require"
    )


def sides(scenario: DriftScenario, dataset: Any) -> dict[str, Any]:
    import millrace

    profile = millrace.DriftProfile.of(loader_of(scenario, dataset), 4_000)
    return {
        "plain": loader_of(scenario, dataset),
        "watched": millrace.watch(loader_of(scenario, dataset), profile),
    }


def check(made: dict[str, Any]) -> None:
    """The same batches from both. Raises AssertionError."""
    epochs = []
    for loader in made.values():
        torch.manual_seed(1)
        epochs.append([[tensor.sum(dtype=torch.float64).item() for tensor in batch] for batch in loader])
    assert epochs[0] == epochs[1], "watching changes what is fed"
    assert not made["watched"].alarms, f"there is no drift here, but: {made['watched'].alarms[0]}"


def timed_epoch(batches: Iterable, cpus: list[int], step_s: float) -> dict:
    timer, rows, count = probes.Epoch(cpus), 0, 0
    for batch in batches:
        rows += len(batch[0])
        count += 1
        if step_s:
            time.sleep(step_s)
    return {**timer.stop(), "rows": rows, "batches": count}


def measure(
    scenario: DriftScenario, rounds: int, cpus: list[int], steps_ms: Iterable[float]
) -> Iterator[dict]:
    """One record per epoch: at least `rounds` quiet rounds, at most twice as many in all."""
    with tempfile.TemporaryDirectory() as folder:
        made = sides(scenario, make_dataset(scenario, folder))
        print(f"{scenario.name}: checking", file=sys.stderr, flush=True)
        check(made)
        common = {"scenario": scenario.name, "cpus": len(cpus), **run_facts(("torch",))}

        def one_round(repeat: int) -> list[dict]:
            records = []
            for step_ms in steps_ms:
                for name in list(made)[:: -1 if repeat % 2 else 1]:
                    before = made["watched"].drift_stats()
                    times = timed_epoch(made[name], cpus, step_ms / 1000)
                    after = made["watched"].drift_stats()
                    counted = {key: after[key] - before[key] for key in _COUNTED}
                    seen = {} if name == "plain" else {"every": after["every"][-1][1], **counted}
                    records.append(
                        {
                            **common,
                            "loader": f"{name}_{step_ms:g}ms",
                            "workers": 2,
                            "kind": "epoch",
                            "repeat": repeat,
                            "step_ms": step_ms,
                            **times,
                            "rows_per_s": times["rows"] / times["seconds"],
                            "looked": seen,
                        }
                    )
            return records

        yield from quiet_rounds(rounds, one_round)


def table(records: list[dict]) -> str:
    """The cost is the wall time of the watched epoch over that of the plain one, round by round."""
    lines = [
        (
            "| step | plain, rows/s | watched, rows/s | cost of watching | every | looked at | its CPU time,"
            " of the wall |"
        ),
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for step_ms in sorted({r["step_ms"] for r in records}):
        names = [f"{name}_{step_ms:g}ms" for name in ("plain", "watched")]
        plain, watched = (kept_epochs(records, name) for name in names)
        costs = [
            100 * (ratio - 1) for ratio in factors(records, *names, lambda r: r["seconds"] / r["batches"])
        ]
        looked = [r["looked"] for r in watched]
        cpu = statistics.median(
            (r["looked"]["seconds"] + r["looked"]["handing_seconds"]) / r["seconds"] for r in watched
        )
        rates = (statistics.median(r["rows_per_s"] for r in side) for side in (plain, watched))
        count = statistics.median(each["examined"] for each in looked)
        lines.append(
            f"| {step_ms:g} ms | {next(rates):,.0f} | {next(rates):,.0f} | "
            f"{told(costs, unit='%')} | "
            f"{looked[-1]['every']} | {count:.0f} | {100 * cpu:.2f} % |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = options(__doc__, "drift", 7, SCENARIOS)
    parser.add_argument("--step-ms", nargs="+", type=float, default=[0.0, 5.0])
    arguments = parser.parse_args()
    run_scenarios(
        arguments.scenario,
        arguments.out,
        lambda name, cpus: measure(SCENARIOS[name], arguments.rounds, cpus, arguments.step_ms),
        table,
    )


if __name__ == "__main__":
    main()
