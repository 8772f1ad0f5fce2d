"""Windows of tokens for language models: millrace against torch's own ways and LitData, the sides taking
turns within one process.

    python -m benchmarks.tokens [--tokens 268435456] [--rounds 7] [--out FILE.jsonl]

A file of uint16 ids; batches of 16 random windows of 2048 + 1 ids, as int64 x and y of (16, 2048). Before
anything is timed, each side must give windows of the file, y one token behind x, from all over it. Then each
round gives every side one epoch, in alternating direction; the slow sides stop after fewer batches. `memcpy`
copies blocks of 64 MiB; what a side writes per second is compared with it ("of memcpy"), per thread that
makes batches. Each repeat is one line of JSON, as harness.py stores them, with `tokens`.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, RandomSampler

from benchmarks import probes
from benchmarks.compare import rates_table
from benchmarks.harness import quiet_rounds, run_facts
from benchmarks.runs import hold_to_cpus, options, rounds_told, stored

Batches = Iterable[list[torch.Tensor]]


@dataclass(frozen=True)
class Scenario:
    """`batches` of an epoch; sides that take processes are timed on `limit` of them."""

    tokens: int = 256 << 20
    length: int = 2048
    batch: int = 16
    batches: int = 6000
    limit: int = 1000


@dataclass(frozen=True)
class Side:
    """`threads`: how many make batches, for the comparison with memcpy; 0: they are processes."""

    workers: int
    threads: int
    epochs: Callable[[], Batches]


def make_data(folder: str, count: int) -> str:
    """Random ids below 50,000 but for the file's first half: there each is its place modulo 50,000, so that
    windows can be told.
    """
    path = os.path.join(folder, "tokens.bin")
    tokens = np.random.default_rng(0).integers(0, 50_000, count, dtype=np.uint16)
    tokens[: count // 2] = np.arange(count // 2) % 50_000
    tokens.tofile(path)
    return path


class PerWindow(Dataset):
    """The usual dataset: one window, converted, as two views."""

    def __init__(self, path: str, length: int) -> None:
        self.tokens, self.length = np.memmap(path, np.uint16, "r"), length

    def __len__(self) -> int:
        return len(self.tokens) - self.length

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        window = torch.from_numpy(self.tokens[index : index + self.length + 1].astype(np.int64))
        return window[:-1], window[1:]


class PerBatch(PerWindow):
    """Whole batches: stacked, converted, and two views of the result. Their rows are not contiguous, unlike
    those of all other sides.
    """

    def __getitems__(self, indices: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
        windows = torch.from_numpy(
            np.stack([self.tokens[i : i + self.length + 1] for i in indices]).astype(np.int64)
        )
        return windows[:, :-1], windows[:, 1:]


class Endless(IterableDataset):
    """nanoGPT's way: places drawn with numpy, without a sampler."""

    def __init__(self, windows: PerBatch, batch: int) -> None:
        self.windows, self.batch = windows, batch

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        random = np.random.default_rng(os.getpid())
        while True:
            yield self.windows.__getitems__(random.integers(0, len(self.windows), self.batch))


def unchanged(batch):
    return batch


def litdata_side(path: str, scenario: Scenario, folder: str) -> Side:
    import litdata

    tokens, pieces, target = np.memmap(path, np.uint16, "r"), 8, os.path.join(folder, "litdata")
    block = scenario.length + 1

    def blocks(number: int):
        count = len(tokens) // pieces // block * block
        yield torch.from_numpy(np.array(tokens[number * count : (number + 1) * count]))

    litdata.optimize(
        blocks,
        list(range(pieces)),
        target,
        chunk_size=block * 4096,
        item_loader=litdata.TokensLoader(),
        num_workers=2,
    )
    dataset = litdata.StreamingDataset(
        target, item_loader=litdata.TokensLoader(block_size=block), shuffle=True, drop_last=True
    )
    loader = litdata.StreamingDataLoader(dataset, batch_size=scenario.batch, num_workers=0)
    return Side(0, 1, lambda: ([b[:, :-1], b[:, 1:]] for b in (batch.to(torch.int64) for batch in loader)))


def sides(path: str, scenario: Scenario, folder: str) -> dict[str, Side]:
    import millrace
    from millrace.datasets import Tokens

    per_window, per_batch = PerWindow(path, scenario.length), PerBatch(path, scenario.length)
    ours = Tokens(path, scenario.length, "uint16", stride=1)

    def loader_of(kind, dataset: Dataset, workers: int, **extra) -> Side:
        sampler = RandomSampler(dataset, replacement=True, num_samples=scenario.batches * scenario.batch)
        loader = kind(
            dataset,
            scenario.batch,
            sampler=sampler,
            num_workers=workers,
            persistent_workers=workers > 0,
            **extra,
        )
        return Side(workers, 0 if workers and kind is DataLoader else max(workers, 1), lambda: loader)

    made: dict[str, Side] = {}
    for workers in 0, 2:
        made[f"torch_{workers}"] = loader_of(DataLoader, per_window, workers)
        made[f"torch_getitems_{workers}"] = loader_of(DataLoader, per_batch, workers, collate_fn=unchanged)
    endless = DataLoader(Endless(per_batch, scenario.batch), None)
    made["torch_iterable_0"] = Side(0, 1, lambda: endless)
    for workers in 0, 1, 2:
        made[f"millrace_{workers}"] = loader_of(millrace.DataLoader, ours, workers, native="require")
    if importlib.util.find_spec("litdata"):
        made["litdata_0"] = litdata_side(path, scenario, folder)
    return made


