"""Cut anywhere and resumed on any number of ranks: the rest of the global order comes, each entry once."""

from __future__ import annotations

import json
from itertools import islice

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from loader_data import advanced, going_on
from millrace import samplers
from millrace._common.states import unsigned_state
from sampler_cases import GLOBAL_ORDERS, LABELS, plain

ranks = st.integers(1, 6)
cases = pytest.mark.parametrize("case", GLOBAL_ORDERS.values(), ids=GLOBAL_ORDERS)


def through_json(state: dict) -> dict:
    text = json.dumps(state)
    assert len(text) < 10_000
    return json.loads(text)


def walk(case, count, drop_last, epoch, steps, state=None):
    """What all ranks take in `steps` steps (None: all), in the global order, and the state of all then."""
    parts, states = [], []
    for rank in range(count):
        sampler = case.make(count, rank, drop_last)
        sampler.set_epoch(epoch)
        if state is not None:
            sampler.load_state_dict(through_json(state))
        iterator = iter(sampler)
        parts.append([plain(entry) for entry in islice(iterator, steps)])
        states.append(iterator.state_dict())
        assert sampler.state_dict() == states[-1]
        if sampler.counted and parts[-1]:  # told later, by how many had come
            then = unsigned_state(iterator)
            assert len([*islice(iterator, 3)]) <= 3 and iterator.state_after(len(parts[-1])) == then
    assert len({len(part) for part in parts}) == 1, "equal steps on all ranks"
    assert all(state == states[0] for state in states)
    return [entry for step in zip(*parts) for entry in step], states[0]


