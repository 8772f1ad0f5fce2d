"""Starts of worker processes: the fork server imports torch once, and datasets keep nobody waiting."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import time
from multiprocessing import forkserver, get_context
from pathlib import Path

import pytest
from millrace._loader.engines import channel, worker_end

pytestmark = pytest.mark.slow


def run(folder: Path, script: str, *arguments: str) -> dict:
    path = folder / "training.py"
    path.write_text(textwrap.dedent(script))
    command = [sys.executable, path, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


WARM = """
    import json, multiprocessing, os

    class Where:
        def __len__(self):
            return 4

        def __getitem__(self, index):
            with open(f"/proc/{os.getppid()}/maps") as maps:
                has_torch = "libtorch_cpu" in maps.read()
            return f"{os.getppid()} {os.getpid()} {has_torch}"

    if __name__ == "__main__":
        import millrace

        multiprocessing.set_forkserver_preload(["json.tool"])
        loader = millrace.DataLoader(Where(), 1, num_workers=2, multiprocessing_context="forkserver")
        print(json.dumps([[batch[0].split() for batch in loader] for _ in range(2)]))
"""


def test_one_warm_server_starts_the_workers_of_all_epochs(tmp_path: Path) -> None:
    first, second = run(tmp_path, WARM)
    assert {row[0] for row in first + second} == {first[0][0]}, "one server"
    assert not {row[1] for row in first} & {row[1] for row in second}, "new workers"
    assert {row[2] for row in first + second} == {"True"}, "which has torch"


def test_what_the_user_has_chosen_is_imported_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forkserver._forkserver, "_preload_modules", ["json.tool", "torch"])
    worker_end.preload(get_context("spawn"))
    assert forkserver._forkserver._preload_modules == ["json.tool", "torch"]
    for _ in range(2):
        worker_end.preload(get_context("forkserver"))
        assert forkserver._forkserver._preload_modules == ["json.tool", "torch", worker_end.PRELOADED[1]]


PATIENT = """
    import json, sys, time

    if __name__ == "__mp_main__":
        time.sleep(4)  # as an import that takes long

    class Large:
        def __init__(self):
            self.content = bytes(3_000_000)

        def __len__(self):
            return 3

        def __getitem__(self, index):
            return len(self.content) + index

    if __name__ == "__main__":
        import millrace

        method = sys.argv[1]
        loader = millrace.DataLoader(Large(), 1, num_workers=3, multiprocessing_context=method)
        if method == "forkserver":  # what starts the server is not looked at
            from multiprocessing import forkserver
            list(millrace.DataLoader([1], num_workers=1, multiprocessing_context=method))
        started = time.perf_counter()
        iterator = iter(loader)
        seconds = time.perf_counter() - started
        print(json.dumps({"seconds": seconds, "rows": [batch.tolist() for batch in iterator]}))
"""


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_large_dataset_lets_workers_start_side_by_side(tmp_path: Path, method: str) -> None:
    found = run(tmp_path, PATIENT, method)
    assert found["rows"] == [[3_000_000], [3_000_001], [3_000_002]]
    assert found["seconds"] < 4, "one after the other it would be eight before the third has started"


def test_a_parcel_is_closed_by_who_sends_it() -> None:
    parcel = channel.Parcel({"a": 1})
    parcel.close()
    assert parcel.__reduce__() == (channel.Parcel, ({"a": 1},)), "no process is being started"


def test_starting_leaves_no_descriptor(tmp_path: Path) -> None:
    import os

    import millrace

    loader = millrace.DataLoader([1, 2], num_workers=1, multiprocessing_context="spawn")
    assert len(list(loader)) == 2
    before = sorted(os.listdir("/proc/self/fd"))
    assert len(list(loader)) == 2
    deadline = time.monotonic() + 20
    while sorted(os.listdir("/proc/self/fd")) != before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert sorted(os.listdir("/proc/self/fd")) == before
