"""The benchmark of texts: it refuses ids that differ, and measures all its sides."""

from __future__ import annotations

import json
import os

import pytest
import torch

pytest.importorskip("tokenizers")
pytest.importorskip("datasets")

from benchmarks import text as bench

pytestmark = pytest.mark.slow


def test_sides_must_be_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "VOCABULARY", 300)
    data = bench.texts(40)
    tokenizer = bench.trained_tokenizer(data)
    samples = [{"input_ids": encoding.ids[: bench.LENGTH]} for encoding in tokenizer.encode_batch(data)]
    bench.check("right", data, tokenizer, [bench.padded(samples[::-1])])
    with pytest.raises(AssertionError, match="once"):
        bench.check("short", data, tokenizer, [bench.padded(samples[1:])])
    with pytest.raises(AssertionError, match="not shuffled"):
        bench.check("ordered", data, tokenizer, [bench.padded(samples)])


def test_all_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "VOCABULARY", 300)
    records = list(bench.measure(60, 2, 1, sorted(os.sched_getaffinity(0))))
    assert {(r["loader"], r["kind"]) for r in records} == {
        ("torch_mapped", "map"),
        ("millrace", "epoch"),
        ("torch", "epoch"),
        ("torch_mapped", "epoch"),
    }
    for record in records:
        assert json.loads(json.dumps(record)) == record
    lines = bench.table(records).splitlines()
    assert len(lines) == 5 and len({line.count("|") for line in lines}) == 1


def test_padding() -> None:
    batch = bench.padded([{"input_ids": [1, 2]}, {"input_ids": torch.tensor([3])}])
    assert batch["input_ids"].tolist() == [[1, 2], [3, 0]] and batch["attention_mask"].tolist() == [
        [1, 1],
        [1, 0],
    ]
