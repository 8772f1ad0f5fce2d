"""What a step costs without workers: millrace and torch over Python datasets whose samples cost nothing, the
sides taking turns.

    python -m benchmarks.inline_steps [--rounds 15] [--out FILE.jsonl] [scenario ...]

A sample is made once and handed out for every index, so an epoch is made of the loader's own work: drawing
indices, collating or converting, bookkeeping. Scenarios are a kind of sample and a batch size, 0 for
batch_size=None; `stream` samples come from an iterable-style dataset. Before anything is timed, the batches
of both sides must be equal in value and type. Each repeat is one line of JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset, IterableDataset

from benchmarks.compare import latest_runs, rates_table
from benchmarks.harness import run_facts
from benchmarks.runs import hold_to_cpus, options, rounds_told, rows_in_turns, stored

SAMPLES: dict[str, Callable[[], Any]] = {
    "int": lambda: 1,
    "dict": lambda: {"__key__": "a", "jpg": bytes(100), "cls": b"7"},
    "tensor": lambda: (torch.zeros(3, 32, 32), 1),
    "array": lambda: (np.zeros(784, np.float32), 1),
    "tensors": lambda: {name: torch.zeros(128, dtype=torch.int64) for name in ("ids", "mask", "labels")},
    "numbers": lambda: (1.5, 2),
    "picture": lambda: (torch.zeros(3, 224, 224), 1),
}
SCENARIOS = (
    "int 0",
    "dict 0",
    "tensor 0",
    "stream int 0",
    "stream dict 0",
    "int 1",
    "numbers 8",
    "numbers 64",
    "tensor 1",
    "tensor 8",
    "tensor 64",
    "array 1",
    "array 8",
    "array 64",
    "tensors 8",
    "tensors 64",
    "picture 1",
    "picture 8",
)
STEP_BYTES = 400 << 20  # of a round, at most
MOST_STEPS = 20_000


class Same(Dataset):
    def __init__(self, sample: Any, count: int) -> None:
        self.sample, self.count = sample, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        return self.sample


class SameStream(IterableDataset):
    def __init__(self, sample: Any, count: int) -> None:
        self.sample, self.count = sample, count

    def __iter__(self) -> Iterator[Any]:
        for _ in range(self.count):
            yield self.sample


def loaders(scenario: str, steps: int) -> dict[str, Iterable]:
    import millrace

    kind, batch = scenario.rsplit(" ", 1)
    size = int(batch) or None
    dataset = (SameStream if kind.startswith("stream ") else Same)(
        SAMPLES[kind.removeprefix("stream ")](), steps * (size or 1)
    )
    return {
        "torch": torch.utils.data.DataLoader(dataset, size),
        "millrace": millrace.DataLoader(dataset, size),
    }


def bytes_in(value: Any) -> int:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return getattr(value, "nbytes", 0) + sum(map(bytes_in, parts))


def check(scenario: str) -> None:
    """AssertionError when the sides' batches differ."""
    batches = {name: list(loader) for name, loader in loaders(scenario, 3).items()}
    if "dict" not in scenario:  # of bytes
        torch.testing.assert_close(batches["millrace"], batches["torch"], rtol=0, atol=0)
    assert repr(batches["millrace"]) == repr(batches["torch"]) and len(batches["torch"]) == 3, (
        f"{scenario}: other batches than torch's"
    )


def steps_of(scenario: str, most: int = MOST_STEPS) -> int:
    kind, batch = scenario.rsplit(" ", 1)
    weight = bytes_in(SAMPLES[kind.removeprefix("stream ")]()) * max(1, int(batch))
    return max(20, min(most, STEP_BYTES // max(1, weight)))


def measure(scenario: str, rounds: int, cpus: list[int], most_steps: int = MOST_STEPS) -> Iterator[dict]:
    """One record per epoch: at least `rounds` quiet rounds, at most twice as many in all."""
    check(scenario)
    made = loaders(scenario, steps_of(scenario, most_steps))
    sides = {name: (0, lambda loader=loader: loader) for name, loader in made.items()}
    yield from rows_in_turns(
        sides,
        rounds,
        cpus,
        {"scenario": scenario, "cpus": len(cpus), **run_facts(("torch", "numpy"))},
        lambda _: 1,
    )


def table(records: list[dict]) -> str:
    parts = []
    for (scenario, _), run in latest_runs(records).items():
        parts.append(
            f"**{scenario}**\n\n"
            + rates_table(
                run,
                "rows_per_s",
                "steps/s",
                {
                    "CPU us per step": (lambda r: r["cpu_seconds"] / r["batches"] * 1e6, ".1f"),
                },
            )
        )
    return "\n\n".join(parts)


def main() -> None:
    parser = options(__doc__, "inline_steps", 15)
    parser.add_argument("scenario", nargs="*", default=list(SCENARIOS), help='such as "array 8"')
    arguments = parser.parse_args()
    cpus, records = hold_to_cpus(1), []
    for scenario in arguments.scenario:
        records += stored(measure(scenario, arguments.rounds, cpus), arguments.out)
    print(f"{rounds_told(records)}\n\n{table(records)}\n")


if __name__ == "__main__":
    main()
