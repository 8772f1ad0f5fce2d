"""Resuming where something goes wrong: samples that cannot be had, datasets that cannot be saved, states that do not fit."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from test_resume import ENGINES, SIZE, Counting, Squares, check, own, values
from torch.utils.data import IterableDataset

from millrace import DataLoader


class Broken(Squares):
    def __getitem__(self, index):
        if index % 5 == 1:
            raise ValueError(f"sample {index} is broken")
        return super().__getitem__(index)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("on_error", ["skip", "replace"])
def test_samples_left_out_stay_left_out(engine, on_error):
    for cut in range(5):
        check(lambda: DataLoader(Broken(), 4, on_error=on_error, **ENGINES[engine]), cut)


def test_errors_are_steps_too():
    loader = DataLoader(Broken(), 4, num_workers=2)

    def use(iterator, steps):
        seen = []
        while len(seen) < steps:
            try:
                seen.append(str(next(iterator)))
            except StopIteration:
                break
            except ValueError as error:
                seen.append(str(error).splitlines()[-1])
        return seen

    everything = use(iter(loader), 99)
    for cut in range(7):
        iterator = iter(loader)
        before, state = use(iterator, cut), loader.state_dict()
        del iterator
        resumed = DataLoader(Broken(), 4, num_workers=2)
        resumed.load_state_dict(state)
        assert before + use(iter(resumed), 99) == everything


class Unsaveable(Counting):
    def state_dict(self):
        raise RuntimeError("no state today")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_dataset_that_cannot_be_saved_can_be_used(engine):
    loader = DataLoader(Unsaveable(), 4, **ENGINES[engine])
    assert values(loader) == values(DataLoader(Counting(), 4, **ENGINES[engine]))
    iterator = iter(loader)
    next(iterator)
    with pytest.raises(RuntimeError, match="no state today"):
        loader.state_dict()


def saved(**options):
    loader = DataLoader(Squares(), 4, **options)
    next(iter(loader))
    return loader.state_dict()


def test_bad_states_are_refused():
    loader = DataLoader(Squares(), 4)
    for bad, error, words in (
        ([1], TypeError, "is a dict"),
        ({"epoch": 3}, ValueError, "no loader's state"),
        ({**saved(), "millrace": {"version": 99}}, ValueError, "version 99"),
    ):
        with pytest.raises(error, match=words):
            loader.load_state_dict(bad)
    with pytest.raises(ValueError, match="samples in the dataset: 23, and this loader has 10"):
        DataLoader(range(10), 4).load_state_dict(saved())
    with pytest.raises(ValueError, match="BatchSampler of SequentialSampler.*BatchSampler of RandomSampler"):
        DataLoader(Squares(), 4, shuffle=True).load_state_dict(saved())
    with pytest.warns(UserWarning, match="dataset was"):
        DataLoader(range(SIZE), 4).load_state_dict(saved())
    for then, now in ((0, 2), (2, 0), (2, 3)):
        resumed = DataLoader(Squares(), 4, num_workers=now)
        resumed.load_state_dict(saved(num_workers=then))
        with pytest.raises(AssertionError, match=f"num_workers={then}, and the loader has {now}"):
            iter(resumed)
    damaged = saved(shuffle=True, generator=own())
    damaged["_sampler_iter_state"]["sampler"]["generator"] = "no base64"
    resumed = DataLoader(Squares(), 4, shuffle=True, generator=own())
    resumed.load_state_dict(damaged)
    with pytest.raises(ValueError, match="damaged"):
        list(resumed)


def test_an_empty_state_begins_anew():
    loader = DataLoader(Squares(), 4, num_workers=2, persistent_workers=True)
    iterator = iter(loader)
    next(iterator)
    loader.load_state_dict({})
    assert values(loader) == values(DataLoader(Squares(), 4)) and loader.epoch == 0


def test_loaders_are_copied_and_pickled_with_their_place():
    loader = DataLoader(Squares(), 4, shuffle=True)
    iterator = iter(loader)
    next(iterator)
    for twin in (copy.deepcopy(loader), pickle.loads(pickle.dumps(loader))):
        assert len(list(twin)) == 6
    loader.load_state_dict(loader.state_dict())
    assert len(list(copy.deepcopy(loader))) == 5


class TensorState(Squares):
    def state_dict(self):
        return {"rows": torch.arange(3)}

    def load_state_dict(self, state):
        pass


def test_tensors_in_states_leave_no_files_open():
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, limits[1]))
    try:
        loader = DataLoader(TensorState(), None, sampler=[1] * 400, num_workers=1)
        assert len(list(loader)) == 400
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    state = loader.state_dict()["_snapshot"]["_worker_snapshots"]["worker_0"]["dataset_state"]
    assert state["rows"].tolist() == [0, 1, 2]


class Interrupted(Squares):
    def __getitem__(self, index):
        if index == 5 and not self.came:
            self.came = True
            raise KeyboardInterrupt
        return index


@pytest.mark.parametrize("goes_on", [False, True])
def test_a_batch_that_ctrl_c_took(goes_on):
    """Saved at once, it is still to come; an iterator that goes on has lost it, as torch's has."""
    dataset = Interrupted()
    dataset.came = False
    loader = DataLoader(dataset, 4)
    iterator = iter(loader)
    next(iterator)
    with pytest.raises(KeyboardInterrupt):
        next(iterator)
    if goes_on:
        assert next(iterator).tolist() == [8, 9, 10, 11]
    resumed = DataLoader(dataset, 4)
    resumed.load_state_dict(loader.state_dict())
    assert next(iter(resumed)).tolist() == ([12, 13, 14, 15] if goes_on else [4, 5, 6, 7])


class OwnIterator(IterableDataset):
    """Is its own iterator, and begins anew in __iter__."""

    def __iter__(self):
        self.at = 0
        return self

    def __next__(self):
        if self.at == 5:
            raise StopIteration
        self.at += 1
        return self.at

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.at = state["at"]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_dataset_that_is_its_own_iterator(engine):
    for cut in range(3):
        check(lambda: DataLoader(OwnIterator(), 2, **ENGINES[engine]), cut)
    loader = DataLoader(OwnIterator(), 2, **ENGINES[engine])
    everything = values(loader)
    resumed = DataLoader(OwnIterator(), 2, **ENGINES[engine])
    resumed.load_state_dict(loader.state_dict())
    assert values(resumed) == everything
