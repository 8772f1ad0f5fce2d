"""Worker processes that die, hang or are left behind: an error or a clean end, never a hang or leavings."""

import gc
import multiprocessing
import os
import random
import re
import signal
import time
from multiprocessing import resource_tracker

import millrace
import numpy as np
import psutil
import pytest
import torch
from loader_data import next_in_the_end
from open_files import open_files
from process_data import Failing, Made, Noisy
from python_code import run_code
from thinned import thinned
from torch.utils.data import Dataset
from waiting import wait_until

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


class WantsMemory(Dataset):
    """Sample 3 is the system's doing: it counts the kill, then kills."""

    def __init__(self, events):
        self.events = events

    def __len__(self):
        return 8

    def __getitem__(self, index):
        if index == 3:
            with open(self.events, "w") as file:
                file.write("oom 3\noom_kill 2\n")
            os.kill(os.getpid(), signal.SIGKILL)
        return index


class Rows(Dataset):
    """Large enough rows that a half-written one would show: each holds its index everywhere."""

    def __init__(self, length=4000):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return torch.full((2, 3000), float(index))


def children():
    def counts(child):
        return child.status() != psutil.STATUS_ZOMBIE and "resource_tracker" not in " ".join(child.cmdline())

    return {child for child in psutil.Process().children() if counts(child)}


@pytest.fixture(autouse=True, scope="module")
def spawning_starts_its_tracker_once():
    resource_tracker.ensure_running()


@pytest.fixture(autouse=True)
def nothing_is_left():
    gc.collect()
    before = open_files() | children()

    def left():
        multiprocessing.active_children()  # forgets those that ended after close() waited
        gc.collect()
        return (open_files() | children()) - before

    yield
    assert wait_until(lambda: not left()), left()


def holds(batch, first):
    expected = torch.arange(first, first + len(batch), dtype=torch.float32)
    return bool((batch == expected[:, None, None]).all())


@thinned(3, round_=range(20))
def test_killed_at_any_moment(round_):
    """Ten kills each: a batch that is accepted is whole, and the end is the documented error."""
    moment = random.Random(round_)
    for _ in range(10):
        loader = millrace.DataLoader(Rows(), batch_size=8, num_workers=2)
        iterator = iter(loader)
        victim = moment.choice(iterator._workers).pid
        at = time.monotonic() + moment.uniform(0, 0.03)
        accepted = 0
        with pytest.raises(RuntimeError, match="DataLoader worker|is killed by signal"):
            while accepted < 500:
                if at is not None and time.monotonic() >= at:
                    os.kill(victim, signal.SIGKILL)
                    at = None
                assert holds(next(iterator), accepted * 8)
                accepted += 1
            raise RuntimeError("DataLoader worker: the epoch was over before it was noticed")
        del iterator


@pytest.mark.parametrize("how, text", [
    ("kill", "is killed by signal: Killed"),
    ("segfault", "is killed by signal: Segmentation fault"),
    ("exit", "exited unexpectedly with exit code 7"),
    ("system exit", "exited unexpectedly"),
])  # fmt: skip
@pytest.mark.alone
def test_dying_workers_are_named(how, text):
    loader = millrace.DataLoader(Failing(how), batch_size=1, num_workers=2)
    started = time.monotonic()
    with pytest.raises(RuntimeError) as caught:
        list(loader)
    assert time.monotonic() - started < 4
    assert re.search(r"\(pid\(?s?\)? \d+", str(caught.value))
    assert text in str(caught.value) + str(caught.value.__cause__)


def test_a_hanging_worker_times_out_and_the_iterator_survives():
    loader = millrace.DataLoader(Failing("hang"), batch_size=1, num_workers=2, timeout=0.5)
    iterator = iter(loader)
    assert [next_in_the_end(iterator).item() for _ in range(3)] == [0, 1, 2]
    with pytest.raises(RuntimeError, match="DataLoader timed out after 0.5 seconds"):
        next(iterator)
    loader.dataset.released.set()  # else the iterator waits 5 seconds for it


