"""Streams that are resumed: later epochs are whole, whatever a dataset does with a state that it is given."""

import copy
import gc
import json
import random
import weakref

import millrace
import pytest
import torch
from torch.utils.data import IterableDataset

N = 24


def share(positions):
    worker = torch.utils.data.get_worker_info()
    return positions if worker is None else positions[worker.id :: worker.num_workers]


class Kept(IterableDataset):
    """Keeps the state that it was given, as Hugging Face's streams do."""

    def __init__(self):
        self._start, self._at = None, 0

    def __iter__(self):
        own = share(range(N))
        for self._at in range((self._start or {"at": 0})["at"], len(own)):
            self._at += 1
            yield own[self._at - 1]

    def state_dict(self):
        return {"at": self._at}

    def load_state_dict(self, state):
        self._start = state


class Told(Kept):
    """As Kept, but its state is right from the moment when it is given."""

    def load_state_dict(self, state):
        self._start, self._at = state, state["at"]


class Around(IterableDataset):
    """Gives its state to another one, and has a count of its own that goes on."""

    def __init__(self, inner=Kept):
        self._inner, self._seen = [inner()], 0

    def __iter__(self):
        for sample in self._inner[0]:
            self._seen += 1
            yield sample + 100 * self._seen

    def state_dict(self):
        return {"inner": self._inner[0].state_dict(), "seen": self._seen}

    def load_state_dict(self, state):
        self._seen = state["seen"]
        self._inner[0].load_state_dict(state["inner"])


class Pending(IterableDataset):
    """Takes a state that it was given when it begins, and counts its epochs."""

    def __init__(self):
        self._given, self._state = None, {"at": 0, "epoch": 0}

    def __iter__(self):
        if self._given is not None:
            self._state, self._given = self._given, None
        own = share(range(N))
        for at in range(self._state["at"], len(own)):
            self._state["at"] = at + 1
            yield own[at] + 100 * self._state["epoch"]
        self._state = {"at": 0, "epoch": self._state["epoch"] + 1}

    def state_dict(self):
        return self._state if self._given is None else self._given

    def load_state_dict(self, state):
        self._given = state


class Live(IterableDataset):
    """Its state is the one that it was given, written to; the place goes back when an epoch ends."""

    def __init__(self):
        self._state = None

    def _of(self):
        self._state = self._state or {"at": 0, "count": 0}
        return self._state

    def __iter__(self):
        own, state = share(range(N)), self._of()
        for at in range(state["at"], len(own)):
            state["at"], state["count"] = at + 1, state["count"] + 1
            yield own[at] + 100 * state["count"]
        state["at"] = 0

    def state_dict(self):
        return self._of()

    def load_state_dict(self, state):
        self._state = state


class Set(IterableDataset):
    """What it was given stays, as the seed of all epochs does."""

    def __init__(self):
        self._seed, self._start, self._at = 7, 0, 0

    def __iter__(self):
        own, (start, self._start) = share(range(N)), (self._start, 0)
        for self._at in range(start, len(own)):
            self._at += 1
            yield own[self._at - 1] + self._seed
        self._at = 0

    def state_dict(self):
        return {"seed": self._seed, "at": self._at}

    def load_state_dict(self, state):
        self._seed, self._start = state["seed"], state["at"]


class Order(IterableDataset):
    """Draws its order once; a state has it."""

    def __init__(self):
        self._order, self._start, self._at = None, 0, 0

    def __iter__(self):
        self._order = self._order or random.sample(range(N), N)
        start, self._start = self._start, 0
        for self._at in range(start, N):
            self._at += 1
            yield self._order[self._at - 1]
        self._at = 0

    def state_dict(self):
        return {"order": self._order, "at": self._at}

    def load_state_dict(self, state):
        self._order, self._start = state["order"], state["at"]


class Words(IterableDataset):
    """All of its state is for all epochs. Also a part of Speech."""

    def __init__(self):
        self.words = None

    def __iter__(self):
        for at in range(N):
            yield self.number() + at

    def number(self):
        self.words = self.words or {"a": random.randrange(1 << 40)}
        return self.words["a"]

    def state_dict(self):
        return dict(self.words)

    def load_state_dict(self, state):
        self.words = state


class Speech(Kept):
    """Keeps its state, and has an object whose state is for all epochs."""

    def __init__(self):
        super().__init__()
        self._words = Words()

    def __iter__(self):
        return (self._words.number() + at for at in super().__iter__())

    def state_dict(self):
        return {"at": self._at, "words": self._words.state_dict()}

    def load_state_dict(self, state):
        self._start = state
        self._words.load_state_dict(state["words"])


class Circle(Kept):
    """Its state contains itself."""

    def state_dict(self):
        state = super().state_dict()
        state["state"] = state
        return state


class Strange:
    def __getattr__(self, name):
        raise RuntimeError(f"there is no {name}")


class Holding(Kept):
    """Has a member that answers no question."""

    def __init__(self):
        self._strange = Strange()
        super().__init__()


