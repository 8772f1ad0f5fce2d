"""The benchmark of the rule for damaged JPEGs: it refuses sides that differ, and measures both."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from pictures import jpeg_bytes, make_picture

from benchmarks import picture_rules as bench

pytestmark = pytest.mark.slow


@pytest.fixture()
def photos(tmp_path: Path) -> str:
    (tmp_path / "class").mkdir()
    for i in range(3):
        (tmp_path / "class" / f"{i}.jpg").write_bytes(jpeg_bytes(make_picture(160 + i, 150, i)))
    return str(tmp_path)


def test_sides_that_differ_are_no_result() -> None:
    with pytest.raises(AssertionError, match="sample 0 is not the same"):
        bench.check({"one": lambda i: [np.zeros(2)], "other": lambda i: [np.ones(2)]}, 1)


def test_both_sides_are_measured_and_one_has_the_rule(photos: str, monkeypatch: pytest.MonkeyPatch) -> None:
    records = list(bench.measure(photos, "train", 3, 1, sorted(os.sched_getaffinity(0))))
    assert {r["loader"] for r in records} == {"pillow's rules", "no rules"}
    assert "| train |" in bench.table(records)

    asked = []

    class Asked(bench.pillow_decode.PillowDecoder):
        def __call__(self, data: bytes, path: str) -> tuple[np.ndarray, int]:
            asked.append(path)
            return super().__call__(data, path)

    monkeypatch.setattr(bench.pillow_decode, "PillowDecoder", Asked)
    odd = Path(photos) / "class/1.jpg"
    data = odd.read_bytes()
    middle = len(data) * 2 // 3
    odd.write_bytes(data[:middle] + b"\xff\xd3" + data[middle:])  # a mark of nothing: Pillow decides
    for chain in bench.CHAINS:
        asked.clear()
        ruled, free = bench.sides(photos, chain, 3).values()
        for i in range(3):
            free(i)
        assert not asked
        for i in range(3):
            ruled(i)
        assert asked == [str(odd)]
