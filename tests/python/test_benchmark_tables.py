"""The benchmark of tables: it refuses epochs that are not whole, and measures all sides."""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path

import pytest
import torch

pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install pyarrow")

from benchmarks.in_memory import table
from benchmarks.tables import TableScenario, added_up, check, make_columns, measure

pytestmark = pytest.mark.slow

SMALL = TableScenario("zstd", rows=300, group=20, batch=32, limit=64)  # 15 row groups: two windows


def test_an_epoch_must_be_whole_unchanged_and_shuffled() -> None:
    columns = make_columns(SMALL)
    order = torch.randperm(300, generator=torch.Generator().manual_seed(1))

    def batch(rows, **changes):
        return {**{name: torch.from_numpy(values)[rows] for name, values in columns.items()}, **changes}

    check("right", columns, [batch(part) for part in order.split(64)])
    check("right", columns, [batch(part) for part in order[:100].split(64)], limit=100)
    for word, batches in {
        "every row once": [batch(order[:299])],
        "float_3 is not": [batch(order, float_3=torch.zeros(300))],
        "int_7 is not": [batch(order, int_7=batch(order)["int_7"].int())],
        "file's columns": [{"id": order}],
        "not shuffled": [batch(torch.arange(300))],
    }.items():
        with pytest.raises(AssertionError, match=word):
            check("wrong", columns, batches)
    with pytest.raises(AssertionError, match="every row once"):
        check("wrong", columns, [batch(torch.cat([order, order[:1]]))])
    with pytest.raises(AssertionError, match="every row once"):
        check("wrong", columns, [batch(order[:64])], limit=100)


@pytest.mark.parametrize("codec", ["zstd", "snappy"])
def test_all_sides_are_measured(codec: str, tmp_path: Path) -> None:
    scenario = TableScenario(codec, rows=SMALL.rows, group=SMALL.group, batch=SMALL.batch, limit=SMALL.limit)
    records = list(measure(scenario, 1, sorted(os.sched_getaffinity(0)), str(tmp_path)))
    names = {"millrace_0", "millrace_1", "millrace_2", "pyarrow_gather", "pyarrow_gather_1"}
    if importlib.util.find_spec("datasets"):
        names |= {"hf_0", "hf_2"}
    assert {r["loader"] for r in records} == names | {"rate_scan", "rate_scan_1", "rate_gather"}
    for record in records:
        assert json.loads(json.dumps(record)) == record
        assert (
            record["rows"] == (64 if record["loader"].startswith("hf") else 300) and record["rows_per_s"] > 0
        )
    sums = {"(scan plus gather)", "(scan_1 plus gather)"}
    shown = table(added_up(records))
    assert all(f"| {name} |" in shown for name in names | sums) and "rate" not in shown


def test_times_of_scan_and_gather_are_added_round_by_round() -> None:
    def record(name: str, repeat: int, seconds: float) -> dict:
        return {
            "loader": name,
            "repeat": repeat,
            "seconds": seconds,
            "cpu_seconds": 2 * seconds,
            "first_s": 1.0,
            "rows": 60,
        }

    records = [
        record(name, repeat, seconds * (repeat + 1))
        for repeat in range(2)
        for name, seconds in (
            ("rate_gather", 2.0),
            ("rate_scan", 1.0),
            ("rate_scan_1", 3.0),
            ("millrace_0", 9.0),
        )
    ]
    found = {(r["loader"], r["repeat"]): r for r in added_up(records)}
    assert [name for name, _ in found].count("millrace_0") == 2 and len(found) == 6
    assert (
        found["(scan plus gather)", 0]["rows_per_s"] == 20
        and found["(scan plus gather)", 1]["rows_per_s"] == 10
    )
    assert found["(scan_1 plus gather)", 1]["cpu_seconds"] == 20
