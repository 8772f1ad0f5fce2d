"""Workers that die at any moment, under each start method: next() and iter() raise, and never wait."""

import itertools
import os
import random
import re
import signal
import threading
import time

import millrace
import pytest
import torch
from process_data import Failing
from torch.utils.data import Dataset, IterableDataset, get_worker_info
from waiting import wait_until

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
PATIENCE_S = 120  # of next(), where a fault would keep it for ever: "timed out" is another error
DIED = r"DataLoader worker \(pid\(s\) {}\) exited unexpectedly"


class Numbers(IterableDataset):
    """Worker 0 has one; in the epoch `dies_in` worker 1 ends before its first."""

    def __init__(self, dies_in=0):
        self.dies_in, self.epoch = dies_in, 0

    def __iter__(self):
        self.epoch += 1
        worker = get_worker_info().id
        if worker == 1 and self.epoch == self.dies_in:
            os.kill(os.getpid(), signal.SIGKILL)
        return iter(range(1 if worker == 0 else 20))


class Rows(Dataset):
    def __len__(self):
        return 1 << 30

    def __getitem__(self, index):
        return torch.full((500,), float(index))


def has_died(process):
    return wait_until(lambda: not process.is_alive())


@pytest.mark.parametrize("told", ["late", "never", "without pidfd"])
def test_one_look_decides_who_has_died(told, monkeypatch):
    """What multiprocessing's server tells is_alive() comes after the worker's end, however much later."""
    if told == "without pidfd":
        monkeypatch.setattr(os, "pidfd_open", lambda pid: (_ for _ in ()).throw(OSError()))
    loader = millrace.DataLoader(
        Failing("kill"), num_workers=2, timeout=PATIENCE_S, multiprocessing_context="forkserver"
    )
    iterator = iter(loader)
    with monkeypatch.context() as patch:
        if told != "without pidfd":
            for worker in iterator._workers:
                answers = itertools.chain([True], itertools.repeat(told == "never"))
                patch.setattr(worker, "is_alive", answers.__next__)
        with pytest.raises(RuntimeError, match=DIED.format(iterator._workers[1].pid)):
            list(iterator)


@pytest.mark.parametrize("stream", [True, False])
def test_a_worker_that_dies_between_epochs_is_missed_when_the_next_begins(stream):
    """Also one whose part of the stream was over when it died: nobody missed it then."""
    loader = millrace.DataLoader(
        Numbers() if stream else Failing("none"),
        sampler=None if stream else [0, 1],
        num_workers=2,
        persistent_workers=True,
        multiprocessing_context="forkserver",
    )
    iterator = iter(loader)
    next(iterator), next(iterator)
    if stream:
        assert [next(iterator).item(), next(iterator).item()] == [1, 2]
    victim = iterator._workers[0]
    victim.kill()
    assert has_died(victim)
    assert len(list(iterator)) == (17 if stream else 0)
    for _ in range(2):
        with in_time(), pytest.raises(RuntimeError, match=DIED.format(victim.pid)):
            iter(loader)


def test_a_worker_that_dies_when_an_epoch_begins():
    loader = millrace.DataLoader(
        Numbers(dies_in=2), num_workers=2, persistent_workers=True, multiprocessing_context="forkserver"
    )
    assert len(list(loader)) == 21
    for _ in range(2):
        with in_time(), pytest.raises(RuntimeError, match=DIED.format(r"\d+")):
            iter(loader)


class in_time:
    """Ends a wait that would last for ever, with an error."""

    def __enter__(self):
        self.before = signal.signal(signal.SIGALRM, self.ring)
        signal.alarm(PATIENCE_S)

    def ring(self, *_):
        raise TimeoutError("it waits for ever")

    def __exit__(self, *_):
        signal.alarm(0)
        signal.signal(signal.SIGALRM, self.before)


def kill_all(method, workers, moment):
    """Starts a loader, kills its workers one after the other, each at a random moment, and returns how long
    it took each time until next() said so.
    """
    loader = millrace.DataLoader(
        Rows(), batch_size=4, num_workers=workers, timeout=PATIENCE_S, multiprocessing_context=method
    )
    iterator, took = iter(loader), []
    left = [worker.pid for worker in iterator._workers]
    moment.shuffle(left)
    if moment.random() < 0.8:  # else workers may die before they have begun
        next(iterator)
    while left:
        victim, killed = left.pop(), []

        def kill(victim=victim, killed=killed, delay=moment.uniform(0, 0.01)):
            time.sleep(delay)
            killed.append(time.monotonic())
            os.kill(victim, signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        while True:
            try:
                next(iterator)
            except RuntimeError as error:  # of a child torch's handler of SIGCHLD may have told before
                found = re.search(r"DataLoader worker \(pid\(?s?\)? ([\d, ]+)\)", str(error))
                assert found, error
                if victim in map(int, found[1].split(",")):
                    break
        took.append(time.monotonic() - killed[0])
        killer.join()
    return took


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize("method, loaders", [("fork", 10), ("forkserver", 10), ("spawn", 1)])
def test_each_of_many_deaths_is_told_at_once(method, loaders):
    moment = random.Random(method)
    for _ in range(loaders):
        for seconds in kill_all(method, 8, moment):
            assert seconds < 5
