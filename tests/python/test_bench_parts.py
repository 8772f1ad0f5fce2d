"""Parts of `millrace bench`: what it takes over of loaders, how it counts samples, when it forks."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import threading
import time

import millrace
import numpy as np
import pytest
import torch
from millrace_tools.bench.client import Client
from millrace_tools.bench.measure import NoBatches, counted, endless
from millrace_tools.bench.server import in_the_way, inventory
from millrace_tools.bench.survey import probe
from millrace_tools.bench.targets import Source, Target, source_of
from torch.utils.data import DataLoader, TensorDataset

pytestmark = pytest.mark.slow


def test_a_slow_first_sample_is_no_slow_dataset():
    class Opens(list):
        def __getitem__(self, index):
            if not hasattr(self, "open"):
                time.sleep(0.3)
                self.open = True
            return super().__getitem__(index)

    assert probe(Source(Opens([1.0] * 50), {"batch_size": 4}), 0.1)["sample_seconds"] < 0.1


def test_what_is_in_the_way_of_forks(tmp_path):
    np.save(tmp_path / "rows.npy", np.zeros(10))
    before = inventory()
    rows = np.load(tmp_path / "rows.npy", mmap_mode="r")
    assert in_the_way(before) == "" and len(rows) == 10, "a mapped file has no position"
    (tmp_path / "file").touch()
    with open(tmp_path / "file", "rb"):
        assert "opened 1 files" in in_the_way(before)
    going = threading.Event()
    thread = threading.Thread(target=going.wait)
    thread.start()
    assert "started 1 threads" in in_the_way(before)
    with open(f"/proc/self/task/{thread.native_id}/comm", "w") as name:
        name.write("jemalloc_bg_thd")
    assert in_the_way(before) == "", "pyarrow's allocator looks after itself"
    going.set()
    thread.join()


def test_what_a_loader_says_comes_over():
    rows = TensorDataset(torch.arange(10))
    sampler = torch.utils.data.WeightedRandomSampler(torch.ones(10), 5)
    given = source_of(DataLoader(rows, 4, sampler=sampler, drop_last=True, num_workers=2, timeout=3), "x")
    assert given.given == {"batch_size": 4, "drop_last": True, "sampler": sampler, "timeout": 3}
    assert (given.workers, given.prefetch) == (2, 2)
    assert source_of(DataLoader(rows, batch_size=None), "x").given == {"batch_size": None}
    batches = torch.utils.data.BatchSampler(sampler, 2, False)
    assert source_of(DataLoader(rows, batch_sampler=batches), "x").given == {"batch_sampler": batches}
    ours = source_of(millrace.DataLoader(rows, 3, on_error="skip", native="never"), "x")
    assert ours.given == {"batch_size": 3, "on_error": "skip", "native": "never"} and ours.torchs() == {
        "batch_size": 3
    }
    with pytest.raises(ValueError, match="leave --batch-size out"):
        Target("x", DataLoader(rows, batch_sampler=batches), batch_size=3).load()
    with pytest.raises(ValueError, match="leave --shuffle out"):
        Target("x", DataLoader(rows, sampler=sampler), shuffle=True).load()


def test_batches_go_on_behind_an_epoch():
    batches = endless(DataLoader(TensorDataset(torch.arange(10)), 4))
    found = [(epoch, len(batch[0])) for epoch, batch in itertools.islice(batches, 7)]
    assert found == [(1, 4), (1, 4), (1, 2), (2, 4), (2, 4), (2, 2), (3, 4)]
    with pytest.raises(NoBatches):
        next(endless(DataLoader(TensorDataset(torch.arange(3)), 4, drop_last=True)))


@pytest.mark.parametrize(
    "batch, size, samples",
    [
        ([torch.zeros(3, 5), torch.zeros(3)], 4, 3),
        ({"a": {"b": torch.zeros(2)}}, 4, 2),
        (["x", "y"], 4, 2),
        (torch.zeros(9, 2), 4, 4),
        (torch.zeros(9, 2), None, 1),
        (object(), 4, 4),
        (torch.tensor(1.0), 4, 4),
        ([], 4, 4),
    ],
)
def test_samples_of_a_batch(batch, size, samples):
    assert counted(batch, DataLoader(range(3), batch_size=size)) == samples


@pytest.mark.parametrize("live", [False, True])
def test_a_server_that_is_loading_ends_with_its_parent(monkeypatch, tmp_path, live):
    def load():
        (tmp_path / f"loading {os.getpid()}").touch()
        time.sleep(1000)

    def run():
        with Client(Target("loads:dataset", live=load if live else None)) as client:
            client.start()

    monkeypatch.chdir(tmp_path)
    (tmp_path / "loads.py").write_text(
        f"import os, time\nopen({str(tmp_path)!r} + f'/loading {{os.getpid()}}', 'w')\ntime.sleep(1000)\n"
    )
    parent = multiprocessing.get_context("fork").Process(target=run)
    parent.start()
    until = time.monotonic() + 60
    while not (begun := list(tmp_path.glob("loading *"))) and time.monotonic() < until:
        time.sleep(0.02)
    parent.kill()
    parent.join()
    server = begun[0].name.split()[1]
    until = time.monotonic() + 60
    while os.path.exists(f"/proc/{server}/exe") and time.monotonic() < until:
        time.sleep(0.02)
    left = os.path.exists(f"/proc/{server}/exe")
    if left:
        os.kill(int(server), signal.SIGKILL)
    assert not left
