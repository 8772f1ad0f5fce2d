"""The benchmark of packing: it refuses rows that lack tokens, and measures all its sides."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
import torch

from benchmarks import packing as bench

pytestmark = pytest.mark.slow


def test_sides_must_hold_every_token() -> None:
    tokens, offsets = bench.documents("definitions", 50)
    bench.check("right", tokens, offsets, bench.with_python(tokens, offsets))

    def without_the_last(batches):
        for batch in batches:
            batch["document_ids"][0, -1] = batch["document_ids"][0, 0] = -1
            yield batch

    def with_a_cut(batches):
        for batch in batches:
            batch["document_ids"][0, 5:] += 1
            batch["position_ids"][0, 5:] -= 5
            yield batch

    with pytest.raises(AssertionError):
        bench.check("short", tokens, offsets, without_the_last(bench.with_python(tokens, offsets)))
    with pytest.raises(AssertionError):
        bench.check("cut", tokens, offsets, with_a_cut(bench.with_python(tokens, offsets)))


def test_all_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "LIMITS", {"definitions": 60, "files": 5})
    records = list(bench.measure("definitions", 1, sorted(os.sched_getaffinity(0)), most=200))
    assert {r["loader"] for r in records} == set(bench.sides())
    for record in records:
        assert (
            json.loads(json.dumps(record)) == record
            and record["tokens_per_s"] > 0
            and 0.5 < record["fill"] <= 1
        )
    lines = bench.table(records).splitlines()
    assert len(lines) == 2 + len(bench.sides()) and len({line.count("|") for line in lines}) == 1


def test_rows_of_all_sides_are_of_one_kind() -> None:
    tokens, offsets = np.arange(1, 100, dtype=np.uint16), np.array([0, 30, 99])
    for name, side in bench.sides().items():
        batch = next(iter(side(tokens, offsets)))
        assert np.asarray(batch["input_ids"]).shape[1] == bench.LENGTH, name
        if not name.startswith("grain"):
            assert batch["labels"].dtype is torch.int64
