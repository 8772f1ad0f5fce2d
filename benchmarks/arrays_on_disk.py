"""Arrays on disk: HDF5 and Zarr through millrace, and through h5py and zarr in torch's workers, the sides
taking turns in one process.

    python -m benchmarks.arrays_on_disk [--scenario hdf5_gzip zarr_random] [--rounds 7] [--folder DIR] [--out
    FILE.jsonl]

Before anything is timed, one epoch of each side must hold every row once, unchanged; of slow sides, `limit`
rows. Then each round gives every side one epoch, slow ones again `limit` rows, in alternating direction. Each
repeat is one line of JSON, as harness.py stores them, with `rows`.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, RandomSampler, Sampler

from benchmarks.compare import rates_table
from benchmarks.harness import run_facts
from benchmarks.runs import Sides, options, rows_in_turns, run_scenarios

BUFFER_CHUNKS = 8


@dataclass(frozen=True)
class ArrayScenario:
    """Rows [32, 64] of an array of float32 in chunks of `chunk` whole rows, shuffled by chunks, in
    batches.
    """

    name: str
    rows: int
    chunk: int
    batch: int
    limit: int  # rows of an epoch that torch's sides are timed on
    row: tuple[int, ...] = (32, 64)

    @property
    def is_zarr(self) -> bool:
        return self.name.startswith("zarr")


SCENARIOS = {
    s.name: s
    for s in (
        ArrayScenario("hdf5_gzip", 65_536, 64, 64, 1_024),
        ArrayScenario("hdf5_plain", 16_384, 64, 64, 4_096),
        ArrayScenario("zarr_random", 16_384, 64, 64, 1_024),
    )
}


class H5Rows(Dataset):
    """How h5py is used with torch's workers: each opens the file for itself, at its first row."""

    def __init__(self, path: str, rows: int) -> None:
        self.path, self.rows, self.file = path, rows, None

    def __len__(self) -> int:
        return self.rows

    def __getitem__(self, i: int) -> torch.Tensor:
        if self.file is None:
            import h5py

            self.file = h5py.File(self.path, "r")
        return torch.from_numpy(self.file["x"][i])


class ZarrRows(Dataset):
    def __init__(self, path: str, rows: int) -> None:
        self.path, self.rows, self.array = path, rows, None

    def __len__(self) -> int:
        return self.rows

    def __getitem__(self, i: int) -> torch.Tensor:
        if self.array is None:
            import zarr

            self.array = zarr.open_array(self.path, path="x", mode="r")
        return torch.from_numpy(self.array[i])


def values(scenario: ArrayScenario, start: int, count: int) -> np.ndarray:
    """Rows whose first value is the row's number, smooth and rounded as measurements are, so that they
    compress some two times.
    """
    random = np.random.default_rng(start)
    smooth = np.cumsum(random.standard_normal((count, *scenario.row)), axis=-1)
    rows = np.round(smooth, 2).astype(np.float32)
    rows[:, 0, 0] = np.arange(start, start + count)
    return rows


def write(scenario: ArrayScenario, folder: str) -> str:
    path = os.path.join(folder, scenario.name + (".zarr" if scenario.is_zarr else ".h5"))
    shape, chunk = (scenario.rows, *scenario.row), (scenario.chunk, *scenario.row)
    if scenario.is_zarr:
        import zarr

        array = zarr.open_group(path, mode="w").create_array("x", shape=shape, chunks=chunk, dtype="f4")
        for start in range(0, scenario.rows, scenario.chunk):
            array[start : start + scenario.chunk] = values(
                scenario, start, min(scenario.chunk, scenario.rows - start)
            )
        return path
    import h5py

    options = {"compression": "gzip", "shuffle": True} if scenario.name.endswith("gzip") else {}
    with h5py.File(path, "w") as file:
        array = file.create_dataset("x", shape, "f4", chunks=chunk, **options)
        for start in range(0, scenario.rows, scenario.chunk):
            array[start : start + scenario.chunk] = values(
                scenario, start, min(scenario.chunk, scenario.rows - start)
            )
    return path


class First(Sampler):
    """The first `count` of a sampler's indices. Fewer of them rather than an epoch left early: workers would
    go on with batches that
    nobody takes while the next side is timed.
    """

    def __init__(self, sampler: Sampler, count: int) -> None:
        self.sampler, self.count = sampler, count

    def __iter__(self) -> Iterator[int]:
        return islice(iter(self.sampler), self.count)

    def __len__(self) -> int:
        return min(self.count, len(self.sampler))


