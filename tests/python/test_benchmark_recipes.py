"""The benchmark of recipes: each runs natively and is timed on both sides; other forms are refused."""

from __future__ import annotations

import os

import pytest
import torch

from benchmarks import (
    photo_runs,  # noqa: E402
    recipes,  # noqa: E402
)

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", recipes.SCENARIOS)
def test_each_recipe_is_measured(name: str, jpeg_folder: str, torchvision: object) -> None:
    pytest.importorskip(recipes.SCENARIOS[name][2], reason="the package it measures is absent")
    cpus = sorted(os.sched_getaffinity(0))[-1:]
    records = list(recipes.measure(name, photo_runs.photos(jpeg_folder, 10), 1, cpus))
    sides = {"torch", "millrace"}
    if name.startswith("mixup"):  # what the recipe adds is measured in the same run
        sides.add("millrace, default_collate")
    if name in recipes.PARTLY:
        sides.add("millrace, all in Python")
    assert {record["loader"] for record in records} == sides
    assert all(record["rows"] == record["pictures"] == 10 for record in records)
    assert f"**{name}**, 10 pictures, 2 workers" in photo_runs.table(records)


def test_other_forms_and_other_pictures_are_refused() -> None:
    def batches(*shape: int, level: float = 0.0) -> list[list[torch.Tensor]]:
        return [[torch.randn(4, *shape) + level, torch.zeros(4)] for _ in range(8)]

    one = batches(3, 8, 8)
    recipes.check({"torch": one, "millrace": batches(3, 8, 8)})
    with pytest.raises(SystemExit, match="batches of the form"):
        recipes.check({"torch": one, "millrace": batches(3, 8, 9)})
    with pytest.raises(SystemExit, match="batches of the form"):
        recipes.check({"torch": one, "millrace": [[[batch[0]], batch[1]] for batch in one]})
    with pytest.raises(SystemExit, match="brighter by"):
        recipes.check({"torch": one, "millrace": batches(3, 8, 8, level=0.5)})
