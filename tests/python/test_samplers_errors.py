"""What samplers say about bad arguments, and about states that are not theirs."""

from __future__ import annotations

import inspect

import millrace
import pytest
import torch
from millrace import DataLoader, samplers
from sampler_cases import GLOBAL_ORDERS
from torch.utils.data import TensorDataset

ROWS = TensorDataset(torch.arange(8))
ALONE = {"num_replicas": 1, "rank": 0}
cases = pytest.mark.parametrize("case", GLOBAL_ORDERS.values(), ids=GLOBAL_ORDERS)

BAD_ARGUMENTS = [
    (lambda: samplers.PermutationSampler(-1), "n should be an integer of 0 or more"),
    (lambda: samplers.PermutationSampler(2**62 + 1), "at most 2\\*\\*62"),
    (
        lambda: samplers.PermutationSampler(5, num_replicas=2, rank=2),
        "Invalid rank 2, rank should be in the interval \\[0, 1\\]",
    ),
    (lambda: samplers.PermutationSampler(5, num_replicas=0, rank=0), "positive integer"),
    (lambda: samplers.DistributedWeightedSampler([1.0], 0), "num_samples should be a positive integer"),
    (lambda: samplers.DistributedWeightedSampler([1.0, -2.0], 1), "weights\\[1\\] is -2"),
    (lambda: samplers.DistributedWeightedSampler([1.0, float("nan")], 1), "weights\\[1\\] is nan"),
    (lambda: samplers.DistributedWeightedSampler([0.0, 0.0], 1), "at least one must be above 0"),
    (lambda: samplers.DistributedWeightedSampler([], 1), "at least one must be above 0"),
    (lambda: samplers.DistributedWeightedSampler([[1.0]], 1), "1d sequence"),
    (lambda: samplers.DistributedWeightedSampler([1.0, 0.0], 2, False), "without replacement from 1 weights"),
    (lambda: samplers.WeightedRandomSampler([-1.0], 1, method="alias"), "weights\\[0\\] is -1"),
    (lambda: samplers.WeightedRandomSampler([1.0], 1, method="fast"), '"multinomial" or "alias"'),
    (lambda: samplers.StratifiedBatchSampler([], 4), "one label per sample"),
    (lambda: samplers.StratifiedBatchSampler([[1, 2]], 4), "one label per sample"),
    (lambda: samplers.StratifiedBatchSampler([1, 2], 4, "even"), '"balanced" or "proportional"'),
    (lambda: samplers.StratifiedBatchSampler([1, 2], 0), "batch_size should be an integer of 1"),
    (lambda: samplers.ShardShuffle([3, -1]), "shard_lengths\\[1\\] is -1"),
    (lambda: samplers.ShardShuffle([]), "one at least"),
    (lambda: samplers.TwoTierShuffle([3], 0), "buffer_size should be an integer of 1"),
    (lambda: samplers.MixtureSampler([3, 4], [1.0]), "one for each of the 2 lengths"),
    (lambda: samplers.MixtureSampler([3, 0], [1.0, 1.0]), "source 1 has a weight but no samples"),
    (lambda: samplers.MixtureSampler([3, 4], [0.0, 0.0]), "not all 0"),
    (lambda: samplers.MixtureSampler([3, 4], [1.0, 1.0], 0), "num_samples should be an integer of 1"),
    (lambda: samplers.MixtureSampler([3, 4], [1, 1], **ALONE).set_weights([1, -1]), "not negative"),
    (lambda: samplers.LengthGroupedSampler([3, 4]), "give batch_size, max_tokens or both"),
    (
        lambda: samplers.LengthGroupedSampler([3, 40], max_tokens=20),
        "lengths\\[1\\] is 40, more than max_tokens=20",
    ),
    (lambda: samplers.LengthGroupedSampler([3], 2, max_padding=1.0), "max_padding"),
    (lambda: samplers.LengthGroupedSampler([[7, 8], [9]], 2), "lengths\\[0\\] is a list; give len"),
    (
        lambda: samplers.MixtureSampler([ROWS, ROWS], [1.0, 1.0]),
        "lengths\\[0\\] is a TensorDataset; give len",
    ),
    (lambda: samplers.ShuffleBuffer(0), "size should be an integer of 1"),
]


