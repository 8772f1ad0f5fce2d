"""The benchmark of Python datasets in workers: it tells batches apart, and measures both sides."""

import pytest
import torch

from benchmarks import python_workers

pytestmark = pytest.mark.slow


def test_batches_are_the_same_only_with_the_same_values_and_types():
    batch = {"key": ["a", "b"], "jpg": [b"1", b"2"], "label": torch.tensor([1, 2])}
    assert python_workers.same(batch, {**batch, "label": batch["label"].clone()})
    for other in (
        {"jpg": [b"1", b"3"]},
        {"key": ("a", "b")},
        {"label": torch.tensor([1.0, 2.0])},
        {"label": torch.tensor([1, 3])},
    ):
        assert not python_workers.same(batch, {**batch, **other})


def test_both_sides_are_measured(monkeypatch, capsys):
    make, _, arguments, reads = python_workers.SCENARIOS["bytes"]
    monkeypatch.setitem(python_workers.SCENARIOS, "bytes", (make, 1, arguments, reads))
    records = python_workers.measure("bytes", workers=1, pairs=2)
    assert sorted((record["loader"], record["pair"]) for record in records) == [
        (side, n) for side in ("millrace", "torch") for n in (0, 1)
    ]
    assert all(record["batches_per_s"] > 0 for record in records)
    python_workers.report("bytes", records)
    assert "batches_per_s" in capsys.readouterr().out
    monkeypatch.setattr(python_workers, "same", lambda *_: False)
    with pytest.raises(SystemExit, match="do not deliver the same"):
        python_workers.measure("bytes", workers=1, pairs=1)
