"""The benchmark of watching: both sides give the same batches, every repeat is stored, the table has a line
per step time.
"""

from __future__ import annotations

import json
import os

import pytest
import torch

from benchmarks.drift import DriftScenario, check, measure, table

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "name, samples, batch", [("pictures", 80, 16), ("rows", 4_000, 64), ("tokens", 2_000, 8)]
)
def test_both_sides_are_measured(name, samples, batch) -> None:
    scenario = DriftScenario(name, samples, batch, 20)
    records = list(measure(scenario, rounds=1, cpus=sorted(os.sched_getaffinity(0)), steps_ms=[0, 1]))
    assert {r["loader"] for r in records} == {"plain_0ms", "watched_0ms", "plain_1ms", "watched_1ms"}
    for record in records:
        assert json.loads(json.dumps(record)) == record
        assert record["rows_per_s"] > 0 and bool(record["looked"]) == record["loader"].startswith("watched")
    assert len(table(records).splitlines()) == 4


def test_another_feed_is_refused() -> None:
    class Watched(list):
        alarms: list = []

    data = [[torch.ones(3)], [torch.zeros(3)]]
    check({"plain": data, "watched": Watched(data)})
    with pytest.raises(AssertionError, match="changes what is fed"):
        check({"plain": data, "watched": Watched(data[:1])})
