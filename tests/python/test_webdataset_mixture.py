"""Mixtures of streams: shares, ends, epochs, places; and steps that are equal on all ranks."""

from __future__ import annotations

import json
import warnings

import millrace
import pytest
import torch
from loader_data import advanced, going_on
from millrace import DataLoader
from millrace.datasets import Mixture, WebDataset
from shard_data import numbered_shards
from split_cases import number
from torch.utils.data import IterableDataset


class Count(IterableDataset):
    """A user's, without a state."""

    def __init__(self, start, length):
        self.numbers = range(start, start + length)

    def __iter__(self):
        return iter(self.numbers)


def negative(sample):
    return -1 - int(sample["cls"])


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    return numbered_shards(tmp_path_factory.mktemp("mixed"), [5, 4, 6, 3])


@pytest.mark.parametrize("longest", [False, True])
def test_in_turn_as_the_package(longest):
    wds = pytest.importorskip("webdataset")
    streams = [Count(0, 3), Count(10, 6), Count(20, 4)]
    assert list(Mixture(streams, longest=longest)) == list(wds.RoundRobin(streams, longest=longest))


def test_weights_are_shares():
    mixture = Mixture([Count(0, 10**6), Count(10**6, 10**6), Count(2 * 10**6, 10**6)], [6, 3, 1]).with_epoch(
        3000
    )
    drawn = [n // 10**6 for n in mixture]
    assert len(drawn) == 3000
    assert all(abs(drawn.count(stream) / 3000 - share) < 0.03 for stream, share in enumerate((0.6, 0.3, 0.1)))
    mixture.set_epoch(0)
    assert [n // 10**6 for n in mixture] == drawn != [n // 10**6 for n in mixture], (
        "each epoch has draws of its own"
    )


def test_ends():
    short, long = Count(0, 5), Count(100, 50)
    whole = list(Mixture([short, long], [1, 1], longest=True))
    assert sorted(whole) == [*range(5), *range(100, 150)]
    first = list(Mixture([short, long], [1, 1]))
    assert (
        first == whole[: len(first)] and [n for n in first if n < 100] == list(range(5)) and len(first) < 40
    )
    assert list(Mixture([short])) == list(range(5))


CASES = {
    "webdatasets": lambda shards: Mixture(
        [
            WebDataset(shards, shardshuffle=True).shuffle(4).map(number),
            WebDataset(shards).map(negative).repeat(),
        ],
        [2, 1],
    ),
    "all of both": lambda shards: Mixture(
        [WebDataset(shards).map(number), WebDataset(shards).map(negative)], [1, 3], longest=True
    ),
    "in turn": lambda shards: Mixture(
        [WebDataset(shards).map(number), WebDataset(shards[:2]).map(negative)], longest=True
    ).shuffle(5),
    "without states": lambda shards: Mixture(
        [Count(0, 9), WebDataset(shards).map(negative)], [1, 1], longest=True
    ).listed(2),
    "of mixtures": lambda shards: Mixture(
        [Mixture([Count(0, 9), Count(20, 9)], [1, 2]), WebDataset(shards, resampled=True).map(negative)],
        [1, 1],
    ).with_epoch(40),
    "twice the same": lambda shards: Mixture(
        [WebDataset(shards).map(number)] * 2, [1, 1], longest=True
    ).repeat(2),
}


@pytest.mark.parametrize("case", CASES)
def test_every_place_is_resumed(shards, case):
    dataset = CASES[case](shards)
    given, states = [], [json.dumps(dataset.state_dict())]
    for item in dataset:
        given.append(item)
        states.append(json.dumps(dataset.state_dict()))
    after = list(dataset)
    assert len(given) > 8
    for cut, state in enumerate(states):
        resumed = going_on(CASES[case](shards), json.loads(state))
        assert list(resumed) == given[cut:]
        if cut % 7 == 0:
            assert list(resumed) == after


@pytest.mark.parametrize("workers", [0, 2])
def test_in_a_loader(shards, workers):
    def make():
        return DataLoader(CASES["webdatasets"](shards).with_epoch(20), 4, num_workers=workers)

    epochs = [[batch.tolist() for batch in loader] for loader in [make()] for _ in range(2)]
    assert len(epochs[0]) == 5 * max(1, workers) and epochs[0] != epochs[1]
    loader = make()
    _held = advanced(loader, 3)
    state = json.loads(json.dumps(loader.state_dict()))
    resumed = going_on(make(), state)
    assert [batch.tolist() for batch in resumed] == epochs[0][3:]


def test_arguments(shards):
    for arguments, message in (
        (([],), "one dataset at least"),
        (([Count(0, 1)], [1, 2]), "1 datasets and 2 weights"),
        (([Count(0, 1)], [0]), "above 0"),
    ):
        with pytest.raises(ValueError, match=message):
            Mixture(*arguments)
    dataset = CASES["all of both"](shards)
    next(iter(dataset))
    with pytest.raises(ValueError, match="the state was saved for the pipeline"):
        CASES["in turn"](shards).load_state_dict(dataset.state_dict())


# ---------------------------------------------------------------- equal steps


def test_a_declared_epoch_is_equal_on_uneven_ranks(shards, monkeypatch):
    """with_epoch(n) counts for each reader, however uneven their shards are."""
    steps, seen = [], set()
    for rank in range(3):
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("WORLD_SIZE", "3")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loader = DataLoader(WebDataset(shards).map(number).with_epoch(8), 4, num_workers=2)
        batches = list(loader)
        steps.append(len(batches))
        seen |= set(torch.cat(batches).tolist())
    assert steps == [4, 4, 4] and seen == set(range(18))


def test_steps_that_cannot_be_agreed_on(shards):
    with pytest.raises(millrace.UnavailableError, match=r"give a WebDataset an epoch, by .with_epoch\(n\)"):
        iter(DataLoader(WebDataset(shards).map(number), 4, equal_steps="drop"))


@pytest.mark.parametrize("workers", [0, 2])
def test_equal_steps_over_declared_epochs(shards, monkeypatch, workers):
    """Of ranks that declared others, or have other numbers of workers."""

    def steps(equal_steps, *others):
        monkeypatch.setattr("millrace._common.data_parallel.gathered", lambda own, group: [own, *others])
        loader = DataLoader(
            WebDataset(shards).map(number).with_epoch(10), 4, num_workers=workers, equal_steps=equal_steps
        )
        counts = len(list(loader)), len(list(loader))
        _held = advanced(loader, 1)
        loader.load_state_dict(json.loads(json.dumps(loader.state_dict())))
        assert len(list(loader)) == counts[0] - 1
        return counts

    readers = max(1, workers)
    assert steps("drop", 100) == (3 * readers, 3 * readers)
    assert steps("drop", 2) == (2, 2)
    assert steps("pad", 3 * readers) == steps("repeat", 1) == (3 * readers, 3 * readers)
    with pytest.raises(millrace.UnavailableError, match="cannot be repeated"):
        steps("pad", 100)
