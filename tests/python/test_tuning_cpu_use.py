"""What waits may be more than the CPUs, what computes may not: CPU time says which is which."""

from __future__ import annotations

import itertools
import os
import time

import millrace
import pytest
from millrace import _core
from millrace._loader.tuning.budget import CpuUse
from torch.utils.data import Dataset

pytestmark = pytest.mark.slow

AUTO = {"num_workers": "auto", "prefetch_factor": "auto"}
counted = pytest.mark.skipif(not _core.StageClock.enabled, reason="MILLRACE_PROFILE=0")


@pytest.fixture(autouse=True)
def no_file(monkeypatch):
    monkeypatch.delenv("MILLRACE_TUNE_FILE", raising=False)


class Waiting(Dataset):
    """`busy`: samples compute, else they sleep, 4 ms each."""

    def __init__(self, busy):
        self.busy = busy

    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        if self.busy:
            end = time.thread_time() + 0.004
            while time.thread_time() < end:
                pass
        else:
            time.sleep(0.004)
        return index


def run_until(loader, done, seconds=20.0):
    """Batches are drawn until done(), which is given stats()["tuned"]."""
    end = time.monotonic() + seconds
    for number, _ in enumerate(loader):
        if number % 8 == 0 and (done(tuned := loader.stats()["tuned"]) or time.monotonic() > end):
            return tuned


@counted
@pytest.mark.parametrize("method", ["process", "thread"])
@pytest.mark.alone
def test_workers_that_sleep_may_be_more_than_the_cpus(method, monkeypatch):
    monkeypatch.setattr("millrace._core.cpu_budget", lambda: {"cpus": 2.0, "threads": 2, "reason": "test"})
    loader = millrace.DataLoader(Waiting(False), 4, worker_method=method, **AUTO)
    tuned = run_until(loader, lambda tuned: tuned["threads"] > 2)
    assert tuned["most_threads"] == 8 and tuned["threads"] > 2 and tuned["cpus_used"] < 1.5
    assert "of 8 " in loader.explain()


@counted
@pytest.mark.alone
def test_workers_that_compute_are_no_more_than_the_cpus(monkeypatch):
    monkeypatch.setattr("millrace._core.cpu_budget", lambda: {"cpus": 1.0, "threads": 1, "reason": "test"})
    loader = millrace.DataLoader(Waiting(True), 4, **AUTO)
    assert loader.num_workers == 4
    tuned = run_until(loader, lambda tuned: tuned["threads"] > 1, 3.0)
    assert tuned["cpus_used"] <= 1.3


def test_a_worker_that_dies_keeps_no_turn(monkeypatch):
    class Dies(Waiting):
        def __getitem__(self, index):
            if index == 9:
                os._exit(3)
            return super().__getitem__(index)

    monkeypatch.setattr("millrace._core.cpu_budget", lambda: {"cpus": 1.0, "threads": 1, "reason": "test"})
    loader = millrace.DataLoader(Dies(False), 1, **AUTO)
    with pytest.raises(RuntimeError, match="exited unexpectedly"):
        list(itertools.islice(loader, 20))


def looked_at(use, shares, threads):
    """CpuUse that sees one second at a time, in which so many threads worked, a share of it on a CPU."""
    busy = cpu = 0
    for second, share in enumerate(shares):
        use.look(float(second), [(0, 0, 0, [busy], [cpu])])
        busy, cpu = busy + threads * 10**9, cpu + int(threads * share * 10**9)
    use.look(float(len(shares)), [(0, 0, 0, [busy], [cpu])])
    return use.allowed


def test_cpu_time_decides_how_many_may_work():
    assert looked_at(CpuUse(2.0, 2, 8), [0.1] * 3, 2) == 8
    assert looked_at(CpuUse(2.0, 2, 8), [0.5] * 3, 2) == 4
    assert looked_at(CpuUse(2.0, 2, 8), [1.0] * 3, 2) == 2
    assert looked_at(CpuUse(2.0, 2, 8), [0.95, 0.9, 0.97], 2) == 2  # the little that they wait is no reason
    assert looked_at(CpuUse(2.0, 2, 8, known=8), [0.1] * 3, 8) == 8
    assert looked_at(CpuUse(2.0, 2, 8, known=8), [0.9] * 6, 8) == 2  # the file spoke of another load
    assert looked_at(CpuUse(2.0, 2, 8), [0.1, 0.1, 0.1, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5], 8) == 4
    assert looked_at(CpuUse(1.5, 1, 4), [0.3] * 3, 1) == 4
