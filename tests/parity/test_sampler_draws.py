"""torch's samplers, ours, and torch's own objects run natively: the same indices and the same generators
afterwards, alone and in a
loader, for 50 random configurations of each.
"""

import random

import millrace
import numpy as np
import pytest
import torch
from millrace import samplers
from thinned import thinned
from torch.utils import data
from torch.utils.data.distributed import DistributedSampler

CONFIGURATIONS = 50


class Draws(random.Random):
    def size(self):
        return self.choice([1, 2, 31, 32, 33, self.randint(1, 200), self.randint(1, 5000)])

    def generator(self):
        return torch.Generator().manual_seed(self.randint(-5, 2**40)) if self.random() < 0.5 else None

    def flag(self):
        return self.random() < 0.5


def sequential(draw):
    return (range(draw.size()),), {}


def shuffled(draw):
    return (range(draw.size()),), {"generator": draw.generator()}


def part_or_rounds(draw):
    return (range(draw.size()),), {"num_samples": draw.size(), "generator": draw.generator()}


def with_replacement(draw):
    return (range(draw.size()), True, draw.choice([None, draw.size()])), {"generator": draw.generator()}


def subset(draw):
    indices = draw.sample(range(10_000), draw.size())
    return (draw.choice([indices, tuple(indices), torch.tensor(indices), np.array(indices)]),), {
        "generator": draw.generator()
    }


def weighted(draw):
    weights = [draw.random() * draw.choice([1, 1, 0]) for _ in range(draw.size())] + [1.0]
    return (weights, draw.size()), {"generator": draw.generator()}


def weighted_once(draw):
    weights = [0.01 + draw.random() for _ in range(draw.size())]
    return (weights, draw.randint(1, len(weights)), False), {"generator": draw.generator()}


def distributed(draw):
    ranks = draw.choice([1, 2, 3, 8, 300])
    options = {"shuffle": draw.flag(), "seed": draw.randint(0, 2**40), "drop_last": draw.flag()}
    return (range(draw.size()),), {"num_replicas": ranks, "rank": draw.randrange(ranks), **options}


CASES = {
    sequential: (data.SequentialSampler, samplers.SequentialSampler),
    shuffled: (data.RandomSampler, samplers.RandomSampler),
    part_or_rounds: (data.RandomSampler, samplers.RandomSampler),
    with_replacement: (data.RandomSampler, samplers.RandomSampler),
    subset: (data.SubsetRandomSampler, samplers.SubsetRandomSampler),
    weighted: (data.WeightedRandomSampler, samplers.WeightedRandomSampler),
    weighted_once: (data.WeightedRandomSampler, samplers.WeightedRandomSampler),
    distributed: (DistributedSampler, samplers.DistributedSampler),
}
cases = pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)


def made(case, number, use):
    """use(sampler) and the generators' states afterwards, for torch's, ours, and torch's run natively."""
    torchs, ours = CASES[case]
    results = []
    for make in (torchs, ours, lambda *a, **k: samplers.native(torchs(*a, **k))):
        arguments, options = case(Draws(number))
        torch.manual_seed(number)
        sampler = make(*arguments, **options)
        result = use(sampler)
        own = options.get("generator")
        results.append((result, torch.get_rng_state().tolist(), own.get_state().tolist() if own else None))
    return results


def epochs(sampler, walk):
    orders = []
    for epoch in range(2):
        if hasattr(sampler, "set_epoch"):
            sampler.set_epoch(epoch + 3)
        orders.append(walk(sampler))
    return orders, len(sampler)


@cases
def test_indices(case):
    for number in range(CONFIGURATIONS):
        torchs, ours, native = made(
            case, number, lambda sampler: epochs(sampler, lambda s: [int(index) for index in s])
        )
        assert ours == torchs, number
        assert native == torchs, number