class Refusing(Kept):
    """Its state cannot be taken away."""

    def __setattr__(self, name, value):
        if name == "_start" and value is None and hasattr(self, "_at"):
            raise TypeError("a state is needed")
        super().__setattr__(name, value)

    def __init__(self):
        self._start, self._at = None, 0


def around_order():
    return Around(Order)


def hugging_face(buffer):
    def make():
        datasets = pytest.importorskip("datasets")
        stream = datasets.Dataset.from_dict({"x": list(range(N))}).to_iterable_dataset(num_shards=4)
        return stream.shuffle(seed=3, buffer_size=buffer) if buffer else stream

    return make


DATASETS = {cls.__name__: cls for cls in (Kept, Told, Around, Pending, Live, Set)}
DATASETS |= {"Hugging Face": hugging_face(0), "Hugging Face, shuffled": hugging_face(5)}
WORKERS = {
    "inline": {"num_workers": 0},
    "processes": {"num_workers": 2},
    "persistent": {"num_workers": 2, "persistent_workers": True},
    "threads": {"num_workers": 2, "worker_method": "thread"},
    "persistent threads": {"num_workers": 2, "worker_method": "thread", "persistent_workers": True},
}
EPOCHS = 4


def samples_of(batch):
    return (batch["x"] if isinstance(batch, dict) else batch).tolist()


def loader_of(kind, how):
    return millrace.DataLoader(DATASETS[kind](), batch_size=4, **WORKERS[how])


def epoch_of(loader):
    return [samples_of(batch) for batch in loader]


@pytest.mark.parametrize("how", WORKERS)
@pytest.mark.parametrize("kind", DATASETS)
def test_epochs_behind_a_resumed_one_are_those_of_the_run_that_was_left(kind, how):
    loader = loader_of(kind, how)
    whole, states = [], {}
    for epoch in range(EPOCHS):
        whole.append([])
        for batch in loader:
            whole[-1].append(samples_of(batch))
            states[epoch, len(whole[-1])] = json.dumps(loader.state_dict())
        states[epoch, None] = json.dumps(loader.state_dict())
    steps = len(whole[0])
    assert all(len(sum(epoch, [])) == N for epoch in whole)
    for epoch, step in [(0, 1), (0, steps - 1), (0, steps), (0, None), (1, 2), (1, None)]:
        resumed = loader_of(kind, how)
        resumed.load_state_dict(json.loads(states[epoch, step]))
        later = [epoch_of(resumed) for _ in range(epoch + (step is None), EPOCHS)]
        if step is not None:
            rest, later = whole[epoch][:step] + later[0], later[1:]
            if "shuffled" not in kind:  # whose buffer `datasets` leaves out of its states
                assert rest == whole[epoch], (epoch, step)
        assert later == whole[EPOCHS - len(later) :], (epoch, step)


@pytest.mark.parametrize("make", [Kept, Order, around_order, Words, Speech, Circle, Holding])
def test_what_is_no_position_stays_for_later_epochs(make):
    loader = millrace.DataLoader(make(), batch_size=4)
    batches = iter(loader)
    next(batches)
    state = loader.state_dict()
    rest = [samples_of(batch) for batch in batches]
    later = [epoch_of(loader) for _ in range(2)]
    resumed = millrace.DataLoader(make(), batch_size=4)
    resumed.load_state_dict(state)
    assert epoch_of(resumed)[-len(rest) :] == rest
    assert [epoch_of(resumed) for _ in range(2)] == later


def resumed_in_epoch(dataset):
    """(a loader over `dataset` with a state behind the first batch, that state)"""
    loader = millrace.DataLoader(copy.deepcopy(dataset), batch_size=4)
    next(iter(loader))
    state = loader.state_dict()
    loader = millrace.DataLoader(dataset, batch_size=4)
    loader.load_state_dict(state)
    return loader, state


def test_a_state_that_cannot_be_taken_away_stays():
    loader, _ = resumed_in_epoch(Refusing())
    assert [len(epoch_of(loader)) for _ in range(2)] == [5, 5]


@pytest.mark.parametrize("kind", ["Kept", "Told", "Hugging Face"])
def test_a_dataset_may_be_resumed_twice(kind):
    loader, state = resumed_in_epoch(DATASETS[kind]())
    sizes = [len(epoch_of(loader))]
    loader.load_state_dict(state)
    sizes += [len(epoch_of(loader)) for _ in range(2)]
    assert sizes == [5, 5, 6]


def test_an_epoch_of_another_loader_is_whole_and_the_resumed_one_goes_on():
    loader, _ = resumed_in_epoch(dataset := Kept())
    batches = iter(loader)
    next(batches)
    assert len(epoch_of(millrace.DataLoader(dataset, batch_size=4))) == 6
    assert len(list(batches)) == 4


@pytest.mark.parametrize("kind", ["Kept", "Around", "Hugging Face"])
def test_datasets_end_with_their_loaders(kind):
    dataset = DATASETS[kind]()
    loader, _ = resumed_in_epoch(dataset)
    epoch_of(loader)
    ended = weakref.ref(dataset)
    del dataset, loader
    gc.collect()
    assert ended() is None
