"""Samplers of ours: what they promise, in numbers; in torch's loader and ours."""

from __future__ import annotations

import copy
import json
import pickle
import time
from collections import Counter
from itertools import islice

import millrace
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from loader_data import advanced, going_on
from millrace import samplers
from millrace._common import ranks
from sampler_cases import GLOBAL_ORDERS, LABELS, LENGTHS, WEIGHTS, plain

ALONE = {"num_replicas": 1, "rank": 0}
cases = pytest.mark.parametrize("case", GLOBAL_ORDERS.values(), ids=GLOBAL_ORDERS)


def chi_square_deviation(counts: np.ndarray, shares: np.ndarray) -> float:
    """Pearson's statistic in standard deviations from its mean."""
    expected = counts.sum() * shares / shares.sum()
    used = expected > 0
    assert not counts[~used].any()
    statistic = ((counts[used] - expected[used]) ** 2 / expected[used]).sum()
    freedom = used.sum() - 1
    return (statistic - freedom) / np.sqrt(2 * freedom)


# ---------------------------------------------------------------- iterators


@cases
@settings(max_examples=30, deadline=None)
@given(steps=st.lists(st.tuples(st.booleans(), st.integers(0, 40)), max_size=12))
def test_indices_and_arrays_in_turns(case, steps):
    sampler = case.make(2, 0, False)
    whole, seen = [plain(entry) for entry in sampler], []
    iterator = iter(sampler)
    for array, count in steps:
        if array and hasattr(iterator, "take"):
            taken = iterator.take(count)
            assert taken.dtype == np.int64 and taken.ndim == 1
            seen += taken.tolist()
        else:
            seen += [plain(entry) for entry in islice(iterator, count)]
        assert iterator.state_dict()["position"] == 2 * len(seen)
    assert seen == whole[: len(seen)] and len(seen) == min(sum(count for _, count in steps), len(whole))


def test_elements_are_python_ints():
    for sampler in (
        samplers.PermutationSampler(5, **ALONE),
        samplers.SequentialSampler(range(5)),
        samplers.RandomSampler(range(5)),
    ):
        assert all(type(index) is int for index in sampler)
    batch = next(iter(samplers.StratifiedBatchSampler(LABELS, 4, **ALONE)))
    assert type(batch) is list and all(type(index) is int for index in batch)


@cases
def test_samplers_can_be_copied_and_pickled_in_mid_epoch(case):
    sampler = case.make(1, 0, False)
    whole = [plain(entry) for entry in sampler]
    list(islice(sampler, 3))
    for other in (copy.deepcopy(sampler), pickle.loads(pickle.dumps(sampler))):
        assert [plain(entry) for entry in other] == whole
    sampler.load_state_dict({**sampler.state_dict(), "position": 5}, verify=False)
    assert [plain(entry) for entry in pickle.loads(pickle.dumps(sampler))] == whole[5:]


@pytest.mark.parametrize("loader_class", [torch.utils.data.DataLoader, millrace.DataLoader])
@pytest.mark.parametrize("workers", [0, 1])
def test_in_loaders(loader_class, workers):
    rows = torch.utils.data.TensorDataset(torch.arange(500))
    for sampler in (
        samplers.PermutationSampler(500, **ALONE),
        samplers.MixtureSampler([100, 400], [1, 1], 300, **ALONE),
        samplers.ShuffleBuffer(30)(samplers.RandomSampler(range(500), generator=torch.Generator())),
    ):
        sampler.set_epoch(1)
        expected = list(copy.deepcopy(sampler))
        loader = loader_class(rows, 32, sampler=sampler, num_workers=workers)
        assert torch.cat([batch for (batch,) in loader]).tolist() == expected
    for sampler in (
        samplers.StratifiedBatchSampler(LABELS, 8, **ALONE),
        samplers.LengthGroupedSampler(LENGTHS, 8, **ALONE),
    ):
        loader = loader_class(rows, batch_sampler=sampler, num_workers=workers)
        assert len(loader) == len(sampler) and [batch.tolist() for (batch,) in loader] == list(sampler)


def test_explain_names_what_runs_natively():
    rows = torch.utils.data.TensorDataset(torch.arange(500))
    loader = millrace.DataLoader(rows, 32, sampler=samplers.PermutationSampler(500, **ALONE))
    assert "sampler: native — PermutationSampler in batches of 32, millrace's order and draws" in str(
        loader.explain()
    )
    loader = millrace.DataLoader(rows, 32, sampler=samplers.RandomSampler(rows))
    assert "RandomSampler in batches of 32, torch's order and draws" in str(loader.explain())


# ---------------------------------------------------------------- permutation


