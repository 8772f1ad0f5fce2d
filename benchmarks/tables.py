"""A Parquet file of numbers into shuffled batches: millrace against pyarrow and numpy by hand, and Hugging
Face datasets.

    python -m benchmarks.tables [--scenario zstd snappy] [--rows 8000000] [--rounds 5] [--folder DIR] [--out
    FILE.jsonl]

The file is in the page cache. Before anything is timed, one epoch of each side must hold every row once,
unchanged; of Hugging Face's, whose epochs are short for they are slow, `limit` rows. Then each round gives
every side one epoch, in alternating direction. `rate_scan` and `rate_gather` are no loaders: row groups read
and thrown away, and batches taken from windows that lie in memory; the printed table adds the two up. Each
repeat is one line of JSON, as harness.py stores them, with `rows`.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch.utils.data import BatchSampler, DataLoader

from benchmarks.harness import run_facts
from benchmarks.in_memory import table
from benchmarks.runs import Sides, Some, options, rows_in_turns, run_scenarios

BUFFER_GROUPS = 8
FLOATS, INTS = 12, 8  # columns; the first of the ints is the row's number


@dataclass(frozen=True)
class TableScenario:
    """`rows` in row groups of `group`, compressed by the codec `name`; batches {column: tensor [batch]}."""

    name: str
    rows: int = 8_000_000
    group: int = 65_536
    batch: int = 1_024
    limit: int = 40_960  # rows in an epoch of Hugging Face's sides

    @property
    def row_bytes(self) -> int:
        return 4 * FLOATS + 8 * INTS


SCENARIOS = {s.name: s for s in (TableScenario("zstd"), TableScenario("snappy"))}


def make_columns(scenario: TableScenario) -> dict[str, np.ndarray]:
    """float32: half of them as drawn, half rounded to hundredths as measurements are; int64: the row's
    number, and ever wider ranges.
    """
    random = np.random.default_rng(0)
    columns = {"id": np.arange(scenario.rows)}
    for number in range(FLOATS):
        values = random.standard_normal(scenario.rows, dtype=np.float32)
        columns[f"float_{number}"] = values if number % 2 else np.round(values, 2)
    for number in range(1, INTS):
        columns[f"int_{number}"] = random.integers(0, 10**number, scenario.rows)
    return columns


def write(scenario: TableScenario, columns: dict[str, np.ndarray], folder: str) -> str:
    import pyarrow
    import pyarrow.parquet

    path = os.path.join(folder, f"{scenario.name}.parquet")
    pyarrow.parquet.write_table(
        pyarrow.table(columns), path, row_group_size=scenario.group, compression=scenario.name
    )
    return path


class Windows:
    """An epoch's windows of BUFFER_GROUPS row groups in random order, as pyarrow tables."""

    def __init__(self, path: str, use_threads: bool) -> None:
        self.path, self.use_threads, self.random = path, use_threads, np.random.default_rng(1)

    def __iter__(self) -> Iterator[Any]:
        import pyarrow.parquet

        with pyarrow.parquet.ParquetFile(self.path, memory_map=True) as file:
            groups = self.random.permutation(file.num_row_groups).tolist()
            for start in range(0, len(groups), BUFFER_GROUPS):
                yield file.read_row_groups(
                    groups[start : start + BUFFER_GROUPS], use_threads=self.use_threads
                )


class Gather:
    """Batches of each window's rows in random order: numpy's fancy indexing, column by column. A window's
    last batch may be smaller.
    """

    def __init__(self, windows: Iterable[Any], batch: int) -> None:
        self.windows, self.batch, self.random = windows, batch, np.random.default_rng(2)

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        for window in self.windows:
            columns = {
                name: window[name].to_numpy() for name in window.column_names
            }  # put together where it has several pieces
            order = self.random.permutation(len(window))
            for start in range(0, len(order), self.batch):
                rows = order[start : start + self.batch]
                yield {name: torch.from_numpy(column[rows]) for name, column in columns.items()}


def hugging_face(scenario: TableScenario, path: str, folder: str, workers: int) -> DataLoader:
    """The data set is indexed with whole lists and answers with dicts of tensors, so nothing is left to
    collate: the quickest way
    found, ahead of __getitems__, which takes the batch apart into samples.
    """
    import datasets

    datasets.disable_progress_bars()
    loaded = datasets.Dataset.from_parquet(path, cache_dir=os.path.join(folder, "hugging_face")).with_format(
        "torch"
    )
    order = BatchSampler(Some(scenario.rows, scenario.limit), scenario.batch, drop_last=False)
    return DataLoader(
        loaded, batch_size=None, sampler=order, num_workers=workers, persistent_workers=workers > 0
    )


