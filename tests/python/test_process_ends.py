"""Worker processes that do not end by themselves: stopped, stuck, without their parent. None is left, and
nobody waits for ever.

Also what they change about themselves.
"""

import contextlib
import ctypes
import multiprocessing
import multiprocessing.forkserver
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import millrace
import numpy as np
import psutil
import pytest
from millrace._loader.engines import worker_end
from process_data import Noisy, Stuck, ignore_sigterm
from torch.utils.data import Dataset, _utils
from waiting import wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning"),
]


def is_alive(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def kill(*pids):
    for pid in filter(is_alive, pids):
        os.kill(pid, signal.SIGKILL)


@contextlib.contextmanager
def in_process(body, *arguments):
    """(the body at work in a process that ends as an interpreter does, with what `kept` holds still alive; a
    list of processes). None of them outlives the block.
    """
    process = multiprocessing.get_context("fork").Process(target=started, args=(body, *arguments))
    process.start()
    pids = []
    try:
        yield process, pids
    finally:
        kill(process.pid, *pids)
        process.join()


def started(body, *arguments):
    multiprocessing.forkserver._forkserver.__init__()  # forgets the parent's server, which is no child here
    body(*arguments)


kept = []


def stops_a_worker(pipe, persistent, ending):
    iterator = iter(millrace.DataLoader(Noisy(), num_workers=2, persistent_workers=persistent))
    next(iterator)
    pids = [worker.pid for worker in iterator._workers]
    os.kill(pids[1], signal.SIGSTOP)
    pipe.send(pids)
    if ending == "exit":
        kept.append(iterator)


@pytest.mark.parametrize("ending", ["exit", "collected"])
@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.alone
def test_a_stopped_worker_keeps_nobody(ending, persistent):
    ours, theirs = multiprocessing.Pipe()
    with in_process(stops_a_worker, theirs, persistent, ending) as (program, pids):
        assert ours.poll(20)
        pids += ours.recv()
        since = time.monotonic()
        program.join(15)
        assert program.exitcode == 0
        assert time.monotonic() - since < 4.9  # nothing is waited for that cannot come
        assert not any(map(is_alive, pids))


def test_the_interpreter_ends_with_a_stopped_worker():
    code = """
        import os, signal, millrace, process_data
        iterator = iter(millrace.DataLoader(process_data.Noisy(), num_workers=2))
        next(iterator)
        print(*(worker.pid for worker in iterator._workers), flush=True)
        os.kill(iterator._workers[1].pid, signal.SIGSTOP)
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    program = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    pids = []
    try:
        pids += map(int, program.stdout.readline().split())
        _, errors = program.communicate(timeout=200)
        assert program.returncode == 0 and not errors
        assert len(pids) == 2 and not any(map(is_alive, pids))
    finally:
        kill(program.pid, *pids)
        program.communicate()


def has_stuck_workers(folder, how, method):
    worker_end._PATIENCE_S = _utils.MP_STATUS_CHECK_INTERVAL = 0.3
    loader = millrace.DataLoader(
        Stuck(folder), num_workers=2, multiprocessing_context=method, worker_init_fn=ignore_sigterm
    )
    kept.append(iter(loader))
    if how == "killed":
        time.sleep(1000)
    are_stuck(folder)
    if how == "shut down":
        kept.pop()._shutdown_workers()


def are_stuck(folder):
    """Processes of both workers; the first test of a run by a fork server waits for its imports."""
    assert wait_until(lambda: len(os.listdir(folder)) == 2, 100)
    return [int(name.partition(" ")[2]) for name in os.listdir(folder)]


@pytest.mark.parametrize("how", ["exit", "shut down"])
def test_stuck_workers_that_ignore_signals_are_killed(how, tmp_path):
    with in_process(has_stuck_workers, str(tmp_path), how, "fork") as (program, pids):
        pids += are_stuck(tmp_path)
        program.join(60)
        assert program.exitcode == 0
        assert not any(map(is_alive, pids))


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_stuck_workers_end_with_their_parent(method, tmp_path):
    with in_process(has_stuck_workers, str(tmp_path), "killed", method) as (program, pids):
        pids += are_stuck(tmp_path)
        assert all(map(is_alive, pids))
        program.kill()
        program.join()
        assert wait_until(lambda: not any(map(is_alive, pids)))


class Slow(Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        time.sleep(0.2)
        return index


def test_workers_outlive_the_thread_that_started_them():
    made = []

    def make():
        made.append(iter(millrace.DataLoader(Slow(), num_workers=2)))

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    assert [int(batch) for batch in made[0]] == list(range(6))


class AboutItself(Dataset):
    """How likely the process is killed for want of memory; whether a large block lies in malloc's heap."""

    def __len__(self):
        return 1

    def __getitem__(self, index):
        with open("/proc/self/oom_score_adj") as file:
            score = int(file.read())
        block = np.empty(1 << 30, np.uint8)  # more than a parent may have left free in its heap
        with open("/proc/self/maps") as file:
            heaps = [line.split()[0].split("-") for line in file if line.rstrip().endswith("[heap]")]
        return score, any(int(begin, 16) <= block.ctypes.data < int(end, 16) for begin, end in heaps)


@pytest.mark.parametrize("changed", [True, False])
def test_what_workers_change_about_themselves_can_be_kept(changed, monkeypatch):
    if not changed:
        monkeypatch.setenv("MILLRACE_WORKER_MALLOC", "0")
        monkeypatch.setenv("MILLRACE_WORKER_OOM_SCORE", "0")
    with open("/proc/self/oom_score_adj") as file:
        mine = int(file.read())
    ((score, in_heap),) = millrace.DataLoader(AboutItself(), num_workers=1, batch_size=None)
    assert score == (min(1000, mine + 300) if changed else mine)
    if hasattr(ctypes.CDLL(None), "gnu_get_libc_version"):
        assert in_heap == changed
