"""The benchmark of the batch kernels, as a dry run on the CPU."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def test_every_operation_is_checked_and_timed():
    command = [
        sys.executable,
        "-m",
        "benchmarks.batch_kernels",
        "--device",
        "cpu",
        "--pictures",
        "2",
        "--repeats",
        "1",
    ]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    assert {"copy", "normalize to float16", "augment", "decode"} <= {line["operation"] for line in lines}
    assert {"steps: rotate", "steps: equalize", "steps: AugMix"} <= {line["operation"] for line in lines}
    assert all(line["microseconds"] > 0 for line in lines if "left_out" not in line)
