"""The benchmark of thirty pipelines: it compares before it measures, and says what ran."""

import statistics

import pytest
import torch
from loader_data import torchvision_or_skip

pytestmark = pytest.mark.slow


@pytest.fixture
def reach():
    torchvision_or_skip()
    pytest.importorskip("PIL")
    from benchmarks import reach

    return reach


def test_there_are_thirty(reach):
    from benchmarks.reach_pipelines import PIPELINES

    assert len(PIPELINES) == 30


def test_a_pipeline_is_measured_in_turns(reach, tmp_path):
    records = list(reach.measure("rows of a table, no workers", tmp_path, 1, [0]))
    assert {record["loader"] for record in records} == {"torch", "millrace"}
    assert all(record["batches"] == 313 and record["runs"] == "inline" for record in records)
    assert statistics.median(reach.ratios(records)) > 0
    assert reach.row("rows", records).startswith("| rows | inline | ")


@pytest.mark.parametrize(
    "mine, equal, words",
    [
        ([torch.zeros(2), torch.ones(2)], True, "other values"),
        ([torch.zeros(2).double(), torch.zeros(2)], True, "of the form"),
        ([torch.full((2,), 9.0), torch.full((2,), 9.1)], False, "another brightness"),
    ],
)
def test_other_batches_end_it(reach, mine, equal, words):
    theirs = [torch.zeros(2), torch.full((2,), 0.1)]
    assert reach.check("it", theirs, list(theirs), equal) == 2
    with pytest.raises(SystemExit, match=words):
        reach.check("it", theirs, mine, equal)
    with pytest.raises(ValueError, match="shorter"):
        reach.check("it", theirs, mine[:0], equal)
