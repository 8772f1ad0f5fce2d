"""The stall ledger: on every engine each second is booked once, to what it was spent on, however an epoch ends."""

from __future__ import annotations

import copy
import gc
import json
import os
import pickle
import signal
import threading
import time

import numpy as np
import pytest
import torch
from fake_device import Fake
from loader_data import make_folder, pictures
from stream_cases import FIXED, write_shards
from torch.utils.data import Dataset, IterableDataset, TensorDataset

import millrace
from millrace import DataLoader, _core
from millrace.datasets import WebDataset

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.skipif(not _core.StageClock.enabled, reason="MILLRACE_LEDGER=0"),
]

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


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("ledger")
    make_folder(path, 48)
    return str(path)


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    return write_shards(tmp_path_factory.mktemp("shards"))


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    path = tmp_path_factory.mktemp("lines") / "a.jsonl"
    path.write_text("".join(json.dumps({"x": [i] * 20, "y": i}) + "\n" for i in range(400)))
    return str(path)


def in_memory():
    return TensorDataset(torch.rand(512, 2000), torch.arange(512))


CASES = {
    "images, threads": lambda f: DataLoader(pictures(f("folder")), 4, num_workers=2, native="require"),
    "images, inline": lambda f: DataLoader(pictures(f("folder")), 4, native="require"),
    "rows, threads": lambda f: DataLoader(in_memory(), 64, num_workers=2, native="require"),
    "rows, inline": lambda f: DataLoader(in_memory(), 64, native="require"),
    "lines, threads": lambda f: DataLoader(millrace.datasets.JSONL(f("lines")), 20, num_workers=2, native="require"),
    "lines, inline": lambda f: DataLoader(millrace.datasets.JSONL(f("lines")), 20, native="require"),
    "stream, threads": lambda f: DataLoader(stream_of(f("shards")), 4, num_workers=2, native="require"),
    "stream, inline": lambda f: DataLoader(stream_of(f("shards")), 4, native="require"),
    "fork": lambda f: DataLoader(Sleepy(), 4, num_workers=2, multiprocessing_context="fork"),
    "spawn": lambda f: DataLoader(Sleepy(), 4, num_workers=2, multiprocessing_context="spawn"),
    "forkserver": lambda f: DataLoader(Sleepy(), 4, num_workers=2, multiprocessing_context="forkserver"),
    "iterable, fork": lambda f: DataLoader(SleepyStream(), 4, num_workers=2),
    "stream, fork": lambda f: DataLoader(stream_of(f("shards")), 4, num_workers=2, native="never"),
    "worker threads": lambda f: DataLoader(Sleepy(), 4, num_workers=2, worker_method="thread"),
    "iterable, worker threads": lambda f: DataLoader(SleepyStream(), 4, num_workers=2, worker_method="thread"),
    "inline": lambda f: DataLoader(Sleepy(), 4),
    "iterable, inline": lambda f: DataLoader(SleepyStream(), 4),
    "skip, fork": lambda f: DataLoader(Sleepy(broken=(5,)), 4, num_workers=2, on_error="skip"),
    "skip, inline": lambda f: DataLoader(Sleepy(broken=(5,)), 4, on_error="skip"),
}


def stream_of(shards):
    return WebDataset(shards).decode("pil").to_tuple("jpg", "cls").map_tuple(FIXED)


@pytest.fixture
def of(request):
    return lambda name: request.getfixturevalue(name)


def check(ledger, wall=None):
    """What holds of every ledger, whatever the loader is and however it ended."""
    json.dumps(ledger)
    assert ledger["version"] == 1
    total = ledger["wall_seconds"]
    assert set(ledger["consumer"]) == CONSUMER
    assert all(seconds >= 0 for seconds in ledger["consumer"].values())
    assert sum(ledger["consumer"].values()) == pytest.approx(total, rel=0.02)
    if wall is not None:
        assert total == pytest.approx(wall, rel=0.02, abs=0.002)
    for worker in ledger["workers"]:
        assert set(worker["seconds"]) <= STAGES | {"send", "idle"}
        assert set(worker["cpu_seconds"]) <= STAGES | {"send"}
        assert sum(worker["seconds"].values()) == pytest.approx(worker["wall_seconds"], rel=0.02, abs=1e-6)
        assert sum(worker["cpu_seconds"].values()) <= worker["wall_seconds"] * 1.02 + 0.01
        assert worker["wall_seconds"] <= total + 0.05
    assert set(ledger["stages"]) == STAGES
    lost = total - ledger["consumer"]["step"]
    assert sum(ledger["blame"].values()) == pytest.approx(lost, rel=0.02, abs=1e-6)
    assert set(ledger["blame"]) <= STAGES | {"start", "draw", "copy", "handover"}
    assert ledger["bottleneck"] in BOTTLENECKS
    assert ledger["first_wait"] <= ledger["consumer"]["wait"] + ledger["consumer"]["make"] + 1e-6


def run(loader, step=0.0, stop_after=None):
    """(ledger, seconds that it took as seen from here)"""
    started, count = time.perf_counter(), 0
    for _ in loader:
        if step:
            time.sleep(step)
        count += 1
        if count == stop_after:
            break
    wall = time.perf_counter() - started
    return loader.ledger(steps=True), wall, count


