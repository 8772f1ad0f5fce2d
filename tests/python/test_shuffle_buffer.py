"""ShuffleBuffer over streams and samplers: every sample once, and resumed from a handful of numbers."""

from __future__ import annotations

import json
from itertools import islice

import millrace
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from loader_data import advanced, going_on
from millrace import samplers
from millrace.samplers import ShuffleBuffer


class Lines:
    """A stream without a length or a state."""

    def __init__(self, count):
        self.count = count

    def __iter__(self):
        return (f"line {i}" for i in range(self.count))


class Seekable(torch.utils.data.IterableDataset):
    """A stream that can start anywhere; `begun` tells where it did."""

    def __init__(self, count):
        self.count, self.start, self.begun = count, 0, []

    def __iter__(self):
        start, self.start = self.start, 0
        self.begun.append(start)
        return Counting(start, self.count)

    def load_state_dict(self, state):
        self.start = state["next"]


class Counting:
    def __init__(self, start, end):
        self.next, self.end = start, end

    def __iter__(self):
        return self

    def __next__(self):
        if self.next == self.end:
            raise StopIteration
        self.next += 1
        return f"line {self.next - 1}"

    def state_dict(self):
        return {"next": self.next}


class IteratorLoads(Lines):
    """Its iterators, not itself, load a state."""

    def __iter__(self):
        iterator = Counting(0, self.count)
        iterator.load_state_dict = lambda state: setattr(iterator, "next", state["next"])
        return iterator


SOURCES = [Lines, Seekable, IteratorLoads]
sources = pytest.mark.parametrize("source", SOURCES)


@sources
@settings(max_examples=80, deadline=None)
@given(count=st.integers(0, 300), size=st.integers(1, 120), seed=st.integers(0, 9), data=st.data())
def test_cut_and_resumed(source, count, size, seed, data):
    whole = list(ShuffleBuffer(size, seed)(source(count)))
    assert sorted(whole) == sorted(Lines(count))
    taken, state = [], None
    for _ in range(2):
        stream = ShuffleBuffer(size, seed)(source(count))
        if state is not None:
            stream.load_state_dict(state)
        iterator = iter(stream)
        taken += islice(iterator, data.draw(st.integers(0, count - len(taken))))
        state = json.loads(json.dumps(iterator.state_dict()))
        assert state["position"] == len(taken) and stream.state_dict() == state
    stream = going_on(ShuffleBuffer(size, seed)(source(count)), state)
    assert taken + list(stream) == whole
    assert list(stream) == whole, "the next epoch begins at the beginning"


def test_a_state_holds_no_samples_and_the_source_seeks():
    stream = ShuffleBuffer(50)(Seekable(100_000))
    iterator = iter(stream)
    list(islice(iterator, 50_000))
    state = iterator.state_dict()
    assert len(json.dumps(state)) < 400
    again = going_on(ShuffleBuffer(50)(Seekable(100_000)), state)
    assert list(islice(again, 100)) == list(islice(iterator, 100))
    assert again.source.begun[0] > 49_000, "only what the buffer may hold is read again"


def test_shuffled_by_epoch():
    stream = ShuffleBuffer(40, seed=1)(Lines(200))
    first = list(stream)
    assert list(stream) == first
    stream.set_epoch(1)
    assert list(stream) != first


def test_a_source_with_epochs_is_resumed_in_its_epoch():
    class Epochs:
        epoch = 0

        def set_epoch(self, epoch):
            self.epoch = epoch

        def __iter__(self):
            return iter(range(1000 * self.epoch, 1000 * self.epoch + 100))

    stream = ShuffleBuffer(10)(Epochs())
    stream.set_epoch(2)
    iterator = iter(stream)
    taken = list(islice(iterator, 40))
    other = going_on(ShuffleBuffer(10)(Epochs()), iterator.state_dict())
    assert sorted(taken + list(other)) == list(range(2000, 2100))


