"""Every wrong combination of arguments is refused as torch refuses it: same type, same words, same moment."""

import warnings

import millrace
import numpy as np
import pytest
import torch
from loader_data import Indices, make_folder, outcome, pictures
from torch.utils.data import IterableDataset


class Stream(IterableDataset):
    def __init__(self, length=None):
        self.length = length

    def __repr__(self):  # a test's name: every process must give it the same
        return f"Stream({self.length})"

    def __iter__(self):
        return iter(range(5))

    def __len__(self):
        if self.length is None:
            raise TypeError("no length")
        return self.length


DATA = Indices(10)
BATCHES = [[0, 1], [2]]

WRONG = [
    {"num_workers": -1},
    {"timeout": -1},
    {"num_workers": -1, "timeout": -1},
    {"num_workers": None},
    {"prefetch_factor": 2},
    {"prefetch_factor": -2, "num_workers": 1},
    {"prefetch_factor": -2},
    {"persistent_workers": True},
    {"sampler": range(3), "shuffle": True},
    {"sampler": range(3), "shuffle": 3},
    {"sampler": range(3), "shuffle": True, "batch_sampler": BATCHES},
    {"batch_sampler": BATCHES, "batch_size": 2},
    {"batch_sampler": BATCHES, "shuffle": True},
    {"batch_sampler": BATCHES, "sampler": range(3)},
    {"batch_sampler": BATCHES, "drop_last": True},
    {"batch_size": None, "drop_last": True},
    {"batch_size": 0},
    {"batch_size": -1},
    {"batch_size": True},
    {"batch_size": 2.0},
    {"batch_size": np.int64(2)},
    {"batch_size": "2"},
    {"drop_last": 1},
    {"multiprocessing_context": "fork"},
    {"multiprocessing_context": "nonsense", "num_workers": 1},
    {"multiprocessing_context": object, "num_workers": 1},
    {"multiprocessing_context": 3, "num_workers": 1},
    {"nonsense": 1},
]
WRONG_STREAMS = [
    {"shuffle": True},
    {"shuffle": 3},
    {"sampler": range(3)},
    {"batch_sampler": BATCHES},
    {"sampler": range(3), "shuffle": True},
    {"batch_size": None, "drop_last": True},
]


def make(loader_class, dataset, arguments):
    return outcome(lambda: type(loader_class(dataset, **arguments)) is loader_class)


@pytest.mark.parametrize("arguments", WRONG, ids=str)
def test_refused_by_the_constructor(arguments):
    torchs = make(torch.utils.data.DataLoader, DATA, arguments)
    kind, text = make(millrace.DataLoader, DATA, arguments)
    assert torchs[0] != "returned" and (kind, text.replace("millrace.", "")) == torchs


@pytest.mark.parametrize("arguments", WRONG_STREAMS, ids=str)
def test_refused_for_streams(arguments):
    torchs = make(torch.utils.data.DataLoader, Stream(), arguments)
    assert torchs[0] != "returned" and make(millrace.DataLoader, Stream(), arguments) == torchs


@pytest.mark.parametrize(
    "dataset, arguments",
    [
        ([], {"shuffle": True}),
        ([], {}),
        (Stream(), {"shuffle": False}),
        (Stream(7), {"batch_size": 2, "drop_last": True}),
    ],
    ids=str,
)
def test_lengths(dataset, arguments):
    def lengths(loader_class):
        return outcome(lambda: len(loader_class(dataset, **arguments))), outcome(
            lambda: bool(loader_class(dataset, **arguments))
        )

    assert lengths(millrace.DataLoader) == lengths(torch.utils.data.DataLoader)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("arguments")
    make_folder(root, 10)
    return pictures(str(root))


@pytest.mark.parametrize(
    "arguments", [{"prefetch_factor": 0, "num_workers": 1}, {"timeout": 3}, {"batch_sampler": 5}], ids=str
)
def test_refused_by_iter(folder, arguments):
    torchs = outcome(lambda: iter(torch.utils.data.DataLoader(DATA, **arguments)))
    assert torchs[0] != "returned"
    assert outcome(lambda: iter(millrace.DataLoader(DATA, **arguments))) == torchs
    assert outcome(lambda: iter(millrace.DataLoader(folder, native="require", **arguments))) == torchs


def warned(function):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        value = function()
    return value, [(w.category, str(w.message)) for w in caught]


@pytest.mark.parametrize(
    "arguments",
    [{"num_workers": 500}, {"pin_memory": True, "pin_memory_device": "cuda"}, {"pin_memory": True}],
    ids=str,
)
def test_warnings(folder, arguments, monkeypatch):
    torchs, expected = warned(lambda: torch.utils.data.DataLoader(DATA, **arguments))
    ours, seen = warned(lambda: millrace.DataLoader(folder, native="require", **arguments))
    assert seen == expected
    if arguments.get("num_workers"):
        torchs.num_workers = ours.num_workers = 3
        torchs.prefetch_factor = ours.prefetch_factor = 1
    monkeypatch.setattr(torch._utils, "cpu_count", lambda: 2, raising=False)  # torch 2.11 has another way
    assert warned(lambda: iter(ours))[1] == warned(lambda: iter(torchs))[1]


@pytest.mark.parametrize(
    "name", ["batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"]
)
def test_what_cannot_be_set(name):
    def assign(loader_class):
        return outcome(lambda: setattr(loader_class(DATA), name, None))

    assert assign(millrace.DataLoader) == assign(torch.utils.data.DataLoader)
    assert assign(millrace.DataLoader)[0] is ValueError


def test_ours_are_refused_with_the_choices():
    with pytest.raises(ValueError, match="native='always' is unknown; use one of 'auto', 'never', 'require'"):
        millrace.DataLoader(DATA, native="always")
    with pytest.raises(
        ValueError, match="on_error='ignore' is unknown; use one of 'raise', 'skip', 'replace'"
    ):
        millrace.DataLoader(DATA, on_error="ignore")
    with pytest.raises(ValueError, match="num_workers='all' is neither a number nor \"auto\""):
        millrace.DataLoader(DATA, num_workers="all")
