"""A stream of shards in two processes: each sample once, whoever divides it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch.distributed
from shard_data import numbered_shards

SAMPLES = 48


def launched(tmp_path, framework):
    if not (torch.distributed.is_available() and torch.distributed.is_gloo_available()):
        pytest.skip("this torch has no gloo")
    numbered_shards(tmp_path / "shards", [8] * 6)
    script, urls = Path(__file__).parent / "streams_script.py", f"{tmp_path}/shards/n-{{000..005}}.tar"
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--standalone",
            "--nproc-per-node=2",
            str(script),
            framework,
            urls,
            str(tmp_path),
        ],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads((tmp_path / "found.json").read_text())


@pytest.mark.slow
@pytest.mark.parametrize("framework", ["accelerate", "trainer", "lightning"])
def test_each_sample_once(tmp_path, framework):
    pytest.importorskip({"trainer": "transformers"}.get(framework, framework))
    found = launched(tmp_path, framework)
    assert len(found) == (9 if framework == "accelerate" else 1)
    for case, ranks in found.items():
        epochs = [sorted(number for rank in ranks for number in rank[epoch]) for epoch in range(2)]
        # counts in steps: 10 of 8 samples are an epoch of 48 and 32 of the next one
        if framework == "trainer":
            together = [ranks[0][0] + ranks[0][1], ranks[1][0] + ranks[1][1]]
            steps = [
                sorted(number for rank in together for number in rank[first : first + 24])
                for first in (0, 24)
            ]
            assert steps[0] == list(range(SAMPLES)) and len(set(steps[1])) == len(steps[1]) == 32, case
            continue
        assert epochs == [list(range(SAMPLES))] * 2, case
        assert ranks[0][0] != ranks[0][1], f"{case}: another order in each epoch"
