"""Pipelines whose bottleneck is known because it was built in: what the profile has to find, on every engine.

A case makes a loader; `step` is what the training loop does with each batch. Slow things either wait, as a
disk or a network does, or compute for as long as they say, by the thread's own CPU time, so that a busy
machine changes little.
"""

from __future__ import annotations

import contextlib
import io
import json
import random
import time
import urllib.request
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import millrace
import numpy as np
import torch
from fault_proxy import FaultProxy
from millrace import DataLoader, transforms
from millrace.datasets import WebDataset
from pictures import jpeg_bytes, make_picture
from PIL import Image
from shard_data import write_tar
from torch.utils.data import ConcatDataset, Dataset, IterableDataset, Subset

SLOW, LITTLE = 0.004, 0.0003


def compute(seconds):
    """In Python, holding the GIL."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(50))


class SlowFile(io.BytesIO):
    """A file on a disk that takes its time."""

    def read(self, *args):
        time.sleep(SLOW)
        return super().read(*args)


# ------------------------------------------------------------------ transforms


def slow_function(row):
    compute(SLOW)
    return row


def slow_wait(row):
    time.sleep(SLOW)
    return row


class SlowCallable:
    def __call__(self, row):
        compute(SLOW)
        return row


class Chain:
    """As torchvision's Compose."""

    def __init__(self, *parts):
        self.transforms = parts

    def __call__(self, row):
        for part in self.transforms:
            row = part(row)
        return row


def doubled(row):
    return row * 2


# ------------------------------------------------------------------ datasets


class Rows(Dataset):
    """Rows read from a file in memory, by a `file` type, made something of by `decode`, and transformed."""

    def __init__(self, length=96, file=io.BytesIO, decode=None, transform=None, data=bytes(400)):
        self.length, self.file, self.decode, self.transform, self.data = length, file, decode, transform, data

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        with self.file(self.data) as file:
            data = file.read()
        row = np.frombuffer(data, np.uint8) if self.decode is None else self.decode(data)
        if self.transform is not None:
            row = self.transform(row)
        return row, index


class Methods(Rows):
    """The same, as methods of the dataset."""

    def __getitem__(self, index):
        return self.augment(np.zeros(100, np.uint8)), index

    def augment(self, row):
        compute(SLOW)
        return row


class Plain(Rows):
    """Does what nothing is known of."""

    def __getitem__(self, index):
        compute(SLOW)
        return index


class Stream(IterableDataset):
    def __init__(self, length, transform):
        self.length, self.transform = length, transform

    def __iter__(self):
        for i in range(self.length):
            yield self.transform(torch.tensor(float(i)))


class OverHttp(Rows):
    def __init__(self, url, length):
        super().__init__(length)
        self.url = url

    def __getitem__(self, index):
        with urllib.request.urlopen(self.url) as answer:
            return np.frombuffer(answer.read(), np.uint8)


def opened_by_pillow(data):
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))[:8, :8].copy()


def inflated(data):
    return np.frombuffer(zlib.decompress(data), np.uint8)[:100].copy()


def from_json(data):
    return np.asarray([row[1] for row in json.loads(data)[:50]])


# ------------------------------------------------------------------ the rest of a loader


def slow_collate(samples):
    time.sleep(8 * SLOW)
    return torch.utils.data.default_collate(samples)


def computing_collate(samples):
    compute(8 * SLOW)
    return torch.utils.data.default_collate(samples)


class SlowSampler(torch.utils.data.Sampler):
    def __init__(self, length):
        self.length = length

    def __len__(self):
        return self.length

    def __iter__(self):
        order = list(range(self.length))
        for i in order:
            time.sleep(SLOW)
            yield i


# ------------------------------------------------------------------ cases


@dataclass
class Made:
    """What cases are made of, made once."""

    root: Any
    big: bytes  # a JPEG
    big_folder: str  # of such
    small_folder: str
    few_folder: str  # of them
    zipped: bytes
    text: bytes
    shard: bytes  # of a store

    @classmethod
    def below(cls, root):
        big = jpeg_bytes(make_picture(1600, 1200), quality=92)
        small = jpeg_bytes(make_picture(24, 24))
        for name, data, count in (("big", big, 40), ("small", small, 120), ("few", small, 24)):
            (root / name / "a").mkdir(parents=True)
            for i in range(count):
                (root / name / "a" / f"{i:03}.jpg").write_bytes(data)
        noise = random.Random(0).randbytes(4_000)
        write_tar(
            root / "store.tar",
            [
                (f"{i:03}.{kind}", data)
                for i in range(64)
                for kind, data in (("bin", noise * 8), ("cls", b"1"))
            ],
        )
        zipped = zlib.compress(noise * 2000, 1)
        text = json.dumps([[i, float(i), str(i)] for i in range(6000)]).encode()
        return cls(
            root,
            big,
            str(root / "big"),
            str(root / "small"),
            str(root / "few"),
            zipped,
            text,
            (root / "store.tar").read_bytes(),
        )


@dataclass
class Case:
    name: str
    stage: str  # that is the bottleneck
    make: Callable[[Made, contextlib.ExitStack], DataLoader]
    step: float = 0.0
    hot: str = ""  # a part of the hottest place, where there is one


