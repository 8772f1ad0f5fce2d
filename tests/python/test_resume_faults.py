"""Resuming where something goes wrong: samples that cannot be had, datasets that cannot be saved, states that do not fit."""

from __future__ import annotations

import copy
import pickle

import pytest
from test_resume import ENGINES, SIZE, Counting, Squares, check, own, values

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
