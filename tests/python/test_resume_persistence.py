"""A state of persistent workers goes on with workers that are new in each epoch, or with none, and the other
way round: the resumed epoch and those behind it are those of the run that was left, whoever goes on with it.
"""

from __future__ import annotations

import json
import os

import millrace
import pytest
import torch
from loader_data import going_on, make_folder
from millrace import DataLoader, samplers, transforms
from millrace.datasets import ImageFolder
from shard_data import numbered_shards
from test_resume import SIZE, Counting, Squares, own, values
from test_resume_user_samplers import OwnGenerator, with_its_generator
from test_resume_workers import StatefulSquares
from thinned import thinned
from torch.utils.data import IterableDataset, RandomSampler, TensorDataset, WeightedRandomSampler


def rows():
    return TensorDataset(torch.arange(SIZE))


STAYS = {"num_workers": 2, "persistent_workers": True}
ENDS = {"num_workers": 2}
MODES = {
    "stays": STAYS,
    "ends": ENDS,
    "inline": {"num_workers": 0},
    "threads stay": {**STAYS, "worker_method": "thread"},
    "threads end": {**ENDS, "worker_method": "thread"},
}
CROSSINGS = [
    ("stays", "ends"),
    ("ends", "stays"),
    ("stays", "stays"),
    ("inline", "stays"),
    ("stays", "inline"),
    ("threads stay", "ends"),
    ("threads end", "threads stay"),
    ("ends", "threads stay"),
]


def weighted():
    return WeightedRandomSampler(torch.arange(1.0, SIZE + 1), 15, generator=own())


class LaterGenerator(OwnGenerator):
    """Draws from its generator in between, too."""

    def __iter__(self):
        for batch in super().__iter__():
            yield [batch[0], int(torch.randint(SIZE, (), generator=self.generator))]


ORDERS = {
    "shuffled": lambda: {"batch_size": 4, "shuffle": True, "generator": own()},
    "sampler's generator": lambda: {"batch_size": 4, "sampler": RandomSampler(range(SIZE), generator=own())},
    "two generators": lambda: {
        "batch_size": 4,
        "sampler": RandomSampler(range(SIZE), generator=own()),
        "generator": torch.Generator().manual_seed(77),
    },
    "weighted": lambda: {"batch_size": 4, "sampler": weighted(), "drop_last": True},
    "no batches": lambda: {"batch_size": None, "shuffle": True, "generator": own()},
    "user's, at once": with_its_generator,
    "user's, later": lambda: {"batch_sampler": LaterGenerator()},
    "permutation": lambda: {
        "batch_size": 4,
        "sampler": samplers.PermutationSampler(SIZE, seed=3),
        "auto_epoch": True,
    },
}


def later_of(order, then, now, cut):
    """Of samplers that draw in their __iter__, which torch calls once without workers and twice with them,
    later epochs depend on how many there are.
    """
    if order == "user's, at once" and "inline" in (then, now):
        return int(cut is None)
    return 2


def epochs(loader, count):
    return [values(loader) for _ in range(count)]


def go_on(make, then, now, cut, before=1, later=2):
    """A run of `then`, left behind `cut` batches of its epoch (None: behind it), goes on as `now`: what comes
    then, and what comes of the run's own kind from a state that `now` gives.
    """
    torch.manual_seed(1)
    left = make(then)
    for _ in range(before):
        list(left)
    iterator = None if cut is None else iter(left)
    for _ in range(cut or 0):
        next(iterator)
    state = json.loads(json.dumps(left.state_dict()))
    expected = ([] if cut is None else [values(iterator)]) + epochs(left, later)

    torch.manual_seed(99)
    resumed = going_on(make(now), state)
    assert resumed.persistent_workers == make(now).persistent_workers
    first = epochs(resumed, 1)
    again = going_on(make(then), json.loads(json.dumps(resumed.state_dict())))
    assert first + epochs(resumed, len(expected) - 1) == expected, (then, now, cut)
    assert first + epochs(again, len(expected) - 1) == expected, (then, now, then, cut)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("then, now", CROSSINGS[:5])
def test_rows_natively(then, now, order):
    for cut in (None, 2):
        later = later_of(order, then, now, cut)
        go_on(lambda mode: DataLoader(rows(), **ORDERS[order](), **MODES[mode]), then, now, cut, 1, later)


@thinned(3, crossing=CROSSINGS, order=["shuffled", "user's, at once", "user's, later"])
def test_python_datasets(crossing, order):
    then, now = crossing
    for cut in (None, 1):
        later = later_of(order, then, now, cut)
        go_on(lambda mode: DataLoader(Squares(), **ORDERS[order](), **MODES[mode]), then, now, cut, 1, later)


