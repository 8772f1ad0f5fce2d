"""A state goes on with other workers, or more of them, wherever the place is no worker's own."""

from __future__ import annotations

import json
import random

import millrace
import pytest
import torch
from loader_data import advanced, going_on, make_folder
from millrace import DataLoader, transforms
from millrace.datasets import ImageFolder
from test_resume import ORDERS, SIZE, Counting, Squares, Stateless, values
from test_resume_faults import Broken
from test_resume_user_samplers import SAMPLERS, seed
from thinned import thinned
from torch.utils.data import TensorDataset


def rows():
    return TensorDataset(torch.arange(SIZE))


WAYS = {
    "none": (Squares, {}),
    "two processes": (Squares, {"num_workers": 2}),
    "three threads": (Squares, {"num_workers": 3, "worker_method": "thread"}),
    "three that stay": (Squares, {"num_workers": 3, "persistent_workers": True}),
    "native": (rows, {}),
    "native threads": (rows, {"num_workers": 2}),
    "native that stay": (rows, {"num_workers": 3, "persistent_workers": True}),
    "not natively": (rows, {"native": "never"}),
    "not natively, one process": (rows, {"native": "never", "num_workers": 1}),
}
PAIRS = [
    ("none", "two processes"),
    ("two processes", "three threads"),
    ("three threads", "none"),
    ("none", "three that stay"),
    ("three that stay", "two processes"),
    ("native", "native threads"),
    ("native threads", "not natively"),
    ("native threads", "native that stay"),
    ("native that stay", "not natively, one process"),
    ("not natively, one process", "native"),
]


def make(way, arguments, number):
    seed(number)
    dataset, options = WAYS[way]
    dataset = dataset()
    return DataLoader(dataset, **arguments(dataset), **options)


def check(then, now, arguments):
    length = len(values(make(then, arguments, 1)))
    for cut in ("before", random.Random(then + now).randint(2, length - 1), length):
        loader = make(then, arguments, 1)
        if cut == "before":
            state, iterator = loader.state_dict(), iter(loader)
        else:
            iterator = advanced(loader, cut)
            state = loader.state_dict()
        rest = values(iterator)
        resumed = going_on(make(now, arguments, 2), json.loads(json.dumps(state)))
        assert values(resumed) == rest, f"{then} to {now}, cut at {cut}"
        if cut == "before" or not rest:
            continue
        resumed = going_on(make(now, arguments, 3), state)
        next(iterator := iter(resumed))
        again = going_on(make(now, arguments, 4), resumed.state_dict())
        assert values(again) == values(iterator), f"{then} to {now} and {now}, cut at {cut}"


@thinned(3, ways=PAIRS, order=[*ORDERS])
def test_known_orders(ways, order):
    check(*ways, ORDERS[order])


@thinned(
    3,
    ways=[("none", "two processes"), ("two processes", "none"), ("three threads", "three that stay")],
    name=[*SAMPLERS],
)
def test_samplers_of_users(ways, name):
    check(*ways, lambda dataset: SAMPLERS[name]())


@pytest.mark.parametrize(
    "then, now", [("none", "three threads"), ("three that stay", "none"), ("native that stay", "native")]
)
def test_behind_an_epoch(then, now):
    """The next epoch follows, in the order that the sampler gives it."""
    loader = make(then, ORDERS["permutation"], 1)
    list(loader)
    loader.sampler.set_epoch(1)
    state, after = loader.state_dict(), values(loader)
    resumed = going_on(make(now, ORDERS["permutation"], 2), state)
    resumed.sampler.set_epoch(1)
    assert values(resumed) == after


@pytest.mark.parametrize("then, now", [(0, 2), (2, 0), (2, 3)])
def test_pictures_are_the_same_down_to_their_augmentation(tmp_path, then, now):
    make_folder(tmp_path, 12)
    dataset = ImageFolder(
        tmp_path, transforms.Compose([transforms.RandomResizedCrop(32), transforms.ToTensor()])
    )

    def loader(workers):
        return DataLoader(dataset, 2, shuffle=True, num_workers=workers, native="require")

    first = loader(then)
    iterator = advanced(first, 1)
    state = first.state_dict()
    resumed = going_on(loader(now), state)
    for (ours, _), (theirs, _) in zip(resumed, iterator, strict=True):
        assert torch.equal(ours, theirs)


def test_left_out_samples_stay_left_out():
    def loader(workers):
        return DataLoader(Broken(), 4, on_error="skip", num_workers=workers)

    for then, now in ((0, 2), (2, 0), (2, 3)):
        first = loader(then)
        iterator = advanced(first, 1)
        resumed = going_on(loader(now), first.state_dict())
        assert values(resumed) == values(iterator)


class StatefulSquares(Squares):
    """Every copy counts what it gave."""

    def __init__(self):
        self.given = 0

    def __getitem__(self, index):
        self.given += 1
        return super().__getitem__(index)

    def state_dict(self):
        return {"given": self.given}

    def load_state_dict(self, state):
        self.given = state["given"]


@pytest.mark.parametrize("dataset", [Counting, StatefulSquares, Stateless])
@pytest.mark.parametrize("then, now", [(0, 2), (2, 0), (2, 3)])
def test_places_that_are_workers_own(dataset, then, now):
    """Also an AssertionError, which is what torchdata's users catch."""
    first = DataLoader(dataset(), 2, num_workers=then)
    _held = advanced(first, 3)
    resumed = going_on(DataLoader(dataset(), 2, num_workers=now), first.state_dict())
    with pytest.raises(
        millrace.StateError, match=f"num_workers={then}, and the loader has {now}: .*Load the state with"
    ) as raised:
        iter(resumed)
    assert isinstance(raised.value, AssertionError)


@pytest.mark.parametrize("then, now", [(0, 2), (2, 3)])
def test_a_stream_that_has_not_begun(then, now):
    resumed = DataLoader(Stateless(), 2, num_workers=now)
    resumed.load_state_dict(DataLoader(Stateless(), 2, num_workers=then).state_dict())
    assert values(resumed) == values(DataLoader(Stateless(), 2, num_workers=now))


def test_no_state_between_snapshots_is_lost():
    """snapshot_every_n_steps=0, and nothing said yet: batches since the start are made again and dropped."""
    first = DataLoader(StatefulSquares(), 2, num_workers=2, snapshot_every_n_steps=0)
    iterator = advanced(first, 1)
    state, rest = first.state_dict(), values(iterator)
    resumed = going_on(DataLoader(StatefulSquares(), 2, num_workers=3, snapshot_every_n_steps=0), state)
    try:
        assert values(resumed) == rest
    except millrace.StateError as error:
        assert "num_workers=2, and the loader has 3" in str(error)
