"""What the stall profile costs: the same epochs with its clocks on and off, in one process, taking turns.

    python -m benchmarks.profile [--scenario jpegs tiny_rows ...] [--rounds 15] [--out FILE.jsonl]

Before anything is timed, both sides' batches must be equal, and the profile of the one that has it must sum
to its wall time. Each repeat is one line of JSON, as harness.py stores them. CPU seconds, of this process and
its workers, are what to look at: wall time has more noise.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from millrace import DataLoader, _core, transforms
from millrace.datasets import ImageFolder
from PIL import Image
from torch.utils.data import Dataset, TensorDataset

from benchmarks import probes
from benchmarks.compare import told
from benchmarks.harness import quiet_rounds, run_facts
from benchmarks.runs import options, run_scenarios

_TICK = 0.01  # seconds, in which the system counts CPU time
SIDES = {"without": False, "profile": True}


class Short(Dataset):
    """Samples that take about 20 us of Python."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        value = 0
        for i in range(400):
            value += i
        return np.full(16, index, np.float32), value


@dataclass(frozen=True)
class ProfileScenario:
    """`make(folder)`: the loader, whose order is fixed."""

    name: str
    make: Callable[[str], DataLoader]


def jpegs(folder: str, count: int = 400) -> DataLoader:
    """Pictures of 500 x 375 pixels, each a photograph's size in bytes, in one class."""
    target = Path(folder) / "class"
    target.mkdir(exist_ok=True)
    generator = np.random.default_rng(0)
    for i in range(count):
        coarse = generator.integers(0, 256, (47, 63, 3), np.uint8)
        Image.fromarray(coarse).resize((500, 375), Image.Resampling.BICUBIC).save(
            target / f"{i}.jpg", quality=92
        )
    chain = transforms.Compose(
        [transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(), transforms.ToTensor()]
    )
    return DataLoader(ImageFolder(folder, chain), 32, num_workers=2, native="require")


def rows(count: int, columns: int, workers: int) -> Callable[[str], DataLoader]:
    return lambda folder: DataLoader(
        TensorDataset(torch.zeros(count, columns)), 256 if columns < 1000 else 64, num_workers=workers
    )


def short(count: int, **options: Any) -> Callable[[str], DataLoader]:
    return lambda folder: DataLoader(Short(count), 64, **options)


SCENARIOS = {
    s.name: s
    for s in (
        ProfileScenario("jpegs", jpegs),
        ProfileScenario("tiny_rows", rows(1_000_000, 16, 0)),
        ProfileScenario("wide_rows", rows(1280, 150_528, 2)),
        ProfileScenario("short_samples_processes", short(40_000, num_workers=2)),
        ProfileScenario("short_samples_threads", short(40_000, num_workers=2, worker_method="thread")),
        ProfileScenario("short_samples_inline", short(40_000)),
    )
}


def check(loader: DataLoader) -> None:
    """Both sides give the same batches, and the profile is whole. Raises AssertionError."""
    first: list[Any] = []
    for on in SIDES.values():
        _core.StageClock.enabled = on
        torch.manual_seed(0)
        batches = list(loader)
        first = first or batches
        assert len(batches) == len(first) > 0
        for mine, other in zip(batches, first):
            assert all(torch.equal(a, b) for a, b in zip(mine, other)), "the sides' batches differ"
    profile = loader.profile()
    assert (
        abs(sum(profile["consumer"].values()) - profile["wall_seconds"]) <= 0.02 * profile["wall_seconds"]
    ), "the profile does not sum up"


def measure(scenario: ProfileScenario, rounds: int, cpus: list[int]) -> Iterator[dict]:
    """One record per epoch: at least `rounds` quiet rounds, at most twice as many in all."""
    common = {"scenario": scenario.name, "cpus": len(cpus), **run_facts(("torch",))}
    with tempfile.TemporaryDirectory() as folder:
        loader = scenario.make(folder)
        check(loader)

        def one_round(repeat: int) -> list[dict]:
            records = []
            for name in list(SIDES)[:: -1 if repeat % 2 else 1]:
                _core.StageClock.enabled = SIDES[name]
                timer, batches = probes.Epoch(cpus), 0
                for _ in loader:
                    batches += 1
                records.append(
                    {
                        **common,
                        "loader": name,
                        "workers": loader.num_workers,
                        "kind": "epoch",
                        "repeat": repeat,
                        **timer.stop(),
                        "batches": batches,
                    }
                )
            return records

        yield from quiet_rounds(rounds, one_round)
    _core.StageClock.enabled = True


def costs(records: list[dict], measured: str) -> list[float]:
    """How many percent more of it the side with the profile took, round by round."""
    kept = [r for r in records if r["quiet"]] or records
    by_round: dict[int, dict[str, float]] = {}
    for record in kept:
        by_round.setdefault(record["repeat"], {})[record["loader"]] = record[measured]
    pairs = (
        (sides["profile"], max(sides["without"], _TICK)) for sides in by_round.values() if len(sides) == 2
    )
    return [(with_it / without - 1) * 100 for with_it, without in pairs]


def table(records: list[dict]) -> str:
    lines = ["| measured | without | with | costs (95 % interval of the median) |", "|---|---:|---:|---:|"]
    for measured in "cpu_seconds", "seconds":
        medians = [statistics.median(r[measured] for r in records if r["loader"] == name) for name in SIDES]
        lines.append(
            f"| {measured} | {medians[0]:.3f} | {medians[1]:.3f} |"
            f" {told(costs(records, measured), '+.2f', '%')} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = options(__doc__, "profile", 15, SCENARIOS)
    arguments = parser.parse_args()
    run_scenarios(
        arguments.scenario,
        arguments.out,
        lambda name, cpus: measure(SCENARIOS[name], arguments.rounds, cpus),
        table,
    )


if __name__ == "__main__":
    sys.exit(main())
