"""Which files of millrace a loader enters on its way to its first batch: `python walk_cases.py CASE FOLDER`.

Prints one JSON object: "loop", the files that the training process enters, in the order of their first
entrance, and "worker", those that the worker processes enter. Everything is imported, and one loader of the
same kind has ended, before the trace begins. What the trace does not see: code without a frame in a file, as
dataclasses have it. The case "starts" prints numbers.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import millrace
import torch
from millrace import DataLoader, transforms
from millrace.datasets import ImageFolder, WebDataset

PACKAGE = os.path.dirname(millrace.__file__) + os.sep


class Numbers(torch.utils.data.Dataset):
    """A dataset that is Python code."""

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return torch.full((3, 4), float(index)), index


def chain() -> transforms.Compose:
    return transforms.Compose(
        [transforms.RandomResizedCrop(32), transforms.RandomHorizontalFlip(), transforms.ToTensor()]
    )


def pictures(folder: str) -> dict[str, Any]:
    dataset = ImageFolder(folder, chain())
    return {"dataset": dataset, "batch_size": 4, "shuffle": True, "num_workers": 2, "native": "require"}


def processes(folder: str) -> dict[str, Any]:
    return {"dataset": Numbers(), "batch_size": 4, "shuffle": True, "num_workers": 2}


def stream(folder: str) -> dict[str, Any]:
    shards = WebDataset(sorted(map(str, Path(folder).glob("*.tar"))), shardshuffle=True)
    dataset = shards.shuffle(8).decode("pil").to_tuple("jpg;png", "cls").map_tuple(chain())
    return {"dataset": dataset, "batch_size": 4, "num_workers": 2, "native": "require"}


CASES = {"pictures": pictures, "processes": processes, "stream": stream}


class Trace:
    """The files in which functions of millrace are entered, by thread and process."""

    def __init__(self) -> None:
        self.loop: dict[str, None] = {}
        self.calls = 0
        self._seen: set[str] = set()
        self._owner = os.getpid()
        self._read, self._write = os.pipe()

    def __call__(self, frame: Any, event: str, argument: Any) -> None:
        path = frame.f_code.co_filename
        if event != "call" or not path.startswith(PACKAGE) or frame.f_code.co_name == "<module>":
            return
        name = path[len(PACKAGE) :]
        if os.getpid() == self._owner:
            self.loop.setdefault(name)
            self.calls += 1
        elif name not in self._seen:
            self._seen.add(name)
            os.write(self._write, f"{name}\n".encode())

    def __enter__(self) -> Trace:
        threading.setprofile(self)
        sys.setprofile(self)
        return self

    def __exit__(self, *raised: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def of_workers(self) -> list[str]:
        """After their end."""
        os.close(self._write)
        with open(self._read) as lines:
            return sorted({line.strip() for line in lines})


def first_batch(arguments: dict[str, Any], trace: Trace | None = None) -> Iterator[Any]:
    if trace is None:
        batches = iter(DataLoader(**arguments))
        assert isinstance(next(batches)[0], torch.Tensor)
        return batches
    with trace:
        batches = iter(DataLoader(**arguments))
        next(batches)
    return batches


def starts(folder: str) -> None:
    """Prints how many functions a loader and its iterator enter, in how many files; then another iterator."""
    dataset = ImageFolder(folder, chain())
    for _ in (1, 2):  # Pillow changes when it opens its first picture
        list(DataLoader(dataset, 32))
    with Trace() as first:
        loader = DataLoader(dataset, 32)
        kept = [iter(loader)]
    with Trace() as second:
        kept.append(iter(loader))
    print(json.dumps([(trace.calls, len(trace.loop)) for trace in (first, second)]))


def main(case: str, folder: str) -> None:
    if case == "starts":
        return starts(folder)
    for _ in first_batch(CASES[case](folder)):
        pass
    arguments, trace = CASES[case](folder), Trace()
    gc.collect()
    gc.disable()  # nothing of the first loader ends while the second one is looked at
    for _ in first_batch(arguments, trace):
        pass
    print(json.dumps({"loop": list(trace.loop), "worker": trace.of_workers()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