def loaders(scenario: ArrayScenario, path: str) -> Sides:
    """name -> (workers, epochs); epochs() begins one epoch and returns its batches.

    torch's sides read in the same order as ours, which suits h5py's and zarr's caches as well as any;
    `_random` in any order.
    """
    import millrace
    from millrace.datasets import HDF5, Zarr

    # As if the file were larger than memory: no chunk of one epoch is still there in the next.
    chunk_bytes = 4 * scenario.chunk * int(np.prod(scenario.row))
    ours = (Zarr if scenario.is_zarr else HDF5)(path, "x", cache_bytes=3 * BUFFER_CHUNKS * chunk_bytes)
    naive = (ZarrRows if scenario.is_zarr else H5Rows)(path, scenario.rows)
    sides: Sides = {}

    def add(name: str, workers: int, cls: type, dataset: Dataset, **extra) -> None:
        loader = cls(dataset, scenario.batch, num_workers=workers, persistent_workers=workers > 0, **extra)
        sides[f"{name}_{workers}"] = workers, lambda: loader

    for workers in 1, 2:
        add(
            "millrace",
            workers,
            millrace.DataLoader,
            ours,
            sampler=ours.shuffled(BUFFER_CHUNKS),
            native="require",
            auto_epoch=True,
        )
        add("torch_random", workers, DataLoader, naive, sampler=First(RandomSampler(naive), scenario.limit))
        add(
            "torch_chunks",
            workers,
            DataLoader,
            naive,
            sampler=First(ours.shuffled(BUFFER_CHUNKS), scenario.limit),
        )
    return sides


def check(name: str, scenario: ArrayScenario, batches: Iterable, limit: int | None = None) -> None:
    """Every row once, or `limit` of them, in another order, unchanged. Raises AssertionError."""
    numbers = []
    cached: dict[int, np.ndarray] = {}
    for batch in batches:
        for row in batch:
            number = int(row[0, 0])
            numbers.append(number)
            start = number // scenario.chunk * scenario.chunk
            if start not in cached:
                cached[start] = values(scenario, start, min(scenario.chunk, scenario.rows - start))
            assert np.array_equal(row.numpy(), cached[start][number - start]), (
                f"{name}: row {number} is not that of the data"
            )
    assert len(set(numbers)) == len(numbers) == (limit or scenario.rows), (
        f"{name}: an epoch does not hold every row once"
    )
    assert numbers != sorted(numbers), f"{name}: the order was not shuffled"


def measure(scenario: ArrayScenario, rounds: int, cpus: list[int], folder: str) -> Iterator[dict]:
    """One record per epoch: at least `rounds` quiet rounds, at most twice as many in all."""
    path = write(scenario, folder)
    libraries = ("zarr", "tensorstore") if scenario.is_zarr else ("h5py",)
    common = {
        "scenario": scenario.name,
        "cpus": len(cpus),
        **run_facts(("torch", "numpy", *libraries)),
        "data": {"rows": scenario.rows, "row_bytes": 4 * int(np.prod(scenario.row))},
    }
    sides = loaders(scenario, path)
    for name, (_, epochs) in sides.items():
        if name.endswith("_1"):  # two workers run the same code
            print(f"{scenario.name}  {name}: checking", file=sys.stderr, flush=True)
            check(name, scenario, epochs(), scenario.limit if name.startswith("torch") else None)
    yield from rows_in_turns(sides, rounds, cpus, common)


def table(records: list[dict]) -> str:
    row_bytes = records[0]["data"]["row_bytes"]
    return rates_table(
        records,
        "rows_per_s",
        "rows/s",
        {
            "MB/s": (lambda r: r["rows_per_s"] * row_bytes / 1e6, ",.0f"),
            "CPU s per 100,000 rows": (lambda r: r["cpu_seconds"] / r["rows"] * 1e5, ".2f"),
        },
        best="millrace_2",
    )


def main() -> None:
    parser = options(__doc__, "arrays_on_disk", 7, SCENARIOS)
    parser.add_argument("--folder", help="where the files are written (default: a temporary folder)")
    arguments = parser.parse_args()

    def records_of(name: str, cpus: list[int]) -> Iterator[dict]:
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            yield from measure(SCENARIOS[name], arguments.rounds, cpus, folder)

    run_scenarios(arguments.scenario, arguments.out, records_of, table)


if __name__ == "__main__":
    main()
