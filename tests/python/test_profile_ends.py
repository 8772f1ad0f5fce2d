"""The stall profile at every end: errors, dead workers, persistent ones, copies, forks, devices."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import signal
import threading
import time

import pytest
from fake_device import Fake
from millrace import DataLoader, _core
from open_files import open_files
from profile_cases import Sleepy, check, in_memory, of, pictures, run  # noqa: F401
from torch.utils.data import Dataset

pytestmark = [
    pytest.mark.slow,
    pytest.mark.alone,
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.skipif(not _core.StageClock.enabled, reason="MILLRACE_PROFILE=0"),
]


@pytest.mark.parametrize("case", ["images, threads", "fork", "worker threads", "inline"])
def test_an_error_in_a_sample_is_booked_as_any_other(of, case):
    if case == "images, threads":
        loader = DataLoader(
            pictures(of("folder")), batch_sampler=[[0], [10_000], [1], [2]], num_workers=2, native="require"
        )
        error = IndexError
    else:
        engine = {
            "fork": dict(num_workers=2),
            "worker threads": dict(num_workers=2, worker_method="thread"),
            "inline": {},
        }[case]
        loader, error = DataLoader(Sleepy(16, broken=(5,)), 4, **engine), ValueError
    started = time.perf_counter()
    iterator = iter(loader)
    next(iterator)
    with pytest.raises(error):
        next(iterator)
    assert len(list(iterator)) == 2
    wall = time.perf_counter() - started
    profile = loader.profile(steps=True)
    check(profile, wall)
    assert len(profile["steps"]["enter"]) == 5


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_killed_worker_leaves_its_time(method):
    loader = DataLoader(Sleepy(deadly=(20,)), 4, num_workers=2, multiprocessing_context=method)
    with pytest.raises(RuntimeError, match="exited unexpectedly"):
        for _ in loader:
            pass
    gc.collect()
    profile = loader.profile()
    check(profile)
    assert len(profile["workers"]) == 2 and not profile["running"]
    assert min(worker["seconds"]["sample"] for worker in profile["workers"]) > 0.003


@pytest.mark.parametrize("case", ["processes", "worker threads", "images", "rows"])
def test_workers_that_stay_are_counted_epoch_by_epoch(of, case):
    dataset = {"images": lambda: pictures(of("folder")), "rows": in_memory}.get(case, Sleepy)()
    options = dict(worker_method="thread") if case == "worker threads" else {}
    loader = DataLoader(dataset, 4, num_workers=2, persistent_workers=True, **options)
    first, wall, count = run(loader)
    check(first, wall)
    time.sleep(0.1)
    second, wall, _ = run(loader)
    check(second, wall)
    assert second["epoch"] == 1 and second["batches"] == count and second["samples"] == first["samples"]
    assert len(second["steps"]["enter"]) == count + 1
    for worker in second["workers"]:
        assert worker["wall_seconds"] <= second["wall_seconds"] + 0.01, "what came before is not this epoch's"
    third, _, _ = run(loader, stop_after=2)  # left, while the workers stay
    fourth, wall, _ = run(loader)
    check(fourth, wall)
    assert fourth["batches"] == count


def test_epochs_have_profiles_of_their_own():
    loader = DataLoader(Sleepy(), 4, num_workers=2)
    first, wall, _ = run(loader)
    again, wall, count = run(loader)
    check(again, wall)
    assert again["batches"] == count and again["started"] > first["started"]


def test_a_clock_that_jumps_changes_nothing(monkeypatch):
    jumped = iter(range(10**9, 0, -(10**6)))
    monkeypatch.setattr(time, "time", lambda: float(next(jumped)))
    profile, wall, _ = run(DataLoader(Sleepy(), 4, num_workers=2))
    check(profile, wall)


def test_ctrl_c_in_next_is_booked():
    loader = DataLoader(Sleepy(seconds=0.2), 4, num_workers=1)
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    started = time.perf_counter()
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        for _ in loader:
            pass
    wall = time.perf_counter() - started
    timer.join()
    gc.collect()
    check(loader.profile())
    assert loader.profile()["consumer"]["wait"] >= 0.1 and loader.profile()["wall_seconds"] <= wall + 0.5


def test_copies_of_a_loader_keep_what_was_counted():
    loader = DataLoader(Sleepy(), 4, num_workers=2)
    iterator = iter(loader)
    next(iterator)
    for copied in (pickle.loads(pickle.dumps(loader)), copy.deepcopy(loader)):
        profile = copied.profile()
        check(profile)
        assert profile["batches"] == 1
        time.sleep(0.01)
        assert copied.profile() == profile, "a snapshot in plain values"
    del iterator


def test_a_loader_inside_a_dataset_counts_for_itself():
    class Nested(Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, index):
            self.loader = DataLoader(Sleepy(4, 0.005), 2)
            return list(self.loader)[0][1]

    dataset = Nested()
    profile, wall, _ = run(DataLoader(dataset, 2))
    check(profile, wall)
    check(dataset.loader.profile())
    assert profile["stages"]["sample"]["wall"] > 0.07
    assert 0.02 <= dataset.loader.profile()["stages"]["sample"]["wall"] < 0.06


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_forked_child_counts_its_own():
    loader = DataLoader(in_memory(), 64, num_workers=2, persistent_workers=True)
    list(loader)
    pid = os.fork()
    if pid == 0:
        try:
            profile, wall, count = run(loader)
            check(profile, wall)
            os._exit(0 if profile["batches"] == count else 1)
        except BaseException:
            os._exit(2)
    assert os.waitpid(pid, 0)[1] == 0


@pytest.mark.parametrize("workers", [0, 2])
def test_copies_to_a_device_are_booked(monkeypatch, workers):
    Fake().install(monkeypatch)
    loader = DataLoader(Sleepy(), 4, num_workers=workers, device="meta")
    started = time.perf_counter()
    count = 0
    for _ in loader:
        time.sleep(0.002)
        count += 1
    wall = time.perf_counter() - started
    profile = loader.profile(steps=True)
    check(profile, wall)
    assert profile["consumer"]["copy"] > 0
    assert len(profile["steps"]["enter"]) == count + 1
    assert not profile["running"]


def test_nothing_is_left_open_or_alive():
    def once():
        list(DataLoader(Sleepy(8, 0), 4, num_workers=2))
        gc.collect()

    once()
    before = len(open_files())
    clocks = sum(type(thing) is _core.StageClock for thing in gc.get_objects())
    for _ in range(3):
        once()
    assert len(open_files()) <= before
    assert sum(type(thing) is _core.StageClock for thing in gc.get_objects()) <= clocks


def test_stats_are_what_they_were():
    loader = DataLoader(in_memory(), 64)
    list(loader)
    stats = loader.stats()
    assert stats["profile"]["batches"] == stats["batches"] == 8
    assert set(stats["seconds"]) == {"read", "decode", "transform", "collate"}
