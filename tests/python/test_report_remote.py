"""A report of a loader with remote workers says who made what."""

import millrace
import pytest
import torch
from millrace_tools.report.report import Report

pytestmark = pytest.mark.slow

NODE = {
    "batches": 4,
    "samples": 48,
    "bytes": 2_500_000,
    "make_seconds": 3.0,
    "way_seconds": 0.4,
    "copy_cpu_seconds": 0.1,
}
REMOTE = {
    "local": 4,
    "again": 1,
    "hedged": 2,
    "duplicates": 3,
    "checked": 5,
    "workers": 2,
    "working": 1,
    "nodes": {"one <b>": NODE},
    "expelled": {"7": "other bytes"},
}


def profile(**more):
    loader = millrace.DataLoader(torch.utils.data.TensorDataset(torch.arange(96)), 12)
    for _ in loader:
        pass
    return {**loader.profile(), **more}


def test_lines_and_page():
    report = Report(profile(remote=REMOTE))
    text = str(report)
    assert "batches by node" in text and "50.0%" in text
    assert "48 samples; 2.38 MiB, 100 ms a batch on the way" in text
    assert (
        "remote workers: 1 of 2 at work; 4 batches made here, 1 given to another worker, 2 made here as well,"
        " 3 dropped, 5 compared; worker 7 expelled: other bytes"
    ) in text
    page = report.html()
    assert "Batches by node" in page and "one &lt;b&gt;" in page and "5 compared" in page


def test_without_remote_workers_nothing_is_said():
    report = Report(profile())
    assert "remote" not in str(report) and "Batches by node" not in report.html()
