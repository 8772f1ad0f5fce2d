"""A WebDataset goes on at every sample, for any number of ranks and workers, which divide the rest."""

from __future__ import annotations

import json
import random

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from loader_data import advanced, going_on
from millrace import DataLoader
from millrace.datasets import WebDataset
from millrace.datasets.webdataset import holding
from millrace.datasets.webdataset.flow import Draws
from shard_data import numbered_shards
from split_cases import LENGTHS, TOTAL, number, readers


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    return numbered_shards(tmp_path_factory.mktemp("numbered"), LENGTHS)


def pairs(source):
    """A user's function that holds samples."""
    for item in source:
        yield (item, next(source, None))


def is_even(n):
    return n % 2 == 0


CHAINS = {
    "plain": lambda ds: ds.map(number),
    "shuffled": lambda ds: ds.shuffle(7, initial=3).map(number),
    "shuffled behind": lambda ds: ds.map(number).select(is_even).shuffle(4),
    "shuffled twice": lambda ds: ds.shuffle(5, initial=2).map(number).shuffle(9, initial=1),
    "large buffer": lambda ds: ds.shuffle(1000, initial=500).map(number),
    "batched": lambda ds: ds.map(number).listed(4),
    "batched whole": lambda ds: ds.shuffle(3).map(number).listed(4, partial=False),
    "unlisted": lambda ds: ds.map(number).listed(4).unlisted(),
    "rebatched": lambda ds: ds.map(number).listed(5).shuffle(3, initial=2).unlisted().listed(3),
    "unbatched": lambda ds: ds.map(lambda s: (number(s), "x")).batched(4).shuffle(2).unbatched(),
    "sliced": lambda ds: ds.shuffle(4).slice(2, 11, 3).map(number),
    "sampled": lambda ds: ds.rsample(0.6).shuffle(3).map(number),
    "composed": lambda ds: ds.shuffle(3).map(number).compose(pairs).shuffle(3),
    "epoch of 17": lambda ds: ds.shuffle(6, initial=2).map(number).with_epoch(17),
    "epoch of 70": lambda ds: ds.shuffle(6, initial=2).map(number).listed(3).with_epoch(40),
    "three times": lambda ds: ds.shuffle(6).map(number).repeat(3),
}


def check_every_cut(make, later=True):
    """Of one reader. Returns what its first epoch gave."""
    dataset = make()
    states, given = [], []
    for item in dataset:
        given.append(item)
        states.append(json.dumps(dataset.state_dict()))
    after = list(dataset)
    states.insert(0, json.dumps(make().state_dict()))
    for cut, state in enumerate(states):
        resumed = going_on(make(), json.loads(state))
        assert resumed.state_dict() == json.loads(state)
        items = iter(resumed)
        assert resumed.state_dict() == json.loads(state), "an iterator that has not begun is nowhere else"
        assert list(items) == given[cut:], cut
        if later and cut % 5 == 0:
            assert list(resumed) == after, "and the next epoch is the same"
    return given


@pytest.mark.parametrize("workers", [1, 2, 3, 4])
@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_every_sample_of_every_reader(shards, become, ranks, workers):
    seen = []
    for reader in readers(ranks, workers):
        become(*reader)
        seen += check_every_cut(
            lambda: (
                WebDataset(shards, shardshuffle=True, seed=4, empty_check=False)
                .shuffle(7, initial=3)
                .map(number)
            )
        )
    assert sorted(seen) == list(range(TOTAL))


@pytest.mark.parametrize("reader", [(0, 1, 0, 1), (1, 2, 0, 2), (3, 4, 2, 4)], ids=str)
@pytest.mark.parametrize("chain", CHAINS)
def test_every_sample_of_every_chain(shards, become, chain, reader):
    become(*reader)
    check_every_cut(lambda: CHAINS[chain](WebDataset(shards, shardshuffle=True)), later=True)


STAGES = st.sampled_from(
    [
        lambda ds: ds.shuffle(3, initial=1),
        lambda ds: ds.shuffle(8, initial=5),
        lambda ds: ds.listed(3).unlisted(),
        lambda ds: ds.listed(4, partial=False).shuffle(2).unlisted(),
        lambda ds: ds.slice(1, None, 2),
        lambda ds: ds.slice(15),
        lambda ds: ds.rsample(0.8),
        lambda ds: ds.select(lambda n: n % 5),
        lambda ds: ds.compose(lambda items: iter(sorted(items))),
        lambda ds: ds.with_epoch(20),
        lambda ds: ds.repeat(2),
    ]
)


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    chain=st.lists(STAGES, max_size=5),
    seed=st.integers(0, 2**64),
    shuffled=st.booleans(),
    reader=st.sampled_from(readers(2, 2)),
)
def test_every_sample_of_any_chain(shards, become, chain, seed, shuffled, reader):
    become(*reader)

    def make():
        dataset = WebDataset(shards, shardshuffle=shuffled, seed=seed, empty_check=False).map(number)
        for stage in chain:
            dataset = stage(dataset)
        return dataset

    check_every_cut(make)


def test_every_sample_of_resampled_shards(shards, become):
    become(1, 2, 1, 2)
    given = check_every_cut(lambda: WebDataset(shards, resampled=True).shuffle(5).map(number).with_epoch(120))
    assert len(given) == 120 and len(set(given)) < 60


def test_a_resumed_place_can_be_left_again(shards):
    """Twice resumed is resumed: marks of the shuffle buffer do not get lost."""

    def make():
        return CHAINS["shuffled twice"](WebDataset(shards, shardshuffle=True))

    expected, state, given = list(make()), None, []
    while len(given) < len(expected):
        dataset = make()
        if state is not None:
            dataset.load_state_dict(json.loads(state))
        items = iter(dataset)
        for _ in range(random.Random(len(given)).randint(1, 4)):
            given.extend([] if (item := next(items, None)) is None else [item])
        state = json.dumps(dataset.state_dict())
    assert given == expected


