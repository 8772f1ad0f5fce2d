"""The benchmark of arrays on disk: it refuses epochs that are not whole, and measures all sides."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path

import pytest
import torch

from benchmarks.arrays_on_disk import ArrayScenario, check, measure, table, values

pytestmark = pytest.mark.slow

SMALL = ArrayScenario("hdf5_gzip", rows=200, chunk=16, batch=32, limit=64, row=(2, 3))


def test_an_epoch_must_be_whole_unchanged_and_shuffled() -> None:
    data = torch.cat(
        [torch.from_numpy(values(SMALL, start, min(16, 200 - start))) for start in range(0, 200, 16)]
    )
    order = torch.randperm(200)
    check("right", SMALL, [data[part] for part in order.split(64)])
    for word, batches in {
        "every row once": [data[order[:199]]],
        "not that of the data": [data[order] + torch.tensor([[0, 0, 0], [0, 0, 1.0]])],
        "not shuffled": [data],
    }.items():
        with pytest.raises(AssertionError, match=word):
            check("wrong", SMALL, batches)


@pytest.mark.parametrize("name", ["hdf5_gzip", "hdf5_plain", "zarr_random"])
def test_all_sides_are_measured(name: str, tmp_path: Path) -> None:
    pytest.importorskip("zarr" if name.startswith("zarr") else "h5py")
    scenario = dataclasses.replace(SMALL, name=name)
    records = list(measure(scenario, 1, sorted(os.sched_getaffinity(0)), str(tmp_path)))
    names = {
        f"{side}_{workers}" for side in ("millrace", "torch_random", "torch_chunks") for workers in (1, 2)
    }
    assert {r["loader"] for r in records} == names and len(records) in (6, 12)
    for record in records:
        assert json.loads(json.dumps(record)) == record
        assert (
            record["rows"] == (64 if record["loader"].startswith("torch") else 200)
            and record["rows_per_s"] > 0
        )
    lines = table(records).splitlines()
    assert len(lines) == 2 + len(names) and sum("×" in line for line in lines) == len(names) - 1
