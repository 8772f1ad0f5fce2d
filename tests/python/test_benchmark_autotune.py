"""The benchmark of autotune: it refuses other batches and a budget that was exceeded, and measures every
point of the grid.
"""

from __future__ import annotations

import dataclasses
import json
import os

import pytest
import torch
from torch.utils.data import TensorDataset

from benchmarks.autotune import SCENARIOS, check, check_budget, grid, in_memory, make, measure, table

pytestmark = pytest.mark.slow

SMALL = dataclasses.replace(
    SCENARIOS["rows"], dataset=in_memory(lambda: TensorDataset(torch.rand(64, 4))), batch=8
)


def test_the_sides_must_give_the_same_batches() -> None:
    loaders = [make(TensorDataset(data), SMALL, 1, 2) for data in (torch.rand(64, 4), torch.rand(64, 4))]
    with pytest.raises(AssertionError, match="differ"):
        check(*loaders)
    check(loaders[0], loaders[0])


@pytest.mark.parametrize("change", [{"threads": 9}, {"cpus_used": 2.5}, {"slots": 9}, {"peak_bytes": 2000}])
def test_a_budget_that_is_exceeded_is_no_result(change) -> None:
    budget = {"cpus": 2.0, "threads": 2, "memory_bytes": 1000}
    tuned = {
        "threads": 3,
        "most_threads": 8,
        "cpus_used": 0.4,
        "slots": 4,
        "batch_bytes": 100,
        "peak_bytes": 800,
        "budget": budget,
    }
    check_budget(tuned, 0)
    with pytest.raises(AssertionError):
        check_budget({**tuned, **change}, 0)
    with pytest.raises(AssertionError, match="outside"):
        check_budget(tuned, 1)


def test_every_point_is_measured() -> None:
    assert grid(2) == [(workers, prefetch) for workers in (1, 2, 4, 8) for prefetch in (1, 2, 4, 8)]
    cpus = sorted(os.sched_getaffinity(0))[:1]
    records = list(measure(SMALL, 0.2, rounds=1, cpus=cpus))
    points = {f"{workers} x {prefetch}" for workers in (1, 2, 4) for prefetch in (1, 2, 4, 8)}
    assert {r["loader"] for r in records if r["kind"] == "scan"} == points
    finalists = {r["loader"] for r in records if r["kind"] == "epoch"}
    assert "auto" in finalists and len(finalists) == 4
    for record in records:
        assert (
            json.loads(json.dumps(record)) == record
            and record["batches"] == 8
            and record["batches_per_s"] > 0
        )
    assert "auto reaches" in table(records) and table(records).count("best by hand") == 1
