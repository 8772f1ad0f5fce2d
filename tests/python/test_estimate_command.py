"""millrace estimate: measures datasets and loaders, reads profiles, and says what is wrong with its
arguments.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest
import torch
from millrace.__main__ import main as command_line
from millrace_tools.measured_rate import loader_of, measure, rate_of_profile, samples_in

pytestmark = pytest.mark.slow

NUMBERS = ["--step-ms", "100", "--batch-size", "8"]
MODULE = """
import time
import torch

class Slow(torch.utils.data.Dataset):
    def __len__(self): return 64
    def __getitem__(self, index):
        time.sleep(0.002)
        return torch.zeros(3), index

class Broken(Slow):
    def __getitem__(self, index): raise RuntimeError("the picture is upside down")

def dataset(): return Slow()
def loader(): return torch.utils.data.DataLoader(Slow(), batch_size=16)
empty = torch.utils.data.TensorDataset(torch.zeros(0, 2))
"""


def estimate(capsys, *words):
    status = command_line(["estimate", *map(str, words)])
    printed = capsys.readouterr()
    return status, printed.out, printed.err


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "estimated.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield "estimated"
    sys.modules.pop("estimated", None)


def test_numbers(capsys):
    status, text, _ = estimate(
        capsys,
        *NUMBERS,
        "--world-size",
        2,
        "--measured",
        40,
        "--samples",
        "1,000",
        "--epochs",
        "3",
        "--price-per-hour",
        2,
    )
    assert (
        status == 0
        and "80 samples/s per rank (8 in 100 ms), 160 for 2 ranks" in text
        and "computes 50% of the time" in text
    )
    status, text, _ = estimate(
        capsys, *NUMBERS, "--tokens", "1e6", "--length", 100, "--measured-tokens", 4000, "--json"
    )
    found = json.loads(text)
    assert (
        status == 0
        and found["utilisation"] == 0.5
        and found["samples"] == 10_000
        and found["measured_by"] == ""
    )
    assert found["batch_size"] == 8 and found["days_fed"] == pytest.approx(250 / 86400)


def test_a_dataset_is_measured(module, capsys):
    status, text, error = estimate(
        capsys, *NUMBERS, "--dataset", f"{module}:dataset", "--seconds", 0.6, "--json"
    )
    found = json.loads(text)
    assert status == 0 and 0 < found["measured_per_rank"] < 500 * (os.cpu_count() or 1)
    assert "alone on this machine" in found["measured_by"]
    assert error == "", "no progress where there is no terminal"


def test_a_script_is_named_as_for_bench(module, capsys, monkeypatch):
    for name in ("__main__", "__mp_main__"):  # which a script becomes
        monkeypatch.setitem(sys.modules, name, sys.modules["__main__"])
    status, text, error = estimate(
        capsys, *NUMBERS, "--dataset", f"{module}.py:dataset", "--seconds", 0.5, "--json"
    )
    assert status == 0 and json.loads(text)["measured_per_rank"] > 0, error
    status, _, error = estimate(capsys, *NUMBERS, "--dataset", f"{module}:none")
    assert status == 1 and error.count(f"{module}:none") == 1 and "has no 'none'" in error


def test_a_loader_is_measured_and_says_its_batch_size(module, capsys):
    status, text, _ = estimate(
        capsys, "--step-ms", 10, "--loader", f"{module}:loader", "--seconds", 0.5, "--json"
    )
    found = json.loads(text)
    assert (
        status == 0
        and found["batch_size"] == 16
        and found["bottleneck"] == "loader"
        and 100 < found["measured_per_rank"] < 500
    )
    assert not found["overlaps"], "it has no workers"


def test_errors_of_the_dataset_are_told(module, capsys):
    status, text, error = estimate(capsys, *NUMBERS, "--dataset", f"{module}:Broken", "--seconds", 0.5)
    assert status == 1 and text == "" and "upside down" in error and "estimated:Broken" in error
    status, _, error = estimate(capsys, *NUMBERS, "--dataset", f"{module}:nothing")
    assert status == 1 and "nothing" in error
    status, _, error = estimate(capsys, *NUMBERS, "--loader", f"{module}:empty", "--seconds", 0.5)
    assert status == 1 and "gave no samples" in error


WRONG = [
    (["--step-ms", "0"], "step_ms=0.0 should be more than 0"),
    (["--step-ms", "nan"], "finite"),
    (["--batch-size", "-3"], "batch_size=-3"),
    (["--measured", "3", "--dataset", "a:b"], "--measured and --dataset each say"),
    (["--dataset", "no_name"], "write module:name"),
    (["--dataset", "a:b", "--seconds", "inf"], "--seconds=inf"),
    (["--dataset", "a:b", "--ranks-per-node", "0"], "--ranks-per-node=0"),
    (["--profile", "missing.json"], "missing.json"),
]


@pytest.mark.parametrize(("words", "message"), WRONG, ids=[" ".join(words) for words, _ in WRONG])
def test_wrong_arguments(capsys, words, message):
    status, text, error = estimate(capsys, *NUMBERS, *words)
    assert status == 2 and text == "" and message in error


def test_units_are_refused_and_what_is_missing_is_named(capsys):
    with pytest.raises(SystemExit) as ended:
        estimate(capsys, "--step-ms", "0.18s")
    assert ended.value.code == 2 and "without a unit" in capsys.readouterr().err
    assert "--step-ms is needed" in estimate(capsys, "--batch-size", 3)[2]
    assert "--batch-size is needed" in estimate(capsys, "--step-ms", 3)[2]


def profile(**changes):
    """100 batches of 8 in 10 s of work behind 2 s of start; 2 workers."""
    workers = [{"name": f"thread {i}", "wall_seconds": 10.0, "seconds": {"decode": 10.0}} for i in range(2)]
    made = {
        "version": 1,
        "samples": 800,
        "batches": 100,
        "wall_seconds": 12.0,
        "first_wait": 1.5,
        "workers": workers,
        "bottleneck": "decode",
        "settings": {"batch_size": 8},
        "consumer": {"start": 0.5, "wait": 8.5, "step": 3.0},
    }
    return {**made, **changes}


def test_a_profile_of_a_loop_that_waited(tmp_path, capsys):
    (tmp_path / "stats.json").write_text(json.dumps({"engine": "threads", "profile": profile()}))
    status, text, _ = estimate(capsys, "--profile", tmp_path / "stats.json", "--json")
    found = json.loads(text)
    assert (
        status == 0
        and found["measured_per_rank"] == pytest.approx(80)
        and found["step_seconds"] == pytest.approx(0.03)
    )
    assert (
        found["batch_size"] == 8
        and found["bottleneck"] == "loader"
        and "names decode" in found["measured_by"]
    )
    assert (
        json.loads(estimate(capsys, "--profile", tmp_path / "stats.json", "--step-ms", 200, "--json")[1])[
            "bottleneck"
        ]
        == "model"
    )


def test_a_profile_of_idle_workers_and_of_none():
    idle = [{"name": "thread 0", "wall_seconds": 10.0, "seconds": {"decode": 2.5, "idle": 7.5}}]
    assert rate_of_profile(profile(workers=idle)).per_rank == pytest.approx(320), (
        "a quarter of their time gave 80 a second"
    )
    assert rate_of_profile(
        profile(workers=[], consumer={"start": 0.5, "make": 5.0, "step": 5.0})
    ).per_rank == pytest.approx(160)
    whole = rate_of_profile(profile(settings={"batch_size": None}, first_wait=11.0))
    assert whole.batch_size == 8 and whole.per_rank == pytest.approx(800 / 12), (
        "what is mostly start is taken as it is"
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("not json", "is no JSON"),
        ("[]", "no profile"),
        ("{}", "no profile"),
        (json.dumps(profile(version=7)), "version 7"),
        (json.dumps(profile(samples=0)), "0 samples"),
        (json.dumps(profile(workers=3)), "no profile"),
    ],
)
def test_files_that_are_no_profile(tmp_path, capsys, content, message):
    (tmp_path / "stats.json").write_text(content)
    status, text, error = estimate(capsys, "--profile", tmp_path / "stats.json")
    assert status == 2 and text == "" and message in error and "stats.json" in error


def test_samples_in():
    images, labels = torch.zeros(4, 3, 8, 8), torch.zeros(4)
    assert samples_in((images, labels)) == samples_in({"x": images}) == samples_in(["a", "b", "c", "d"]) == 4
    assert samples_in((images[0], 3), batched=False) == samples_in(torch.tensor(3)) == 1
    assert (
        samples_in((images, labels), batched=False) == 4
        and samples_in((images, labels[:3]), batched=False) == 1
    )


@pytest.mark.alone
def test_measuring_counts_behind_the_first_batch():
    """Epochs that start slowly: 0.15 s before the first of five batches, 10 ms before each other one."""

    class Epochs:
        batch_size = 10

        def __iter__(self):
            for i in range(5):
                time.sleep(0.01 if i else 0.15)
                yield torch.zeros(10, 2)

    assert 500 < measure(Epochs(), 0.5).per_rank <= 1000, "with the starts it would be 260"
    tensors = torch.utils.data.TensorDataset(torch.zeros(3, 2))
    assert measure(loader_of(tensors, 8), 0.1).per_rank > 0, "epochs of one batch"


def test_ctrl_c_ends_it(module, tmp_path):
    command = [
        sys.executable,
        "-m",
        "millrace",
        "estimate",
        *NUMBERS,
        "--loader",
        f"{module}:loader",
        "--seconds",
        "60",
    ]
    program = (tmp_path / "estimated.py").read_text() + "\nopen('ready', 'w').close()\n"
    (tmp_path / "estimated.py").write_text(program)
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not (tmp_path / "ready").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    error = process.communicate(timeout=200)[1]
    assert process.returncode == 130 and "stopped" in error and "Traceback" not in error