def test_an_unfinished_read_is_tried_again():
    class Flaky:
        def __init__(self):
            self.next = 0

        def __iter__(self):
            return self if self.next == 0 else iter(())

        def __next__(self):
            self.next += 1
            if self.next == 30:
                raise ConnectionError("gone")
            if self.next > 60:
                raise StopIteration
            return self.next

    class Source:
        def __iter__(self):
            return iter(Flaky())

    iterator, seen = iter(ShuffleBuffer(10)(Source())), []
    with pytest.raises(ConnectionError):
        for item in iterator:
            seen.append(item)
    assert sorted(seen + list(iterator)) == [i for i in range(1, 61) if i != 30], (
        "nothing that was read is lost"
    )


def test_as_a_dataset_in_loaders():
    stream = ShuffleBuffer(16)(Seekable(64))
    expected = list(stream)
    for loader_class in (torch.utils.data.DataLoader, millrace.DataLoader):
        for workers in (0, 1):
            loader = loader_class(ShuffleBuffer(16)(Seekable(64)), 8, num_workers=workers)
            assert [line for batch in loader for line in batch] == expected


SAMPLERS = {
    "sequential": lambda: samplers.SequentialSampler(range(150)),
    "random": lambda: samplers.RandomSampler(range(150)),
    "torch's": lambda: torch.utils.data.RandomSampler(range(150)),
    "weighted": lambda: samplers.WeightedRandomSampler(torch.arange(1.0, 151), 150),
    "distributed": lambda: samplers.DistributedSampler(range(450), 3, 2),
    "permutation": lambda: samplers.PermutationSampler(150, num_replicas=1, rank=0),
    "shards": lambda: samplers.ShardShuffle([70, 80], num_replicas=1, rank=0),
    "two tiers": lambda: samplers.TwoTierShuffle([70, 80], 9, num_replicas=1, rank=0),
    "mixture": lambda: samplers.MixtureSampler([10, 60], [1, 2], 150, num_replicas=1, rank=0),
    "anybody's": lambda: Anybodys(),
}


class Anybodys(torch.utils.data.Sampler):
    def __iter__(self):
        return iter(range(150))

    def __len__(self):
        return 150


@pytest.mark.parametrize("make", SAMPLERS.values(), ids=SAMPLERS)
@settings(max_examples=30, deadline=None)
@given(size=st.integers(1, 200), cut=st.integers(1, 150), seed=st.integers(0, 9))
def test_samplers_cut_and_resumed(make, size, cut, seed):
    torch.manual_seed(seed)
    sampler = ShuffleBuffer(size, seed)(make())
    assert isinstance(sampler, torch.utils.data.Sampler) and len(sampler) == 150
    iterator = iter(sampler)
    taken = list(islice(iterator, cut))
    state = json.loads(json.dumps(iterator.state_dict()))
    rest = iterator.take(1000).tolist()
    assert len(taken) + len(rest) == 150
    other = going_on(ShuffleBuffer(size, seed)(make()), state)
    assert list(other) == rest


def test_ranks_with_buffers_of_their_own_keep_their_number():
    iterator = advanced(ShuffleBuffer(5)(samplers.DistributedSampler(range(30), 3, 1)), 1)
    with pytest.raises(ValueError, match="num_replicas=3 there, 2 here"):
        ShuffleBuffer(5)(samplers.DistributedSampler(range(30), 2, 1)).load_state_dict(iterator.state_dict())


def test_what_cannot_be_shuffled():
    with pytest.raises(TypeError, match="iterated again, not list_iterator"):
        ShuffleBuffer(5)(iter([1, 2]))
    with pytest.raises(TypeError, match="not int"):
        ShuffleBuffer(5)(5)
    with pytest.raises(TypeError, match="below the BatchSampler"):
        ShuffleBuffer(5)(torch.utils.data.BatchSampler(range(5), 2, False))


def test_a_source_that_became_shorter():
    iterator = iter(ShuffleBuffer(5)(Lines(100)))
    list(islice(iterator, 50))
    shorter = going_on(ShuffleBuffer(5)(Lines(20)), iterator.state_dict())
    with pytest.raises(ValueError, match="now the source ends after 20; resume with the same data"):
        next(iter(shorter))
