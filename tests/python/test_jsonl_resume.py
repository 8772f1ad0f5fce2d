"""Runs over JSONL and Lines that are cut anywhere and go on with other ranks, batch sizes and workers."""

from __future__ import annotations

import json

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from line_data import alike, write_json
from millrace import DataLoader
from millrace.datasets import JSONL, Lines
from test_elastic import KINDS, SIZE, check, cut_and_go_on

cuts = st.tuples(
    st.integers(1, 3),
    st.integers(1, 6),
    st.sampled_from([{"num_workers": 0}, {"num_workers": 2, "prefetch_factor": 3}]),
)


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    """SIZE lines in three files, each its number."""
    folder = tmp_path_factory.mktemp("lines")
    return [
        write_json(folder / f"{i}.jsonl", range(begin, end))
        for i, (begin, end) in enumerate([(0, 10), (10, 30), (30, SIZE)])
    ]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=8, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(epoch=st.integers(0, 5), before=cuts, cut=st.integers(0, 60), after=cuts)
def test_any_cut_any_ranks(paths, kind, epoch, before, cut, after):
    dataset = JSONL(paths, "objects", index_dir=paths[0] + ".cache")
    check(kind, *cut_and_go_on(kind, epoch, before, cut, after, dataset), after[0])


@pytest.mark.parametrize("workers", [0, 2])
def test_every_batch_of_an_epoch(paths, workers):
    def loader(dataset):
        torch.manual_seed(5)
        return DataLoader(dataset, 4, shuffle=True, num_workers=workers, native="require")

    for dataset in (JSONL(paths, index_dir=paths[0] + ".cache"), Lines(paths, index_dir=paths[0] + ".cache")):
        first = loader(dataset)
        batches, states = [], []
        for batch in first:
            batches.append(batch)
            states.append(json.loads(json.dumps(first.state_dict())))
        for cut, state in enumerate(states[:-1], 1):
            resumed = loader(dataset)
            resumed.load_state_dict(state)
            assert alike(list(resumed), batches[cut:]), cut
