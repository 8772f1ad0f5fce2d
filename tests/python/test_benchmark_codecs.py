"""The benchmark of formats: it refuses sides that differ, and measures all that it says."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from pictures import jpeg_bytes, make_picture

from benchmarks import codecs as bench

pytestmark = pytest.mark.slow


@pytest.fixture()
def photos(tmp_path: Path) -> str:
    (tmp_path / "photos" / "class").mkdir(parents=True)
    for i in range(3):
        (tmp_path / "photos" / "class" / f"{i}.jpg").write_bytes(jpeg_bytes(make_picture(60 + i, 50, i)))
    return str(tmp_path / "photos")


def test_what_pillow_has_to_decode_is_no_result() -> None:
    with pytest.raises(AssertionError, match="left to Pillow"):
        bench.check([b"GIF89a"])


@pytest.mark.parametrize("name", ["png", "webp", "jpeg"])
def test_all_is_measured(photos: str, name: str) -> None:
    cpus = sorted(os.sched_getaffinity(0))
    records = list(bench.measure(photos, name, 3, 1, cpus))
    assert {(r["kind"], r["loader"]) for r in records} == {
        (k, s) for k in ("whole", "crop") for s in ("millrace", "pillow")
    }
    assert all(r["cpu_seconds"] >= 0 and r["data"]["pictures"] == 3 for r in records)
    json.dumps(records)
    for record in records:
        record["cpu_seconds"] = 0.1
    assert bench.table(records).splitlines()[-1].startswith(f"| {name} | ")