@pytest.mark.alone
def test_a_billion_samples_cost_nothing():
    sampler = samplers.PermutationSampler(10**9, seed=1, **ALONE)
    best = min(_first_index_seconds(sampler) for _ in range(5))
    assert best < 0.01
    iterator = iter(sampler)
    sampler.load_state_dict({**iterator.state_dict(), "position": 999_999_990}, verify=False)
    assert len(set(sampler)) == 10


def _first_index_seconds(sampler) -> float:
    start = time.perf_counter()
    next(iter(sampler))
    return time.perf_counter() - start


@pytest.mark.alone
def test_random_sampler_draws_no_more_than_it_hands_out():
    sampler = samplers.RandomSampler(range(10**8))
    assert min(_first_index_seconds(sampler) for _ in range(3)) < 0.05  # torch's permutation takes seconds


# ---------------------------------------------------------------- weights


def test_weighted_draws_have_their_shares():
    shares = np.where(np.arange(97) % 5 > 0, WEIGHTS, 0)
    torch.manual_seed(0)
    for sampler in (
        samplers.DistributedWeightedSampler(WEIGHTS, 300_000, **ALONE),
        samplers.WeightedRandomSampler(WEIGHTS, 300_000),
        samplers.WeightedRandomSampler(WEIGHTS, 300_000, method="alias"),
    ):
        counts = np.bincount(iter(sampler).take(300_000), minlength=97)
        assert chi_square_deviation(counts, shares) < 5


def test_weighted_draws_without_replacement():
    sampler = samplers.DistributedWeightedSampler([1, 2, 0, 3], 3, replacement=False, **ALONE)
    firsts = np.zeros(4, dtype=np.int64)
    for epoch in range(20_000):
        sampler.set_epoch(epoch)
        order = list(sampler)
        assert sorted(order) == [0, 1, 3]
        firsts[order[0]] += 1
    assert chi_square_deviation(firsts, np.array([1.0, 2, 0, 3])) < 5


def test_more_weights_than_torch_takes():
    many = samplers.WeightedRandomSampler(torch.ones(2**24 + 1), 10)
    assert many.method == "alias" and len(list(many)) == 10
    endless = samplers.WeightedRandomSampler([1.0, 3.0], 10**12, method="alias")
    assert 600 < sum(islice(endless, 1000)) < 900


def test_weights_from_labels():
    labels = ["a"] * 6 + ["b"] * 2
    assert samplers.weights_from_labels(labels).tolist() == [1 / 6] * 6 + [1 / 2] * 2
    assert samplers.weights_from_labels(np.array([5, 5, 5, 5, 2]), "sqrt").tolist() == [0.5] * 4 + [1.0]
    effective = samplers.weights_from_labels(torch.tensor([1, 0, 0]), "effective", beta=0.9)
    assert torch.allclose(effective, torch.tensor([1.0, 0.1 / 0.19, 0.1 / 0.19], dtype=torch.float64))
    assert samplers.weights_from_labels(labels, "effective", beta=0.0).tolist() == [1.0] * 8
    for arguments in (
        (labels, "even"),
        (labels, "effective", 1.0),
        ([],),
        ([[1]],),
        ([1, None],),
        ([1.0, float("nan")],),
    ):
        with pytest.raises(ValueError):
            samplers.weights_from_labels(*arguments)


# ---------------------------------------------------------------- batches


@pytest.mark.parametrize("mode", ["balanced", "proportional"])
def test_every_prefix_has_its_shares(mode):
    batches = list(samplers.StratifiedBatchSampler(LABELS, 16, mode, **ALONE))
    order = LABELS[np.concatenate(batches)]
    share = np.bincount(LABELS) / len(LABELS) if mode == "proportional" else np.full(4, 0.25)
    prefixes = np.cumsum(order[:, None] == np.arange(4), axis=0)
    assert np.abs(prefixes - share * np.arange(1, len(order) + 1)[:, None]).max() < 1
    if mode == "proportional":
        assert sorted(np.concatenate(batches).tolist()) == list(range(len(LABELS)))


def test_balanced_batches_use_all_of_a_class_alike():
    sampler = samplers.StratifiedBatchSampler(LABELS, 16, **ALONE)
    counts = np.zeros(len(LABELS), dtype=np.int64)
    for epoch in range(2000):
        sampler.set_epoch(epoch)
        counts += np.bincount(np.concatenate(list(sampler)), minlength=len(LABELS))
    for label in range(4):
        of_class = counts[LABELS == label]
        assert chi_square_deviation(of_class, np.ones(len(of_class))) < 5


