"""The benchmark of rows in memory: it refuses epochs that are not whole, and measures all sides."""

from __future__ import annotations

import dataclasses
import json
import os

import pytest
import torch

from benchmarks.in_memory import RowScenario, check, make_data, measure, table

pytestmark = pytest.mark.slow

SMALL = RowScenario("small", rows=600, columns=4, batch=64, limit=256)


def test_an_epoch_must_be_whole_unchanged_and_shuffled() -> None:
    data = make_data(SMALL)
    order = torch.randperm(600)
    check("right", data, [[data[part]] for part in order.split(64)])
    for word, batches in {
        "every row once": [[data[order[:599]]]],
        "not those of the data": [[data[order] * torch.tensor([1, 1, 1, 2])]],
        "not shuffled": [[data]],
    }.items():
        with pytest.raises(AssertionError, match=word):
            check("wrong", data, batches)


SCENARIOS = {
    "tensors": SMALL,
    "columns": dataclasses.replace(SMALL, column_major=True),
    "arrow": dataclasses.replace(SMALL, arrow=True),
}


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
def test_all_sides_are_measured(scenario) -> None:
    if scenario.arrow:
        pytest.importorskip("datasets")
    records = list(measure(scenario, rounds=1, cpus=sorted(os.sched_getaffinity(0))))
    names = {"numpy_alone", "torch_indexed", "torch_0", "torch_2", "millrace_0", "millrace_2"}
    assert {r["loader"] for r in records} == names and len(records) in (6, 12)
    for record in records:
        assert json.loads(json.dumps(record)) == record
        slow = record["loader"] in ("torch_0", "torch_2")
        assert (
            record["rows"] == (256 if slow else 600)
            and record["rows_per_s"] > 0
            and record["kind"] == "epoch"
        )
    lines = table(records).splitlines()
    assert len(lines) == 2 + len(names) and sum("×" in line for line in lines) == len(names) - 1
