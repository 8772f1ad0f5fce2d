"""Loaders of every kind that are pickled and copied, before, while and after they are iterated over: what
comes out works, at its place.
"""

from __future__ import annotations

import copy
import gc
import inspect
import pickle
import warnings

import millrace
import pytest
import torch
from millrace import DataLoader, DevicePrefetcher
from millrace._loader.arguments import OURS
from millrace._loader.states import before_first_epoch, is_stateful
from state_mutations import ROWS, kinds, values
from test_resume import Counting, Squares
from torch.utils.data import DataLoader as TorchsLoader
from torch.utils.data import IterableDataset


def by_pickle(thing):
    return pickle.loads(pickle.dumps(thing))


def by_cloudpickle(thing):
    return pickle.loads(pytest.importorskip("cloudpickle").dumps(thing))


COPIES = [by_pickle, by_cloudpickle, copy.deepcopy, copy.copy]


@pytest.fixture(scope="module")
def every_kind(tmp_path_factory):
    found = kinds(tmp_path_factory.mktemp("kinds"))
    return {name: kind.make for name, kind in found.items() if name != "rows of ranks, merged"}


@pytest.mark.parametrize("copied", COPIES)
def test_every_kind(every_kind, copied):
    for name, make in every_kind.items():
        torch.manual_seed(1)
        expected = values(make())
        torch.manual_seed(1)
        assert values(copied(make())) == expected, name


@pytest.mark.parametrize("copied", COPIES)
def test_a_place_that_was_loaded_goes_along(every_kind, copied):
    for name, make in every_kind.items():
        loader = make()
        iterator = iter(loader)
        next(iterator), next(iterator)
        state, rest = loader.state_dict(), values(iterator)
        resumed = make()
        resumed.load_state_dict(state)
        twin = copied(resumed)
        if copied is copy.copy:  # shares its dataset and sampler, which have one place
            resumed = None
        assert values(twin) == rest, name
        if resumed is not None:
            assert values(resumed) == rest, name


@pytest.mark.parametrize("copied", COPIES)
@pytest.mark.parametrize(
    "options", [{}, {"num_workers": 2}, {"num_workers": 2, "worker_method": "thread"}, {"native": "never"}]
)
def test_copies_of_one_in_use_begin_anew(copied, options):
    loader = DataLoader(ROWS, 4, **options)
    iterator = iter(loader)
    next(iterator)
    twin = copied(loader)
    twin.load_state_dict(twin.state_dict())
    assert len(list(twin)) == 15 and len(list(iterator)) == 14


@pytest.mark.parametrize("options", [{}, {"num_workers": 1}, {"num_workers": 1, "worker_method": "thread"}])
@pytest.mark.parametrize("dataset", [ROWS, Squares(), Counting()])
@pytest.mark.parametrize("copied", COPIES)
def test_iterators_cannot_be_copied_as_torchs_cannot(copied, dataset, options):
    for iterator in (
        iter(DataLoader(dataset, 4, **options)),
        iter(TorchsLoader(dataset, 4, num_workers=options.get("num_workers", 0))),
    ):
        with pytest.raises(NotImplementedError, match="cannot be pickled"):
            copied(iterator)


class WithItsOwn(DataLoader):
    """Takes other arguments than its base."""

    def __init__(self, count, name="mine", **options):
        super().__init__(range(count), 4, **options)
        self.name, self.count = name, count

    def state_dict(self):
        return {**super().state_dict(), "name": self.name}

    def load_state_dict(self, state):
        self.name = state["name"]
        super().load_state_dict(state)


@pytest.mark.parametrize("copied", COPIES)
@pytest.mark.parametrize("workers", [0, 2])
def test_subclasses_with_arguments_of_their_own(copied, workers):
    loader = WithItsOwn(20, name="yours", num_workers=workers)
    iterator = iter(loader)
    next(iterator)
    twin = copied(loader)
    assert (type(twin), twin.name, twin.count) == (WithItsOwn, "yours", 20)
    twin = copied(WithItsOwn(20, num_workers=workers))
    twin.load_state_dict(loader.state_dict())
    assert (twin.name, values(twin)) == ("yours", values(iterator))


def test_what_is_stateful():
    """Objects that can say where they stand; a class cannot, and no more can what answers to any name."""

    class AnyName:
        def __getattr__(self, name):
            return lambda *arguments: None

    for thing in (Counting(), millrace.datasets.WebDataset("a.tar"), DataLoader(ROWS)):
        assert is_stateful(thing)
    for thing in (
        None,
        3,
        Counting,
        DataLoader,
        torch.nn.Linear(1, 1),
        torch.nn.Linear,
        AnyName(),
        Squares(),
        Squares,
    ):
        assert not is_stateful(thing)


def test_a_class_in_place_of_a_dataset():
    """Accelerate makes such a loader on the way, when one that it prepared is unpickled."""
    loader = DataLoader(DataLoader)
    assert loader.state_dict()["dataset_state"] is None
    assert before_first_epoch(DataLoader(Counting)).state(loader)["dataset_state"] is None


def test_prefetchers():
    for copied in COPIES:
        twin = copied(DevicePrefetcher(DataLoader(ROWS, 4), "cpu", channels_last=True))
        assert len(list(twin)) == 15