def test_classes_of_one_size_do_not_always_come_together():
    sampler = samplers.StratifiedBatchSampler(np.arange(20) % 10, 5, **ALONE)
    assert len({tuple(sorted(index % 10 for index in batch)) for batch in sampler}) == len(sampler)


@settings(max_examples=100, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 300), min_size=1, max_size=300),
    batch_size=st.none() | st.integers(1, 20),
    max_tokens=st.none() | st.integers(300, 2000),
    max_padding=st.sampled_from([0.0, 0.1, 0.5]),
    drop_last=st.booleans(),
    count=st.integers(1, 4),
)
def test_batches_of_similar_lengths(lengths, batch_size, max_tokens, max_padding, drop_last, count):
    if batch_size is None and max_tokens is None:
        batch_size = 4
    parts = []
    for rank in range(count):
        sampler = samplers.LengthGroupedSampler(
            lengths, batch_size, max_tokens, max_padding, num_replicas=count, rank=rank, drop_last=drop_last
        )
        parts.append(list(sampler))
        assert len(parts[-1]) == len(sampler)
    batches = [batch for step in zip(*parts) for batch in step][: sampler.length]
    for batch in batches:
        longest = max(lengths[index] for index in batch)
        assert batch_size is None or len(batch) <= batch_size
        assert max_tokens is None or longest * len(batch) <= max_tokens
    mixed = [
        batch
        for batch in batches
        if min(lengths[i] for i in batch) < (1 - max_padding) * max(lengths[i] for i in batch) - 1e-9
    ]
    assert len(mixed) <= len(sampler._group_sizes)
    if not drop_last:
        assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    else:
        assert max(Counter(index for batch in batches for index in batch).values(), default=0) <= 1


def test_padding_is_small_and_batches_change():
    lengths = np.random.default_rng(0).integers(5, 500, 20_000)
    sampler = samplers.LengthGroupedSampler(lengths, max_tokens=8000, **ALONE)
    epochs = []
    for epoch in range(2):
        sampler.set_epoch(epoch)
        batches = list(sampler)
        padded = sum(len(batch) * lengths[batch].max() for batch in batches)
        assert 1 - lengths.sum() / padded < 0.06
        epochs.append({tuple(sorted(batch)) for batch in batches})
    assert len(epochs[0] & epochs[1]) < len(epochs[0]) / 20
    means = [lengths[batch].mean() for batch in batches]
    assert abs(np.corrcoef(means[:-1], means[1:])[0, 1]) < 0.15, "short and long batches come in any order"


# ---------------------------------------------------------------- ranks, epochs and states


def test_ranks_of_the_environment(monkeypatch):
    assert ranks.world() == (0, 1)
    monkeypatch.setenv("RANK", "2")
    monkeypatch.setenv("WORLD_SIZE", "3")
    assert ranks.world() == (2, 3)
    sampler = samplers.PermutationSampler(30)
    assert (sampler.rank, sampler.num_replicas, len(sampler)) == (2, 3, 10)
    assert samplers.PermutationSampler(30, rank=1).rank == 1
    for rank, size in (("3", "3"), ("x", "3"), ("-1", "3")):
        monkeypatch.setenv("RANK", rank)
        with pytest.raises(ValueError, match="0 <= RANK < WORLD_SIZE"):
            samplers.PermutationSampler(30)
    monkeypatch.delenv("RANK")
    with pytest.raises(ValueError, match="set both"):
        ranks.world()


def test_ranks_of_the_process_group(tmp_path):
    import torch.distributed as dist

    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    try:
        assert ranks.world() == (0, 1)
        assert list(samplers.DistributedSampler(range(3), shuffle=False)) == [0, 1, 2]
    finally:
        dist.destroy_process_group()


def test_set_epoch_says_when_it_gives_up_a_state():
    sampler = samplers.PermutationSampler(20, **ALONE)
    sampler.set_epoch(3)
    iterator = advanced(sampler, 1)
    state = iterator.state_dict()
    other = going_on(samplers.PermutationSampler(20, **ALONE), state)
    other.set_epoch(3)
    assert len(list(other)) == 19
    other.load_state_dict(state)
    with pytest.warns(UserWarning, match="set_epoch\\(0\\) gives up the loaded state of epoch 3"):
        other.set_epoch(0)
    assert len(list(other)) == 20


@pytest.mark.alone
def test_states_are_small_and_quick():
    for case in GLOBAL_ORDERS.values():
        iterator = advanced(case.make(1, 0, False), 1)
        assert len(json.dumps(iterator.state_dict())) < 1000
        start = time.perf_counter()
        for _ in range(1000):
            iterator.state_dict()
        assert time.perf_counter() - start < 0.1
