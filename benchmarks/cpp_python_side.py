"""The Python package's side of cpp_library.py: what benchmarks/cpp/library_side.cpp loads, by the same lines
on standard input and output as benchmarks/cpp/side.h.

    python -m benchmarks.cpp_python_side photos|rows|shards|tokens PATH THREADS
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

import millrace
import numpy as np
import torch
from millrace.datasets import ImageFolder, Tokens, WebDataset
from torch.utils.data import TensorDataset

from benchmarks.loaders.millrace import transform
from benchmarks.scenarios.imagenet import IMAGENET_TRAIN


@dataclass
class Content:
    """What side.h's struct of this name says of an epoch."""

    batches: list[int] = field(default_factory=list)
    rows: int = 0
    sum: float = 0
    squares: float = 0
    floats: int = 0

    def add(self, fields: list[np.ndarray]) -> None:
        number = 0
        for array in fields:
            words = np.ascontiguousarray(array).view(np.uint32).reshape(len(array), -1).astype(np.uint64)
            odd = np.arange(words.size, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
            number += int((words.ravel() * odd).sum())
            self.rows += int((words * odd[: words.shape[1]]).sum())
        self.batches.append(number % 2**64)
        self.sum += float(fields[0].sum(dtype=np.float64))
        self.squares += float(np.square(fields[0], dtype=np.float64).sum())
        self.floats += fields[0].size

    def told(self) -> dict:
        mean = self.sum / self.floats
        deviation = float(np.sqrt(self.squares / self.floats - mean * mean))
        return {"content": self.batches, "row_content": self.rows % 2**64, "mean": mean, "std": deviation}


def loader_of(scenario: str, path: str, threads: int) -> Iterable:
    if scenario == "photos":
        dataset, batch = ImageFolder(path, transform(IMAGENET_TRAIN)), 128
    elif scenario == "shards":
        shards = WebDataset(path, shardshuffle=True, seed=1).shuffle(1000).decode("pil")
        dataset, batch = shards.to_tuple("jpg", "cls").map_tuple(transform(IMAGENET_TRAIN)), 128
    elif scenario == "tokens":
        dataset, batch = Tokens(path, 2048, "uint16"), 16
    else:
        rows = torch.from_numpy(np.fromfile(path, np.float32).reshape(-1, 16))
        dataset, batch = TensorDataset(rows), 256
    return millrace.DataLoader(
        dataset,
        batch,
        shuffle=None if scenario == "shards" else True,
        num_workers=threads,
        persistent_workers=threads > 0,
        generator=torch.Generator().manual_seed(1),
        native="require",
    )


def main() -> None:
    scenario, path, threads = sys.argv[1:]
    loader = loader_of(scenario, path, int(threads))
    print("{}", flush=True)
    for line in sys.stdin:
        checks = json.loads(line) == ["check"]
        start, first, rows, batches, content = time.perf_counter(), None, 0, 0, Content()
        for batch in loader:
            first = first or time.perf_counter() - start
            fields = list(batch.values()) if isinstance(batch, dict) else batch
            rows += len(fields[0])
            batches += 1
            if checks:
                content.add([value.numpy() for value in fields])
        answer = {
            "seconds": time.perf_counter() - start,
            "first_s": first,
            "rows": rows,
            "batches": batches,
            **(content.told() if content.batches else {}),
        }
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
