"""The benchmark of segments: it refuses sides that differ, and measures all that it says."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from pictures import make_jpeg_folder

from benchmarks import segment_index as bench

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> dict:
    folder = tmp_path_factory.mktemp("segments")
    return bench.packed(Path(make_jpeg_folder(folder / "photos", per_class=4)), folder)


def test_sides_must_be_equal(sides: dict, tmp_path: Path) -> None:
    bench.check(sides, 32)
    others = bench.packed(Path(make_jpeg_folder(tmp_path / "photos", per_class=4, size=(90, 70))), tmp_path)
    with pytest.raises(AssertionError, match="other pixels"):
        bench.check({"plain": sides["plain"], "segments": others["segments"]}, 32)


def test_all_is_measured(sides: dict) -> None:
    records = list(bench.measure(sides, 2, sorted(os.sched_getaffinity(0)), 32))
    assert {r["loader"] for r in records} == set(bench.SIDES) and all(r["images"] == 12 for r in records)
    for record in records:
        assert json.loads(json.dumps(record)) == record
    rounds = [
        {**r, "cpu_s_per_1000": r["cpu_s_per_1000"] or 0.01} for r in records
    ]  # so few images may take no tick of the clock
    lines = bench.table(rounds).splitlines()
    assert len(lines) == 5 and "×" in lines[3] and len({line.count("|") for line in lines}) == 1