def loaders(scenario: TableScenario, path: str, folder: str) -> Sides:
    """name -> (workers, epochs); epochs() begins one epoch and returns its batches, those of `rate_scan`
    being whole windows.
    """
    import millrace

    # As if the file were larger than memory: no row group of one epoch is still there in the next, as workers
    # do not stay either. What stays is memory of row groups that are gone (src/core/slot_memory.h: 256 MB at
    # most), as pyarrow's pool keeps its own.
    ours = millrace.datasets.Parquet(
        path, cache_bytes=2 * BUFFER_GROUPS * scenario.group * scenario.row_bytes
    )
    sides: Sides = {}
    for workers in 0, 1, 2:
        loader = millrace.DataLoader(
            ours,
            scenario.batch,
            sampler=ours.shuffled(BUFFER_GROUPS),
            num_workers=workers,
            native="require",
            auto_epoch=True,
        )
        sides[f"millrace_{workers}"] = workers, lambda loader=loader: loader
    for ending, use_threads in ("", True), ("_1", False):
        windows = Windows(path, use_threads)
        gather = Gather(windows, scenario.batch)
        sides[f"pyarrow_gather{ending}"] = 0, lambda gather=gather: gather
        sides[f"rate_scan{ending}"] = 0, lambda windows=windows: windows
    in_memory = Gather(list(Windows(path, True)), scenario.batch)
    sides["rate_gather"] = 0, lambda: in_memory
    if importlib.util.find_spec("datasets"):
        for workers in 0, 2:
            theirs = hugging_face(scenario, path, folder, workers)
            sides[f"hf_{workers}"] = workers, lambda theirs=theirs: theirs
    return sides


def check(name: str, columns: dict[str, np.ndarray], batches: Iterable, limit: int | None = None) -> None:
    """Every row once, or `limit` of them, in another order, unchanged. Raises AssertionError."""
    data = {column: torch.from_numpy(values) for column, values in columns.items()}
    rows = len(data["id"])
    parts: list[torch.Tensor] = []
    for batch in batches:
        assert batch.keys() == data.keys(), f"{name}: these are not the file's columns"
        parts.append(batch["id"])
        for column, values in data.items():
            same = batch[column].dtype == values.dtype and torch.equal(batch[column], values[parts[-1]])
            assert same, f"{name}: {column} is not that of the file"
    order = torch.cat(parts)
    assert len(order.unique()) == len(order) == min(rows, limit or rows), (
        f"{name}: an epoch does not hold every row once"
    )
    assert not torch.equal(order, order.sort().values), f"{name}: the order was not shuffled"


def measure(scenario: TableScenario, rounds: int, cpus: list[int], folder: str) -> Iterator[dict]:
    """One record per epoch: at least `rounds` quiet rounds, at most twice as many in all."""
    import pyarrow

    pyarrow.set_cpu_count(len(cpus))
    columns = make_columns(scenario)
    path = write(scenario, columns, folder)
    common = {
        "scenario": scenario.name,
        "cpus": len(cpus),
        **run_facts(("torch", "numpy", "pyarrow", "datasets")),
        "data": {"rows": scenario.rows, "row_bytes": scenario.row_bytes, "file_bytes": os.path.getsize(path)},
    }
    sides = loaders(scenario, path, folder)
    for name, (_, epochs) in sides.items():
        if not name.startswith("rate"):
            print(f"{scenario.name}  {name}: checking", file=sys.stderr, flush=True)
            check(name, columns, epochs(), scenario.limit if name.startswith("hf") else None)
    del columns
    yield from rows_in_turns(sides, rounds, cpus, common, lambda batch: len(batch["id"]))


def added_up(records: list[dict]) -> list[dict]:
    """For the table: the loaders' records, and in place of the rates, round by round, a scan's time and the
    gather's together.
    """
    by_name = {(r["loader"], r["repeat"]): r for r in records}
    shown = [r for r in records if not r["loader"].startswith("rate")]
    for gather in (r for r in records if r["loader"] == "rate_gather"):
        for ending in "", "_1":
            scan = by_name[f"rate_scan{ending}", gather["repeat"]]
            sums = {key: scan[key] + gather[key] for key in ("seconds", "cpu_seconds", "first_s")}
            shown.append(
                {
                    **gather,
                    **sums,
                    "loader": f"(scan{ending} plus gather)",
                    "rows_per_s": gather["rows"] / sums["seconds"],
                }
            )
    return shown


def main() -> None:
    parser = options(__doc__, "tables", 5)
    parser.add_argument("--scenario", nargs="+", default=["zstd"], choices=list(SCENARIOS))
    parser.add_argument("--rows", type=int, default=8_000_000)
    parser.add_argument("--folder", help="where the files are written (default: a temporary folder)")
    arguments = parser.parse_args()

    def records_of(name: str, cpus: list[int]) -> Iterator[dict]:
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            yield from measure(replace(SCENARIOS[name], rows=arguments.rows), arguments.rounds, cpus, folder)

    run_scenarios(arguments.scenario, arguments.out, records_of, lambda records: table(added_up(records)))


if __name__ == "__main__":
    main()
