"""The benchmark of the profile's cost: it refuses sides that differ, and measures both in turns."""

from __future__ import annotations

import json
import os

import pytest
import torch
from millrace import DataLoader, _core
from torch.utils.data import Dataset

from benchmarks import profile
from benchmarks.profile import ProfileScenario, check, costs, measure, short, table

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def as_before():
    yield
    _core.StageClock.enabled = True


class Different(Dataset):
    count = 0

    def __len__(self):
        return 4

    def __getitem__(self, index):
        self.count += 1
        return torch.tensor([self.count])


def test_sides_that_differ_are_refused():
    with pytest.raises(AssertionError, match="differ"):
        check(DataLoader(Different(), 2))


MAKE = {
    "process": short(200, num_workers=1),
    "inline": short(200),
    "jpegs": lambda folder: profile.jpegs(folder, 8),
}


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
def test_both_sides_are_measured(make):
    records = list(measure(ProfileScenario("small", make), rounds=1, cpus=sorted(os.sched_getaffinity(0))))
    assert {r["loader"] for r in records} == {"profile", "without"} and len(records) in (2, 4)
    for record in records:
        assert json.loads(json.dumps(record)) == record
        assert record["batches"] > 0 and record["seconds"] > 0
    assert len(table(records).splitlines()) == 4
    kept = [r for r in records if r["quiet"]] or records  # on a busy machine the first round may be left out
    assert len(costs(records, "seconds")) == len(kept) // 2
