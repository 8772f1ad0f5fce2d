"""`millrace bench` from the command line, and millrace.bench(): on datasets that sleep, stream, end, raise,
crash and hang.
"""

from __future__ import annotations

import builtins
import importlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import time

import millrace
import pytest
import torch
from millrace.__main__ import main as command_line
from millrace_tools.bench.client import Client, LoadFailed
from millrace_tools.bench.pages import write_png
from millrace_tools.bench.search import NothingMeasured
from millrace_tools.bench.targets import Target
from torch.utils.data import DataLoader, TensorDataset

pytestmark = pytest.mark.slow

DATASETS = """
    import os, signal, time
    import torch
    from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

    print("this is printed at each import")

    class Sleeps(Dataset):
        def __init__(self, length=2000, seconds=0.002, bad=()):
            self.length, self.seconds, self.bad = length, seconds, bad
        def __len__(self):
            return self.length
        def __getitem__(self, index):
            time.sleep(self.seconds)
            if index in self.bad:
                raise KeyError(f"no file for {index}")
            return torch.full((4,), float(index)), index

    class Stream(IterableDataset):
        def __init__(self, end):
            self.end = end
        def __iter__(self):
            info = get_worker_info()
            index = info.id if info else 0
            while self.end is None or index < self.end:
                time.sleep(0.0005)
                yield index
                index += info.num_workers if info else 1

    class Dies(Sleeps):
        def __getitem__(self, index):
            os.kill(os.getpid(), signal.SIGSEGV)

    class Uneven(Sleeps):
        def __getitem__(self, index):
            return torch.zeros(1 + index % 3)

    def pairs(samples):
        return torch.stack([value for value, _ in samples]), [index for _, index in samples]

    sleeps, bad, dies = Sleeps(), Sleeps(bad=range(0, 2000, 20)), Dies()
    uneven, empty, few = Uneven(), Sleeps(0), Sleeps(5)
    endless, short, nothing = Stream(None), Stream(37), Stream(0)
    loader = DataLoader(
            sleeps, batch_size=16, shuffle=True, num_workers=1, collate_fn=pairs, prefetch_factor=3)
    dropping = DataLoader(few, batch_size=16, drop_last=True)
    number = 7

    def make():
        return Sleeps(64, 0.0)

    def fails():
        raise OSError("no such disk")

    def needs(path):
        return sleeps

    def ends():
        raise SystemExit(3)

    def reads_its_command_line():
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--length", type=int, default=50)
        return Sleeps(parser.parse_args().length, 0.0)

    if __name__ == "__main__":
        guarded = Sleeps()
"""
QUICK = ["--workers", "0,1", "--prefetch", "2", "--seconds", "0.1", "--repeats", "2", "--budget", "60"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("bench")
    (path / "my_datasets.py").write_text(textwrap.dedent(DATASETS))
    return path


@pytest.fixture(autouse=True)
def in_folder(folder, monkeypatch):
    monkeypatch.chdir(folder)


@pytest.fixture
def datasets(folder, monkeypatch):
    monkeypatch.syspath_prepend(str(folder))
    return importlib.import_module("my_datasets")


def bench(capsys, *words):
    status = command_line(["bench", *words])
    shown = capsys.readouterr()
    return status, shown.out, shown.err


@pytest.mark.alone
def test_the_best_arguments_reproduce_its_number(capsys, folder):
    """Of a dataset that sleeps 2 ms a sample, one worker gives 500 samples/s at the most, and the arguments
    are those of a loader.
    """
    words = [
        "my_datasets:sleeps",
        "--batch-size",
        "10",
        *QUICK,
        "--out",
        "all.json",
        "--html",
        "page.html",
        "--method",
        "process",
    ]
    status, text, lines = bench(capsys, *words)
    assert status == 0, lines
    found = json.loads((folder / "all.json").read_text())
    best = found["best"]
    assert best["num_workers"] in (0, 1) and 250 < best["samples_per_second"] < 510
    assert found["torch"]["repeats"] == best["repeats"] == 2 and 0.5 < found["speedup"] < 2
    assert (
        text.splitlines()[0]
        == "my_datasets:sleeps: Sleeps, 2,000 samples, batches of 10; no step: as fast as batches can be had"
    )
    assert text.strip().endswith(best["line"]) and "<- best" in text and "this is printed" not in text
    assert "best so far" in lines and "\033" not in lines, "no terminal: plain lines"
    DataLoader(TensorDataset(torch.zeros(3)), **best["arguments"])
    rows = {(c["side"], c["num_workers"]): c for c in found["configurations"]}
    assert rows["torch", 1]["first_batch_seconds"] > 0.02 and rows["torch", 1]["memory_bytes"] > 50e6
    page = (folder / "page.html").read_text()
    assert page.count("<svg") >= 3 and "Throughput over workers" in page and best["line"] in page


@pytest.mark.alone
def test_a_loaders_arguments_are_taken_over(capsys):
    status, text, _ = bench(capsys, "my_datasets.py:loader", *QUICK, "--no-torch", "--json", "--step-ms", "5")
    found = json.loads(text)
    assert status == 0 and found["torch"] is None and found["dataset"]["batch_size"] == 16
    assert found["best"]["arguments"]["shuffle"] is True and "collate_fn=pairs" in found["best"]["line"]
    assert 0 < found["best"]["wait_share"] < 1 and found["step_seconds"] == 0.005


@pytest.mark.parametrize("name", ["endless", "short", "few", "make"])
@pytest.mark.alone
def test_streams_and_small_datasets(datasets, name):
    """Endless, shorter than a batch, without a length, made by a function: epochs follow each other, and each
    window is full.
    """
    found = millrace.bench(
        getattr(datasets, name), workers=[1], seconds=0.1, repeats=1, methods=["thread"], with_torch=False
    )
    assert found.rate > 100 and found.best.configuration.workers == 1


@pytest.mark.parametrize(
    "name, words",
    [
        ("nowhere:x", "No module named 'nowhere'"),
        ("my_datasets:missing", "my_datasets has no 'missing'"),
        ("my_datasets:fails", "no such disk"),
        ("my_datasets:needs", "missing a required argument: 'path'"),
        ("my_datasets:number", "is of type int: neither a dataset"),
    ],
)
def test_names_of_no_dataset(datasets, name, words):
    with pytest.raises((ImportError, ValueError, OSError), match=words):
        Target(name).load()


@pytest.mark.parametrize(
    "name, words",
    [
        ("empty", "the Sleeps is empty"),
        ("nothing", "the Stream yields no samples"),
        ("dropping", "5 samples are less than a batch of 16"),
        ("dies", r"(?s)ended \(by SIGSEGV\).*line 32 in __getitem__"),
    ],
)
def test_what_cannot_be_measured(datasets, name, words):
    with pytest.raises(NothingMeasured, match=words):
        millrace.bench(getattr(datasets, name), workers=[0, 1], budget=20)


def test_a_crash_is_told_where_another_library_took_the_signal(folder):
    """As Ray does, whose shutdown leaves SIGSEGV to the system while faulthandler believes itself enabled."""
    script = textwrap.dedent("""
        import faulthandler, signal
        import millrace, my_datasets
        faulthandler.enable()
        signal.signal(signal.SIGSEGV, signal.SIG_DFL)
        millrace.bench(my_datasets.dies, workers=[0], budget=20)
    """)
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=100)
    assert "(by SIGSEGV)" in done.stderr and "line 32 in __getitem__" in done.stderr, done.stderr