@cases
def test_arrays(case):
    """take() gives and draws what as many calls of next() would."""
    for number in range(CONFIGURATIONS):
        sizes = [1, 2, 31, 32, 33, 500, 7]

        def walk(sampler):
            iterator, pieces = iter(sampler), []
            for i in range(300):
                size = sizes[i % len(sizes)]
                if hasattr(iterator, "take") and i % 3:
                    pieces.append(iterator.take(size).tolist())
                else:
                    pieces.append([int(index) for index, _ in zip(iterator, range(size))])
                    if len(pieces[-1]) == size and i % 3 == 0:
                        next(iterator, None)  # zip() has asked for one index more
            return pieces

        def asked(sampler):
            """The same questions to torch's iterator."""
            iterator, pieces = iter(sampler), []
            for i in range(300):
                size = sizes[i % len(sizes)]
                if i % 3:
                    pieces.append([int(index) for index in _first(iterator, size)])
                else:
                    pieces.append([int(index) for index, _ in zip(iterator, range(size))])
                    if len(pieces[-1]) == size:
                        next(iterator, None)
            return pieces

        torchs, ours, native = made(
            case, number, lambda s: epochs(s, walk if isinstance(s, samplers.resumable.Resumable) else asked)
        )
        assert ours == torchs, number
        assert native == torchs, number


def _first(iterator, count):
    found = []
    while len(found) < count:
        try:
            found.append(next(iterator))
        except StopIteration:
            break
    return found


@cases
def test_generators_after_every_index(case):
    """Draws are made at torch's moments, not only as many."""
    for number in range(CONFIGURATIONS):
        own = case(Draws(number))[1].get("generator")

        def watch(sampler):
            generator, seen = getattr(sampler, "generator", None) or torch.default_generator, []
            iterator = iter(sampler)
            for index in _first(iterator, 100):
                seen.append((int(index), hash(generator.get_state().numpy().tobytes())))
            return seen, hash(generator.get_state().numpy().tobytes())

        torchs, ours, native = made(case, number, watch)
        assert ours == torchs, (number, own)
        assert native == torchs, (number, own)


def batches(loader, set_epoch):
    orders = []
    for epoch in range(2):
        set_epoch(epoch)
        orders.append([batch.tolist() for (batch,) in loader])
    return orders


@thinned(2, case=[*CASES], workers=[0, 1])
def test_in_a_loader(case, workers):
    """torch's loader with torch's sampler against ours with torch's and with ours, run natively."""
    for number in range(0, CONFIGURATIONS, 10 if workers else 1):
        torchs, ours = CASES[case]
        results = []
        for loader_class, sampler_class in (
            (data.DataLoader, torchs),
            (millrace.DataLoader, torchs),
            (millrace.DataLoader, ours),
        ):
            draw = Draws(number)
            arguments, options = case(draw)
            batch_size, drop_last = draw.choice([1, 7, 32, 100]), draw.flag()
            torch.manual_seed(number)
            rows = data.TensorDataset(torch.arange(10_000))
            sampler = sampler_class(*arguments, **options)
            extra = {"native": "require"} if loader_class is millrace.DataLoader else {}
            loader = loader_class(
                rows, batch_size, sampler=sampler, drop_last=drop_last, num_workers=workers, **extra
            )
            orders = batches(loader, getattr(sampler, "set_epoch", lambda epoch: None))
            own = options.get("generator")
            results.append(
                (orders, torch.get_rng_state().tolist(), own.get_state().tolist() if own else None)
            )
            if extra:
                assert f"{torchs.__name__} in batches of {batch_size}, torch's order and draws" in str(
                    loader.explain()
                )
        assert results[1] == results[0], number
        assert results[2] == results[0], number


@pytest.mark.parametrize(
    "batch_size, drop_last", [(1, False), (7, False), (7, True), (50, True), (64, False), (64, True)]
)
def test_batch_sampler(batch_size, drop_last):
    for sampler in (
        range(50),
        data.RandomSampler(range(50)),
        data.RandomSampler(range(50), generator=torch.Generator()),
    ):
        results = []
        for make in (
            data.BatchSampler,
            samplers.BatchSampler,
            lambda *a: samplers.native(data.BatchSampler(*a)),
        ):
            torch.manual_seed(1)
            if getattr(sampler, "generator", None) is not None:
                sampler.generator.manual_seed(4)
            made = make(sampler, batch_size, drop_last)
            results.append((list(made), list(made), len(made), torch.get_rng_state().tolist()))
        assert results[1] == results[0] and results[2] == results[0]


