"""What a sampler raises is what next() raises, and next() behind it does what torch's does."""

import itertools
import signal

import millrace
import numpy as np
import pytest
import torch
from torch.utils.data import (
    DataLoader,
    Dataset,
    RandomSampler,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

COUNT = 24
CALLS = 16  # of next(), however many raise


class Numbers(Dataset):
    """Python code, so that it is not the engine's."""

    def __len__(self):
        return COUNT

    def __getitem__(self, index):
        return index * 10


class NoLength(Dataset):
    def __getitem__(self, index):
        return index


class Odd(Exception):
    def __init__(self, number, text):
        super().__init__(number, text)


class Raising:
    """Indices, `per_item` at a time, and `error()` in place of item `at`."""

    def __init__(self, at, error, per_item=None, kind="generator"):
        self.at, self.error, self.per_item, self.kind = at, error, per_item, kind

    def __len__(self):
        return COUNT if self.per_item is None else COUNT // self.per_item

    def items(self):
        return (
            list(range(COUNT))
            if self.per_item is None
            else np.arange(COUNT).reshape(-1, self.per_item).tolist()
        )

    def __iter__(self):
        if self.kind == "generator":
            return self.generate()
        return _Steps(self) if self.kind == "steps" else self.begin()

    def generate(self):
        for number, item in enumerate([*self.items(), None]):
            if number == self.at:
                raise self.error()
            if item is not None:
                yield item

    def begin(self):
        raise self.error()


class _Steps:
    """An iterator that goes on behind its error."""

    def __init__(self, sampler):
        self.sampler, self.number, self.items = sampler, -1, iter(sampler.items())

    def __iter__(self):
        return self

    def __next__(self):
        self.number += 1
        if self.number == self.sampler.at:
            raise self.sampler.error()
        return next(self.items)


def caused():
    try:
        raise KeyError("inner")
    except KeyError as error:
        raise Odd(3, "outer") from error


def in_context():
    try:
        raise KeyError("inner")
    except KeyError:
        raise Odd(3, "outer")  # noqa: B904


def stop_in_generator():
    next(iter(()))


ERRORS = {
    "Odd": lambda: Odd(3, "three"),
    "OSError": lambda: OSError(5, "gone", "a file"),
    "caused": caused,
    "in context": in_context,
    # fmt: skip
    "StopIteration": stop_in_generator,
    "IndexError": lambda: IndexError("pop from somewhere"),
}


def chain(error):
    """Types along __cause__ and __context__, as a traceback would show them."""
    if error is None:
        return None
    return (
        type(error),
        error.args,
        chain(error.__cause__),
        None if error.__suppress_context__ else chain(error.__context__),
    )


def plain(value):
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    return value.tolist() if isinstance(value, torch.Tensor) else value


def described(call):
    try:
        value = call()
    except StopIteration:
        return "end"
    except BaseException as error:
        return chain(error)
    return plain(value)


def run(cls, arguments, calls=CALLS):
    """What the constructor, iter() and each next() come to."""
    torch.manual_seed(0)
    try:
        loader = cls(**arguments())
        iterator = iter(loader)
    except BaseException as error:
        return ["begin", chain(error)]
    return [described(lambda: next(iterator)) for _ in range(calls)]


DATA = {"in memory": lambda: TensorDataset(torch.arange(COUNT) * 10), "python": Numbers}
WAYS = {
    "sampler": lambda at, error, kind: {"sampler": Raising(at, error, None, kind), "batch_size": 4},
    "batch_sampler": lambda at, error, kind: {"batch_sampler": Raising(at // 4, error, 4, kind)},
    "no batches": lambda at, error, kind: {"sampler": Raising(at, error, None, kind), "batch_size": None},
}


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("way", WAYS)
def test_what_a_sampler_raises(data, way, workers):
    cases = [
        (at, error, kind)
        for at, error in itertools.product((0, 9, COUNT - 1, COUNT), ("Odd",))
        for kind in ("generator", "steps")
    ]
    cases += [(9, error, "generator") for error in ERRORS] + [
        (9, error, "steps") for error in ERRORS if error != "StopIteration"
    ]
    cases += [(0, error, "begin") for error in ERRORS]
    for at, error, kind in cases if workers == 0 else cases[::3]:
        if kind == "steps" and at == COUNT:  # it ends there, without an error
            continue

        def arguments(at=at, error=error, kind=kind):
            return {"dataset": DATA[data](), "num_workers": workers, **WAYS[way](at, ERRORS[error], kind)}

        assert run(millrace.DataLoader, arguments) == run(DataLoader, arguments), (at, error, kind)


ODD_SAMPLERS = {
    "a number": lambda: {"sampler": 5, "batch_size": 4},
    "a number, no batches": lambda: {"sampler": 5, "batch_size": None},
    "zero weights": lambda: {"sampler": WeightedRandomSampler([0.0] * COUNT, 8), "batch_size": 4},
    "negative weights": lambda: {"sampler": WeightedRandomSampler([-1.0] * COUNT, 8), "batch_size": 4},
    "more than there is": lambda: {
        "sampler": WeightedRandomSampler([1.0] * 4, 8, replacement=False),
        "batch_size": 4,
    },
    "a generator": lambda: {"sampler": (index for index in range(10)), "batch_size": 4},
    "a generator that raises": lambda: {
        "sampler": (10 // (3 - index) for index in range(10)),
        "batch_size": 2,
    },
    "text": lambda: {"sampler": "abc", "batch_size": 2},
    "None among indices": lambda: {"sampler": [0, 1, None, 3], "batch_size": 2},
    "out of range": lambda: {"sampler": [0, 1, 99, 3], "batch_size": 2},
    "batches that are numbers": lambda: {"batch_sampler": [0, 1, 2]},
    "an empty batch": lambda: {"batch_sampler": [[0], [], [2]]},
    "random over no length": lambda: {"sampler": RandomSampler([0] * COUNT, num_samples=6), "batch_size": 4},
    "a subset of text": lambda: {"sampler": SubsetRandomSampler("ab"), "batch_size": 2},
}


@pytest.mark.parametrize("name", ODD_SAMPLERS)
@pytest.mark.parametrize("data", DATA)
def test_samplers_that_are_none(data, name):
    def arguments():
        return {"dataset": DATA[data](), **ODD_SAMPLERS[name]()}

    assert run(millrace.DataLoader, arguments, 6) == run(DataLoader, arguments, 6)


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_dataset_without_a_length(shuffle):
    def arguments():
        return {"dataset": NoLength(), "batch_size": 4, "shuffle": shuffle}

    assert run(millrace.DataLoader, arguments, 3) == run(DataLoader, arguments, 3)


@pytest.mark.parametrize("kind", ["generator", "steps"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("way", WAYS)
def test_what_ends_programs(data, way, error, kind):
    """With workers they end at Ctrl-C, as torch's would: test_dataloader_endings.py."""

    def arguments():
        return {"dataset": DATA[data](), **WAYS[way](9, error, kind)}

    assert run(millrace.DataLoader, arguments) == run(DataLoader, arguments)


class Interrupted:
    """A signal comes in the middle of a draw, and its handler raises."""

    def __init__(self, at):
        self.at = at

    def __len__(self):
        return COUNT

    def __iter__(self):
        for index in range(COUNT):
            if index == self.at:
                signal.raise_signal(signal.SIGUSR1)
            yield index


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("at", [0, 9, COUNT - 1])
def test_a_signals_handler_that_raises(data, at, workers):
    def handler(number, frame):
        raise Odd(number, "signalled")

    before = signal.signal(signal.SIGUSR1, handler)
    try:

        def arguments():
            return {
                "dataset": DATA[data](),
                "sampler": Interrupted(at),
                "batch_size": 4,
                "num_workers": workers,
            }

        assert run(millrace.DataLoader, arguments) == run(DataLoader, arguments)
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_state_behind_a_sampler_error_is_that_of_the_last_batch():
    for data in DATA.values():
        loader = millrace.DataLoader(data(), 4, sampler=Raising(9, ERRORS["Odd"]))
        iterator = iter(loader)
        next(iterator), next(iterator)
        with pytest.raises(Odd):
            next(iterator)
        assert loader.state_dict()["_num_yielded"] == 2


@pytest.mark.parametrize("policy", ["skip", "replace"])
@pytest.mark.parametrize("workers", [0, 2])
def test_a_sampler_error_under_a_policy(policy, workers):
    for kind in ("generator", "begin"):
        loader = millrace.DataLoader(
            Numbers(), 4, sampler=Raising(9, ERRORS["Odd"], None, kind), num_workers=workers, on_error=policy
        )
        with pytest.raises(Odd, match="three"):
            list(loader)