def check(name: str, path: str, scenario: Scenario, batches: Batches) -> None:
    """Raises AssertionError unless these are windows of the file, of the right shape, from everywhere."""
    tokens, places = np.memmap(path, np.uint16, "r"), []
    random, searched = tokens[len(tokens) // 2 - scenario.length :], 0
    told = np.arange(scenario.length) % 50_000
    for x, y in islice(batches, 40):
        assert (
            x.shape == y.shape == (scenario.batch, scenario.length) and x.dtype is y.dtype is torch.int64
        ), f"{name}: {x.shape} {x.dtype}"
        assert torch.equal(x[:, 1:], y[:, :-1]), f"{name}: y is not x one token on"
        for row in x.numpy():
            if np.array_equal(row, (row[0] + told) % 50_000):  # of the first half
                places.append(int(row[0]))
                continue
            if searched < 8:  # each is a look at half of the file
                searched += 1
                found = (random[at : at + scenario.length] for at in np.flatnonzero(random == row[0]))
                assert any(np.array_equal(row, window) for window in found), f"{name}: a row is no window"
    assert len(places) > 10 and max(places) - min(places) > 25_000 % len(tokens), (
        f"{name}: windows are not from everywhere"
    )


def timed_epoch(batches: Batches, cpus: list[int], limit: int) -> dict:
    timer, tokens, count = probes.Epoch(cpus), 0, 0
    start = time.perf_counter()
    first = None
    for x, _ in islice(batches, limit):
        first = first or time.perf_counter() - start
        tokens += x.numel()
        count += 1
    return {**timer.stop(), "tokens": tokens, "batches": count, "first_s": first}


def memcpy_bytes_per_s(copies: int = 20) -> float:
    """Bytes written per second by one thread's memcpy of 64 MiB, the best of `copies`."""
    source, target = (np.full(64 << 20, fill, np.uint8) for fill in (1, 2))
    best = float("inf")
    for _ in range(copies):
        start = time.perf_counter()
        np.copyto(target, source)
        best = min(best, time.perf_counter() - start)
    return len(source) / best


def measure(scenario: Scenario, rounds: int, cpus: list[int]) -> Iterator[dict]:
    """One record per epoch: at least `rounds` quiet rounds, at most twice as many in all."""
    with tempfile.TemporaryDirectory() as folder:
        path = make_data(folder, scenario.tokens)
        made = sides(path, scenario, folder)
        common = {
            "scenario": "tokens",
            "cpus": len(cpus),
            **run_facts(("torch", "numpy", "litdata")),
            "data": {"bytes": Path(path).stat().st_size, "length": scenario.length},
        }
        for name, side in made.items():
            print(f"tokens  {name}: checking", file=sys.stderr, flush=True)
            check(name, path, scenario, side.epochs())

        def one_round(repeat: int) -> list[dict]:
            records = []
            copied = memcpy_bytes_per_s()
            for name in list(made)[:: -1 if repeat % 2 else 1]:
                side = made[name]
                times = timed_epoch(
                    side.epochs(), cpus, scenario.limit if side.threads == 0 else scenario.batches
                )
                per_s = times["tokens"] / times["seconds"]
                of_memcpy = per_s * 16 / side.threads / copied if side.threads else None
                records.append(
                    {
                        **common,
                        "loader": name,
                        "workers": side.workers,
                        "kind": "epoch",
                        "repeat": repeat,
                        **times,
                        "tokens_per_s": per_s,
                        "memcpy_bytes_per_s": copied,
                        "of_memcpy": of_memcpy,
                    }
                )
            return records

        yield from quiet_rounds(rounds, one_round)


def table(records: list[dict]) -> str:
    return rates_table(
        records,
        "tokens_per_s",
        "M tokens/s",
        {
            "µs per batch": (lambda r: r["seconds"] / r["batches"] * 1e6, ",.0f"),
            "written per thread, of memcpy": (lambda r: r["of_memcpy"], ".0%"),
            "CPU s per 10⁹": (lambda r: r["cpu_seconds"] / r["tokens"] * 1e9, ".2f"),
        },
        scale=1e6,
    )


def main() -> None:
    parser = options(__doc__, "tokens", 7)
    parser.add_argument("--tokens", type=int, default=Scenario.tokens)
    parser.add_argument("--batches", type=int, default=Scenario.batches)
    arguments = parser.parse_args()
    scenario = Scenario(
        tokens=arguments.tokens, batches=arguments.batches, limit=min(Scenario.limit, arguments.batches)
    )
    records = stored(measure(scenario, arguments.rounds, hold_to_cpus(2)), arguments.out)
    print(f"{rounds_told(records)}\n\n{table(records)}\n")


if __name__ == "__main__":
    main()