ERRORS = [
    (data.RandomSampler, samplers.RandomSampler, ([],), {}),
    (data.RandomSampler, samplers.RandomSampler, ([1],), {"replacement": 1}),
    (data.RandomSampler, samplers.RandomSampler, ([1],), {"num_samples": 0}),
    (data.RandomSampler, samplers.RandomSampler, ([1],), {"num_samples": 1.5}),
    (data.WeightedRandomSampler, samplers.WeightedRandomSampler, ([1.0], 0), {}),
    (data.WeightedRandomSampler, samplers.WeightedRandomSampler, ([1.0], True), {}),
    (data.WeightedRandomSampler, samplers.WeightedRandomSampler, ([[1.0]], 1), {}),
    (data.WeightedRandomSampler, samplers.WeightedRandomSampler, ([1.0], 1, "yes"), {}),
    (data.WeightedRandomSampler, samplers.WeightedRandomSampler, ([1.0, -1.0], 1), {}),
    (data.WeightedRandomSampler, samplers.WeightedRandomSampler, ([1.0, float("nan")], 1), {}),
    (data.WeightedRandomSampler, samplers.WeightedRandomSampler, ([0.0, 0.0], 1), {}),
    (data.WeightedRandomSampler, samplers.WeightedRandomSampler, ([1.0, 1.0], 3, False), {}),
    (data.BatchSampler, samplers.BatchSampler, (range(3), 0, False), {}),
    (data.BatchSampler, samplers.BatchSampler, (range(3), True, False), {}),
    (data.BatchSampler, samplers.BatchSampler, (range(3), 2, 1), {}),
    (DistributedSampler, samplers.DistributedSampler, ([1],), {"num_replicas": 2, "rank": 2}),
    (DistributedSampler, samplers.DistributedSampler, ([1],), {"num_replicas": 2, "rank": -1}),
    (DistributedSampler, samplers.DistributedSampler, ([1],), {}),
]


@pytest.mark.parametrize("torchs, ours, arguments, options", ERRORS)
def test_errors(torchs, ours, arguments, options):
    """Of the same type, with the same words, at the same moment."""
    seen = []
    for make in (torchs, ours):
        moment = "made"
        try:
            sampler = make(*arguments, **options)
            moment = "iterated"
            list(sampler)
        except Exception as error:  # whatever it is
            seen.append((moment, type(error), str(error)))
    assert len(seen) == 2 and seen[0] == seen[1]


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("before, after", [(10, 13), (13, 10), (10, 30), (5, 0), (0, 5), (0, 0)])
def test_a_dataset_that_changes_its_length(shuffle, drop_last, before, after):
    seen = []
    for make in (DistributedSampler, samplers.DistributedSampler):
        rows = list(range(before))
        sampler = make(rows, 4, 1, shuffle=shuffle, drop_last=drop_last)
        rows[:] = range(after)
        try:
            seen.append(list(sampler))
        except Exception as error:
            seen.append((type(error), str(error)))
    assert seen[0] == seen[1]


@cases
def test_taking_nothing_draws_nothing(case):
    torchs, ours, native = made(case, 0, lambda sampler: [iter(sampler)] and None)
    assert ours == torchs and native == torchs

    def nothing(sampler):
        iterator = iter(sampler)
        if hasattr(iterator, "take"):
            assert len(iterator.take(0)) == 0

    torchs, ours, native = made(case, 0, nothing)
    assert ours == torchs and native == torchs


def test_frameworks_see_torchs_classes():
    for torchs, ours in {*CASES.values(), (data.BatchSampler, samplers.BatchSampler)}:
        assert issubclass(ours, torchs)


def test_subclasses_are_not_taken_for_the_class():
    class Mine(data.RandomSampler):
        pass

    class Ours(samplers.RandomSampler):
        pass

    assert samplers.native(Mine(range(3))) is None
    assert samplers.native(Ours(range(3))) is None
    assert samplers.native([1, 2]) is None
    ours = samplers.SequentialSampler(range(3))
    assert samplers.native(ours) is ours


def test_attributes_are_read_when_they_are_used():
    sampler = data.SubsetRandomSampler([1, 2, 3])
    view = samplers.native(sampler)
    sampler.indices = [5, 6]
    assert sorted(view) == [5, 6]
    assert "_latest" not in sampler.__dict__ and set(sampler.__dict__) == {"indices", "generator"}
