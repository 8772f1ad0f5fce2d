"""The GPU benchmark, run dry: every scenario and side on the fake device."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from fake_device import fake_module

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.gpu", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_a_dry_run_goes_through_every_side():
    fake_module()
    done = run("--fake")
    assert done.returncode == 0, done.stderr
    sides = ["page-locked copies", "DevicePrefetcher alone", "resident", "torch, side stream"]
    for side in [*sides, "decode=cpu", "decode=gpu", "decode=auto"]:
        assert side in done.stdout
    assert done.stdout.count("millrace, decode=auto") == 3  # photos, crops and train
    assert "dry run" in done.stdout


def test_without_a_gpu_it_says_so():
    if not torch.cuda.is_available():
        assert "--fake" in run("link").stderr


def test_the_script_is_a_program():
    assert os.access(ROOT / "benchmarks/gpu.sh", os.X_OK)
    assert subprocess.run(["bash", "-n", ROOT / "benchmarks/gpu.sh"]).returncode == 0
