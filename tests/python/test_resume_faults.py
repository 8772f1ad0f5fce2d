"""Resuming where something goes wrong: samples that fail, datasets that cannot be saved, unfit states."""

from __future__ import annotations

import copy
import pickle

import millrace
import pytest
import torch
from loader_data import advanced, going_on
from millrace import DataLoader
from test_resume import ENGINES, SIZE, Counting, Squares, check, own, values
from torch.utils.data import IterableDataset


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
        resumed = going_on(DataLoader(Broken(), 4, num_workers=2), state)
        assert before + use(iter(resumed), 99) == everything


class Unsaveable(Counting):
    def state_dict(self):
        raise RuntimeError("no state today")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_dataset_that_cannot_be_saved_can_be_used(engine):
    loader = DataLoader(Unsaveable(), 4, **ENGINES[engine])
    assert values(loader) == values(DataLoader(Counting(), 4, **ENGINES[engine]))
    _held = advanced(loader, 1)
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
    damaged = saved(shuffle=True, generator=own())
    damaged["_sampler_iter_state"]["sampler"]["generator"] = "no base64"
    resumed = DataLoader(Squares(), 4, shuffle=True, generator=own())
    with pytest.raises(millrace.StateError, match="is damaged, or was changed"):
        resumed.load_state_dict(damaged)
    with pytest.raises(millrace.StateError, match="a random generator cannot be read.*damaged"):
        resumed.load_state_dict(damaged, verify=False)
        list(resumed)


def changed(state, *path, value=None, delete=False):
    state = copy.deepcopy(state)
    holder = state
    for key in path[:-1]:
        holder = holder[key]
    if delete:
        del holder[path[-1]]
    else:
        holder[path[-1]] = value
    return state


def test_a_state_that_says_where_it_should_not_is_refused_by_its_checksum():
    state = saved()
    for damaged in (
        changed(state, "_sampler_iter_state", delete=True),
        changed(state, "_sampler_iter_state", "position", value=10**6),
        changed(state, "millrace", delete=True),
        changed(state, "_num_yielded", value=2),
        changed(state, "checksum", value=None),
    ):
        with pytest.raises(
            millrace.StateError, match="the loader's state is damaged, or was changed.*verify=False"
        ):
            DataLoader(Squares(), 4).load_state_dict(damaged)


def test_states_made_by_hand():
    """Without the checksum: what is missing or impossible has a sentence; what could be is a place."""
    state, loader = saved(), DataLoader(Squares(), 4)
    for damaged, words in (
        (changed(state, "_sampler_iter_state", delete=True), "no \\['_sampler_iter_state'\\]"),
        (
            changed(state, "_sampler_iter_state"),
            "from behind 1 index lists, and does not say where the SequentialSampler stood",
        ),
        (
            changed(state, "_sampler_iter_state", "sampler", "position", value=10**6),
            "position is 1000000, behind the end",
        ),
        (
            changed(state, "_num_yielded", value="1"),
            "'_num_yielded'.*should be a whole number of 0 or more, but is '1'",
        ),
        (changed(state, "_iterator_finished", value=0), "should be True or False, but is 0"),
        (changed(state, "millrace", "order", delete=True), "no \\['millrace'\\]\\['order'\\]|no .*'order'"),
    ):
        for unverified in (damaged, {key: value for key, value in damaged.items() if key != "checksum"}):
            with pytest.raises(millrace.StateError, match=words):
                loader.load_state_dict(unverified, verify="checksum" not in unverified)
                list(loader)
    moved = changed(
        changed(state, "_sampler_iter_state", "sampler", "position", value=8), "_num_yielded", value=2
    )
    loader.load_state_dict(moved, verify=False)
    again = loader.state_dict()
    assert values(loader) == values(DataLoader(Squares(), 4))[2:]
    loader.load_state_dict(again)  # it has a checksum of its own now
    assert values(loader) == values(DataLoader(Squares(), 4))[2:]


@pytest.mark.parametrize("workers", [1, 2])
def test_what_is_missing_of_workers(workers):
    loader = DataLoader(Counting(), 2, num_workers=workers)
    next(iter(loader))
    state = loader.state_dict()
    for path in (
        ("_worker_snapshots",),
        ("_worker_snapshots", "worker_0"),
        ("_worker_snapshots", "worker_0", "dataset_state"),
    ):
        damaged = changed(state, "_snapshot", *path, delete=True)
        with pytest.raises(millrace.StateError, match="damaged, or was changed"):
            loader.load_state_dict(damaged)
        with pytest.raises(millrace.StateError, match=f"the state has no .*{path[-1]}"):
            loader.load_state_dict(damaged, verify=False)


def test_samplers_of_users_that_end_before_the_place():
    class Short:
        def __iter__(self):
            return iter([[1], [2], [3]])

    loader = DataLoader(Squares(), batch_sampler=Short())
    list(loader)
    _held = advanced(loader, 1)
    state = changed(loader.state_dict(), "_sampler_iter_yielded", value=7)
    loader.load_state_dict(state, verify=False)
    with pytest.raises(millrace.StateError, match="from behind 7 index lists, and the sampler gives only 3"):
        list(loader)


def test_an_empty_state_begins_anew():
    loader = DataLoader(Squares(), 4, num_workers=2, persistent_workers=True)
    _held = advanced(loader, 1)
    loader.load_state_dict({})
    assert values(loader) == values(DataLoader(Squares(), 4)) and loader.epoch == 0


def test_loaders_are_copied_and_pickled_with_their_place():
    loader = DataLoader(Squares(), 4, shuffle=True)
    _held = advanced(loader, 1)
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
    iterator = advanced(loader, 1)
    with pytest.raises(KeyboardInterrupt):
        next(iterator)
    if goes_on:
        assert next(iterator).tolist() == [8, 9, 10, 11]
    resumed = going_on(DataLoader(dataset, 4), loader.state_dict())
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
    resumed = going_on(DataLoader(OwnIterator(), 2, **ENGINES[engine]), loader.state_dict())
    assert values(resumed) == everything
