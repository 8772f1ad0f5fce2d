"""How many samples a second the CPUs make: pictures, rows of tokens, rows of numbers, through millrace's own
loaders. Photos to decode are the user's own, or made up ones of the size and detail that photos have.

Data lie in memory, so that nothing but the making is timed; one thread, then as many as this process may use
CPUs.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import random
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from millrace import _core
from millrace._common.regular_files import open_regular
from millrace.dataloader import DataLoader
from millrace.datasets import Arrays, Tokens
from millrace.datasets.pillow_decode import decode_with_pillow
from PIL import Image

from .timing import explained, until

_MOST_PHOTOS, _MOST_BYTES, _MOST_FILE = 64, 64 << 20, 16 << 20
_MADE, _WIDTH, _HEIGHT = 8, 500, 375
USUAL_BYTES = 110_000  # of ImageNet's photos: 500 x 375 pixels, little compressed


@dataclass
class Photos:
    """Sound JPEGs in memory. damaged: [path: reason]; progressive: how many of them are."""

    data: list[bytes]
    own: bool
    damaged: list[str] = field(default_factory=list)
    progressive: int = 0
    pixels: float = 0.0  # of one, on average

    @property
    def mean_bytes(self) -> float:
        return sum(map(len, self.data)) / len(self.data)


def own_photos(files: list[tuple[str, int]], rng: random.Random) -> Photos:
    """Some of these files, as far as they are JPEGs; `data` may be empty."""
    jpegs = [path for path, size in files if path.lower().endswith((".jpg", ".jpeg")) and size <= _MOST_FILE]
    photos, held = Photos([], True), 0
    for path in rng.sample(jpegs, min(_MOST_PHOTOS, len(jpegs))):
        try:
            with open_regular(path, "rb") as file:
                data = file.read(_MOST_FILE)
            facts = _core.probe_jpeg(data)
            if _core.decode_image(data) is None:
                decode_with_pillow(data, path)
                continue  # sound, but not decoded by the engine, and the engine's speed is wanted
        except (OSError, SyntaxError, ValueError) as error:
            photos.damaged.append(explained(error) if path in str(error) else f"{path}: {explained(error)}")
            continue
        if held + len(data) > _MOST_BYTES:
            break
        held += len(data)
        photos.data.append(data)
        photos.progressive += bool(facts["progressive"])
        photos.pixels += facts["width"] * facts["height"]
    photos.pixels /= max(1, len(photos.data))
    return photos


def made_photos(sample_bytes: int = USUAL_BYTES) -> Photos:
    """Eight pictures with the spectrum of photos, of about so many bytes each."""
    share = min(max(sample_bytes, 4_000), 8_000_000) / USUAL_BYTES
    width, height = round(_WIDTH * share**0.5), round(_HEIGHT * share**0.5)
    photos = Photos([], False, pixels=width * height)
    for seed in range(_MADE):
        # Cut or repeated, not scaled, which would change how much detail a pixel has.
        pixels = np.tile(_picture(seed), (-(-height // _HEIGHT), -(-width // _WIDTH), 1))[:height, :width]
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, "JPEG", quality=92)
        photos.data.append(file.getvalue())
    return photos


def _picture(seed: int) -> np.ndarray:
    """uint8 (375, 500, 3): noise of all sizes, the finer the weaker, as in photos: mostly brightness, some of
    it colour.
    """
    rng = np.random.default_rng(seed)
    pixels = np.zeros((_HEIGHT, _WIDTH, 3), np.float32)
    for level in range(1, 10):
        size = max(2, _WIDTH * 2**level // 512), max(2, _HEIGHT * 2**level // 512)
        noise = rng.standard_normal((4, size[1], size[0]), np.float32)
        layer = np.stack(
            [
                np.asarray(Image.fromarray(plane).resize((_WIDTH, _HEIGHT), Image.Resampling.BILINEAR))
                for plane in noise
            ],
            -1,
        )
        pixels += (layer[..., :1] + 0.3 * layer[..., 1:]) * 2.0 ** (-0.25 * level)
    pixels = (pixels - pixels.mean()) / float(pixels.std()) * 60 + 118
    return np.clip(pixels, 0, 255).astype(np.uint8)


@contextlib.contextmanager
def _in_memory_files(contents: Iterable[bytes | memoryview]) -> Iterator[list[str]]:
    """Paths of files that have no names, and are gone afterwards."""
    with contextlib.ExitStack() as stack:
        paths = []
        for content in contents:
            descriptor = os.memfd_create("doctor", os.MFD_CLOEXEC)
            file = stack.enter_context(open(descriptor, "wb", buffering=0))
            file.write(content)
            paths.append(f"/proc/self/fd/{descriptor}")
        yield paths


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
    """Rates of pictures. decode: whole pictures a second by one thread; pixels: a second; one, all:
    RandomResizedCrop(224) samples a second by one thread and by `threads`; bytes: a photo's mean size; own:
    whether the photos are the user's.
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
    with _in_memory_files(photos.data) as paths:
        files = _core.PathFiles(_core.PathTable(paths))
        dataset = _core.ImageDataset(files, np.zeros(len(paths), np.int64), _core.ImagePipeline(_CHAIN))
        return {
            **result,
            **_one_and_all(lambda workers: _picture_batches(dataset, workers), threads, seconds),
        }


def time_tokens(length: int, threads: int, seconds: float, data_bytes: int = _DATA_BYTES) -> dict[str, Any]:
    """one, all: rows of `length` tokens a second, uint16 in a mapped file, shuffled, as int64 inputs and
    targets.
    """
    count = max(data_bytes // 2, 2 * (length + 1))
    tokens = np.random.default_rng(0).integers(0, 50_000, count, np.uint16)
    with _in_memory_files([tokens.data]) as (path,):
        dataset = Tokens(path, length, "uint16")
        return _one_and_all(lambda workers: _batches(dataset, workers, length * 16), threads, seconds)


def time_rows(row_bytes: int, threads: int, seconds: float, data_bytes: int = _DATA_BYTES) -> dict[str, Any]:
    """one, all: rows of so many bytes of float32 a second, shuffled, from an array in memory."""
    columns = max(1, row_bytes // 4)
    dataset = Arrays(x=np.ones((max(2, data_bytes // (4 * columns)), columns), np.float32))
    return _one_and_all(lambda workers: _batches(dataset, workers, columns * 4), threads, seconds)


def _one_and_all(batches: Any, threads: int, seconds: float) -> dict[str, Any]:
    one = _rate(batches(0), seconds)
    return {"one": one, "all": _rate(batches(threads), seconds) if threads > 1 else one, "threads": threads}


def _rate(batches: Iterator[int], seconds: float) -> float:
    """Samples a second, after the first batch."""
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