@pytest.mark.parametrize("case", CASES)
def test_every_second_is_booked_on_every_engine(of, case):
    loader = CASES[case](of)
    ledger, wall, count = run(loader, step=0.002)
    check(ledger, wall)
    assert not ledger["running"]
    assert ledger["batches"] == count and ledger["samples"] > 0
    assert ledger["consumer"]["step"] >= 0.002 * count
    assert ledger["engine"] == loader.stats()["engine"] and ledger["native"] == ("native: require" in f"native: {loader.native}")
    steps = ledger["steps"]
    assert steps["kept_from"] == 0 and len(steps["enter"]) == len(steps["leave"]) == len(steps["ready"]) == count + 1  # the end, too
    assert all(a <= b for a, b in zip(steps["enter"], steps["leave"]))
    assert steps["leave"][-1] <= ledger["wall_seconds"] + 1e-6
    made = ledger["stages"]
    assert sum(times["wall"] for times in made.values()) > 0
    if "inline" not in case and "rows" not in case:
        assert len(ledger["workers"]) == 2
    if "inline" in case:
        assert ledger["workers"] == [] and ledger["consumer"]["make"] > 0
    later = loader.ledger()
    assert later["consumer"] == ledger["consumer"] and later["workers"] == ledger["workers"], "an epoch that is over stays as it was"


@pytest.mark.parametrize("case", ["images, threads", "rows, threads", "lines, threads", "stream, threads", "fork", "worker threads", "inline"])
def test_a_loop_that_is_left_ends_there(of, case):
    loader = CASES[case](of)
    ledger, wall, _ = run(loader, step=0.01, stop_after=3)
    gc.collect()
    time.sleep(0.05)
    ledger = loader.ledger()
    check(ledger)
    assert not ledger["running"]
    assert wall * 0.98 <= ledger["wall_seconds"] <= wall + 0.04


def test_while_it_runs_it_says_so_far():
    loader = DataLoader(Sleepy(seconds=0.01), 4, num_workers=2)
    iterator = iter(loader)
    started = time.perf_counter()
    next(iterator)
    time.sleep(0.05)
    ledger = loader.ledger()
    check(ledger)
    assert ledger["running"] and ledger["batches"] == 1
    assert ledger["wall_seconds"] >= time.perf_counter() - started - 0.01
    assert any(worker["seconds"].get("sample", 0) > 0.01 for worker in ledger["workers"]), "the stage that is under way counts"
    time.sleep(0.02)
    assert loader.ledger()["wall_seconds"] > ledger["wall_seconds"]
    del iterator


def test_before_the_first_epoch_all_is_zero():
    loader = DataLoader(Sleepy(), 4, num_workers=2)
    ledger = loader.ledger()
    check(ledger)
    assert ledger["wall_seconds"] == 0 and ledger["workers"] == [] and not ledger["running"]
    assert ledger["bottleneck"] == "consumer"
    assert "steps" not in ledger and loader.stats(steps=True)["ledger"]["steps"]["enter"] == []


@pytest.mark.parametrize("engine", [dict(native="never"), dict(native="never", worker_method="thread")])
def test_stages_are_told_apart_in_workers(engine):
    loader = DataLoader(Sleepy(seconds=0.002), 4, num_workers=2, collate_fn=slow_collate, **engine)
    ledger, wall, count = run(loader)
    check(ledger, wall)
    assert ledger["stages"]["sample"]["wall"] == pytest.approx(48 * 0.0022, rel=0.5)
    assert ledger["stages"]["collate"]["wall"] == pytest.approx(count * 0.021, rel=0.5)
    assert ledger["stages"]["collate"]["cpu"] < 0.5 * ledger["stages"]["collate"]["wall"], "it sleeps"
    assert ledger["bottleneck"] == "collate"


class Computing(Sleepy):
    def __getitem__(self, index):
        busy(0.002)
        return index


@pytest.mark.parametrize("engine", [dict(num_workers=1), dict(num_workers=1, worker_method="thread"), dict()])
def test_cpu_time_is_counted_where_it_is_used(engine):
    ledger, wall, _ = run(DataLoader(Computing(), 4, **engine))
    check(ledger, wall)
    assert ledger["stages"]["sample"]["cpu"] == pytest.approx(48 * 0.002, rel=0.2)


def test_a_slow_consumer_is_the_bottleneck():
    ledger, _, _ = run(DataLoader(Sleepy(200), 4, num_workers=2, persistent_workers=True), step=0.02)
    assert ledger["bottleneck"] == "consumer"
    ready = ledger["steps"]["ready"]
    assert np.median(ready[5:-5]) >= 2, ready


def test_a_sampler_that_is_slow_is_to_blame():
    class Slow:
        def __iter__(self):
            for i in range(12):
                time.sleep(0.01)
                yield [i]

        def __len__(self):
            return 12

    ledger, wall, _ = run(DataLoader(Sleepy(seconds=0), batch_sampler=Slow()))
    check(ledger, wall)
    assert ledger["consumer"]["draw"] > 0.11
    assert ledger["bottleneck"] == "draw"


