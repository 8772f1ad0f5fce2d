"""The benchmark of the C++ library: its sides are built, give the same data, and are measured."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
import torch

from benchmarks import cpp_library
from benchmarks.scenarios.imagenet import list_samples

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
EPOCH = {"rows": 10, "batches": 2, "content": [1, 2], "row_content": 3, "mean": 0.0, "std": 1.0}


@pytest.mark.slow
@pytest.mark.skipif(
    not shutil.which("cmake")
    or not (ROOT / "build/dev/lib/libmillrace.a").exists()
    or not (Path(torch.utils.cmake_prefix_path) / "Torch/TorchConfig.cmake").exists(),
    reason="needs CMake, build/dev with libmillrace, and torch's CMake package",
)
@pytest.mark.parametrize("scenario", ["rows", "tokens", "shards"])
def test_all_sides_are_measured(scenario: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if scenario == "shards":  # of a few photos
        monkeypatch.setattr(cpp_library, "list_samples", lambda root: list_samples(root)[:250])
    records = list(cpp_library.measure(scenario, 1, sorted(os.sched_getaffinity(0))[-1:], rows=20_000))
    assert {record["loader"] for record in records} == {
        f"{side}_{threads}" for side in cpp_library.SIDES[scenario] for threads in cpp_library.THREADS
    }
    assert all(record["seconds"] >= record["first_s"] > 0 for record in records)
    assert json.loads(json.dumps(records)) == records
    assert ("torch_data_2" if scenario != "shards" else "python_2") in cpp_library.table(records)


@pytest.mark.parametrize(
    ("name", "changed", "words"),
    [
        ("library_2", {"content": [1, 3]}, "other batches"),
        ("library_0", {"rows": 9}, "another epoch"),
        ("torch_data_2", {"row_content": 4, "content": [2, 1]}, "other rows"),
        ("torch_data_2", {}, "not shuffled"),
    ],
)
def test_other_data_is_refused(name: str, changed: dict, words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        cpp_library.check("rows", name, {**EPOCH, **changed}, EPOCH)


def test_photos_of_another_brightness_are_refused() -> None:
    cpp_library.check("photos", "torch_data_2", {**EPOCH, "content": [7], "mean": 0.01}, EPOCH)
    with pytest.raises(AssertionError, match="mean"):
        cpp_library.check("photos", "torch_data_2", {**EPOCH, "mean": 0.1}, EPOCH)
