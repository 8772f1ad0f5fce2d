"""Order, generators' states and the sampler's schedule are torch's, to the bit, whatever the arguments."""

import random

import millrace
import numpy as np
import pytest
import torch
from loader_data import Indices, generator_states, make_folder, pictures
from torch.utils.data import (
    BatchSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from torch.utils.data.distributed import DistributedSampler

COUNT = 21


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    root = tmp_path_factory.mktemp("order")
    make_folder(root, COUNT)
    return pictures(str(root))


def both(dataset, use, **arguments):
    """`use(loader)` and the generators' states afterwards, for torch's loader and for a native one."""
    results = []
    for loader_class, data, extra in (
        (torch.utils.data.DataLoader, Indices(COUNT), {}),
        (millrace.DataLoader, dataset, {"native": "require"}),
    ):
        torch.manual_seed(7), random.seed(7), np.random.seed(7)
        made = {name: value(data) if callable(value) else value for name, value in arguments.items()}
        result = use(loader_class(data, **made, **extra))
        own = made.get("generator")
        results.append((result, generator_states(), own.get_state().tolist() if own is not None else None))
    return results


def epochs(count):
    def use(loader):
        orders = []
        for epoch in range(count):
            if isinstance(loader.sampler, DistributedSampler):
                loader.sampler.set_epoch(epoch)
            orders.append([labels.tolist() for _, labels in loader])
        return orders

    return use


class Backwards:
    """A sampler of one's own, without a length."""

    def __iter__(self):
        return iter(np.arange(COUNT)[::-1])


CASES = {
    "plain": {},
    "batches": {"batch_size": 4},
    "shuffle": {"shuffle": True},
    "shuffle batches": {"batch_size": 5, "shuffle": True},
    "one batch": {"batch_size": COUNT, "shuffle": True},
    "batch larger than all": {"batch_size": 64, "shuffle": True},
    "drop last": {"batch_size": 4, "shuffle": True, "drop_last": True},
    "drop all": {"batch_size": 64, "drop_last": True},
    "generator": {
        "batch_size": 4,
        "shuffle": True,
        "generator": lambda data: torch.Generator().manual_seed(5),
    },
    "replacement": {
        "batch_size": 8,
        "sampler": lambda data: RandomSampler(data, replacement=True, num_samples=70),
    },
    "several rounds": {"batch_size": 8, "sampler": lambda data: RandomSampler(data, num_samples=50)},
    "part of a round": {"batch_size": 8, "sampler": lambda data: RandomSampler(data, num_samples=10)},
    "own generator": {
        "batch_size": 4,
        "sampler": lambda data: RandomSampler(data, generator=torch.Generator().manual_seed(3)),
    },
    "weighted": {
        "batch_size": 4,
        "sampler": lambda data: WeightedRandomSampler(torch.arange(1.0, COUNT + 1), 30),
    },
    "subset": {"batch_size": 4, "sampler": lambda data: SubsetRandomSampler([3, 1, 4, 15, 9, 2, 6])},
    "distributed": {
        "batch_size": 4,
        "sampler": lambda data: DistributedSampler(data, num_replicas=2, rank=1, seed=11),
    },
    "batch sampler": {"batch_sampler": lambda data: BatchSampler(RandomSampler(data), 6, drop_last=True)},
    "lists": {"batch_sampler": lambda data: [[1, 2], [-1], [3, 3, 3, torch.tensor(4)]]},
    "arrays": {"batch_sampler": lambda data: [np.array([1, 2]), torch.tensor([5, 4])]},
    "own sampler": {"batch_size": 4, "sampler": lambda data: Backwards()},
}


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("case", CASES)
def test_epochs(dataset, case, workers):
    torchs, ours = both(dataset, epochs(2), num_workers=workers, **CASES[case])
    assert ours == torchs


@pytest.mark.parametrize("generator", [None, lambda data: torch.Generator().manual_seed(5)])
def test_persistent_epochs(dataset, generator):
    arguments = {
        "batch_size": 4,
        "shuffle": True,
        "num_workers": 2,
        "persistent_workers": True,
        "generator": generator,
    }
    torchs, ours = both(dataset, epochs(3), **arguments)
    assert ours == torchs


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("persistent", [False, True])
def test_early_break(dataset, workers, persistent):
    def use(loader):
        seen = []
        for _ in range(3):
            for _, labels in loader:
                seen.append(labels.tolist())
                break
        return seen

    arguments = {
        "batch_size": 2,
        "shuffle": True,
        "num_workers": workers,
        "persistent_workers": persistent and workers > 0,
    }
    torchs, ours = both(dataset, use, **arguments)
    assert ours == torchs


@pytest.mark.parametrize("workers", [0, 2])
def test_two_iterators_at_once(dataset, workers):
    def use(loader):
        return [(a[1].tolist(), b[1].tolist()) for a, b in zip(loader, loader)]

    torchs, ours = both(dataset, use, batch_size=4, shuffle=True, num_workers=workers)
    assert ours == torchs


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("shuffle", [False, True])
def test_iterators_that_are_dropped(dataset, workers, shuffle):
    def use(loader):
        for _ in range(3):
            iter(loader)

    torchs, ours = both(dataset, use, shuffle=shuffle, num_workers=workers)
    assert ours == torchs


@pytest.mark.parametrize("workers", [0, 2])
def test_construction_and_questions_draw_nothing(dataset, workers):
    def use(loader):
        if isinstance(loader, millrace.DataLoader):
            loader.explain(), loader.stats(), loader.seed, loader.epoch
        return len(loader)

    torchs, ours = both(dataset, use, shuffle=True, num_workers=workers)
    assert ours == torchs


class Watched:
    """Writes down when it is advanced; `eager`: also draws when iterated. Raises at `fails_at`."""

    def __init__(self, events, eager=False, fails_at=None):
        self.events, self.eager, self.fails_at = events, eager, fails_at

    def __iter__(self):
        self.events.append("iter")
        if self.eager:
            torch.rand(1)
        return self._indices()

    def _indices(self):
        for index in range(12):
            self.events.append(f"index {index}")
            if index == self.fails_at:
                raise LookupError("no more")
            yield index


@pytest.mark.parametrize("as_batches", [False, True])
@pytest.mark.parametrize("fails_at", [None, 9])
@pytest.mark.parametrize("workers, prefetch", [(0, None), (1, 2), (2, 2), (2, 1), (3, 3)])
def test_sampler_schedule(dataset, workers, prefetch, fails_at, as_batches):
    """When indices are asked for; what an error of the sampler does; that iter() runs as often."""
    logs = []

    def use(loader):
        events = logs[-1]
        for _ in range(2):
            try:
                for _, labels in loader:
                    events.append(labels.tolist())
            except LookupError:
                events.append("LookupError")
        return events

    def sampler(data):
        logs.append([])
        watched = Watched(logs[-1], eager=True, fails_at=fails_at)
        return _Singles(watched) if as_batches else watched

    name = "batch_sampler" if as_batches else "sampler"
    torchs, ours = both(dataset, use, num_workers=workers, prefetch_factor=prefetch, **{name: sampler})
    assert ours == torchs


class _Singles:
    """A batch sampler that draws as eagerly as the sampler it wraps."""

    def __init__(self, sampler):
        self.sampler = sampler

    def __iter__(self):
        indices = iter(self.sampler)
        return ([index] for index in indices)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("bad", [("a", 1), 1.5, None, "x", COUNT, -COUNT - 1])
def test_indices_no_dataset_has(dataset, workers, bad):
    """The error is raised when the batch's turn comes, with torch's type, and the next batch follows."""

    def use(loader):
        iterator, seen = iter(loader), []
        while True:
            try:
                seen.append(next(iterator)[1].tolist())
            except StopIteration:
                return seen
            except (TypeError, IndexError) as error:
                seen.append(type(error))

    torchs, ours = both(
        dataset, use, num_workers=workers, batch_sampler=lambda data: [[0, 1], [2, bad], [3], [4]]
    )
    assert ours == torchs


def test_native_permutation_is_torchs(dataset):
    """The sampler that is replaced gives what it would have given, and draws when it would have drawn."""
    from millrace._loader.states.index_cursor import known_sampler
    from millrace.samplers import native

    def walk(batches, generator):
        """Batches and states, after each batch and at the end."""
        torch.manual_seed(5), generator.manual_seed(6)
        seen = []
        for rows in batches:
            seen.append(
                (list(map(int, rows)), torch.get_rng_state().tolist(), generator.get_state().tolist())
            )
        return seen, torch.get_rng_state().tolist(), generator.get_state().tolist()

    own = torch.Generator()
    for n, size, drop_last in [
        (1, 1, False),
        (5, 2, False),
        (5, 2, True),
        (6, 2, False),
        (6, 2, True),
        (3, 5, True),
        (1000, 128, False),
    ]:
        for sampler in (
            RandomSampler(range(n)),
            RandomSampler(range(n), generator=own),
            SequentialSampler(range(n)),
        ):
            batches = BatchSampler(sampler, size, drop_last)
            lowered = native(batches)
            assert known_sampler(batches) is not None and len(lowered) == len(batches)
            assert walk(lowered.arrays(), own) == walk(batches, own)
    assert known_sampler(BatchSampler(Backwards(), 2, False)) is None
    assert list(native(BatchSampler(SequentialSampler([]), 2, False)).arrays()) == []