def python(
    name: str,
    stage: str,
    dataset: Callable[[Made], Any],
    engines=("processes", "threads", "inline"),
    hot="",
    **options,
) -> Iterator[Case]:
    for engine in engines:
        where = {
            "processes": {"num_workers": 2},
            "threads": {"num_workers": 2, "worker_method": "thread"},
            "inline": {},
        }[engine]
        yield Case(
            f"{name}, {engine}",
            stage,
            lambda made, _, where=where: DataLoader(dataset(made), 8, **where, **options),
            0.0,
            hot,
        )


def folder(transform, which):
    chain = transforms.Compose([*transform, transforms.ToTensor()])
    return lambda made: millrace.datasets.ImageFolder(getattr(made, which), transform=chain)


def native(name: str, stage: str, dataset: Callable[[Made], Any], step=0.0) -> Iterator[Case]:
    for workers in (2, 0):
        make = lambda made, _, workers=workers: DataLoader(
            dataset(made), 8, num_workers=workers, native="require"
        )  # noqa: E731
        yield Case(f"{name}, native, {workers} threads", stage, make, step)


def over_http(made, stack):
    store = stack.enter_context(FaultProxy({"/a": bytes(2000)}, latency=2 * SLOW))
    return DataLoader(OverHttp(store.url("a"), 96), 8, num_workers=2)


def throttled(made, stack, **options):
    store = stack.enter_context(FaultProxy({"/s.tar": made.shard}, bytes_per_second=4e6))
    dataset = WebDataset(store.url("s.tar")).to_tuple("bin", "cls").map_tuple(len, int)
    return DataLoader(dataset, 8, **options)


CASES = [
    *python("slow disk", "fetch", lambda made: Rows(file=SlowFile), hot="SlowFile.read"),
    Case("slow server, processes", "fetch", over_http),
    Case(
        "throttled store, a worker process",
        "fetch",
        lambda made, stack: throttled(made, stack, num_workers=1, native="never"),
    ),
    Case("throttled store, inline", "fetch", lambda made, stack: throttled(made, stack)),
    *python("Pillow", "decode", lambda made: Rows(32, decode=opened_by_pillow, data=made.big)),
    *python(
        "zlib", "decode", lambda made: Rows(48, decode=inflated, data=made.zipped), ("processes", "inline")
    ),
    *python(
        "json", "decode", lambda made: Rows(64, decode=from_json, data=made.text), ("processes", "inline")
    ),
    *native("big JPEGs", "decode", folder([transforms.Resize((32, 32))], "big_folder")),
    *python(
        "a function",
        "transform",
        lambda made: Rows(transform=slow_function),
        ("processes", "inline"),
        "compute",
    ),
    *python(
        "a callable in a chain",
        "transform",
        lambda made: Rows(transform=Chain(doubled, SlowCallable())),
        ("processes", "inline"),
    ),
    *python(
        "a waiting function", "transform", lambda made: Rows(transform=slow_wait), ("threads",), "slow_wait"
    ),
    *python(
        "a lambda",
        "transform",
        lambda made: Rows(transform=lambda row: (compute(SLOW), row)[1]),
        ("processes", "inline"),
    ),
    *python("a method", "transform", lambda made: Methods(), ("processes", "inline"), "compute"),
    *python(
        "inside a Subset",
        "transform",
        lambda made: Subset(ConcatDataset([Rows(transform=slow_function)]), range(90)),
        ("inline",),
    ),
    *python("a stream", "transform", lambda made: Stream(64, slow_function), ("processes", "inline")),
    *native(
        "blur",
        "transform",
        folder([transforms.Resize((400, 400)), *3 * [transforms.GaussianBlur(41)]], "few_folder"),
    ),
    *python("waiting", "collate", lambda made: Rows(), collate_fn=slow_collate),
    *python(
        "computing",
        "collate",
        lambda made: Rows(),
        ("processes", "inline"),
        "compute",
        collate_fn=computing_collate,
    ),
    *python("slow sampler", "draw", lambda made: Rows(), ("processes", "inline"), sampler=SlowSampler(96)),
    *python("what nothing is known of", "sample", lambda made: Plain(), ("processes", "inline"), "compute"),
    Case(
        "slow loop, processes",
        "consumer",
        lambda made, _: DataLoader(Rows(96), 8, num_workers=2, persistent_workers=True),
        0.1,
    ),
    Case(
        "slow loop, threads",
        "consumer",
        lambda made, _: DataLoader(Rows(80), 8, num_workers=2, worker_method="thread"),
        0.08,
    ),
    Case("slow loop, inline", "consumer", lambda made, _: DataLoader(Rows(80), 8), 0.08),
    *native("slow loop", "consumer", folder([transforms.Resize((16, 16))], "small_folder"), 0.06),
]


def run(case: Case, made: Made) -> dict[str, Any]:
    """One epoch; its profile."""
    with contextlib.ExitStack() as stack:
        loader = case.make(made, stack)
        for _ in loader:
            if case.step:
                time.sleep(case.step)
        return loader.stats()["profile"]
