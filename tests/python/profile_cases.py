"""Loaders on every engine, and what holds of every profile."""

from __future__ import annotations

import json
import os
import signal
import time

import millrace
import numpy as np
import pytest
import torch
from loader_data import make_folder, pictures
from millrace import DataLoader
from stream_cases import stream, write_shards
from torch.utils.data import Dataset, IterableDataset, TensorDataset

CONSUMER = {"start", "draw", "wait", "make", "copy", "handover", "step"}
STAGES = {"fetch", "decode", "transform", "collate", "sample"}
BOTTLENECKS = STAGES | {"draw", "copy", "handover", "consumer"}


class Sleepy(Dataset):
    """Samples that take `seconds`; those in `broken` raise, those in `deadly` end their process."""

    def __init__(self, length=48, seconds=0.001, broken=(), deadly=()):
        self.length, self.seconds, self.broken, self.deadly = length, seconds, broken, deadly

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        time.sleep(self.seconds)
        if index in self.broken:
            raise ValueError(f"sample {index} is broken")
        if index in self.deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        return np.full(100, index, np.float32), index


class SleepyStream(IterableDataset):
    def __iter__(self):
        for i in range(24):
            time.sleep(0.001)
            yield i


def slow_collate(samples):
    time.sleep(0.02)
    return torch.utils.data.default_collate(samples)


def busy(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def in_memory():
    return TensorDataset(torch.rand(512, 2000), torch.arange(512))


CASES = {
    "images, threads": lambda f: DataLoader(pictures(f("folder")), 4, num_workers=2, native="require"),
    "images, inline": lambda f: DataLoader(pictures(f("folder")), 4, native="require"),
    "rows, threads": lambda f: DataLoader(in_memory(), 64, num_workers=2, native="require"),
    "rows, inline": lambda f: DataLoader(in_memory(), 64, native="require"),
    "lines, threads": lambda f: DataLoader(
        millrace.datasets.JSONL(f("lines")), 20, num_workers=2, native="require"
    ),
    "lines, inline": lambda f: DataLoader(millrace.datasets.JSONL(f("lines")), 20, native="require"),
    "stream, threads": lambda f: DataLoader(stream(f("shards")), 4, num_workers=2, native="require"),
    "stream, inline": lambda f: DataLoader(stream(f("shards")), 4, native="require"),
    "fork": lambda f: DataLoader(Sleepy(), 4, num_workers=2, multiprocessing_context="fork"),
    "spawn": lambda f: DataLoader(Sleepy(), 4, num_workers=2, multiprocessing_context="spawn"),
    "forkserver": lambda f: DataLoader(Sleepy(), 4, num_workers=2, multiprocessing_context="forkserver"),
    "iterable, fork": lambda f: DataLoader(SleepyStream(), 4, num_workers=2),
    "stream, fork": lambda f: DataLoader(stream(f("shards")), 4, num_workers=2, native="never"),
    "worker threads": lambda f: DataLoader(Sleepy(), 4, num_workers=2, worker_method="thread"),
    "iterable, worker threads": lambda f: DataLoader(
        SleepyStream(), 4, num_workers=2, worker_method="thread"
    ),
    "inline": lambda f: DataLoader(Sleepy(), 4),
    "iterable, inline": lambda f: DataLoader(SleepyStream(), 4),
    "skip, fork": lambda f: DataLoader(Sleepy(broken=(5,)), 4, num_workers=2, on_error="skip"),
    "skip, inline": lambda f: DataLoader(Sleepy(broken=(5,)), 4, on_error="skip"),
}


class Data:
    """The files that CASES need, made when one first asks."""

    def __init__(self, factory):
        self.factory, self.made = factory, {}

    def __call__(self, name):
        if name not in self.made:
            self.made[name] = getattr(self, name)(self.factory.mktemp(name))
        return self.made[name]

    def folder(self, path):
        make_folder(path, 48)
        return str(path)

    def shards(self, path):
        return write_shards(path)

    def lines(self, path):
        path /= "a.jsonl"
        path.write_text("".join(json.dumps({"x": [i] * 20, "y": i}) + "\n" for i in range(400)))
        return str(path)


@pytest.fixture(scope="module")
def of(tmp_path_factory):
    return Data(tmp_path_factory)


def check(profile, wall=None):
    """What holds of every profile, whatever the loader is and however it ended."""
    json.dumps(profile)
    assert profile["version"] == 1
    total = profile["wall_seconds"]
    assert set(profile["consumer"]) == CONSUMER
    assert all(seconds >= 0 for seconds in profile["consumer"].values())
    assert sum(profile["consumer"].values()) == pytest.approx(total, rel=0.02)
    if wall is not None:
        assert (
            wall * 0.98 - 0.05 <= total <= wall
        )  # the iterator's own end comes behind, on a machine that is busy
    for worker in profile["workers"]:
        assert set(worker["seconds"]) <= STAGES | {"send", "idle"}
        assert set(worker["cpu_seconds"]) <= STAGES | {"send"}
        assert sum(worker["seconds"].values()) == pytest.approx(worker["wall_seconds"], rel=0.02, abs=1e-6)
        assert sum(worker["cpu_seconds"].values()) <= worker["wall_seconds"] * 1.02 + 0.01
        assert worker["wall_seconds"] <= total + 0.05
    assert set(profile["stages"]) == STAGES
    lost = total - profile["consumer"]["step"]
    assert sum(profile["blame"].values()) == pytest.approx(lost, rel=0.02, abs=1e-6)
    assert set(profile["blame"]) <= STAGES | {"start", "draw", "copy", "handover"}
    assert profile["bottleneck"] in BOTTLENECKS
    assert profile["first_wait"] <= profile["consumer"]["wait"] + profile["consumer"]["make"] + 1e-6


def run(loader, step=0.0, stop_after=None):
    """(profile, seconds that it took as seen from here)"""
    started, count = time.perf_counter(), 0
    for _ in loader:
        if step:
            time.sleep(step)
        count += 1
        if count == stop_after:
            break
    wall = time.perf_counter() - started
    return loader.profile(steps=True), wall, count
