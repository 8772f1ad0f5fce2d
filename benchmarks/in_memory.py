"""Rows that lie in memory: millrace against torch's own ways with the same data, the sides taking turns
within one process.

    python -m benchmarks.in_memory [--scenario tiny_rows wide_rows] [--rounds 7] [--out FILE.jsonl]

Before anything is timed, one epoch of each side must hold each of its rows once, unchanged: all, or `limit`
of them where it is slow. Then each round gives every side one epoch, in alternating direction. Each repeat is
one line of JSON, as harness.py stores them, with `rows`.
"""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch.utils.data import BatchSampler, RandomSampler, TensorDataset

from benchmarks.compare import rates_table
from benchmarks.harness import run_facts
from benchmarks.runs import Sides, Some, options, rows_in_turns, run_scenarios


@dataclass(frozen=True)
class RowScenario:
    """Shuffled batches [batch, columns] float32 of a tensor [rows, columns]; slow loaders are timed on
    `limit` rows only.

    `column_major`: the columns lie behind each other, as pandas' `.values` has them.
    `arrow`: the loaders get the rows as a Hugging Face dataset in a mapped file, in the format "torch".
    """

    name: str
    rows: int
    columns: int
    batch: int
    limit: int
    arrow: bool = False
    column_major: bool = False


SCENARIOS = {
    s.name: s
    for s in (
        RowScenario("tiny_rows", 1_000_000, 16, 256, 150_000),
        RowScenario("wide_rows", 1280, 150_528, 64, 1280),
        RowScenario("column_rows", 1_000_000, 16, 256, 150_000, column_major=True),
        RowScenario("arrow_rows", 1_000_000, 16, 256, 60_000, arrow=True),
    )
}


def make_data(scenario: RowScenario) -> torch.Tensor:
    """Random rows whose first value is the row's number."""
    data = torch.from_numpy(
        np.random.default_rng(0).random((scenario.rows, scenario.columns), dtype=np.float32)
    )
    data[:, 0] = torch.arange(scenario.rows)
    return data.t().contiguous().t() if scenario.column_major else data


def arrow_dataset(data: torch.Tensor, folder: str):
    """The rows as column "row" of a dataset that is mapped from files in `folder`."""
    import datasets
    import pyarrow

    datasets.disable_progress_bars()
    rows = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(data.numpy().ravel()), data.shape[1])
    datasets.Dataset(pyarrow.table({"row": rows})).save_to_disk(folder)
    return datasets.load_from_disk(folder).with_format("torch")


def loaders(scenario: RowScenario, data: torch.Tensor, folder: str) -> Sides:
    import millrace

    dataset = arrow_dataset(data, folder) if scenario.arrow else TensorDataset(data)

    def batches_of(loader: Iterable) -> Iterable:
        return ((batch["row"],) for batch in loader) if scenario.arrow else loader

    def numpy_alone() -> Iterator[list[np.ndarray]]:
        order, array = np.random.permutation(scenario.rows), data.numpy()
        for start in range(0, scenario.rows, scenario.batch):
            yield [array[order[start : start + scenario.batch]]]

    # The dataset is indexed with whole index lists: the quickest way within torch that was found, at the
    # price of its interface.
    indexed = torch.utils.data.DataLoader(
        TensorDataset(data), batch_size=None, sampler=BatchSampler(RandomSampler(data), scenario.batch, False)
    )
    sides: Sides = {"numpy_alone": (0, numpy_alone), "torch_indexed": (0, lambda: indexed)}
    some = Some(scenario.rows, scenario.limit)
    for workers in 0, 2:
        for name, cls, extra in (
            ("torch", torch.utils.data.DataLoader, {"sampler": some}),
            ("millrace", millrace.DataLoader, {"shuffle": True, "native": "require"}),
        ):
            loader = cls(
                dataset, scenario.batch, num_workers=workers, persistent_workers=workers > 0, **extra
            )
            sides[f"{name}_{workers}"] = workers, lambda loader=loader: batches_of(loader)
    return sides


def limit_of(name: str, scenario: RowScenario) -> int:
    """How many rows an epoch of this side has."""
    return scenario.limit if name in ("torch_0", "torch_2") else scenario.rows


def check(name: str, data: torch.Tensor, batches: Iterable, limit: int | None = None) -> None:
    """Every row of `data` once, or `limit` of them, in another order, unchanged. Raises AssertionError."""
    numbers = []
    for rows, *_ in batches:
        rows = torch.as_tensor(rows)
        numbers.append(rows[:, 0].long())
        assert torch.equal(rows, data[numbers[-1]]), f"{name}: rows are not those of the data"
    order = torch.cat(numbers)
    assert len(order.unique()) == len(order) == (limit or len(data)), (
        f"{name}: an epoch does not hold every row once"
    )
    assert not torch.equal(order, order.sort().values), f"{name}: the order was not shuffled"


def measure(scenario: RowScenario, rounds: int, cpus: list[int]) -> Iterator[dict]:
    """One record per epoch: at least `rounds` quiet rounds, at most twice as many in all."""
    with tempfile.TemporaryDirectory() as folder:
        data = make_data(scenario)
        yield from measured(scenario, data, loaders(scenario, data, folder), rounds, cpus)


def measured(
    scenario: RowScenario, data: torch.Tensor, sides: Sides, rounds: int, cpus: list[int]
) -> Iterator[dict]:
    common = {
        "scenario": scenario.name,
        "cpus": len(cpus),
        "data": {"rows": scenario.rows, "row_bytes": scenario.columns * 4},
        **run_facts(("torch", "numpy", *("datasets", "pyarrow") * scenario.arrow)),
    }
    for name, (_, epochs) in sides.items():
        print(f"{scenario.name}  {name}: checking", file=sys.stderr, flush=True)
        check(name, data, epochs(), limit_of(name, scenario))
    yield from rows_in_turns(sides, rounds, cpus, common, lambda batch: len(batch[0]))


def table(records: list[dict]) -> str:
    return rates_table(
        records,
        "rows_per_s",
        "rows/s",
        {
            "µs per batch": (lambda r: r["seconds"] / r["batches"] * 1e6, ",.0f"),
            "CPU s per 1,000,000": (lambda r: r["cpu_seconds"] / r["rows"] * 1e6, ".2f"),
            "first batch, ms": (lambda r: r["first_s"] * 1e3, ".1f"),
        },
    )


def main() -> None:
    parser = options(__doc__, "in_memory", 7)
    usual = [
        name
        for name, scenario in SCENARIOS.items()
        if not scenario.arrow or importlib.util.find_spec("datasets")
    ]
    parser.add_argument("--scenario", nargs="+", default=usual, choices=list(SCENARIOS))
    arguments = parser.parse_args()
    run_scenarios(
        arguments.scenario,
        arguments.out,
        lambda name, cpus: measure(SCENARIOS[name], arguments.rounds, cpus),
        table,
    )


if __name__ == "__main__":
    main()