def test_of_the_global_generator_the_resumed_epoch():
    for then, now in CROSSINGS[:5]:
        go_on(lambda mode: DataLoader(rows(), 4, shuffle=True, **MODES[mode]), then, now, None, later=1)


def test_before_the_first_epoch():
    for then, now in CROSSINGS[:5]:
        go_on(
            lambda mode: DataLoader(rows(), **ORDERS["shuffled"](), **MODES[mode]),
            then,
            now,
            None,
            before=0,
            later=3,
        )


def test_augmentation_goes_on(tmp_path):
    make_folder(tmp_path, 8)
    chain = transforms.Compose([transforms.RandomResizedCrop(16), transforms.ToTensor()])
    data = ImageFolder(tmp_path, chain)

    def make(mode):
        return Sums(data, 2, shuffle=True, generator=own(), native="require", **MODES[mode])

    for then, now in CROSSINGS[:5]:
        for cut in (None, 1):
            go_on(make, then, now, cut)


class Sums(DataLoader):
    """Its batches as text that differs where a pixel does."""

    def __iter__(self):
        for images, labels in super().__iter__():
            yield images.flatten().tolist(), labels


def test_an_epoch_that_was_left_in_its_middle_counts():
    for then, now in CROSSINGS[:5]:
        left, resumed = (DataLoader(rows(), **ORDERS["shuffled"](), **MODES[mode]) for mode in (then, now))
        list(left)
        resumed.load_state_dict(left.state_dict())
        runs = [[str(next(iter(loader))), *epochs(loader, 2)] for loader in (left, resumed)]
        assert runs[0] == runs[1], (then, now)


class Seeded(IterableDataset):
    """Draws by the seed that torch gives its workers, and by its own count."""

    def __init__(self):
        self.epoch = 0

    def __iter__(self):
        self.epoch += 1
        info = torch.utils.data.get_worker_info()
        generator = torch.Generator().manual_seed(info.seed + self.epoch)
        return iter(torch.randperm(5, generator=generator).tolist())

    def state_dict(self):
        return {"epoch": self.epoch}

    def load_state_dict(self, state):
        self.epoch = state["epoch"]


@pytest.mark.parametrize("dataset", [Counting, Seeded, StatefulSquares])
@pytest.mark.parametrize("then, now", [("stays", "ends"), ("ends", "stays"), ("threads stay", "threads end")])
def test_places_of_datasets(dataset, then, now):
    go_on(lambda mode: DataLoader(dataset(), 2, generator=own(), **MODES[mode]), then, now, None)


@pytest.mark.parametrize("native", ["auto", "never"])
def test_shards(tmp_path, native):
    urls = numbered_shards(tmp_path, [7, 5, 9, 4])

    def make(mode):
        data = millrace.datasets.WebDataset(urls, shardshuffle=True, seed=5).shuffle(8).decode()
        data = data.to_tuple("__key__")
        return DataLoader(data, 3, generator=own(), native=native, **MODES[mode])

    for then, now in CROSSINGS[:3]:
        go_on(make, then, now, None)


class Noise(Squares):
    def __getitem__(self, index):
        return os.getpid(), int(torch.randint(1 << 60, ()))


def test_workers_that_end_draw_anew_in_each_epoch():
    """Else a resumed run would augment all its epochs alike."""
    left = DataLoader(Noise(), 4, generator=own(), **STAYS)
    list(left)
    resumed = going_on(DataLoader(Noise(), 4, generator=own(), **ENDS), left.state_dict())
    drawn = [{int(value) for _, noise in resumed for value in noise} for _ in range(3)]
    assert len(set.union(*drawn)) == 3 * SIZE


def test_who_stays_and_who_ends():
    """Workers that began each epoch anew do so when they could stay, because their draws and places are those
    of new ones; a run of its own begins without a state.
    """
    left = DataLoader(Noise(), 4, generator=own(), **ENDS)
    list(left)
    resumed = going_on(DataLoader(Noise(), 4, generator=own(), **STAYS), left.state_dict())
    pids = [{int(pid) for pids, _ in resumed for pid in pids} for _ in range(2)]
    assert not pids[0] & pids[1]
    fresh = going_on(DataLoader(Noise(), 4, generator=own(), **STAYS), {})
    pids = [{int(pid) for pids, _ in fresh for pid in pids} for _ in range(2)]
    assert pids[0] == pids[1]


def test_states_that_do_not_say_it_are_of_the_loaders_own_kind():
    left = DataLoader(rows(), **ORDERS["shuffled"](), **STAYS)
    list(left)
    state = left.state_dict()
    expected = epochs(left, 2)
    del state["millrace"]["workers_stay"]
    resumed = DataLoader(rows(), **ORDERS["shuffled"](), **STAYS)
    resumed.load_state_dict(state, verify=False)
    assert epochs(resumed, 2) == expected
