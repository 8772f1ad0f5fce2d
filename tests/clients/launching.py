"""Starts a training script as a user does, beside observed.py, and reads what ran its loaders."""

import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def launch(how, script, *words, cwd, ranks=0, **variables):
    """(its output, what ran the loaders of each rank; nothing of plain runs). `how`: "run" or "plain"."""
    launcher = "-m torch.distributed.run --standalone --nproc-per-node".split() if ranks else []
    launcher += [str(ranks)] if ranks else []
    words = [sys.executable, *launcher, HERE / "observed.py", how, script, *words]
    observed = cwd / "observed"
    observed.mkdir(exist_ok=True)
    environment = os.environ | {"OBSERVED": str(observed), "OMP_NUM_THREADS": "1"} | variables
    done = subprocess.run(
        list(map(str, words)), cwd=cwd, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout, [json.loads(path.read_text()) for path in sorted(observed.glob("*.json"))]


def check_native(loaders, count):
    assert len(loaders) == count
    for loader in loaders:
        assert loader["engine"] == "threads", loader["explain"]
        assert "\ntransform: native — " in loader["explain"]


def stage_of(loader, stage):
    """Its line of explain()."""
    (line,) = [line for line in loader["explain"].splitlines() if line.startswith(stage + ": ")]
    return line
