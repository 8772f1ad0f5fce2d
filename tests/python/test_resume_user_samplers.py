"""Users' samplers without a state are drawn again, from whatever generators, whenever they drew."""

import random

import numpy as np
import torch
from loader_data import advanced, going_on
from millrace import DataLoader
from test_resume import ENGINES, SIZE, Squares, own, values
from thinned import thinned
from torch.utils.data import RandomSampler, SequentialSampler


class ShuffledBatches:
    """Shuffles batches of what is in order."""

    def __init__(self):
        self.sampler = SequentialSampler(range(SIZE))

    def __iter__(self):
        for start in torch.randperm(SIZE - 4).tolist():
            yield list(self.sampler)[start : start + 4]


class DrawsInIter:
    """Has drawn all of its order before the first batch is asked for."""

    def __iter__(self):
        order = torch.randperm(SIZE).tolist()
        random.shuffle(order)
        return iter(np.random.permutation(order).tolist())


class DrawsBatchesInIter(DrawsInIter):
    def __iter__(self):
        return iter([[index] for index in super().__iter__()])


class Later(DrawsInIter):
    def __iter__(self):
        yield from super().__iter__()


class OwnGenerator:
    def __init__(self):
        self.generator = own()

    def __iter__(self):
        return iter([[index] for index in torch.randperm(SIZE, generator=self.generator).tolist()])


def with_its_generator():
    sampler = OwnGenerator()
    return {"batch_sampler": sampler, "generator": sampler.generator}


SAMPLERS = {
    "batches shuffled": lambda: {"batch_sampler": ShuffledBatches()},
    "single, at once": lambda: {"batch_size": None, "sampler": DrawsInIter()},
    "in batches": lambda: {"batch_size": 4, "sampler": DrawsInIter()},
    "batches, at once": lambda: {"batch_sampler": DrawsBatchesInIter()},
    "batches, at once, seeded": lambda: {"batch_sampler": DrawsBatchesInIter(), "generator": own()},
    "single, later": lambda: {"batch_size": None, "sampler": Later()},
    "own generator": lambda: {"batch_sampler": OwnGenerator()},
    "one generator": with_its_generator,
    "torch's, own generator": lambda: {
        "batch_size": 4,
        "sampler": RandomSampler(range(SIZE), generator=own()),
    },
}


def seed(value):
    torch.manual_seed(value)
    random.seed(value)
    np.random.seed(value)


@thinned(3, name=[*SAMPLERS], engine=[*ENGINES])
def test_the_order_is_drawn_again(name, engine):
    def make(number):
        seed(number)
        return DataLoader(Squares(), **SAMPLERS[name](), **ENGINES[engine])

    for cut in ("before", 0, 1, 3, "behind"):
        loader = make(1)
        if cut == "behind":
            list(loader)
        if isinstance(cut, str):
            state, iterator = loader.state_dict(), iter(loader)
        else:
            iterator = advanced(loader, cut)
            state = loader.state_dict()
        rest = values(iterator)
        resumed = going_on(make(2), state)
        assert values(resumed) == rest, cut
        if "generator" in name:  # what is drawn from it alone goes on as well
            assert values(resumed) == values(loader), cut
        again = going_on(make(3), state)
        next(iterator := iter(again))
        state, seen = again.state_dict(), values(iterator)
        again = going_on(make(4), state)
        assert values(again) == seen == rest[1:], cut


def test_the_global_generators_are_left_alone():
    def place():
        return random.getstate(), torch.get_rng_state().tolist(), str(np.random.get_state())

    loader = DataLoader(Squares(), batch_sampler=DrawsBatchesInIter())
    next(iter(loader))
    state = loader.state_dict()
    before = place()
    resumed = going_on(DataLoader(Squares(), batch_sampler=DrawsBatchesInIter()), state)
    list(resumed)
    assert place() == before
