"""Tokens, cut anywhere and gone on with: other ranks, workers, batch sizes, native threads ahead."""

from __future__ import annotations

import json

import millrace
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from millrace import samplers
from millrace.datasets import Arrays, Tokens
from test_elastic import KINDS, SIZE, anyhow, check, cut_and_go_on

_settings = {"deadline": None, "suppress_health_check": list(HealthCheck), "derandomize": True}


@pytest.fixture(scope="module")
def numbers(tmp_path_factory):
    """Data whose sample i begins with i: windows that overlap, in two files, and rows of a mapped array."""
    folder = tmp_path_factory.mktemp("numbers")
    first, rest = np.arange(31, dtype=np.uint16), np.arange(30, SIZE + 1, dtype=np.uint16)
    first.tofile(folder / "a.bin")
    rest.tofile(folder / "b.bin")
    np.save(folder / "c.npy", np.arange(SIZE).reshape(-1, 1))
    tokens = Tokens([folder / "a.bin", folder / "b.bin"], 1, "uint16", stride=1)
    assert len(tokens) == SIZE
    return {"tokens": tokens, "arrays": OnlyValues(Arrays(x=folder / "c.npy"))}


class OnlyValues:
    """Python code around Arrays: what runs in worker processes."""

    def __init__(self, arrays):
        self.arrays = arrays

    def __len__(self):
        return len(self.arrays)

    def __getitem__(self, index):
        return torch.from_numpy(self.arrays[index]["x"])


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=12, **_settings)
@given(epoch=st.integers(0, 5), before=anyhow, cut=st.integers(0, 60), after=anyhow)
def test_any_cut_any_ranks(kind, numbers, epoch, before, cut, after):
    check(kind, *cut_and_go_on(kind, epoch, before, cut, after, numbers["tokens"]), after[0])


@settings(max_examples=6, **_settings)
@given(kind=st.sampled_from(list(KINDS)), before=anyhow, cut=st.integers(0, 20), after=anyhow)
def test_rows_of_a_mapped_array_in_workers(numbers, kind, before, cut, after):
    check(kind, *cut_and_go_on(kind, 1, before, cut, after, numbers["arrays"]), after[0])


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("computed", [False, True])
def test_a_shuffled_run_goes_on_as_if_it_had_not_stopped(numbers, monkeypatch, workers, computed):
    """The rest of the epoch and the next one, after every batch."""
    monkeypatch.setattr(Tokens, "computed_shuffle_above", 10 if computed else 10**6)

    def loader():
        return millrace.DataLoader(
            numbers["tokens"],
            4,
            shuffle=True,
            num_workers=workers,
            generator=torch.Generator().manual_seed(5),
        )

    def epoch(of):
        return [x.flatten().tolist() for x, _ in of]

    whole = loader()
    first, second = epoch(whole), epoch(whole)
    assert sorted(sum(first, [])) == sorted(sum(second, [])) == list(range(SIZE)) and first != second
    for cut in range(len(first) + 1):
        run = loader()
        iterator = iter(run)
        head = [next(iterator)[0].flatten().tolist() for _ in range(cut)]
        state = json.loads(json.dumps(run.state_dict()))
        again = loader()
        again.load_state_dict(state)
        assert head + epoch(again) == first and epoch(again) == second


def test_a_permutation_of_ten_billion_windows_resumes_at_once(tmp_path):
    with open(tmp_path / "huge.bin", "wb") as file:
        file.truncate(2 * (10**10 + 8))
    tokens = Tokens(tmp_path / "huge.bin", 8, "uint16", stride=1)

    def drawn(sampler, state=None, count=50):
        if state is not None:
            sampler.load_state_dict(state, verify=False)
        iterator = iter(sampler)
        return [next(iterator) for _ in range(count)], sampler.state_dict()

    for make in (
        lambda: samplers.RandomSampler(tokens),
        lambda: samplers.PermutationSampler(len(tokens), seed=3),
    ):
        sampler = make()
        _, state = drawn(sampler)
        far = {**state, "position": 9_999_999_900}
        rest, _ = drawn(make(), far, 100)
        assert len(set(rest)) == 100 and drawn(make(), {**far, "position": 9_999_999_950})[0] == rest[50:]
