"""The benchmark of tokens: it refuses what are no windows of the file, and measures all sides."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
import torch

from benchmarks.tokens import Scenario, check, make_data, measure, table

pytestmark = pytest.mark.slow

SMALL = Scenario(tokens=400_000, length=32, batch=4, batches=50, limit=5)


def test_windows_must_be_the_files(tmp_path) -> None:
    path = make_data(str(tmp_path), SMALL.tokens)
    tokens = torch.from_numpy(np.fromfile(path, np.uint16).astype(np.int64))

    def batches(places):
        rows = torch.stack([tokens[p : p + 33] for p in places]).split(4)
        return [[part[:, :-1], part[:, 1:]] for part in rows]

    places = torch.randint(400_000 - 33, (160,), generator=torch.Generator().manual_seed(1)).tolist()
    check("right", path, SMALL, batches(places))
    for word, wrong in {
        "one token on": [[x, y + 1] for x, y in batches(places)],
        "no window": [[x * 0 + 60_000, y * 0 + 60_000] for x, y in batches(places)],
        "from everywhere": batches(range(160)),
    }.items():
        with pytest.raises(AssertionError, match=word):
            check("wrong", path, SMALL, wrong)


def test_all_sides_are_measured() -> None:
    records = list(measure(SMALL, rounds=1, cpus=sorted(os.sched_getaffinity(0))))
    names = {r["loader"] for r in records}
    assert {"torch_0", "torch_2", "torch_getitems_0", "torch_iterable_0", "millrace_0", "millrace_2"} <= names
    for record in records:
        assert json.loads(json.dumps(record)) == record
        processes = record["loader"] in ("torch_2", "torch_getitems_2")
        assert record["batches"] == (5 if processes else 50) and record["tokens_per_s"] > 0
        assert (record["of_memcpy"] is None) == processes
    lines = table(records).splitlines()
    assert len(lines) == 2 + len(names) and sum("×" in line for line in lines) == len(names) - 1
