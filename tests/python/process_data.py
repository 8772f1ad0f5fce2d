"""Datasets for the tests of worker processes: at module level, so that spawned workers can import them."""

import collections
import ctypes
import dataclasses
import multiprocessing
import os
import random
import signal
import time

import numpy as np
import torch
from torch.utils.data import Dataset, IterableDataset, get_worker_info

Point = collections.namedtuple("Point", "x y")


@dataclasses.dataclass
class Record:
    name: str
    value: torch.Tensor


class OwnError(Exception):
    def __init__(self, first, second):
        super().__init__(first, second)


SAMPLES = {
    "float": lambda i: i * 0.5,
    "int": lambda i: i - 3,
    "bool": lambda i: i % 3 == 0,
    "str": lambda i: f"sample {i}",
    "bytes": lambda i: b"x" * i,
    "tensor": lambda i: torch.full((2, 3), float(i)),
    "scalar tensor": lambda i: torch.tensor(i, dtype=torch.int32),
    "empty tensor": lambda i: torch.zeros(0, 4),
    "bfloat16": lambda i: torch.full((5,), float(i), dtype=torch.bfloat16),
    "complex": lambda i: torch.full((5,), complex(i, 1)),
    "transposed": lambda i: torch.arange(6.0).reshape(2, 3).t() + i,
    "channels last": lambda i: torch.full((1, 3, 4, 4), float(i)).contiguous(
        memory_format=torch.channels_last
    )[0],
    "array": lambda i: np.full((3, 2), i, dtype=np.float32),
    "uint16 array": lambda i: np.full((3,), i, dtype=np.uint16),
    "0-d array": lambda i: np.array(i, dtype=np.int16),
    "sliced array": lambda i: np.arange(12.0).reshape(3, 4)[:, ::2] + i,
    "numpy scalar": lambda i: np.float32(i),
    "numpy bool": lambda i: np.bool_(i % 2),
    "numpy str": lambda i: np.str_(f"n{i}"),
    "float64 scalar": lambda i: np.float64(i),
    "tuple": lambda i: (torch.tensor([i]), i, "label"),
    "list": lambda i: [i, float(i)],
    "dict": lambda i: {"x": torch.ones(3) * i, "y": i, "meta": {"name": f"n{i}", "size": (i, i + 1)}},
    "integer keys": lambda i: {1: i, (2, 3): float(i)},
    "other order of keys": lambda i: {"a": i, "b": 1.0} if i % 2 else {"b": 1.0, "a": i},
    "extra keys": lambda i: {"a": i, "b": 2} if i % 4 else {"a": i},
    "namedtuple": lambda i: Point(i, torch.ones(2) * i),
    "ordered dict": lambda i: collections.OrderedDict(a=i, b=torch.ones(1)),
    "deep": lambda i: ({"a": [(i, {"b": torch.ones(1)})]},),
    "torch size": lambda i: torch.Size([i, 2]),
    "int then float": lambda i: i if i % 5 == 0 else float(i),
    "two dtypes": lambda i: torch.ones(2, dtype=torch.float32 if i % 4 == 0 else torch.float64) * i,
    "two shapes": lambda i: torch.ones(2 + (i == 6)),
    "two lengths": lambda i: [1] * (1 + (i == 6)),
    "missing key": lambda i: {"a": 1} if i == 6 else {"a": 1, "b": 2},
    "None": lambda i: None if i == 6 else torch.ones(1),
    "dataclass": lambda i: Record("n", torch.ones(1)),
    "object array": lambda i: np.array([{}], dtype=object),
    "large int": lambda i: i + 2**62 if i < 6 else 2**64,
    "set": lambda i: {i},
    "empty tuple": lambda i: (),
    "negative strides": lambda i: np.arange(4.0)[::-1] + i,
    "sparse": lambda i: torch.eye(3).to_sparse(),
    "requires grad": lambda i: torch.ones(2, requires_grad=True),
    "parameter": lambda i: torch.nn.Parameter(torch.ones(2)),
    "datetime": lambda i: np.datetime64("2020-01-01"),
}


class Made(Dataset):
    """`length` samples of one kind of SAMPLES."""

    def __init__(self, kind, length=11):
        self.kind, self.length = kind, length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        if not 0 <= index < self.length:
            raise IndexError(f"index {index} is out of range")
        return SAMPLES[self.kind](index)


class AtOnce(Made):
    def __getitems__(self, indices):
        return [self[index] for index in indices]


class Noisy(Dataset):
    """Draws from all three generators, and tells who drew."""

    def __len__(self):
        return 13

    def __getitem__(self, index):
        info = get_worker_info()
        return {
            "index": index,
            "torch": torch.rand(2),
            "numpy": np.random.rand(3),
            "python": random.random(),
            "worker": -1 if info is None else info.id,
            "seed": 0 if info is None else info.seed,
        }


class Stream(IterableDataset):
    """Numbers below `length`, dealt out to workers; worker 0 gets fewer."""

    def __init__(self, length=23, with_len=False):
        self.length = length
        if with_len:
            self.__class__ = StreamWithLen

    def __iter__(self):
        info = get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        numbers = range(first, self.length, step)
        return iter(numbers[:3] if info and info.id == 0 else numbers)


class StreamWithLen(Stream):
    def __len__(self):
        return 5


class Restarted(Stream):
    """Its second epoch cannot start."""

    started = 0

    def __iter__(self):
        self.started += 1
        if self.started == 2:
            raise OSError("the stream is gone")
        return super().__iter__()


class Failing(Dataset):
    """Raises, stops or dies at index 3; of "hang", until `released` is set."""

    def __init__(self, how):
        self.how = how
        self.released = multiprocessing.Event() if how == "hang" else None

    def __len__(self):
        return 8

    def __getitem__(self, index):
        if index != 3:
            return index
        if self.how == "exit":
            os._exit(7)
        if self.how == "system exit":
            raise SystemExit(3)
        if self.how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.how == "segfault":
            os.kill(os.getpid(), signal.SIGSEGV)
        if self.how == "hang":
            self.released.wait(1000)
        if self.how == "unpicklable":
            return lambda: 0
        raise {
            "hang": lambda: KeyError("released"),
            "KeyError": lambda: KeyError("no such\nkey"),
            "ValueError": lambda: ValueError("wrong"),
            "OwnError": lambda: OwnError(1, 2),
            "Unicode": lambda: UnicodeDecodeError("utf8", b"x", 0, 1, "why"),
            "Stop": lambda: StopIteration(),
            "Local": lambda: type("Local", (Exception,), {})("local"),
        }[self.how]()


class Stuck(Dataset):
    """Says in a folder that it has begun, then does not come back: sample 0 without the interpreter's lock,
    sample 1 with it.
    """

    def __init__(self, folder):
        self.folder = folder

    def __len__(self):
        return 2

    def __getitem__(self, index):
        open(f"{self.folder}/{index} {os.getpid()}", "w").close()
        (ctypes.PyDLL(None).sleep if index else time.sleep)(1000)


def ignore_sigterm(worker):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def four_megabytes(samples):
    return {"stacked": torch.stack(samples).expand(175, -1, -1, -1).contiguous(), "array": np.zeros(100_000)}