@pytest.mark.parametrize("case", ["images, threads", "fork", "worker threads", "inline"])
def test_an_error_in_a_sample_is_booked_as_any_other(of, case):
    if case == "images, threads":
        loader = DataLoader(pictures(of("folder")), batch_sampler=[[0], [10_000], [1], [2]], num_workers=2, native="require")
        error = IndexError
    else:
        engine = {"fork": dict(num_workers=2), "worker threads": dict(num_workers=2, worker_method="thread"), "inline": {}}[case]
        loader, error = DataLoader(Sleepy(16, broken=(5,)), 4, **engine), ValueError
    started = time.perf_counter()
    iterator = iter(loader)
    next(iterator)
    with pytest.raises(error):
        next(iterator)
    assert len(list(iterator)) == 2
    wall = time.perf_counter() - started
    ledger = loader.ledger(steps=True)
    check(ledger, wall)
    assert len(ledger["steps"]["enter"]) == 5


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_killed_worker_leaves_its_time(method):
    loader = DataLoader(Sleepy(deadly=(20,)), 4, num_workers=2, multiprocessing_context=method)
    with pytest.raises(RuntimeError, match="exited unexpectedly"):
        for _ in loader:
            pass
    gc.collect()
    ledger = loader.ledger()
    check(ledger)
    assert len(ledger["workers"]) == 2 and not ledger["running"]
    assert min(worker["seconds"]["sample"] for worker in ledger["workers"]) > 0.003


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


def test_epochs_have_ledgers_of_their_own():
    loader = DataLoader(Sleepy(), 4, num_workers=2)
    first, wall, _ = run(loader)
    again, wall, count = run(loader)
    check(again, wall)
    assert again["batches"] == count and again["started"] > first["started"]


def test_a_clock_that_jumps_changes_nothing(monkeypatch):
    jumped = iter(range(10**9, 0, -10**6))
    monkeypatch.setattr(time, "time", lambda: float(next(jumped)))
    ledger, wall, _ = run(DataLoader(Sleepy(), 4, num_workers=2))
    check(ledger, wall)


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
    check(loader.ledger())
    assert loader.ledger()["consumer"]["wait"] == pytest.approx(wall, abs=0.15)


def test_copies_of_a_loader_keep_what_was_counted():
    loader = DataLoader(Sleepy(), 4, num_workers=2)
    iterator = iter(loader)
    next(iterator)
    for copied in (pickle.loads(pickle.dumps(loader)), copy.deepcopy(loader)):
        ledger = copied.ledger()
        check(ledger)
        assert ledger["batches"] == 1
        time.sleep(0.01)
        assert copied.ledger() == ledger, "a snapshot in plain values"
    del iterator


def test_a_loader_inside_a_dataset_counts_for_itself():
    class Nested(Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, index):
            self.loader = DataLoader(Sleepy(4, 0.005), 2)
            return list(self.loader)[0][1]

    dataset = Nested()
    ledger, wall, _ = run(DataLoader(dataset, 2))
    check(ledger, wall)
    check(dataset.loader.ledger())
    assert ledger["stages"]["sample"]["wall"] > 0.07
    assert dataset.loader.ledger()["stages"]["sample"]["wall"] == pytest.approx(0.02, rel=0.5)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_forked_child_counts_its_own():
    loader = DataLoader(in_memory(), 64, num_workers=2, persistent_workers=True)
    list(loader)
    pid = os.fork()
    if pid == 0:
        try:
            ledger, wall, count = run(loader)
            check(ledger, wall)
            os._exit(0 if ledger["batches"] == count else 1)
        except BaseException:
            os._exit(2)
    assert os.waitpid(pid, 0)[1] == 0


@pytest.mark.parametrize("workers", [0, 2])
def test_copies_to_a_device_are_booked(monkeypatch, workers):
    Fake().install(monkeypatch)
    loader = DataLoader(Sleepy(), 4, num_workers=workers, device="fake" if False else "meta")
    started = time.perf_counter()
    count = 0
    for _ in loader:
        time.sleep(0.002)
        count += 1
    wall = time.perf_counter() - started
    ledger = loader.ledger(steps=True)
    check(ledger, wall)
    assert ledger["consumer"]["copy"] > 0
    assert len(ledger["steps"]["enter"]) == count + 1
    assert not ledger["running"]


def test_nothing_is_left_open_or_alive():
    def once():
        list(DataLoader(Sleepy(8, 0), 4, num_workers=2))
        gc.collect()

    once()
    before = len(os.listdir("/proc/self/fd"))
    clocks = sum(type(thing) is _core.StageClock for thing in gc.get_objects())
    for _ in range(3):
        once()
    assert len(os.listdir("/proc/self/fd")) <= before
    assert sum(type(thing) is _core.StageClock for thing in gc.get_objects()) <= clocks


def test_stats_are_what_they_were():
    loader = DataLoader(in_memory(), 64)
    list(loader)
    stats = loader.stats()
    assert stats["ledger"]["batches"] == stats["batches"] == 8
    assert set(stats["seconds"]) == {"read", "decode", "transform", "collate"}
