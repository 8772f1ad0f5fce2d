"""dump_state() and dump_on_signal(): they tell who hangs, on which sample, for how long, and where in the
code.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import millrace
import pytest
import torch
from loader_data import make_folder, pictures
from millrace import DataLoader
from torch.utils.data import Dataset, TensorDataset

pytestmark = pytest.mark.slow


class Hanging(Dataset):
    """Waits at index 5 until the file is there."""

    def __init__(self, gate, kill=False):
        self.gate, self.kill = str(gate), kill

    def __len__(self):
        return 12

    def __getitem__(self, index):
        if index == 5:
            if self.kill:
                os.kill(os.getpid(), signal.SIGKILL)
            while not os.path.exists(self.gate):
                time.sleep(0.01)
        return index


def while_it_hangs(loader, gate, look, batches=2):
    """`look()` in another thread, called once the loop has had `batches` batches and waits for more."""
    iterator, found = iter(loader), []
    for _ in range(batches):
        next(iterator)

    def ask():
        try:
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline:
                time.sleep(0.1)
                found[:] = [look()]
                if found[0] is not None:
                    return
        finally:
            gate()

    thread = threading.Thread(target=ask)
    thread.start()
    rest = list(iterator)
    thread.join()
    return found[0], rest


def hanging_worker(state, **wanted):
    """The worker that does what is wanted; None when there is none yet."""
    for worker in state["loaders"][0]["workers"]:
        if all(worker.get(key) == value for key, value in wanted.items()):
            return worker
    return None


# ---------------------------------------------------------------- Python datasets


@pytest.mark.parametrize("method", ["process", "thread"])
def test_a_dataset_that_hangs(tmp_path, method):
    loader = DataLoader(Hanging(tmp_path / "gate"), 2, num_workers=2, worker_method=method)

    def look():
        state = loader.dump_state()
        json.dumps(state)
        worker = hanging_worker(state, doing="sample", indices=[4, 5])
        return None if worker is None or worker["seconds"] < 0.2 else (state, worker)

    (state, worker), rest = while_it_hangs(loader, (tmp_path / "gate").touch, look)
    assert any("in __getitem__" in line and __file__ in line for line in worker["stack"])
    assert worker["alive"] and worker["task"] == 2
    ours = state["loaders"][0]
    engine = "threads" if method == "thread" else "processes"
    assert (ours["engine"], ours["epoch"], ours["step"], ours["iterator"]) == (engine, 0, 2, "running")
    assert ours["queue"]["outstanding"] >= 1 and ours["queue"]["next_task"] == 2
    assert any(thread["name"] == "MainThread" for thread in state["python_threads"])
    assert torch.cat(rest).tolist() == list(range(4, 12))


def test_a_dataset_that_hangs_in_the_training_process(tmp_path):
    loader = DataLoader(Hanging(tmp_path / "gate"), 2)

    def look():
        state = loader.dump_state()
        main = next(thread for thread in state["python_threads"] if thread["name"] == "MainThread")
        return (state, main) if any("in __getitem__" in line for line in main["stack"]) else None

    (state, _), rest = while_it_hangs(loader, (tmp_path / "gate").touch, look)
    assert state["loaders"][0]["indices"] == [4, 5] and len(rest) == 4


def test_a_worker_that_died(tmp_path):
    loader = DataLoader(Hanging(tmp_path / "gate", kill=True), 2, num_workers=1, persistent_workers=True)
    iterator = iter(loader)
    next(iterator)
    deadline = time.monotonic() + 60
    while iterator._workers[0].is_alive() and time.monotonic() < deadline:
        with contextlib.suppress(RuntimeError):  # torch's handler of SIGCHLD says it here
            time.sleep(0.02)
    worker = loader.dump_state()["loaders"][0]["workers"][0]
    assert (worker["alive"], worker["exitcode"], worker["stack"]) == (False, -signal.SIGKILL, None)


# ---------------------------------------------------------------- the engine


def test_a_picture_that_hangs(tmp_path, stuck_picture):
    paths = make_folder(tmp_path / "root")
    data = pictures(tmp_path / "root")
    with open(paths[5], "rb") as file:
        stuck_picture.then = file.read()
    with open(paths[5], "wb") as file:
        file.write(b"STUCK")
    loader = DataLoader(data, 2, num_workers=2)
    assert "python —" not in loader.explain()

    def look():
        state = loader.dump_state()
        worker = hanging_worker(state, doing="decode", index=5)
        return None if worker is None or worker["sample_seconds"] < 0.2 else (state, worker)

    (state, worker), rest = while_it_hangs(loader, stuck_picture.set, look)
    assert worker["path"] == paths[5] and worker["name"] in ("thread 0", "thread 1")
    queue = state["loaders"][0]["queue"]
    assert (
        queue["unfinished_rows"] == 1
        and queue["outstanding"] >= 1
        and 0 <= queue["free_slots"] <= queue["slots"]
    )
    assert len(rest) == 9


def test_pool_threads_that_hang(tmp_path):
    from millrace.datasets.batches import BatchDataset, BatchMaker

    class Maker(BatchMaker):
        def make(self, ticket):
            while ticket[0] == 4 and not (tmp_path / "gate").exists():
                time.sleep(0.01)
            return torch.as_tensor(ticket)

    class Data(BatchDataset):
        def __len__(self):
            return 12

        def batch_maker(self, options):
            return Maker()

    loader = DataLoader(Data(), 2, num_workers=2)

    def look():
        worker = hanging_worker(loader.dump_state(), doing="make")
        return None if worker is None or worker["seconds"] < 0.2 else worker

    worker, rest = while_it_hangs(loader, (tmp_path / "gate").touch, look)
    assert worker["samples"] == 2 and worker["name"].startswith("millrace-") and len(rest) == 4


# ---------------------------------------------------------------- forms


def test_text_json_and_files(tmp_path):
    loader = DataLoader(TensorDataset(torch.arange(8)), 2)
    assert loader.dump_state()["loaders"][0]["iterator"] == "none was made yet"
    batches = iter(loader)
    next(batches)
    state = loader.dump_state(tmp_path / "state.json")
    assert json.loads((tmp_path / "state.json").read_text()) == state
    loader.dump_state(str(tmp_path / "state.txt"))
    text = io.StringIO()
    loader.dump_state(text)
    for written in (text.getvalue(), (tmp_path / "state.txt").read_text()):
        assert written.startswith(
            f"millrace: state of process {os.getpid()}\nloader 0: TensorDataset, engine inline, 0 workers,"
            " iterator"
        )
        assert "epoch 0, 1 batches handed out" in written and "Python thread MainThread" in written
    del batches
    assert loader.dump_state()["loaders"][0]["iterator"] == "gone"
    with pytest.raises(FileNotFoundError):
        loader.dump_state(tmp_path / "nowhere" / "state.txt")


# ---------------------------------------------------------------- signals

SCRIPT = """
import ctypes, os, signal, sys, time
import torch
from torch.utils.data import Dataset
import millrace

