"""The stall profile: on every engine each second is booked once, to what it was spent on."""

from __future__ import annotations

import functools
import gc
import time

import numpy as np
import pytest
from millrace import DataLoader, _core
from millrace._profiling.stages import contention
from profile_cases import CASES, Sleepy, busy, check, of, run, slow_collate  # noqa: F401

pytestmark = [
    pytest.mark.slow,
    pytest.mark.alone,
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.skipif(not _core.StageClock.enabled, reason="MILLRACE_PROFILE=0"),
]


EXPECTED = {
    "images": {"fetch", "decode", "transform"},
    "rows": {"collate"},
    "lines": {"fetch", "decode", "collate"},
    "stream": {"fetch"},
}  # of stages that take time, at least; the others run Python
EXPECTED |= {
    case.split(",")[0]: {"sample", "collate"} for case in CASES if case.split(",")[0] not in EXPECTED
}


@pytest.mark.parametrize("case", CASES)
def test_every_second_is_booked_on_every_engine(of, case):
    loader = CASES[case](of)
    profile, wall, count = run(loader, step=0.002)
    check(profile, wall)
    assert not profile["running"]
    assert profile["batches"] == count and profile["samples"] > 0
    assert profile["consumer"]["step"] >= 0.002 * count
    assert profile["engine"] == loader.stats()["engine"]
    assert profile["native"] == ("native: require" in f"native: {loader.native}")
    steps = profile["steps"]
    assert (
        steps["kept_from"] == 0
        and len(steps["enter"]) == len(steps["leave"]) == len(steps["ready"]) == count + 1
    )  # the end, too
    assert all(a <= b for a, b in zip(steps["enter"], steps["leave"]))
    assert steps["leave"][-1] <= profile["wall_seconds"] + 1e-6
    assert {name for name, times in profile["stages"].items() if times["wall"] > 0} >= EXPECTED[
        case.split(",")[0]
    ]
    if "inline" not in case and "rows" not in case:
        assert len(profile["workers"]) == 2
    if "inline" in case:
        assert profile["workers"] == [] and profile["consumer"]["make"] > 0
    later = loader.profile()
    assert later["consumer"] == profile["consumer"] and later["workers"] == profile["workers"], (
        "an epoch that is over stays as it was"
    )


LEFT = [
    "images, threads",
    "rows, threads",
    "lines, threads",
    "stream, threads",
    "fork",
    "worker threads",
    "inline",
]


@pytest.mark.parametrize("case", LEFT)
def test_a_loop_that_is_left_ends_there(of, case):
    loader = CASES[case](of)
    profile, wall, _ = run(loader, step=0.01, stop_after=3)
    gc.collect()
    time.sleep(0.05)
    profile = loader.profile()
    check(profile)
    assert not profile["running"]
    assert wall * 0.98 - 0.05 <= profile["wall_seconds"] <= wall + 0.04


def test_while_it_runs_it_says_so_far():
    loader = DataLoader(Sleepy(seconds=0.01), 4, num_workers=2)
    iterator = iter(loader)
    started = time.perf_counter()
    next(iterator)
    time.sleep(0.05)
    profile = loader.profile()
    check(profile)
    assert profile["running"] and profile["batches"] == 1
    assert profile["wall_seconds"] >= time.perf_counter() - started - 0.01
    assert any(worker["seconds"].get("sample", 0) > 0.01 for worker in profile["workers"]), (
        "the stage that is under way counts"
    )
    time.sleep(0.02)
    assert loader.profile()["wall_seconds"] > profile["wall_seconds"]
    del iterator


def test_before_the_first_epoch_all_is_zero():
    loader = DataLoader(Sleepy(), 4, num_workers=2)
    profile = loader.profile()
    check(profile)
    assert profile["wall_seconds"] == 0 and profile["workers"] == [] and not profile["running"]
    assert profile["bottleneck"] == "consumer"
    assert "steps" not in profile and loader.stats(steps=True)["profile"]["steps"]["enter"] == []


@pytest.mark.parametrize("engine", [dict(native="never"), dict(native="never", worker_method="thread")])
def test_stages_are_told_apart_in_workers(engine):
    loader = DataLoader(Sleepy(seconds=0.002), 4, num_workers=2, collate_fn=slow_collate, **engine)
    profile, wall, count = run(loader)
    check(profile, wall)
    assert 48 * 0.002 <= profile["stages"]["sample"]["wall"] < profile["stages"]["collate"]["wall"]
    assert profile["stages"]["collate"]["wall"] >= count * 0.02
    assert profile["stages"]["collate"]["cpu"] < 0.5 * profile["stages"]["collate"]["wall"], "it sleeps"
    assert profile["bottleneck"] == "collate"


class Computing(Sleepy):
    def __getitem__(self, index):
        busy(0.002)
        return index


@pytest.mark.parametrize("engine", [dict(num_workers=1), dict(num_workers=1, worker_method="thread"), dict()])
def test_cpu_time_is_counted_where_it_is_used(engine):
    profile, wall, _ = run(DataLoader(Computing(), 4, **engine))
    check(profile, wall)
    assert profile["stages"]["sample"]["cpu"] == pytest.approx(48 * 0.002, rel=0.2)


def test_a_slow_consumer_is_the_bottleneck():
    profile, _, _ = run(DataLoader(Sleepy(200), 4, num_workers=2, persistent_workers=True), step=0.06)
    assert profile["bottleneck"] == "consumer"
    ready = profile["steps"]["ready"]
    assert np.median(ready[5:-5]) >= 2, ready


def test_a_sampler_that_is_slow_is_to_blame():
    class Slow:
        def __iter__(self):
            for i in range(12):
                time.sleep(0.01)
                yield [i]

        def __len__(self):
            return 12

    profile, wall, _ = run(DataLoader(Sleepy(seconds=0), batch_sampler=Slow()))
    check(profile, wall)
    assert profile["consumer"]["draw"] > 0.11
    assert profile["bottleneck"] == "draw"


def test_who_had_the_cpu_is_what_the_kernel_says(tmp_path):
    for thread, text in {11: "300 100 5", 12: "600 0 1", 13: "50 750 2", 14: "no numbers"}.items():
        (tmp_path / "self" / "task" / str(thread)).mkdir(parents=True)
        (tmp_path / "self" / "task" / str(thread) / "schedstat").write_text(text)
    (tmp_path / "21").mkdir()
    (tmp_path / "21" / "schedstat").write_text("100 300 1\n")
    asked = functools.partial(contention, proc=str(tmp_path))
    assert asked([], 13, True) == 0.1 and asked([], 11, False) == 0.25
    assert asked([21, 22], 11, True) == 0.75 and asked([22], 11, True) == 0.0
    assert contention([], 0, True, str(tmp_path / "none")) == 0.0


@pytest.mark.parametrize("options", [{}, {"num_workers": 2}, {"num_workers": 2, "worker_method": "thread"}])
def test_it_knows_the_processes_cpu_time_and_who_else_used_the_cpus(options):
    loader = DataLoader(range(64), 8, native="never", **options)
    for _ in loader:
        end = time.thread_time() + 0.005
        while time.thread_time() < end:
            pass
    profile = loader.profile()
    assert 0.04 <= profile["process_cpu_seconds"] <= profile["wall_seconds"] * 8
    assert 0.0 <= profile["contention"] <= 1.0 and loader.profile()["contention"] == profile["contention"]