def torchs_arguments(loader):
    """As frameworks find them in its attributes."""
    names = list(inspect.signature(TorchsLoader).parameters)[5:]
    return {name: getattr(loader, name) for name in names if name != "drop_last"}


class Around(IterableDataset):
    def __init__(self, dataset):
        self.dataset = dataset

    def __iter__(self):
        return iter(self.dataset)


def test_every_argument_of_ours_has_its_default_where_it_is_not_given():
    ours = inspect.signature(DataLoader).parameters
    torchs = inspect.signature(TorchsLoader).parameters
    defaults = {name: ours[name].default for name in ours if name not in torchs}
    assert defaults | {"pictures": "native"} == OURS  # None: what the environment says
    loader = DataLoader(range(4))
    assert type(loader.num_workers) is int and {name: getattr(loader, name) for name in OURS} == OURS


@pytest.mark.parametrize("workers", [0, 2, "auto"])
@pytest.mark.parametrize("around", [lambda data: data, Around], ids=["the dataset", "one around it"])
def test_a_loader_made_of_torchs_arguments_has_ours_too(around, workers):
    given = {"worker_method": "thread", "pictures": "pillow", "history": False, "snapshot_every_n_steps": 5}
    data = Around([1, 2, 3])
    loader = DataLoader(data, num_workers=workers, tune_file=None, **given)
    for _ in range(3):
        made = DataLoader(around(data), **torchs_arguments(loader))
        assert {name: getattr(made, name) for name in given} == given
        assert type(made.num_workers) is type(loader.num_workers) and made.num_workers == loader.num_workers
        loader, data = made, made.dataset
    kept = DataLoader(data, history=True, **{**torchs_arguments(made), "num_workers": 3})
    assert kept.history is True and kept.worker_method == "auto"
    for copied in (by_pickle, copy.deepcopy, copy.copy):
        twin = copied(made)
        again = DataLoader(twin.dataset, **torchs_arguments(twin))
        assert {name: getattr(again, name) for name in given} == given
    other = DataLoader(Around([1, 2, 3]), **torchs_arguments(loader))
    assert {name: getattr(other, name) for name in given} == {name: OURS[name] for name in given}
    with pytest.warns(UserWarning, match="worker_method=, pictures=, snapshot_every_n_steps=, history= have"):
        TorchsLoader(data, **torchs_arguments(loader))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TorchsLoader(data, num_workers=loader.num_workers)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(
    "copied",
    [
        lambda old: {"num_workers": old.num_workers},
        lambda old: {"num_workers": max(old.num_workers, 1), "collate_fn": old.collate_fn},
        lambda old: {"num_workers": old.num_workers, "timeout": old.timeout},
        lambda old: {**torchs_arguments(old), "timeout": 0},
        lambda old: {**torchs_arguments(old), "collate_fn": list},
    ],
    ids=["workers", "workers, collate_fn", "workers, timeout", "no timeout", "other collate_fn"],
)
def test_a_loader_that_copies_some_numbers_of_another_one_is_none_made_of_it(copied, workers):
    old = DataLoader(ROWS, num_workers=workers, on_error="skip", history=False)
    for data in (ROWS, torch.utils.data.Subset(ROWS, [1])):
        made = DataLoader(data, **copied(old))
        assert (made.on_error, made.history, type(made.timeout)) == ("raise", True, int)


def test_arguments_that_are_given_win_over_those_of_the_old_loader():
    old = DataLoader(ROWS, on_error="skip", history=False, auto_epoch=True)
    made = DataLoader(ROWS, **torchs_arguments(old), on_error="raise", history=True)
    assert (made.on_error, made.history, made.auto_epoch) == ("raise", True, True)


def test_an_old_loader_may_be_gone_before_the_new_one_is_made():
    arguments = torchs_arguments(DataLoader(ROWS, on_error="skip", history=False))
    gc.collect()
    assert DataLoader(ROWS, **arguments).on_error == "skip"


def test_a_loader_made_anew_has_a_history_of_its_own():
    old = DataLoader(ROWS, 4, history=millrace.BatchHistory(7, hashes=True))
    for given in ({}, {"history": old.history}):  # Lightning gives ours, too, where it sees them
        made = DataLoader(ROWS, 4, **torchs_arguments(old), **given)
        assert made.history is not old.history and (made.history.max_steps, made.history.hashes) == (7, True)


@pytest.mark.parametrize("timeout", [0, 5, 2.5])
def test_numbers_of_a_loader_are_saved_as_numbers(timeout):
    class Local:  # cannot be pickled: numbers of a loader take no dataset along
        def __len__(self):
            return 4

    loader = DataLoader(Local(), num_workers=2, timeout=timeout, on_error="skip")
    numbers = {"num_workers": loader.num_workers, "timeout": loader.timeout}
    assert numbers == {"num_workers": 2, "timeout": timeout} and repr(loader.timeout) == str(timeout)
    assert by_pickle(numbers) == copy.deepcopy(numbers) == numbers
    assert type(loader.num_workers) is int  # as YAML and torch.load(weights_only=True) want it
