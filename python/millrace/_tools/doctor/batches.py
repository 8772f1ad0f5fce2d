"""How many samples a second the CPUs make: pictures, rows of tokens, rows of numbers, through millrace's own
loaders.

Data lie in memory, so that nothing but the making is timed; one thread, then as many as this process may use
CPUs.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from millrace import _core

from ...dataloader import DataLoader
from ...datasets import Arrays, Tokens
from .photos import Photos, in_memory_files
from .timing import until

_CHAIN: list[dict[str, Any]] = [
    {
        "op": "random_resized_crop",
        "height": 224,
        "width": 224,
        "scale": (0.08, 1.0),
        "ratio": (3 / 4, 4 / 3),
        "interpolation": "bilinear",
    },
    {"op": "horizontal_flip", "p": 0.5},
    {"op": "to_tensor", "dtype": "float32"},
    {"op": "normalize", "mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)},
]
_DATA_BYTES = 64 << 20
_BATCH = 32


def time_pictures(photos: Photos, threads: int, seconds: float) -> dict[str, Any]:
    """decode: whole pictures a second by one thread; pixels: a second; one, all: RandomResizedCrop(224)
    samples a second, and the threads of `all`; bytes and own: of the photos, and whose they are.
    """
    turn = itertools.count()

    def decode() -> int:
        _core.decode_image(photos.data[next(turn) % len(photos.data)])
        return 0

    calls, _, spent = until(seconds, decode)
    result = {
        "decode": calls / spent,
        "pixels": calls * photos.pixels / spent,
        "bytes": photos.mean_bytes,
        "own": photos.own,
        "photos": len(photos.data),
        "progressive": photos.progressive,
    }
    descriptors = in_memory_files(photos)
    try:
        files = _core.PathFiles(_core.PathTable([f"/proc/self/fd/{fd}" for fd in descriptors]))
        dataset = _core.ImageDataset(files, np.zeros(len(descriptors), np.int64), _core.ImagePipeline(_CHAIN))
        return {
            **result,
            **_one_and_all(lambda workers: _picture_batches(dataset, workers), threads, seconds),
        }
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def time_tokens(length: int, threads: int, seconds: float, data_bytes: int = _DATA_BYTES) -> dict[str, Any]:
    """one, all: rows of `length` tokens a second, uint16 in a mapped file, shuffled, as int64 inputs and
    targets.
    """
    count = max(data_bytes // 2, 2 * (length + 1))
    descriptor = os.memfd_create("tokens", os.MFD_CLOEXEC)
    try:
        with open(os.dup(descriptor), "wb") as file:
            np.random.default_rng(0).integers(0, 50_000, count, np.uint16).tofile(file)
        dataset = Tokens(f"/proc/self/fd/{descriptor}", length, "uint16")
        return _one_and_all(lambda workers: _batches(dataset, workers, length * 16), threads, seconds)
    finally:
        os.close(descriptor)


def time_rows(row_bytes: int, threads: int, seconds: float, data_bytes: int = _DATA_BYTES) -> dict[str, Any]:
    """one, all: rows of so many bytes of float32 a second, shuffled, from an array in memory."""
    columns = max(1, row_bytes // 4)
    dataset = Arrays(x=np.ones((max(2, data_bytes // (4 * columns)), columns), np.float32))
    return _one_and_all(lambda workers: _batches(dataset, workers, columns * 4), threads, seconds)


def _one_and_all(batches: Any, threads: int, seconds: float) -> dict[str, Any]:
    one = _rate(batches(0), seconds)
    return {"one": one, "all": _rate(batches(threads), seconds) if threads > 1 else one, "threads": threads}


def _rate(batches: Iterator[int], seconds: float) -> float:
    """Samples a second, behind the first batch."""
    next(batches)
    begin = now = time.perf_counter()
    samples = 0
    while now < begin + seconds:
        samples += next(batches)
        now = time.perf_counter()
    batches.close()  # type: ignore[attr-defined]
    return samples / (now - begin)


def _picture_batches(dataset: _core.ImageDataset, workers: int) -> Iterator[int]:
    order = np.arange(_BATCH) % len(dataset)
    loader = _core.Loader(dataset, workers, 3)
    try:
        loader.start_epoch(0, 0)
        for _ in range(3):
            loader.submit(order)
        while (batch := loader.next()) is not None:
            del batch
            yield _BATCH
            loader.submit(order)
    finally:
        loader.close()


def _batches(dataset: Any, workers: int, sample_bytes: int) -> Iterator[int]:
    batch_size = min(max(1, (4 << 20) // sample_bytes), 256, max(1, len(dataset) // 4))
    generator = torch.Generator().manual_seed(0)
    loader: Any = DataLoader(
        dataset,
        batch_size,
        shuffle=True,
        num_workers=workers,
        generator=generator,
        native="require",
        drop_last=True,
    )
    while True:
        for _ in loader:
            yield batch_size