@pytest.mark.parametrize(
    "name, words",
    [
        ("my_datasets.py:guarded", "nothing runs here: make it at the top"),
        ("my_datasets:ends", "it ends the process: SystemExit(3)"),
    ],
)
def test_what_cannot_be_loaded_is_told_in_short(capsys, folder, name, words):
    status, text, lines = bench(capsys, name, *QUICK)
    assert (
        status == 1 and words in lines.replace(f"{folder}/", "") and "Traceback" not in lines and not text
    ), lines


def test_a_script_finds_no_arguments_on_its_command_line(capsys):
    status, text, lines = bench(capsys, "my_datasets:reads_its_command_line", *QUICK, "--json")
    assert status == 0 and json.loads(text)["dataset"]["length"] == 50, lines


@pytest.mark.parametrize(
    "words, told",
    [
        (["my_datasets"], "write module:name or script.py:name"),
        (["none.py:x"], "there is no file none.py"),
        (["my_datasets:sleeps:x"], "write module"),
        (["my_datasets:sleeps", "--steps", "0"], "0 steps measure nothing"),
        (["my_datasets:sleeps", "--collate", "x"], "--collate 'x'"),
        (["my_datasets:sleeps", "--workers", "-1"], "from 0 on"),
        (
            ["my_datasets:sleeps", "--html", "missing/page.html"],
            "missing/page.html cannot be written (No such file or directory); nothing was",
        ),
        (["my_datasets:sleeps", "--out", "/proc/version/x"], "cannot be written (Not a directory)"),
        (["my_datasets:sleeps", "--png", "/"], "Is a directory"),
    ],
)
@pytest.mark.alone
def test_wrong_arguments_are_told_before_anything_is_measured(capsys, words, told):
    begin = time.monotonic()
    status, text, lines = bench(capsys, *words)
    assert status in (1, 2) and told in lines and not text
    assert time.monotonic() - begin < 2, "nothing was started"