def test_what_cannot_be_pickled_is_an_error_not_a_hang():
    loader = millrace.DataLoader(Failing("unpicklable"), batch_size=None, num_workers=2)
    iterator = iter(loader)
    assert [next(iterator) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(Exception, match="pickle"):
        next(iterator)
    assert next(iterator) == 4


def test_an_exception_that_cannot_travel_is_a_runtime_error():
    with pytest.raises(RuntimeError, match="process_data.Local: local"):
        list(millrace.DataLoader(Failing("Local"), num_workers=1))


def test_a_child_that_drops_an_inherited_iterator_harms_nobody():
    loader = millrace.DataLoader(Rows(400), batch_size=4, num_workers=2)
    iterator = iter(loader)
    held = next(iterator)
    for step in range(1, 6):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                intact = holds(held, (step - 1) * 4)
                with pytest.raises(RuntimeError, match="belongs to process"):
                    next(iterator)
                iterator._shutdown_workers()
                del iterator, held
                gc.collect()
                code = 0 if intact else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        held = next(iterator)
        assert holds(held, step * 4)
    assert len(list(iterator)) == 94
    del held


def test_a_child_reads_its_batch_while_the_parent_goes_on():
    loader = millrace.DataLoader(Rows(800), batch_size=4, num_workers=2)
    iterator = iter(loader)
    batch = next(iterator)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(reading, 1)
        os._exit(0 if holds(batch, 0) else 1)
    del batch
    for step in range(1, 60):
        assert holds(next(iterator), step * 4)
    os.write(writing, b"x")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    os.close(reading), os.close(writing)
    del iterator


def test_slots_held_back_for_another_loaders_workers_come_back():
    """A training loop with a validation loader whose workers start while a training batch is alive."""
    training = iter(millrace.DataLoader(Rows(4000), batch_size=4, num_workers=1))
    for _ in range(12):
        batch = next(training)
        assert len(list(millrace.DataLoader(Made("int"), batch_size=4, num_workers=1))) == 3
    next(training)
    del batch
    ring = training._engine.ring
    assert ring.slots - ring.free_slots <= 6 and ring.memory_bytes < 12 * 4 * 24_576
    del training, ring


def test_every_batch_may_be_kept():
    loader = millrace.DataLoader(Rows(2400), batch_size=4, num_workers=2)
    batches = list(loader)
    assert all(holds(batch, i * 4) for i, batch in enumerate(batches))
    assert loader.stats()["overflow_slots"] > 0
    del batches


def test_batches_outlive_their_iterator_and_the_ring_goes_with_them():
    before = open_files("millrace-ring")
    iterator = iter(millrace.DataLoader(Rows(80), batch_size=4, num_workers=2))
    batch = next(iterator)
    del iterator
    gc.collect()
    assert holds(batch, 0)
    del batch
    assert open_files("millrace-ring") <= before


def test_two_iterators_and_start_methods_at_once():
    forked = millrace.DataLoader(Made("dict"), batch_size=2, num_workers=2)
    spawned = millrace.DataLoader(Made("dict"), batch_size=2, num_workers=1, multiprocessing_context="spawn")
    pairs = [(a["y"].tolist(), b["y"].tolist()) for a, b in zip(forked, spawned)]
    assert len(pairs) == 6 and all(a == b for a, b in pairs)


def test_a_full_memory_budget_is_a_sentence(monkeypatch):
    class Huge(Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, index):
            return torch.zeros(1).expand(2**33)  # 32 GiB once it is copied

    with pytest.raises(OSError, match="use a smaller batch_size"):
        list(millrace.DataLoader(Huge(), batch_size=1, num_workers=1))


@pytest.mark.alone
def test_nothing_in_dev_shm_and_no_descriptor_per_batch():
    loader = millrace.DataLoader(Noisy(), batch_size=2, num_workers=2)
    before = set(os.listdir("/dev/shm"))
    iterator = iter(loader)
    kept, during = [next(iterator)], len(open_files("millrace"))
    kept += list(iterator)
    assert set(os.listdir("/dev/shm")) <= before and len(open_files("millrace")) <= during


@pytest.mark.parametrize("collate_fn", ["None", "process_data.four_megabytes"])
def test_memory_of_workers_and_of_the_ring_is_flat(collate_fn):
    """In a process of its own, which has little that a worker would come to own bit by bit: in pages of
    2 MiB, which these tests ask for, it may be 100 MB.
    """
    done = run_code(
        f"""
        import millrace, process_data, psutil
        from test_process_faults import Rows
        iterator = iter(millrace.DataLoader(Rows(), num_workers=1, collate_fn={collate_fn}))
        worker, ring = psutil.Process(iterator._workers[0].pid), iterator._engine.ring
        for step, _ in zip(range(401), iterator):
            if step in (50, 400):
                print(worker.memory_full_info().uss + ring.memory_bytes, ring.memory_bytes)
        del iterator, _
    """,
        environment={"GLIBC_TUNABLES": "", "PYTHONMALLOC": "default"},
    )
    early, ring, late, ring_in_the_end = map(int, done.stdout.split())
    assert late - early < 40 << 20  # one batch in three kept for ever would be 500 MB
    assert max(ring, ring_in_the_end) < 64 << 20


@thinned(
    2, persistent=[False, True], ending=["pass", "raise ValueError('user')", "sys.exit(3)", "del iterator"]
)
def test_the_interpreter_ends_with_an_iterator_alive(persistent, ending):
    expected = {"raise": 1, "sys.e": 3}.get(ending[:5], 0)
    done = run_code(
        f"""
        import sys, millrace
        from process_data import Noisy
        loader = millrace.DataLoader(Noisy(), num_workers=2, persistent_workers={persistent})
        iterator = iter(loader)
        next(iterator)
        {ending}
        """,
        status=expected,
    )
    assert "Traceback" not in done.stderr or expected == 1
    assert "Exception ignored" not in done.stderr


def test_workers_end_when_their_parent_is_killed():
    done = run_code(
        """
        import os, signal, sys, millrace
        from process_data import Noisy
        iterator = iter(millrace.DataLoader(Noisy(), num_workers=2))
        next(iterator)
        print(*(w.pid for w in iterator._workers), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
        """,
        status=-signal.SIGKILL,
    )
    pids = [int(pid) for pid in done.stdout.split()]
    assert len(pids) == 2
    assert wait_until(lambda: not any(map(psutil.pid_exists, pids)))


@pytest.mark.alone
def test_ctrl_c_while_all_workers_are_stuck():
    done = run_code("""
        import os, signal, threading, time, millrace
        from process_data import Failing
        iterator = iter(millrace.DataLoader(Failing("hang"), sampler=[3, 3], num_workers=2))
        threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        started = time.monotonic()
        try:
            next(iterator)
        except KeyboardInterrupt:
            print(time.monotonic() - started)
        for worker in iterator._workers:
            worker.kill()
    """)
    assert 0.3 < float(done.stdout) < 3, done.stderr


def test_unpicklable_dataset_with_spawn():
    class Local(Dataset):
        def __len__(self):
            return 1

        def __getitem__(self, index):
            return 0

    with pytest.warns(UserWarning, match="Got pickle error"), pytest.raises((AttributeError, TypeError)):
        iter(millrace.DataLoader(Local(), num_workers=1, multiprocessing_context="spawn"))


def test_mutating_one_buffer_gives_true_values():
    class Reused(Dataset):
        buffer = np.zeros(4, dtype=np.float32)

        def __len__(self):
            return 6

        def __getitem__(self, index):
            self.buffer.fill(index)
            return self.buffer

    (batch,) = millrace.DataLoader(Reused(), batch_size=6, num_workers=1)
    assert batch[:, 0].tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("counted", [True, False])
def test_a_worker_killed_for_want_of_memory_says_so(counted, tmp_path, monkeypatch):
    """The machine is made of files: one memory cgroup, which may hold 512 MiB and has killed once before."""
    files = {
        "proc/self/cgroup": "0::/job\n",
        "proc/self/mountinfo": f"31 23 0:27 / {tmp_path}/sys rw - cgroup2 cgroup2 rw\n",
        "proc/meminfo": "MemTotal: 8388608 kB\n",
        "sys/job/memory.max": "536870912\n",
        "sys/job/memory.events": "oom 1\noom_kill 1\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    kills = millrace._core.memory_kills
    monkeypatch.setattr(millrace._core, "memory_kills", lambda: kills(str(tmp_path / "proc")))
    events = tmp_path / ("sys/job/memory.events" if counted else "elsewhere")
    with pytest.raises(
        RuntimeError, match=r"DataLoader worker \(pid\(s\) \d+\) exited unexpectedly"
    ) as caught:
        list(millrace.DataLoader(WantsMemory(str(events)), num_workers=1))
    said = (
        f"killed it for want of memory: cgroup {tmp_path}/sys/job may hold 512 MiB. Use fewer workers"
        in str(caught.value)
    )
    assert said == counted
