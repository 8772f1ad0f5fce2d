"""The benchmark of pictures that datasets open: scenarios are compared, all sides are timed, and sides that
differ are refused.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from benchmarks import lazy_pictures, photo_runs

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("scenario", lazy_pictures.SCENARIOS)
def test_each_scenario_is_measured(scenario: str, jpeg_folder: str, torchvision: object) -> None:
    pytest.importorskip(lazy_pictures.SCENARIOS[scenario][2], reason="the package it measures is absent")
    paths = photo_runs.photos(jpeg_folder, 12)
    assert len(paths) == 12 and len({Path(path).parent for path in paths}) == 3
    records = list(lazy_pictures.measure(scenario, paths, 1, sorted(os.sched_getaffinity(0))[-1:]))
    assert {record["loader"] for record in records} == {"torch", "millrace", "pillow"}
    assert all(record["rows"] == 12 for record in records)
    assert scenario in photo_runs.table(records)


def test_other_batches_are_refused(tmp_path: Path) -> None:
    lazy_pictures.check({"torch": [torch.zeros(3)], "millrace": [torch.zeros(3)]})
    with pytest.raises(SystemExit, match="other batches"):
        lazy_pictures.check({"torch": [torch.zeros(3)], "millrace": [torch.ones(3)]})
    with pytest.raises(SystemExit, match="no JPEGs"):
        photo_runs.photos(str(tmp_path), 3)
