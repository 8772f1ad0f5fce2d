"""The benchmark of tar shards: it refuses sides that read other bytes, and measures all that it says."""

from __future__ import annotations

import importlib.util
import io
import json
import os
import tarfile
from pathlib import Path

import numpy as np
import pytest
from pictures import make_jpeg_folder

from benchmarks import tar_raw
from benchmarks import tar_shards as bench
from benchmarks.checks import NotTheSame, check_epoch
from benchmarks.harness import Plan
from benchmarks.loaders import Job, dali_tar, load
from benchmarks.scenarios import SCENARIOS
from benchmarks.scenarios.imagenet import list_samples
from benchmarks.scenarios.tars import make_folder, shards_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tars")
    return make_folder(make_jpeg_folder(folder / "photos", per_class=4), folder, 24, per_shard=10)


def cpu() -> list[int]:
    return sorted(os.sched_getaffinity(0))[-1:]


def test_shards_hold_the_photos_of_the_folder(root: Path) -> None:
    samples = list_samples(str(root))
    assert [label for _, label in samples] == list(range(24)) and len(shards_of(root)) == 3
    found = []
    for shard in shards_of(root):
        with tarfile.open(shard) as tar:
            found += [(entry.name, tar.extractfile(entry).read()) for entry in tar]
    assert [name for name, _ in found[:3]] == ["000000.jpg", "000000.cls", "000001.jpg"]
    assert [content for name, content in found if name.endswith("jpg")] == [
        Path(path).read_bytes() for path, _ in samples
    ]


def test_batches_may_be_partial_but_nothing_may_be_missing(root: Path) -> None:
    job = Job(SCENARIOS["tar_train"], str(root), 2, 24)
    seen = {
        "shapes": [[10, 3, 224, 224], [14, 3, 224, 224]],
        "dtypes": ["float32"],
        "labels": list(range(24))[::-1],
    }
    check_epoch(job, seen)
    for wrong in {"shapes": seen["shapes"][:1]}, {"shapes": [[24, 224, 224, 3]]}, {"labels": [0, *range(23)]}:
        with pytest.raises(NotTheSame):
            check_epoch(job, {**seen, **wrong})


@pytest.mark.parametrize("name", ["millrace_tar", "millrace_indexed", "webdataset_torch"])
def test_an_epoch_holds_every_photo_once_in_another_order(root: Path, name: str) -> None:
    if name == "webdataset_torch":
        pytest.importorskip("webdataset")
        if importlib.util.find_spec("torchvision") is None:
            pytest.skip("torchvision is not installed")
    epochs = load(name).open_epochs(
        Job(SCENARIOS["tar_train"], str(root), 0 if name == "webdataset_torch" else 1, 24)
    )
    orders = [[int(label) for _, labels in epochs() for label in labels] for _ in range(3)]
    assert all(sorted(order) == list(range(24)) for order in orders) and orders[0] != orders[1] != orders[2]


def test_numbers_of_padded_texts() -> None:
    assert dali_tar.numbers(np.array([[55, 32], [49, 50]], np.uint8)).tolist() == [7, 12]


def test_crops_are_checked_and_timed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench.harness.checks, "SAME_STATISTICS", 1.0)  # random crops of so few pictures
    records = list(bench.from_files("indexed", root, 1, Plan(1, 0, 0, images_per_worker=24)))
    assert [(r["loader"], r["scenario"]) for r in records if r["kind"] == "check"][:2] == [
        (n, "indexed_check") for n in bench.INDEXED
    ]
    assert {r["loader"] for r in records if r["kind"] == "epoch"} == set(bench.INDEXED)
    assert "millrace_indexed" in bench.report(records)
    left_out = {"kind": "left out", "loader": "millrace_tar", "reason": "no labels"}
    monkeypatch.setattr(bench.harness, "measure", lambda *_: iter([left_out]))
    with pytest.raises(NotTheSame, match="no labels"):
        list(bench.from_files("train", root, 1, Plan(1)))


def test_raw_sides_read_the_same(root: Path) -> None:
    pytest.importorskip("webdataset")
    records = list(bench.raw("raw_photos", shards_of(root), 1, cpu(), 0.01))
    assert {r["loader"] for r in records} == set(tar_raw.SIDES)
    assert all(r["samples"] % 24 == 0 and json.loads(json.dumps(r)) == r for r in records)
    assert len({line.count("|") for line in bench.report(records).splitlines() if line.startswith("|")}) == 1


def test_raw_sides_that_differ_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Other(bench.RawSide):
        def ask(self, command: str, *arguments: int) -> dict:
            return {"samples": 1, "bytes": len(self.name), "digest": "?"}

        def __init__(self, name: str, shards: list[str], cpus: list[int]) -> None:
            self.name = name

        def __exit__(self, *_: object) -> None:
            pass

    shard = tmp_path / "shard.tar"
    with tarfile.open(shard, "w") as tar:
        tar.addfile(tarfile.TarInfo("0.jpg"), io.BytesIO())
    monkeypatch.setattr(bench, "RawSide", Other)
    with pytest.raises(AssertionError, match="millrace reads"):
        list(bench.raw("raw_photos", [str(shard)], 1, cpu()))


def test_packed_sides_are_equal_and_timed(root: Path) -> None:
    records = list(bench.packed(root, 2, cpu(), 32))
    assert [r["loader"] for r in records[:4]] == ["plain", "segments", "segments", "plain"] and all(
        r["images"] == 24 for r in records
    )
    assert "packed" in bench.report([{**r, "cpu_s_per_1000": 0.1} for r in records])
