"""Stacks that are sampled: the right stage and line, and nothing that user code could notice."""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import threading
import time
import weakref
import zlib

import pytest
from millrace import DataLoader, _core
from millrace._profiling import hotspots, stacks
from torch.utils.data import Dataset, IterableDataset

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.skipif(not _core.StageClock.enabled, reason="MILLRACE_PROFILE=0"),
]


def compute(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(50))


def plain(value):
    return value


class Holder(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return index


# ------------------------------------------------------------------ samples


class Sampled(Dataset):
    def __init__(self, work, length=1, transform=None):
        self.work, self.length, self.transform = work, length, transform

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return self.work(index) if self.transform is None else self.transform(self.work(index))


def look(work, thread=False, **more):
    """The note of a loader's only worker, which makes one batch of one sample."""
    dataset = Sampled(work, **more)
    notes = []

    def epoch():
        loader = DataLoader(dataset, None)
        for _ in loader:
            pass
        notes.append(loader.profile())

    if thread:
        other = threading.Thread(target=epoch)
        other.start()
        other.join()
    else:
        epoch()
    return notes[0]


def long_call(value):
    return sum(range(12_000_000)) + value  # one call of C that holds the GIL throughout


@pytest.mark.parametrize("thread", [False, True])
@pytest.mark.alone
def test_a_long_call_with_the_gil_counts_for_all_of_its_time(thread):
    profile = look(lambda index: time.sleep(0.03) or index, thread, transform=long_call)
    made = profile["stages"]
    assert made["transform"]["wall"] > 0.6 * profile["consumer"]["make"], made
    assert "long_call" in profile["hot"][0]["where"]


@pytest.mark.alone
def test_waiting_and_computing_have_their_own_cpu_time():
    def read(_):
        time.sleep(0.2)
        return 1

    profile = look(read, transform=lambda value: compute(0.2))
    fetch, transform = profile["stages"]["fetch"], profile["stages"]["transform"]
    assert fetch["cpu"] < 0.5 * fetch["wall"]
    assert transform["cpu"] > fetch["cpu"]


def seen(_):
    """What user code can see of its surroundings."""
    compute(0.02)
    handlers = [
        signal.getsignal(number)
        for number in (signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF, signal.SIGUSR1)
    ]
    return (
        sorted(thread.name for thread in threading.enumerate()),
        threading.active_count(),
        [str(handler) for handler in handlers],
        [
            signal.getitimer(which)
            for which in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
        ],
        sys.getswitchinterval(),
        sys.gettrace() is None and sys.getprofile() is None,
    )


@pytest.mark.parametrize("options", [{}, {"num_workers": 1}, {"num_workers": 1, "worker_method": "thread"}])
def test_user_code_sees_nothing_of_it(options, monkeypatch):
    dataset = Sampled(seen, 6)
    looked = list(DataLoader(dataset, None, collate_fn=plain, **options))
    monkeypatch.setattr(stacks.StackSampler, "__enter__", lambda self: None)
    monkeypatch.setattr(stacks.StackSampler, "__exit__", lambda self, *_: None)
    assert looked == list(DataLoader(dataset, None, collate_fn=plain, **options))


def test_a_profiler_of_the_users_sees_its_own_calls_alone():
    calls = []

    def profiled(_):
        sys.setprofile(
            lambda frame, event, argument: calls.append(frame.f_code.co_name) if event == "call" else None
        )
        try:
            for _ in range(300):
                plain(zlib.crc32(b"a" * 100_000))
        finally:
            sys.setprofile(None)
        return 1

    look(profiled)
    assert set(calls) == {"plain"} and len(calls) == 300


def forks(index):
    compute(0.03)
    child = os.fork()
    if child == 0:
        compute(0.03)
        os._exit(7)
    compute(0.03)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("options", [{}, {"num_workers": 2}])
def test_forks_in_user_code(options):
    assert list(DataLoader(Sampled(forks, 6), None, **options)) == [7] * 6


@pytest.mark.alone
def test_a_forked_child_may_use_a_loader_itself():
    def inner(index):
        child = os.fork()
        if child == 0:
            profile = look(lambda _: compute(0.1) or 1)
            os._exit(0 if profile["hot"] else 1)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    assert list(DataLoader(Sampled(inner, 2), None)) == [0, 0]


def test_loaders_inside_datasets():
    def nested(index):
        return sum(DataLoader(Sampled(lambda i: compute(0.01) or i, 5), None))

    assert list(DataLoader(Sampled(nested, 4), None)) == [10] * 4
    compute(0.05)
    assert _core.stack_take() == []  # nobody is looked at any more


@pytest.mark.parametrize("options", [{}, {"num_workers": 1}, {"num_workers": 2, "worker_method": "thread"}])
def test_errors_and_generators(options):
    class Stream(IterableDataset):
        def __iter__(self):
            for i in range(20):
                compute(0.005)
                yield i

    def broken(index):
        compute(0.005)
        raise KeyError(index)

    assert len(list(DataLoader(Stream(), None, **options))) == 20 * max(1, options.get("num_workers", 1))
    iterator = iter(DataLoader(Sampled(broken, 8), None, **options))
    for _ in range(8):
        with pytest.raises(KeyError):
            next(iterator)


@pytest.mark.alone
def test_threads_that_end_while_they_are_looked_at():
    samplers = []

    def run():
        sampler = stacks.StackSampler(Holder(), _core.StageClock())
        sampler.clock.attach(stacks.SAMPLE)
        samplers.append(sampler)
        sampler.__enter__()
        compute(0.02)  # and ends without __exit__

    for _ in range(10):
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    time.sleep(0.1)
    assert any(sampler._samples for sampler in samplers)
    for sampler in samplers:
        stacks._sampling_thread().forget(sampler)


@pytest.mark.alone
def test_what_was_looked_at_is_collected_while_the_looking_thread_waits_for_more():
    dataset = Sampled(lambda index: compute(0.02) or index, 4)
    alive = weakref.ref(dataset)
    for _ in DataLoader(dataset, 2, num_workers=1, worker_method="thread"):
        pass
    del dataset
    looking, until = stacks._sampling_thread(), time.monotonic() + 0.6 * stacks._IDLE_S
    while alive() is not None and time.monotonic() < until:
        time.sleep(0.01)
        gc.collect()
    assert looking._running and alive() is None


def test_a_note_has_room_in_its_row():
    sampler = stacks.StackSampler(Holder(), _core.StageClock())
    for number in range(stacks._MOST_HOTSPOTS):
        sampler._hot[hotspots.Hotspot("sample", f"{'module.' * 40}function (file.py:{number})")] = number
    note = sampler.note()
    assert len(note) <= _core.NOTE_BYTES
    assert len(json.loads(note)["hot"]) > 3


def test_what_cannot_be_classified_ends_the_looking_not_the_batch(monkeypatch):
    monkeypatch.setattr(hotspots.Hotspots, "of", lambda *_, **__: 1 / 0)
    assert look(lambda _: compute(0.1) or 1)["hot"] == []


@pytest.mark.alone
def test_workers_that_are_soon_gone_are_not_looked_at():
    loader = DataLoader(Sampled(lambda index: compute(0.02) or index, 2), 2, num_workers=1)
    for _ in loader:
        pass
    profile = loader.profile()
    assert profile["hot"] == [] and profile["stages"]["sample"]["wall"] > 0.03


def test_patience_ends_with_long_batches_or_many_short_ones(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(
        stacks, "time", type("Time", (), {**vars(time), "perf_counter": staticmethod(lambda: now[0])})
    )

    def batches_until_looked_at(seconds):
        sampler = stacks.StackSampler(Holder(), _core.StageClock(), patient=True)
        for count in range(10_000):
            if sampler._patience <= 0:
                return count
            with sampler:
                now[0] += seconds
        return None

    assert [batches_until_looked_at(seconds) for seconds in (0.008, 0.0051, 0.001)] == [1, 2, 500]
