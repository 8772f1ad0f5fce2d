"""Order, generators' states and the sampler's schedule are torch's, to the bit, whatever the arguments."""

import millrace
import numpy as np
import pytest
import test_in_memory
import torch
from loader_data import Indices, make_folder, pictures
from test_in_memory import BATCH_SAMPLERS, COUNT, SAMPLERS, Watched, epochs
from torch.utils.data import BatchSampler, RandomSampler, SequentialSampler


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    root = tmp_path_factory.mktemp("order")
    make_folder(root, COUNT)
    return pictures(str(root))


def both(dataset, use, **arguments):
    """As of rows in memory. torch's loader has the indices alone."""
    return test_in_memory.both(dataset, use, Indices(COUNT), **arguments)[0]


def labels(batch):
    return batch[1].tolist()


class Backwards:
    """A sampler of one's own, without a length."""

    def __iter__(self):
        return iter(np.arange(COUNT)[::-1])


CASES = {
    "plain": {},
    "shuffle": {"shuffle": True},
    "batches": {"batch_size": 4},
    "one batch": {"batch_size": COUNT, "shuffle": True},
    "batch larger than all": {"batch_size": 64, "shuffle": True},
    "drop all": {"batch_size": 64, "drop_last": True},
    "part of a round": {"batch_size": 8, "sampler": lambda data: RandomSampler(data, num_samples=10)},
    "own sampler": {"batch_size": 4, "sampler": lambda data: Backwards()},
    **{f"in batches, {name}": {"batch_size": 4, **case} for name, case in SAMPLERS.items()},
    **{name: {"batch_sampler": make} for name, make in BATCH_SAMPLERS.items()},
}


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("case", CASES)
def test_epochs(dataset, case, workers):
    torchs, ours = both(dataset, epochs(2, labels), num_workers=workers, **CASES[case])
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
    torchs, ours = both(dataset, epochs(3, labels), **arguments)
    assert ours == torchs


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("persistent", [False, True])
def test_early_break(dataset, workers, persistent):
    def use(loader):
        seen = []
        for _ in range(3):
            for batch in loader:
                seen.append(labels(batch))
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
                for batch in loader:
                    events.append(labels(batch))
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
