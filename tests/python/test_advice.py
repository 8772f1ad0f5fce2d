"""Advice names what helps, foretells by how much, and that is what comes of it."""

import copy
import io
import json

import numpy as np
import pytest
import torch
from advice_cases import CASES, Sleeps, followed
from millrace import DataLoader, _core
from millrace_tools.advice import Facts, advise, facts_of
from pictures import jpeg_bytes, make_picture
from PIL import Image, ImageFilter

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.skipif(not _core.StageClock.enabled, reason="MILLRACE_PROFILE=0"),
]


@pytest.mark.alone
def test_what_is_foretold_comes_true():
    found = []
    for case in CASES:
        before, foretold, after, suggestion = followed(case)
        assert (suggestion is None) == (not case.changes), (case.name, suggestion)
        if suggestion is not None:
            assert case.changes in suggestion.arguments, (case.name, suggestion)
            assert not suggestion.at_most
        if abs(after / foretold - 1) > 0.2:  # a machine that was busy meanwhile
            before, foretold, after, suggestion = followed(case)
        found.append((case.name, before, foretold, after, abs(after / foretold - 1)))
    right = [case for case in found if case[-1] <= 0.2]
    assert len(right) >= 0.8 * len(CASES), found


# ------------------------------------------------------------------ the model alone


def profile(
    engine="processes",
    native=False,
    workers=2,
    per_batch=None,
    cpu=None,
    consumer=None,
    batches=100,
    cores=8.0,
    **more,
):
    """A profile of `batches` batches of 8: seconds per batch, of one worker by stage and of the consumer."""
    per_batch, cpu = per_batch or {"decode": 0.04}, cpu or {}
    consumer = {name: seconds * batches for name, seconds in (consumer or {"step": 0.005}).items()}
    made = sum(per_batch.values()) * batches
    names = ("start", "draw", "wait", "make", "copy", "handover", "step")
    consumer = {**dict.fromkeys(names, 0.0), **consumer}
    if workers:
        consumer["wait"] = max(0.0, made / workers - sum(consumer.values()))
    else:
        consumer["make"] = made
    wall = sum(consumer.values())
    rows = []
    for number in range(workers):
        seconds = {stage: value * batches / workers for stage, value in per_batch.items()}
        seconds["idle"] = wall - sum(seconds.values())
        own = {stage: cpu.get(stage, 0.0) * batches / workers for stage in per_batch}
        rows.append(
            {"name": f"process {number}", "wall_seconds": wall, "seconds": seconds, "cpu_seconds": own}
        )
    stages = {
        name: {"wall": 0.0, "cpu": 0.0} for name in ("fetch", "decode", "transform", "collate", "sample")
    }
    for stage, value in per_batch.items():
        stages[stage] = {"wall": value * batches, "cpu": cpu.get(stage, 0.0) * batches}
    lost = consumer["wait"] + consumer["make"]
    blame = {stage: lost * value / sum(per_batch.values()) for stage, value in per_batch.items()}
    slowest = max(per_batch, key=per_batch.get)
    settings = {
        "num_workers": workers,
        "prefetch_factor": 2,
        "batch_size": 8,
        "pin_memory": False,
        "device": None,
        "decode": "cpu",
    }
    return {
        "version": 1,
        "engine": engine,
        "native": native,
        "running": False,
        "epoch": 0,
        "settings": {**settings, "cores": cores},
        "wall_seconds": wall,
        "samples": 8 * batches,
        "batches": batches,
        "bytes": 0,
        "consumer": consumer,
        "first_wait": 0.0,
        "workers": rows,
        "stages": stages,
        "hot": [],
        "blame": blame,
        "bottleneck": slowest,
        "queue": {"slots": 8, "overflow_slots": 0},
        **more,
    }


def named(advice, argument):
    return next(suggestion for suggestion in advice if argument in suggestion.code)


def test_workers_up_to_what_the_loop_can_use():
    advice = advise(profile())
    assert advice.samples_per_second == pytest.approx(8 / 0.02)
    assert advice[0].arguments == {"num_workers": 10}  # eight that are never late could do it
    assert advice[0].samples_per_second == pytest.approx(8 / 0.005)
    assert advice.line.startswith("loader-bound 75%: decode takes 100% of worker time; 8 more workers (4x)")


def test_workers_no_more_than_there_are_cpus_for():
    advice = advise(profile(cpu={"decode": 0.04}, cores=4.0))
    assert advice[0].arguments == {"num_workers": 4}
    assert advice[0].gain == pytest.approx(2)
    assert not advise(profile(cpu={"decode": 0.04}, cores=2.0))


def test_the_loops_own_cpu_time_is_not_the_workers():
    free = advise(profile(workers=1, cpu={"decode": 0.04}, cores=2.0))
    assert free[0].gain == pytest.approx(2)
    shared = advise(profile(workers=1, cpu={"decode": 0.04}, cores=2.0, process_cpu_seconds=100 * 0.01))
    assert shared[0].gain == pytest.approx(2 / (0.04 + 0.01) * 0.04)
    threads = profile(
        "threads", True, workers=1, cpu={"decode": 0.04}, cores=2.0, process_cpu_seconds=100 * 0.04
    )
    assert advise(threads)[0].gain == pytest.approx(2), "theirs is part of the process's"