def test_nothing_that_has_been_given_is_read_again_from_far_back(shards, monkeypatch):
    """Resuming reads shards from the oldest sample in the buffer on, and the state has no samples in it."""
    from millrace import _core

    opened = []
    true = _core.ShardReader

    def reader(source, **options):
        opened.append((source, options["start"]))
        return true(source, **options)

    monkeypatch.setattr(_core, "ShardReader", reader)
    dataset = WebDataset(shards).shuffle(3, initial=1)
    _held = advanced(dataset, 25)
    state = dataset.state_dict()
    assert len(json.dumps(state)) < 400
    opened.clear()
    resumed = going_on(WebDataset(shards).shuffle(3, initial=1), state)
    next(iter(resumed))
    shard, start = opened[0]
    assert shards.index(shard) >= 4, "not from the first shards"


def test_a_loop_that_was_left_is_followed_by_the_next_epoch(shards):
    dataset = WebDataset(shards, shardshuffle=True).map(number)
    epochs = [list(dataset) for _ in range(2)]
    other = WebDataset(shards, shardshuffle=True).map(number)
    assert [n for n, _ in zip(other, range(3))] == epochs[0][:3]
    assert list(other) == epochs[1]


ENGINES = {
    "inline": {"num_workers": 0},
    "processes": {"num_workers": 2},
    "persistent": {"num_workers": 2, "persistent_workers": True},
    "threads": {"num_workers": 2, "worker_method": "thread"},
    "spawned": {"num_workers": 2, "multiprocessing_context": "spawn"},
    "seldom": {"num_workers": 2, "snapshot_every_n_steps": 3},
    "never": {"num_workers": 2, "snapshot_every_n_steps": 0},
}


def batches(loader):
    return [batch.tolist() for batch in loader]


@pytest.mark.parametrize(
    "engine", [pytest.param(e, marks=pytest.mark.slow) if e == "spawned" else e for e in ENGINES]
)
def test_a_loader_goes_on(shards, engine):
    def make():
        dataset = WebDataset(shards, shardshuffle=True).shuffle(6, initial=2).map(number)
        return DataLoader(dataset, 3, **ENGINES[engine])

    loader = make()
    epochs = [batches(loader) for _ in range(3)]
    assert all(sorted(sum(epoch, [])) == list(range(TOTAL)) for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2]
    for before, cut in ((0, 1), (1, 0), (1, 5), (1, len(epochs[1]))) if engine != "spawned" else ((1, 4),):
        loader = make()
        for _ in range(before):
            list(loader)
        iterator = advanced(loader, cut)
        state = json.loads(json.dumps(loader.state_dict()))
        del iterator
        resumed = going_on(make(), state)
        assert batches(resumed) == epochs[before][cut:]
        if engine != "spawned":
            assert batches(resumed) == epochs[before + 1]


def test_behind_an_epoch_the_next_one_begins(shards):
    for options in ENGINES["inline"], ENGINES["processes"], ENGINES["persistent"]:
        loader = DataLoader(WebDataset(shards, shardshuffle=True).map(number), 3, **options)
        list(loader)
        state, expected = loader.state_dict(), batches(loader)
        resumed = going_on(DataLoader(WebDataset(shards, shardshuffle=True).map(number), 3, **options), state)
        assert batches(resumed) == expected


@pytest.mark.parametrize("persistent", [False, True])
def test_epochs_that_are_set_reach_the_workers(shards, persistent):
    dataset = WebDataset(shards, shardshuffle=True).map(number)
    for cls in (DataLoader, torch.utils.data.DataLoader):
        loader = cls(dataset, 3, num_workers=2, persistent_workers=persistent)
        epochs = {}
        for epoch in (2, 0, 2, 1):
            dataset.set_epoch(epoch)
            epochs.setdefault(epoch, batches(loader))
            dataset.set_epoch(epoch)
            assert batches(loader) == epochs[epoch]
        assert len({str(epoch) for epoch in epochs.values()}) == 3


def test_states_of_others_are_refused(shards, become):
    dataset = WebDataset(shards).shuffle(4)
    next(iter(dataset))
    state = dataset.state_dict()
    with pytest.raises(
        ValueError, match=r"shuffle\(4, initial=100, seed=None\), and this one is .*shuffle\(5"
    ):
        WebDataset(shards).shuffle(5).load_state_dict(state)
    with pytest.raises(ValueError, match="10 shards in order, seed 0"):
        WebDataset(shards[:-1]).shuffle(4).load_state_dict(state)
    with pytest.raises(ValueError, match="version 7"):
        WebDataset(shards).shuffle(4).load_state_dict({**state, "version": 7})
    again = going_on(WebDataset(shards).shuffle(4), state)
    become(1, 2, 0, 1)
    with pytest.raises(
        ValueError, match="worker 0 of 1 in rank 0 of 1, and this is worker 0 of 1 in rank 1 of 2"
    ):
        next(iter(again))


def test_the_buffers_rule_is_as_written():
    """What comes out at output g was among the first min(initial + 2 g, size + g) samples."""

    class Numbers:
        def __iter__(self):
            return iter(range(200))

        def position(self):
            return [0]

    for size, initial in ((1, 1), (5, 1), (5, 100), (30, 7)):
        flow = holding.ShuffleFlow(Numbers(), holding.Shuffle(size, initial), Draws(size), None)
        out = list(flow)
        assert sorted(out) == list(range(200))
        assert all(n < min(min(initial, size) + 2 * g, size + g) for g, n in enumerate(out))