@cases
@settings(max_examples=60, deadline=None)
@given(
    first=ranks, second=ranks, third=ranks, drop_last=st.booleans(), epoch=st.integers(0, 5), data=st.data()
)
def test_cut_twice_on_any_ranks(case, first, second, third, drop_last, epoch, data):
    whole, end = walk(case, 1, drop_last, epoch, None)
    taken, state = [], None
    for count in (first, second):
        left = len(whole) - len(taken)
        part, state = walk(
            case, count, drop_last, epoch, data.draw(st.integers(0, max(left // count, 0))), state
        )
        taken += part
        assert state["position"] == len(taken)
    rest, last = walk(case, third, drop_last, epoch, None, state)
    taken += rest
    surplus = len(taken) - len(whole)
    assert taken[: len(whole)] == whole[: len(taken)]
    if drop_last:
        assert -third < surplus <= 0
    else:
        assert 0 <= surplus < third
        if case.repeats:
            assert taken[len(whole) :] == whole[:surplus]
    assert walk(case, first, drop_last, epoch, None, last)[0] == [] or drop_last, (
        "nothing is left after the end"
    )


@cases
def test_the_epoch_after_a_resumed_one_is_an_ordinary_one(case):
    sampler = case.make(2, 1, False)
    whole = [plain(entry) for entry in sampler]
    iterator = iter(sampler)
    list(islice(iterator, 5))
    other = going_on(case.make(2, 1, False), iterator.state_dict())
    assert [plain(entry) for entry in other] == whole[5:]
    assert [plain(entry) for entry in other] == whole


@cases
def test_epochs_differ_and_ranks_agree(case):
    orders = [walk(case, 1, False, epoch, None)[0] for epoch in (0, 1, 0)]
    assert orders[0] == orders[2]
    sampler = case.make(1, 0, False)
    assert orders[0] != orders[1] or getattr(sampler, "shuffle", None) is False


PLAIN = {
    "sequential": lambda g: samplers.SequentialSampler(range(80)),
    "random": lambda g: samplers.RandomSampler(range(80)),
    "rounds": lambda g: samplers.RandomSampler(range(30), num_samples=100),
    "own generator": lambda g: samplers.RandomSampler(range(30), num_samples=100, generator=g),
    "replacement": lambda g: samplers.RandomSampler(range(30), True, 100),
    "replacement, own generator": lambda g: samplers.RandomSampler(range(30), True, 100, g),
    "subset": lambda g: samplers.SubsetRandomSampler([3 * i for i in range(60)]),
    "subset, own generator": lambda g: samplers.SubsetRandomSampler([3 * i for i in range(60)], g),
    "weighted": lambda g: samplers.WeightedRandomSampler(np.arange(1.0, 50), 70),
    "weighted, own generator": lambda g: samplers.WeightedRandomSampler(np.arange(1.0, 50), 30, False, g),
    "alias": lambda g: samplers.WeightedRandomSampler(np.arange(1.0, 50), 70, method="alias"),
    "alias, own generator": lambda g: samplers.WeightedRandomSampler(
        np.arange(1.0, 50), 30, False, g, method="alias"
    ),
    "torch's": lambda g: samplers.native(torch.utils.data.RandomSampler(range(80), generator=g)),
    "batches": lambda g: samplers.BatchSampler(torch.utils.data.RandomSampler(range(80)), 3, False),
    "batches of anything": lambda g: samplers.BatchSampler(range(80), 3, True),
}


@pytest.mark.parametrize("make", PLAIN.values(), ids=PLAIN)
@settings(max_examples=40, deadline=None)
@given(cut=st.integers(0, 101), again=st.integers(0, 50), seed=st.integers(0, 1000))
def test_torchs_samplers(make, cut, again, seed):
    """A run left in the second epoch goes on in a new process, whose generators stand elsewhere."""
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    sampler = make(generator)
    list(sampler)
    iterator = iter(sampler)
    before = list(islice(iterator, cut))
    state = through_json(iterator.state_dict())
    rest, third = list(iterator), list(sampler)
    after = generator.get_state()

    torch.manual_seed(seed + 1)
    another = torch.Generator()
    sampler = going_on(make(another), state)
    assert sampler.state_dict() == state
    iterator = iter(sampler)
    resumed = list(islice(iterator, again))
    sampler = going_on(make(another), through_json(iterator.state_dict()))
    resumed += list(sampler)
    if before or again or cut:
        # A state from before the first draw says nothing of the order: then the epoch is a new one.
        assert cut == 0 or resumed == rest
    if cut and "generator" in str(state) and state.get("own_generator"):
        assert list(sampler) == third, "the epoch after it is the one it would have been"
        assert torch.equal(another.get_state(), after)


@pytest.mark.parametrize("make", PLAIN.values(), ids=PLAIN)
def test_a_resumed_epoch_draws_as_often_from_the_global_generator(make):
    sampler = make(torch.Generator())
    iterator = advanced(sampler, 1)
    state = iterator.state_dict()
    ends = []
    for resumed in (False, True):
        sampler = make(torch.Generator())
        if resumed:
            sampler.load_state_dict(state)
        torch.manual_seed(3)
        list(sampler)
        ends.append(torch.get_rng_state())
    assert torch.equal(*ends)


def stratified(mode, size, count, rank, drop_last=False):
    return samplers.StratifiedBatchSampler(LABELS, size, mode, 6, count, rank, drop_last)


@pytest.mark.parametrize("mode", ["balanced", "proportional"])
@settings(max_examples=60, deadline=None)
@given(
    first=ranks,
    second=ranks,
    sizes=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    drop_last=st.booleans(),
    data=st.data(),
)
def test_stratified_batches_cut_on_any_ranks_and_batch_size(mode, first, second, sizes, drop_last, data):
    def batches(count, size, steps, state=None):
        parts, states = [], set()
        for rank in range(count):
            sampler = stratified(mode, size, count, rank, drop_last)
            if state is not None:
                sampler.load_state_dict(state)
            iterator = iter(sampler)
            parts.append(list(islice(iterator, steps)))
            states.add(json.dumps(iterator.state_dict()))
        assert len({len(part) for part in parts}) == 1 and len(states) == 1
        return [index for step in zip(*parts) for batch in step for index in batch], json.loads(states.pop())

    whole, _ = batches(1, 1, None)
    steps = data.draw(st.integers(0, len(whole) // (first * sizes[0])))
    taken, state = batches(first, sizes[0], steps)
    rest, _ = batches(second, sizes[1], None, state)
    taken += rest
    surplus = len(taken) - len(whole)
    assert taken[: len(whole)] == whole[: len(taken)] and taken[len(whole) :] == whole[: max(surplus, 0)]
    assert -second * sizes[1] < surplus <= 0 if drop_last else 0 <= surplus < second


@settings(max_examples=60, deadline=None)
@given(
    first=ranks,
    second=ranks,
    changes=st.lists(st.tuples(st.integers(0, 12), st.integers(0, 4)), max_size=4),
    cut=st.integers(0, 20),
)
def test_mixtures_whose_weights_change_on_the_way(first, second, changes, cut):
    """Weights change at the same index on every rank; the state carries it to another number of ranks."""
    weights = [[1, 0, 0], [0, 1, 1], [0.123, 0.5, 0.377], [3, 1, 2], [0, 0, 1]]

    def make(count, rank):
        return samplers.MixtureSampler([9, 40, 21], [1, 1, 1], 900, 3, True, count, rank)

    def walk(count):
        parts, states = [], []
        for rank in range(count):
            sampler = make(count, rank)
            iterator = iter(sampler)
            part = []
            for steps, choice in changes:
                part += islice(iterator, steps * second if count == first else steps * first)
                sampler.set_weights(weights[choice])
            part += islice(iterator, cut * second if count == first else cut * first)
            parts.append(part)
            states.append(iterator.state_dict())
        assert all(state == states[0] for state in states)
        return [index for step in zip(*parts) for index in step], states[0]

    taken, state = walk(first)
    same, same_state = walk(second)
    assert taken == same and state == same_state
    futures = []
    for count in (first, second):
        parts = []
        for rank in range(count):
            sampler = going_on(make(count, rank), through_json(state))
            parts.append(list(islice(iter(sampler), 20 * first * second // count)))
        futures.append([index for step in zip(*parts) for index in step])
    assert futures[0][:100] == futures[1][:100]


@settings(max_examples=60, deadline=None)
@given(
    first=ranks,
    second=ranks,
    sizes=st.tuples(st.integers(1, 9), st.integers(1, 9)),
    steps=st.integers(0, 20),
    array=st.booleans(),
)
def test_batches_of_ranks_cut_on_any_ranks_and_batch_size(first, second, sizes, steps, array):
    """Also torch's own objects, which the views of native() resume."""

    def make(count, rank, size):
        sampler = torch.utils.data.DistributedSampler(range(101), count, rank, seed=2)
        return samplers.native(torch.utils.data.BatchSampler(sampler, size, False))

    whole = [index for batch in make(1, 0, 1) for index in batch]
    parts, states = [], set()
    for rank in range(first):
        batches = make(first, rank, sizes[0])
        iterator = batches.arrays() if array else iter(batches)
        parts.append([int(index) for batch in islice(iterator, steps) for index in batch])
        states.add(json.dumps(iterator.state_dict()))
    taken = [index for step in zip(*parts) for index in step]
    (state,) = states
    parts = []
    for rank in range(second):
        batches = going_on(make(second, rank, sizes[1]), json.loads(state))
        assert json.loads(json.dumps(iter(batches).state_dict())) == json.loads(state)
        batches.load_state_dict(json.loads(state))
        parts.append([index for batch in batches for index in batch])
    taken += [index for step in zip(*parts) for index in step]
    assert taken[:101] == whole and len(taken) - 101 < max(first, second)
