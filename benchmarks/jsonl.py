"""Files of JSON lines into shuffled batches: millrace against Python's json under torch's DataLoader, and
Hugging Face datasets.

    python -m benchmarks.jsonl [--scenario texts numbers] [--rounds 7] [--out FILE.jsonl]

`texts`: 500 bytes of text, a label and three numbers a line; `numbers`: sixteen floats and a label. The files
are in the page cache, and every side has its index (of lines, or Hugging Face's Arrow tables) before it is
timed. Sides of torch's: `torch_file` seeks and reads a line for each sample, `torch_lines` has all lines in
memory as bytes. An epoch of these slow sides has `limit` rows. Before anything is timed, one epoch of each
side must hold each of its rows once, unchanged. Then each round gives every side one epoch, in alternating
direction. Each repeat is one line of JSON, as harness.py stores them, with `rows`.
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import Dataset

from benchmarks.harness import run_facts
from benchmarks.in_memory import table
from benchmarks.runs import Sides, Some, options, rows_in_turns, run_scenarios

_WORDS = (
    "the of and to in a is that for it as was with be by on not he his but at are this have from or had an"
    " they which".split()
)


@dataclass(frozen=True)
class LineScenario:
    """`rows` lines with `words` words of text and `floats` numbers each; slow loaders are timed on `limit`
    rows only.
    """

    name: str
    rows: int
    words: int
    floats: int
    batch: int
    limit: int


SCENARIOS = {
    s.name: s
    for s in (
        LineScenario("texts", 200_000, 125, 3, 256, 60_000),
        LineScenario("numbers", 400_000, 0, 16, 256, 60_000),
    )
}


def make_rows(scenario: LineScenario) -> Iterator[dict[str, Any]]:
    """Each with its number as `id`; values come back from their decimals unchanged."""
    generator = random.Random(0)
    for number in range(scenario.rows):
        values = [round(generator.uniform(-5, 5), 6) for _ in range(scenario.floats)]
        row: dict[str, Any] = {"id": number, "label": number % 10, "values": values}
        if scenario.words:
            row["text"] = " ".join(generator.choices(_WORDS, k=scenario.words))
        yield row


def write_file(scenario: LineScenario, path: str) -> None:
    with open(path, "w") as file:
        file.writelines(json.dumps(row) + "\n" for row in make_rows(scenario))


def _sample(row: dict[str, Any]) -> dict[str, Any]:
    row["values"] = torch.tensor(row["values"], dtype=torch.float32)
    return row


class FileLines(Dataset):
    """A line read for each sample."""

    def __init__(self, path: str) -> None:
        self.path, self.offsets, self.file, self.process, end = path, [], None, 0, 0
        with open(path, "rb") as file:
            for line in file:
                self.offsets.append(end)
                end += len(line)

    def __len__(self) -> int:
        return len(self.offsets)

    def __getitem__(self, index: int) -> dict[str, Any]:
        if self.process != os.getpid():  # forked workers would share one place in the file
            self.file, self.process = (
                open(self.path, "rb"),
                os.getpid(),
            )  # noqa: SIM115: as long as the dataset
        self.file.seek(self.offsets[index])
        return _sample(json.loads(self.file.readline()))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "file": None, "process": 0}


class MemoryLines(Dataset):
    """All lines in memory."""

    def __init__(self, path: str) -> None:
        with open(path, "rb") as file:
            self.lines = file.readlines()

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return _sample(json.loads(self.lines[index]))


def hugging_face(path: str, folder: str) -> Any:
    import datasets

    datasets.disable_progress_bars()
    loaded = datasets.load_dataset(
        "json", data_files=path, split="train", cache_dir=os.path.join(folder, "hugging_face")
    )
    return loaded.with_format(
        "torch", columns=["id", "label", "values"], output_all_columns=True, dtype=torch.float32
    )


def loaders(scenario: LineScenario, folder: str) -> Sides:
    """name -> (workers, epochs); epochs() begins one epoch and returns its batches, dicts of id, label,
    values and text.
    """
    import millrace

    path = os.path.join(folder, "data.jsonl")
    write_file(scenario, path)
    fields = {
        "id": int,
        "label": int,
        "values": ("float32", (scenario.floats,)),
        **({"text": str} if scenario.words else {}),
    }
    ours = millrace.datasets.JSONL(path, fields, index_dir=folder)
    torchs: dict[str, Any] = {"torch_file": FileLines(path), "torch_lines": MemoryLines(path)}
    if importlib.util.find_spec("datasets"):
        torchs["torch_hugging_face"] = hugging_face(path, folder)
    sides: Sides = {}
    for workers in 0, 2:
        options = {"batch_size": scenario.batch, "num_workers": workers, "persistent_workers": workers > 0}
        for name, dataset in torchs.items():
            loader = torch.utils.data.DataLoader(
                dataset, sampler=Some(scenario.rows, scenario.limit), **options
            )
            sides[f"{name}_{workers}"] = workers, lambda loader=loader: loader
        native = millrace.DataLoader(ours, shuffle=True, native="require", **options)
        sides[f"millrace_{workers}"] = workers, lambda native=native: native
    return sides


def check(name: str, scenario: LineScenario, batches: Iterable, limit: int | None = None) -> None:
    """Every row once, or `limit` of them, in another order, unchanged. Raises AssertionError."""
    rows = list(make_rows(scenario))
    values = torch.tensor([row["values"] for row in rows], dtype=torch.float32)
    order = []
    for batch in batches:
        ids = batch["id"].long()
        order.append(ids)
        assert torch.equal(batch["values"], values[ids]) and batch["values"].dtype == torch.float32, (
            f"{name}: values are not the file's"
        )
        assert torch.equal(batch["label"].long(), ids % 10), f"{name}: labels are not the file's"
        if scenario.words:
            assert list(batch["text"]) == [rows[i]["text"] for i in ids.tolist()], (
                f"{name}: texts are not the file's"
            )
    whole = torch.cat(order)
    assert len(whole.unique()) == len(whole) == (limit or scenario.rows), (
        f"{name}: an epoch does not hold every row once"
    )
    assert not torch.equal(whole, whole.sort().values), f"{name}: the order was not shuffled"


def measure(scenario: LineScenario, rounds: int, cpus: list[int]) -> Iterator[dict]:
    """One record per epoch: at least `rounds` quiet rounds, at most twice as many in all."""
    with tempfile.TemporaryDirectory() as folder:
        sides = loaders(scenario, folder)
        common = {
            "scenario": scenario.name,
            "cpus": len(cpus),
            **run_facts(("torch", "datasets")),
            "data": {
                "rows": scenario.rows,
                "file_bytes": os.path.getsize(os.path.join(folder, "data.jsonl")),
            },
        }
        for name, (_, epochs) in sides.items():
            print(f"{scenario.name}  {name}: checking", file=sys.stderr, flush=True)
            check(name, scenario, epochs(), scenario.limit if name.startswith("torch") else None)
        yield from rows_in_turns(sides, rounds, cpus, common, lambda batch: len(batch["id"]))


def main() -> None:
    parser = options(__doc__, "jsonl", 7, SCENARIOS)
    arguments = parser.parse_args()
    run_scenarios(
        arguments.scenario,
        arguments.out,
        lambda name, cpus: measure(SCENARIOS[name], arguments.rounds, cpus),
        table,
    )


if __name__ == "__main__":
    main()
