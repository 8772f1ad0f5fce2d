"""The benchmark of worker starts: both sides in processes of their own, the same batches, a ratio each."""

from __future__ import annotations

import pytest

from benchmarks import worker_start

pytestmark = pytest.mark.slow


def test_both_sides_are_measured() -> None:
    records = worker_start.measure("fork small", workers=1, pairs=1, count=2)
    assert [record["loader"] for record in records] == ["millrace", "torch"]
    assert all(record[key] > 0 for record in records for key in worker_start.KEYS)
    assert "| fork small | later epochs |" in worker_start.table(records)


def test_other_batches_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = dict.fromkeys(worker_start.KEYS, 1.0)
    monkeypatch.setattr(worker_start, "in_a_process", lambda side, *_: {**numbers, "sums": [side]})
    with pytest.raises(SystemExit, match="do not deliver the same"):
        worker_start.measure("fork small", workers=1, pairs=1, count=2)
