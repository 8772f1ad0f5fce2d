"""The benchmark of samplers: it refuses sides that differ, and measures all that it says."""

from __future__ import annotations

import json
import os

import pytest
from millrace import samplers
from torch.utils import data

from benchmarks import samplers as bench

pytestmark = pytest.mark.slow


def test_sides_must_be_equal() -> None:
    rows = range(1000)
    other = bench.SamplerScenario(
        1000, 1000, lambda: samplers.PermutationSampler(1000, **bench.ALONE), lambda: data.RandomSampler(rows)
    )
    with pytest.raises(AssertionError, match="the same indices"):
        bench.check(other)


def test_all_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(bench.SCENARIOS, "small", lambda: bench.shuffled(5000))
    lengths = bench.SamplerScenario(
        900, 900, lambda: samplers.LengthGroupedSampler(list(range(1, 901)), 8, **bench.ALONE)
    )
    monkeypatch.setitem(bench.SCENARIOS, "ours", lambda: lengths)
    cpus = sorted(os.sched_getaffinity(0))
    records = [record for name in ("small", "ours") for record in bench.measure(name, 1, cpus, memory=False)]
    kinds = {(r["scenario"], r["loader"], r["kind"]) for r in records}
    both = {("small", side, kind) for side in ("millrace", "torch") for kind in ("first", "index", "epoch")}
    assert kinds == both | {
        ("small", "millrace", "state"),
        *(("ours", "millrace", kind) for kind in ("first", "index", "state")),
    }
    for record in records:
        assert json.loads(json.dumps(record)) == record
    lines = bench.table(records).splitlines()
    assert len(lines) == 4 and "×" in lines[2] and len({line.count("|") for line in lines}) == 1
    assert bench.memory_of("small", "millrace") >= 0