def test_a_sample_that_raises(capsys, folder):
    status, text, lines = bench(capsys, "my_datasets:bad", *QUICK, "--json")
    assert status == 1 and "samples (" in lines and "raise" in lines and "KeyError: 'no file for" in lines
    found = json.loads(text)["samples"]
    assert 0.02 < found["failed"] / found["read"] < 0.1 and found["errors"][0]["index"] % 20 == 0
    assert found["errors"][0]["where"].startswith(f"{folder}/my_datasets.py:")


def test_on_error_skip_goes_on(datasets):
    found = millrace.bench(
        datasets.bad, on_error="skip", methods=["process"], workers=[1], prefetch=[2], seconds=0.1, repeats=1
    )
    assert (
        found.torch is None
        and found.best_arguments["on_error"] == "skip"
        and found.best_line.endswith("on_error='skip')")
    )
    assert (
        "torch's loader has no on_error='skip'" in found.text()
        and "on_error left out" in found.text()
        and "no file for" in found.text()
    )


def test_samples_that_do_not_fit_together(datasets):
    with pytest.raises(NothingMeasured, match="read one by one without an error") as caught:
        millrace.bench(datasets.uneven, methods=["process"], workers=[0], repeats=1)
    assert "--collate module:function" in str(caught.value)
    assert millrace.bench(
        datasets.uneven, collate_fn=len, methods=["process"], workers=[0], seconds=0.1, repeats=1
    ).best_arguments == {"batch_size": 64, "num_workers": 0, "collate_fn": len}


def test_what_forks_would_share_is_loaded_anew(folder, monkeypatch):
    (folder / "open_file.py").write_text("file = open(__file__)\ndataset = [1.0, 2.0] * 100\n")
    with Client(Target("open_file:dataset")) as client:
        client.start()
        assert client.alone_because == "loading it has opened 1 files or connections"
        servers = []
        for _ in range(2):
            assert client.ask("survey", 10.0, 0.1)["failed"] == 0
            servers.append(client.server.pid)
    assert servers[0] != servers[1]


def test_without_matplotlib_the_pip_line_comes_first(capsys, monkeypatch):
    def refusing(name, *rest, **more):
        if name.partition(".")[0] == "matplotlib":
            raise ImportError(name)
        return found(name, *rest, **more)

    found = builtins.__import__
    monkeypatch.setattr(builtins, "__import__", refusing)
    status, _, lines = bench(capsys, "my_datasets:sleeps", "--png", "x.png")
    assert status == 1 and "pip install matplotlib" in lines


def test_a_picture(datasets, folder):
    pytest.importorskip("matplotlib")
    write_png(millrace.bench(datasets.make, workers=[0], seconds=0.05, repeats=1, with_torch=False), "x.png")
    assert (folder / "x.png").read_bytes().startswith(b"\x89PNG")


def test_ctrl_c_prints_what_was_measured(folder):
    words = [
        sys.executable,
        "-m",
        "millrace",
        "bench",
        "my_datasets:sleeps",
        "--workers",
        "0",
        "--seconds",
        "0.2",
        "--repeats",
        "1000",
    ]
    process = subprocess.Popen(
        words,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    for line in process.stderr:
        if "final" in line:
            break
    started = _children(process.pid)
    process.send_signal(signal.SIGINT)
    text, lines = process.communicate(timeout=200)
    assert (
        process.returncode == 130
        and "stopped: this is what was measured until then" in text
        and "samples/s" in text
    )
    assert "stopped" in lines and "Traceback" not in lines
    assert started and not [pid for pid in started if os.path.exists(f"/proc/{pid}/exe")], (
        "its processes are gone"
    )


def _children(pid):
    from millrace_tools.bench.measure import tree

    return [child for child in tree(pid) if child != pid]


@pytest.mark.alone
def test_an_object_of_this_process():
    rows = TensorDataset(torch.arange(512.0).view(128, 4))
    torch.mm(torch.ones(500, 500), torch.ones(500, 500))  # starts threads that do not follow a fork
    before = torch.get_rng_state()
    given = DataLoader(rows, batch_size=8, shuffle=True)
    found = millrace.bench(given, workers=[0, 1], prefetch=[2], methods=["native"], seconds=0.1, repeats=1)
    assert found.best.configuration.method == "native" and found.rate > 1000
    batch = next(iter(millrace.DataLoader(rows, **found.best_arguments)))
    assert batch[0].shape == (8, 4) and found.best_arguments["shuffle"] is True
    torch.set_rng_state(before)
    assert "native" in found.table() and json.loads(json.dumps(found.to_json()))["best"]["noise"] >= 0.02
    with pytest.raises(LoadFailed, match="neither a dataset"):
        millrace.bench(3)
