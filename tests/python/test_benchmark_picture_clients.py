"""The benchmark of the clients' picture datasets: each is compared and timed, and sides that differ are
refused.
"""

from __future__ import annotations

import os

import pytest
import torch

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("torchvision")]


@pytest.mark.parametrize("scenario", ["csv", "masks", "boxes", "stream", "tar", "lmdb", "hugging_face"])
def test_scenarios_are_measured(scenario: str, jpeg_folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks import photo_runs, picture_clients

    pytest.importorskip(picture_clients.SCENARIOS[scenario][1], reason="the package it measures is absent")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    paths = photo_runs.photos(jpeg_folder, 12)
    records = list(picture_clients.measure(scenario, paths, 1, sorted(os.sched_getaffinity(0))[-1:]))
    assert {record["loader"] for record in records} == {"torch", "millrace", "pillow"}
    assert all(record["rows"] == 12 for record in records)
    assert scenario in photo_runs.table([{**record, "cpu_seconds": 1.0} for record in records])


def test_other_batches_are_refused() -> None:
    from benchmarks import picture_clients

    picture_clients.check({"torch": [torch.zeros(3)], "millrace": [torch.zeros(3)]})
    with pytest.raises(SystemExit, match="other batches"):
        picture_clients.check({"torch": [torch.zeros(3)], "millrace": [torch.ones(3)]})