class Stuck(Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, index):
        if index == 3:
            print("stuck", flush=True)
            HANG
        return index

def mine(number, frame):
    print("mine", flush=True)

if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, mine)
    millrace.dump_on_signal(file=sys.argv[1] if len(sys.argv) > 1 else None)
    loader = millrace.DataLoader(Stuck(), 2, num_workers=WORKERS)
    print(sum(int(batch.sum()) for batch in loader), flush=True)
"""


def run_stuck(hang, workers, *arguments):
    script = textwrap.dedent(SCRIPT).replace("HANG", hang).replace("WORKERS", str(workers))
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", script, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "stuck\n"
    time.sleep(0.3)
    process.send_signal(signal.SIGUSR1)
    out, err = process.communicate(timeout=200)
    assert process.returncode == 0, err
    return out, err


@pytest.mark.alone
def test_a_signal_while_a_worker_hangs_in_c(tmp_path):
    path = tmp_path / "state.json"
    # With the interpreter's lock; a signal ends a call before its time.
    out, err = run_stuck(
        "end = time.time() + 3\n            while time.time() < end: ctypes.PyDLL(None).usleep(900_000)",
        1,
        str(path),
    )
    assert "mine" in out and out.endswith("28\n")
    assert "in __next__" in err  # this process's stacks
    state = json.loads(path.read_text())
    worker = state["loaders"][0]["workers"][0]
    assert worker["indices"] == [2, 3] and any("in __getitem__" in line for line in worker["stack"])


@pytest.mark.alone
def test_a_signal_while_the_training_process_hangs_in_c():
    out, err = run_stuck("ctypes.PyDLL(None).usleep(2_000_000)", 0)
    assert "mine" in out and out.endswith("28\n")
    assert "in __getitem__" in err.split("millrace: state of process")[0]  # at once, by the handler


@pytest.mark.alone
def test_a_signal_while_next_waits():
    out, err = run_stuck("time.sleep(3)", 2)
    assert "mine" in out and out.endswith("28\n")
    assert (
        "sample task 1 of samples [2, 3]" in err
        and "in __getitem__" in err.split("millrace: state of process")[1]
    )


def test_it_can_be_taken_back(capfd):
    before = signal.signal(signal.SIGUSR2, lambda *_: seen.append(1))
    seen = []
    try:
        with millrace.dump_on_signal(signal.SIGUSR2):
            with millrace.dump_on_signal(signal.SIGUSR2) as second:  # in place of the first
                os.kill(os.getpid(), signal.SIGUSR2)
                time.sleep(0.3)
            second.remove()
        assert seen == [1] and capfd.readouterr().err.count("millrace: state of process") == 1
        os.kill(os.getpid(), signal.SIGUSR2)
        time.sleep(0.2)
        assert seen == [1, 1] and capfd.readouterr().err == ""
    finally:
        signal.signal(signal.SIGUSR2, before)


def test_what_is_refused(tmp_path):
    with pytest.raises(ValueError, match="cannot be caught"):
        millrace.dump_on_signal(signal.SIGKILL)
    with pytest.raises(FileNotFoundError, match="no folder"):
        millrace.dump_on_signal(signal.SIGUSR2, tmp_path / "nowhere" / "state.txt")


# ---------------------------------------------------------------- samples that take too long


@pytest.mark.parametrize("method", ["process", "thread"])
def test_a_sample_that_takes_too_long_is_warned_of_once(tmp_path, caplog, method):
    loader = DataLoader(
        Hanging(tmp_path / "gate"),
        2,
        num_workers=1,
        worker_method=method,
        history=millrace.BatchHistory(stuck_after=0.2),
    )
    iterator = iter(loader)
    next(iterator), next(iterator)
    deadline = time.monotonic() + 60
    while not caplog.records and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.3)
    (tmp_path / "gate").touch()
    list(iterator)
    ours = [record.getMessage() for record in caplog.records if record.name == "millrace"]
    assert len(ours) == 1 and "of Hanging works on samples [4, 5] for 0." in ours[0]


def test_patience_is_positive():
    with pytest.raises(ValueError, match="stuck_after=0"):
        millrace.BatchHistory(stuck_after=0)
