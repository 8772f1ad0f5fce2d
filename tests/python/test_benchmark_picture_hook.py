"""The benchmark of what waiting pictures cost scripts that open none: both sides of each scenario are
measured, and counted where valgrind is installed.
"""

from __future__ import annotations

import os
import shutil

import pytest
import torch

from benchmarks import picture_hook

pytestmark = pytest.mark.slow

TIMED = [name for name in picture_hook.SCENARIOS if not name.startswith("instructions")]


@pytest.mark.parametrize("scenario", TIMED)
def test_each_scenario_is_measured(scenario: str, torchvision: object) -> None:
    cpus = sorted(os.sched_getaffinity(0))[-1:]
    records = list(picture_hook.measure(scenario, 1, cpus, steps=20))
    assert {record["loader"] for record in records} == {*picture_hook.SIDES, picture_hook.AGAIN}
    assert all(record["batches"] == 20 for record in records)
    assert scenario in picture_hook.table([{**record, "cpu_seconds": 1.0} for record in records])


def test_other_batches_are_refused() -> None:
    picture_hook.check({"lazy": [torch.zeros(3)], "pillow": [torch.zeros(3)]})
    with pytest.raises(AssertionError):
        picture_hook.check({"lazy": [torch.zeros(3)], "pillow": [torch.ones(3)]})


@pytest.mark.skipif(shutil.which("callgrind_control") is None, reason="valgrind is not installed")
def test_instructions_are_counted(torchvision: object) -> None:
    facts = {"scenario": "instructions", "run": "now"}
    records = list(picture_hook.instructions(facts, steps=20, epochs=2))
    assert [record["loader"] for record in records] == ["lazy", "pillow", "pillow", "lazy"]
    assert all(20_000 < record["instructions_per_step"] < 10_000_000 for record in records)
    assert "instructions a step" in picture_hook.table(records)