def test_a_wait_for_a_cpu_is_no_wait_that_more_workers_fill():
    found = profile(cpu={"decode": 0.01}, cores=4.0)
    assert advise(found)[0].arguments["num_workers"] > 4
    assert advise({**found, "contention": 0.75})[0].arguments == {"num_workers": 4}


def test_other_programs_get_their_share_of_the_cpus():
    found = profile(workers=1, cpu={"decode": 0.02}, cores=2.0, contention=0.5)  # three others on two CPUs
    assert advise(found)[0].gain == pytest.approx(2 * (1 + 3) / (2 + 3))
    assert advise({**found, "contention": 0.05})[0].gain == pytest.approx(2)


def test_a_loop_that_is_the_bottleneck_has_nothing_to_gain():
    advice = advise(
        profile(consumer={"step": 0.03}), Facts(python=("transform: python — a function",), files=True)
    )
    assert not advice
    assert "nothing to gain" in advice.line


def test_threads_that_take_turns_are_told_to_be_processes():
    found = profile(
        "threads", per_batch={"transform": 0.04}, cpu={"transform": 0.02}, consumer={"step": 0.001}
    )
    assert named(advise(found), "process").gain == pytest.approx(2, rel=0.05)
    assert not [s for s in advise(found, Facts(gil=False)) if "worker_method" in s.code]


def test_packing_a_gpu_and_a_cache_where_there_is_something_for_them():
    found = profile(
        "threads",
        True,
        per_batch={"fetch": 0.02, "decode": 0.02},
        cpu={"fetch": 0.02, "decode": 0.02},
        cores=2.0,
    )
    advice = advise(found, Facts(files=True, gpu=True, remote=True))
    assert {s.what for s in advice} == {"`millrace pack`", "GPU decode", "a disk cache"}
    assert all(s.at_most for s in advice)
    assert not advise(found)


def test_a_line_of_the_users_is_named():
    found = profile(per_batch={"sample": 0.04}, cpu={"sample": 0.04}, cores=2.0)
    found["hot"] = [{"stage": "sample", "where": "mine.Data.__getitem__ (mine.py:7)", "share": 0.75}]
    (suggestion,) = advise(found)
    assert "mine.py:7" in suggestion.code
    assert suggestion.gain == pytest.approx(4)


def test_a_call_that_looks_at_whole_pictures_is_named():
    found = profile(per_batch={"decode": 0.03, "transform": 0.01}, cpu={"decode": 0.03, "transform": 0.01})
    suggestion = named(advise(found, Facts(whole_pictures="filter() in train.py:31")), "train.py:31")
    assert suggestion.at_most and suggestion.gain > 1.5

    class Looks(torch.utils.data.Dataset):
        def __len__(self):
            return 8

        def __getitem__(self, index):
            data = io.BytesIO(jpeg_bytes(make_picture(40, 30)))
            return np.asarray(Image.open(data).filter(ImageFilter.BLUR).resize((8, 8)))

    loader = DataLoader(Looks(), 4)
    list(loader)
    assert facts_of(loader).whole_pictures.startswith("filter() in test_advice.py:")


def test_copies_and_small_batches():
    costs = {"step": 0.001, "copy": 0.01, "handover": 0.001}
    found = profile(consumer=costs, per_batch={"decode": 0.002}, blame={"copy": 1.0, "handover": 0.1})
    assert named(advise(found), "device").at_most
    found = profile(
        consumer={"step": 0.0001, "handover": 0.0004}, per_batch={"decode": 0.0001}, blame={"handover": 0.04}
    )
    assert named(advise(found), "batch_size").arguments == {"batch_size": 32}


def test_little_or_nothing_measured():
    assert "iterate" in advise(profile(batches=2)).line
    assert "MILLRACE_PROFILE" in advise(None).line
    loader = DataLoader(Sleeps(8, 0.0), 8)
    assert loader.advice() == []
    assert loader.advice().samples_per_second == 0.0


def test_advice_is_of_jsons_types_and_readable():
    loader = DataLoader(Sleeps(80, 0.002), 8)
    for _ in loader:
        pass
    advice = loader.advice()
    again = json.loads(json.dumps(advice.as_dict()))
    assert again["suggestions"][0]["arguments"] == {"num_workers": advice[0].arguments["num_workers"]}
    assert "num_workers=" in str(advice) and "samples/s" in str(advice)
    assert copy.deepcopy(advice) == advice


def test_iterable_datasets_are_warned_of():
    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter(Sleeps(80, 0.002)[i] for i in range(80))

    loader = DataLoader(Stream(), 8)
    for _ in loader:
        pass
    assert "get_worker_info" in loader.advice()[0].why


def test_while_it_runs():
    loader = DataLoader(Sleeps(400, 0.002), 8, num_workers=1)
    for number, _ in enumerate(loader):
        if number == 20:
            break
    assert loader.advice()[0].arguments["num_workers"] > 1
