"""The benchmark of torchvision's and timm's datasets: each is laid out, compared and timed on both sides, and
sides that differ are refused.
"""

from __future__ import annotations

import os
from pathlib import Path

import millrace
import pytest
import torch

from benchmarks import (
    photo_runs,  # noqa: E402
    picture_datasets,  # noqa: E402
)

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", picture_datasets.SCENARIOS)
def test_each_scenario_is_measured(name: str, jpeg_folder: str, torchvision: object) -> None:
    scenario = picture_datasets.SCENARIOS[name]
    pytest.importorskip(scenario.package, reason="the package it measures is absent")
    files = 13 if scenario.in_memory else photo_runs.photos(jpeg_folder, 12)
    count = 13 if scenario.in_memory else 6 if name == "pets" else 12
    cpus = sorted(os.sched_getaffinity(0))[-1:]
    records = list(picture_datasets.measure(name, files, 1, cpus))
    assert {record["loader"] for record in records} == {"torch", "millrace"}
    assert all(record["rows"] == record["pictures"] == count for record in records)
    assert f"**{name}**, {count} pictures, 2 workers" in photo_runs.table(records)


def test_what_is_timed_draws_and_what_is_compared_does_not(
    tmp_path: Path, jpeg_folder: str, torchvision: object
) -> None:
    scenario = picture_datasets.SCENARIOS["food101"]
    scenario.write(tmp_path, photo_runs.photos(jpeg_folder, 12))
    train, plain = (scenario.opened(tmp_path, chain) for chain in scenario.chains())
    assert not torch.equal(train[0][0], train[0][0])
    assert torch.equal(plain[0][0], plain[0][0])
    assert sorted({int(plain[index][1]) for index in range(len(plain))}) == list(range(10))  # type: ignore[arg-type]


def test_other_batches_are_refused() -> None:
    one, other = [[torch.zeros(3), torch.ones(1)]], [[torch.zeros(3), torch.zeros(1)]]
    picture_datasets.check({"torch": one, "millrace": one})
    for batches in (other, [], one + one):
        with pytest.raises(SystemExit, match="other batches"):
            picture_datasets.check({"torch": one, "millrace": batches})


def test_a_dataset_that_is_python_code_is_refused() -> None:
    class Own(torch.utils.data.Dataset):
        def __len__(self) -> int:
            return 3

        def __getitem__(self, index: int) -> int:
            return index

    with pytest.raises(millrace.UnavailableError):
        list(picture_datasets.loaders(Own(), 2)["millrace"])
