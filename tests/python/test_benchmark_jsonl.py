"""The benchmark of JSON lines: it refuses epochs that are not whole, and measures all sides."""

from __future__ import annotations

import importlib.util
import os

import pytest
import torch

from benchmarks.in_memory import table
from benchmarks.jsonl import LineScenario, check, make_rows, measure

pytestmark = pytest.mark.slow

SMALL = LineScenario("small", rows=300, words=4, floats=3, batch=64, limit=128)


def test_an_epoch_must_be_whole_unchanged_and_shuffled() -> None:
    rows = list(make_rows(SMALL))

    def batch(order, **changes):
        chosen = [rows[i] for i in order]
        right = {
            "id": torch.tensor(order),
            "label": torch.tensor([r["label"] for r in chosen]),
            "text": [r["text"] for r in chosen],
            "values": torch.tensor([r["values"] for r in chosen]),
        }
        return {**right, **changes}

    order = torch.randperm(300, generator=torch.Generator().manual_seed(1)).tolist()
    check("right", SMALL, [batch(order[:100]), batch(order[100:])])
    for word, batches in {
        "every row once": [batch(order[:299])],
        "values are not": [batch(order, values=torch.zeros(300, 3))],
        "labels are not": [batch(order, label=torch.zeros(300))],
        "texts are not": [batch(order, text=[""] * 300)],
        "not shuffled": [batch(list(range(300)))],
    }.items():
        with pytest.raises(AssertionError, match=word):
            check("wrong", SMALL, batches)


def test_all_sides_are_measured() -> None:
    records = list(measure(SMALL, rounds=1, cpus=sorted(os.sched_getaffinity(0))))
    names = {f"{name}_{workers}" for name in ("torch_file", "torch_lines", "millrace") for workers in (0, 2)}
    if importlib.util.find_spec("datasets"):
        names |= {"torch_hugging_face_0", "torch_hugging_face_2"}
    assert {r["loader"] for r in records} == names
    assert all(r["rows"] == (300 if r["loader"].startswith("millrace") else 128) for r in records)
    assert all(name in table(records) for name in names)
