"""Loaders of every kind, each looped over by a daemon thread while its process ends: `python exit_cases.py
KIND FOLDER`. Of "beside torch's", many loaders are left behind instead.

One process prepares, and forks a child for each round: the child's main thread ends as any script's does, at
another moment each time.
"""

import faulthandler
import os
import random
import signal
import sys
import threading
import time
from pathlib import Path

import millrace
import numpy as np
import stream_cases
import torch
from fake_device import Fake, fake_module  # noqa: F401  (for whoever imports this)
from loader_data import make_folder, pictures
from millrace.datasets.batches import ChunkedDataset, Field
from PIL import Image
from torch.utils.data import Dataset, Sampler, TensorDataset

ROUNDS = 3
LIMIT_S = 60.0


class Slow(Dataset):
    """Python code: a sample takes a moment, part of it without the GIL."""

    def __len__(self):
        return 64

    def __getitem__(self, index):
        time.sleep(0.001)
        return (
            np.full(2000, index, np.float32),
            index,
        )  # no call of torch's, which aborts where it comes for the GIL too late


class SlowSampler(Sampler):
    """iter() calls torch for longer than a thread that has stopped is waited for."""

    def __len__(self):
        return 8

    def __iter__(self):
        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            torch.ones(200_000).sum()
        return iter(range(8))


class Chunks(ChunkedDataset):
    fields = (Field("x", "float32", (500,)), Field("name"))

    def __init__(self):
        super().__init__(cache_bytes=400_000)
        self.chunk_lengths = np.full(8, 16)

    def read_chunk(self, number):
        time.sleep(0.001)
        return [np.full((16, 500), number, np.float32), _Names(number)]

    def chunk_bytes(self, number):
        return 16 * 500 * 4


class _Names:
    nbytes = 100

    def __init__(self, number):
        self.number = number

    def take(self, rows):
        return [f"{self.number}-{row}" for row in rows]


def lines(folder):
    path = os.path.join(folder, "lines.jsonl")
    with open(path, "w") as file:
        file.writelines(f'{{"a": {i}, "b": "{"x" * 100}"}}\n' for i in range(2000))
    return millrace.datasets.JSONL(path)


def loader(kind, folder):
    """`kind`: what is loaded, and the number of workers."""
    name, _, workers = kind.partition(" ")
    options = {"num_workers": int(workers)}
    if name == "tensors":
        return millrace.DataLoader(
            TensorDataset(torch.randn(64, 60_000), torch.arange(64)),
            4,
            shuffle=True,
            native="require",
            **options,
        )
    if name == "short":  # most of the time is spent in iter()
        return millrace.DataLoader(
            TensorDataset(torch.arange(8)), 4, shuffle=True, native="require", **options
        )
    if name == "sampler":
        return millrace.DataLoader(TensorDataset(torch.arange(8)), 4, sampler=SlowSampler(), **options)
    if name == "pictures":
        make_folder(folder, 12)
        return millrace.DataLoader(pictures(folder), 3, shuffle=True, native="require", **options)
    if name == "pillow":  # decodes by Python, in the engine's threads
        paths = make_folder(folder, 12)
        for path in paths:
            Image.open(path).save(f"{path}.bmp")
        dataset = pictures(folder)
        dataset.samples = [(f"{path}.bmp", i) for i, path in enumerate(paths)]
        return millrace.DataLoader(dataset, 3, native="require", **options)
    if name == "stream":
        shards = stream_cases.stream(stream_cases.write_shards(Path(folder)))
        return millrace.DataLoader(shards, 4, native="require", **options)
    if name == "python":
        return millrace.DataLoader(Slow(), 4, **options)
    if name == "threads":
        return millrace.DataLoader(Slow(), 4, worker_method="thread", **options)
    if name == "chunks":
        return millrace.DataLoader(Chunks(), 4, shuffle=True, native="require", **options)
    if name == "lines":
        return millrace.DataLoader(lines(folder), 8, shuffle=True, **options)
    if name == "watched":
        return millrace.watch(loader(f"tensors {workers}", folder))
    if name == "device":
        return OnDevice(loader(f"tensors {workers}", folder))
    raise ValueError(kind)


class OnDevice:
    def __init__(self, loader):
        self.loader, self.fake = loader, Fake()

    def __iter__(self):
        return self.fake.prefetched(iter(self.loader), None, 2)


KINDS = [
    *(
        f"{name} {workers}"
        for name in ("tensors", "short", "pictures", "pillow", "stream", "python", "chunks", "lines")
        for workers in (0, 2)
    ),
    "threads 2",
    "watched 2",
    "device 2",
    "sampler 2",
]


def loops(batches, came):
    def forever():
        while True:
            for _ in batches:
                came.set()

    thread = threading.Thread(target=forever, daemon=True)
    thread.start()
    return thread


BESIDE = ("tensors 2", "short 0", "pictures 2", "python 2", "threads 2", "chunks 2")
left = []  # to whoever tidies up behind the program


def beside_torchs(folder, number):
    """Iterators of ours and of torch's are left in their middle, in another order each time; the rest is the
    interpreter's end.
    """
    chance = random.Random(number)
    loaders = [loader(kind, folder) for kind in BESIDE]
    loaders += [torch.utils.data.DataLoader(Slow(), 4, num_workers=workers) for workers in (0, 1, 2)]
    for each in chance.sample(loaders, len(loaders)):
        iterator = iter(each)
        next(iterator)
        if chance.random() < 0.7:
            left.append(iterator)
    if number % 2:
        left.append(left)


def child(batches, number):
    """The rest is the interpreter's end."""
    came = threading.Event()
    loops(batches, came)
    if not came.wait(LIMIT_S):
        os._exit(77)
    time.sleep(0.003 * number * number % 0.05)


def status_of(pid):
    """Its exit status, negative for a signal; None: it has hung, and was killed."""
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    faulthandler.dump_traceback()
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


def main(kind, folder, rounds=ROUNDS):
    batches = None if kind == "beside torch's" else loader(kind, folder)
    for number in range(int(rounds)):
        pid = os.fork()
        if pid == 0:
            return beside_torchs(folder, number) if batches is None else child(batches, number)
        status = status_of(pid)
        if status != 0:
            sys.exit(f"round {number}: {'it hung' if status is None else f'exit status {status}'}")


if __name__ == "__main__":
    main(*sys.argv[1:])
