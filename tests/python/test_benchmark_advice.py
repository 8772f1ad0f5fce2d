"""The benchmark of advice: its cases get the advice that they were made for, and its table counts what came
true.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pictures import make_jpeg_folder

from benchmarks import advice as bench

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::UserWarning")]


def test_all_is_measured(tmp_path: Path) -> None:
    chosen = [
        case for case in bench.cases(make_jpeg_folder(tmp_path / "pictures"), 0.1) if "no " in case.name
    ]
    records = list(bench.measure(chosen, 1))
    assert [record["case"] for record in records] == [case.name for case in chosen]
    assert all(record["before"] > 0 and record["foretold"] > 0 and record["after"] > 0 for record in records)
    assert json.loads(json.dumps(records)) == records
    assert len(bench.table(records).splitlines()) == len(chosen) + 4


def test_what_counts_as_right() -> None:
    base = {
        "case": "a",
        "repeat": 0,
        "suggestion": "num_workers=2",
        "as_expected": True,
        "before": 1.0,
        "foretold": 2.0,
        "after": 1.9,
    }
    assert bench.table([base]).endswith("1 of 1 within 20 %")
    assert bench.table([{**base, "after": 1.0}]).endswith("0 of 1 within 20 %")
    assert bench.table([{**base, "as_expected": False}]).endswith("0 of 1 within 20 %")