@pytest.mark.parametrize("make, words", BAD_ARGUMENTS)
def test_bad_arguments(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_numbers_that_are_none():
    permutation, buffer = samplers.PermutationSampler, samplers.ShuffleBuffer
    for make, arguments in ((permutation, (2.5,)), (permutation, (5, "s")), (buffer, ("9",))):
        with pytest.raises(TypeError, match="should be an integer"):
            make(*arguments)


@cases
def test_states_of_something_else(case):
    sampler = case.make(1, 0, False)
    state = sampler.state_dict()
    sampler.load_state_dict(state)
    for change, words in (
        ({"kind": "OtherSampler"}, "this is the state of a OtherSampler"),
        ({"version": 2}, "version 2"),
        ({"length": 3}, "length=3 there"),
        ({"seed": 12345}, "seed=12345 there"),
        ({"position": -1}, "position is a whole number"),
        ({"position": "1"}, "position is a whole number"),
        ({"epoch": None}, "epoch is a whole number"),
    ):
        with pytest.raises(ValueError, match=words):
            sampler.load_state_dict({**state, **change})
    with pytest.raises(ValueError, match="is a dict from state_dict"):
        sampler.load_state_dict([state])


def test_states_of_torchs_samplers():
    state = samplers.RandomSampler(range(5)).state_dict()
    with pytest.raises(ValueError, match="samples=5 there, 6 here"):
        samplers.RandomSampler(range(6), num_samples=5).load_state_dict(state)
    own = samplers.RandomSampler(range(5), generator=torch.Generator())
    next(iter(own))
    other = samplers.RandomSampler(range(5))
    with pytest.raises(ValueError, match="own_generator=True there, False here"):
        other.load_state_dict(own.state_dict())
    with pytest.raises(ValueError, match="state of a RandomSampler, and this sampler is a SequentialSampler"):
        samplers.SequentialSampler(range(5)).load_state_dict(state)


def test_states_of_other_data_of_the_same_size():
    pairs = [
        (samplers.ShardShuffle([3, 4]), samplers.ShardShuffle([4, 3]), "shards="),
        (samplers.MixtureSampler([3, 4], [1, 1]), samplers.MixtureSampler([4, 3], [1, 1]), "lengths="),
        (
            samplers.StratifiedBatchSampler([1, 2, 2], 1),
            samplers.StratifiedBatchSampler([2, 2, 1], 1),
            "labels=",
        ),
        (samplers.LengthGroupedSampler([1, 2], 1), samplers.LengthGroupedSampler([2, 1], 1), "lengths="),
        (
            samplers.DistributedWeightedSampler([1, 2], 5),
            samplers.DistributedWeightedSampler([2, 1], 5),
            "weights=",
        ),
    ]
    for one, other, words in pairs:
        with pytest.raises(ValueError, match=words):
            other.load_state_dict(one.state_dict())


def test_a_damaged_generator():
    own = samplers.RandomSampler(range(5), generator=torch.Generator())
    next(iter(own))
    damaged = {**own.state_dict(), "generator": "x"}
    with pytest.raises(millrace.StateError, match="damaged, or was changed"):
        own.load_state_dict(damaged)
    own.load_state_dict(damaged, verify=False)
    with pytest.raises(ValueError):
        iter(own)


def test_things_in_the_wrong_place():
    sampler = samplers.PermutationSampler(8, **ALONE)
    loader = DataLoader(ROWS, sampler=sampler)
    for use, error, words in (
        (lambda: samplers.weights_from_labels(ROWS), TypeError, "not a TensorDataset: give its labels"),
        (lambda: samplers.StratifiedBatchSampler(ROWS, 2), TypeError, "not a TensorDataset: give its labels"),
        (
            lambda: loader.load_state_dict(sampler.state_dict()),
            ValueError,
            "PermutationSampler; give it to the sampler",
        ),
        (
            lambda: sampler.load_state_dict(loader.state_dict()),
            ValueError,
            "no sampler's state.*a loader's to the loader",
        ),
        (lambda: loader.load_state_dict(None), TypeError, "a loader's state is a dict, not NoneType"),
        (lambda: millrace.merge_states(loader.state_dict()), TypeError, "in a list"),
        (
            lambda: millrace.rank_report(DataLoader(samplers.ShuffleBuffer(2)(range(5)))),
            TypeError,
            "a ShuffledStream alone",
        ),
    ):
        with pytest.raises(error, match=words):
            use()


def test_batch_samplers_are_no_samplers_of_indices():
    batches = samplers.StratifiedBatchSampler([0] * 4 + [1] * 4, 2, **ALONE)
    with pytest.raises(ValueError, match="gives whole batches: give it as batch_sampler="):
        DataLoader(ROWS, batch_size=4, sampler=batches)
    assert len(next(iter(DataLoader(ROWS, batch_size=None, sampler=batches)))[0]) == 2


def test_signatures_are_those_of_the_constructors():
    assert list(inspect.signature(samplers.RandomSampler).parameters) == [
        "data_source",
        "replacement",
        "num_samples",
        "generator",
    ]
    assert list(inspect.signature(samplers.BatchSampler).parameters) == ["sampler", "batch_size", "drop_last"]
    assert list(inspect.signature(samplers.ShardShuffle).parameters)[0] == "shard_lengths"
