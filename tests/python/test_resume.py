"""A loader that goes on from a state gives what the first one would have given, on every engine."""

from __future__ import annotations

import json
import random

import millrace
import pytest
import torch
from loader_data import advanced, going_on, make_folder
from millrace import DataLoader, samplers
from thinned import thinned
from torch.utils.data import Dataset, IterableDataset, Sampler, TensorDataset, WeightedRandomSampler

SIZE = 23


class Squares(Dataset):
    def __len__(self):
        return SIZE

    def __getitem__(self, index):
        return index * index


class Counting(IterableDataset):
    """Stateful: each worker's share is told apart by its tens."""

    def __init__(self):
        self.at = self.start = 0

    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        worker = 0 if info is None else info.id
        self.at, self.start = self.start, 0
        while self.at < SIZE + worker:
            self.at += 1
            yield 100 * worker + self.at
        self.at = 0

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.start = state["at"]


class Stateless(Counting):
    state_dict = load_state_dict = None


class Doubled(Sampler):
    """A user's sampler that draws from torch's global generator and has no state."""

    def __len__(self):
        return 2 * SIZE

    def __iter__(self):
        yield from torch.randperm(SIZE).tolist() * 2


class Growing:
    """A user's batch sampler with a state."""

    def __init__(self):
        self.done = 0

    def __len__(self):
        return 6

    def __iter__(self):
        while self.done < 6:
            self.done += 1
            yield list(range(self.done))
        self.done = 0

    def state_dict(self):
        return {"done": self.done}

    def load_state_dict(self, state):
        self.done = state["done"]


def own():
    return torch.Generator().manual_seed(11)


DATA = {"rows": lambda: TensorDataset(torch.arange(SIZE)), "python": Squares}
ORDERS = {
    "in order": lambda data: {"batch_size": 4},
    "shuffled": lambda data: {"batch_size": 4, "shuffle": True},
    "own generator": lambda data: {"batch_size": 4, "shuffle": True, "generator": own()},
    "sampler's generator": lambda data: {
        "batch_size": 4,
        "sampler": torch.utils.data.RandomSampler(data, generator=own()),
    },
    "weighted": lambda data: {
        "batch_size": 4,
        "sampler": WeightedRandomSampler(torch.arange(1.0, SIZE + 1), 30),
    },
    "user's sampler": lambda data: {"batch_size": 4, "sampler": Doubled()},
    "user's batches": lambda data: {"batch_sampler": Growing()},
    "lists": lambda data: {"batch_sampler": [[1, 2], [3], [0, 5, 6], [7], [8]]},
    "permutation": lambda data: {"batch_size": 4, "sampler": samplers.PermutationSampler(SIZE, seed=3)},
    "buffered": lambda data: {
        "batch_size": 4,
        "sampler": samplers.ShuffleBuffer(6)(samplers.PermutationSampler(SIZE, seed=3)),
    },
    "our batches": lambda data: {
        "batch_sampler": samplers.StratifiedBatchSampler([i % 3 for i in range(SIZE)], 6)
    },
    "no batches": lambda data: {"batch_size": None, "shuffle": True},
    "last one dropped": lambda data: {"batch_size": 4, "shuffle": True, "drop_last": True},
}
ENGINES = {
    "inline": {"num_workers": 0},
    "workers": {"num_workers": 2},
    "threads": {"num_workers": 2, "worker_method": "thread"},
    "persistent": {"num_workers": 2, "persistent_workers": True},
}


def values(batches):
    return [str(batch) for batch in batches]


def check(make, cut, epochs_before=1, later=True):
    """Cut after `cut` batches; a new loader from the state (as JSON) gives the rest, and the next epoch."""
    torch.manual_seed(cut)
    loader = make()
    for _ in range(epochs_before):
        list(loader)
    iterator = advanced(loader, cut)
    state = loader.state_dict()
    rest, after = values(iterator), values(loader)

    torch.manual_seed(1000)
    resumed = going_on(make(), json.loads(json.dumps(state)))
    assert resumed.state_dict() == json.loads(json.dumps(state))
    assert values(resumed) == rest
    if later:
        assert values(resumed) == after
    return state


@thinned(
    3,
    way=[
        (data, engine) for data in DATA for engine in ENGINES if (data, engine) != ("rows", "threads")
    ],  # whose workers are threads anyway
    order=[*ORDERS],
)
def test_every_order_on_every_engine(way, order):
    data, engine = way

    def make():
        dataset = DATA[data]()
        return DataLoader(dataset, **ORDERS[order](dataset), **ENGINES[engine])

    torch.manual_seed(0)
    length = len(list(make()))
    later = order in (
        "in order",
        "own generator",
        "sampler's generator",
        "lists",
        "permutation",
        "buffered",
        "our batches",
    )
    for cut in {0, 1, random.Random(order + engine).randint(2, length - 1), length}:
        check(make, cut, later=later)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("data", DATA)
def test_behind_an_epoch_the_next_one_begins(data, engine):
    def make():
        return DataLoader(DATA[data](), 4, shuffle=True, **ENGINES[engine])

    torch.manual_seed(5)
    loader = make()
    list(loader)
    state = loader.state_dict()
    expected = values(loader), values(loader)
    torch.manual_seed(5)
    list(make())  # what the program drew meanwhile
    resumed = going_on(make(), state)
    assert values(resumed) == expected[0]
    assert values(resumed) == expected[1]


def test_drawing_goes_on_as_ever():
    """Of torch's global generator a resumed epoch takes what an epoch takes, and no more."""
    for options in ({"shuffle": True}, {"sampler": WeightedRandomSampler(torch.ones(SIZE), 5)}):
        dataset = TensorDataset(torch.arange(SIZE))
        loader = DataLoader(dataset, 4, **options)
        next(iter(loader))
        state = loader.state_dict()

        def left_behind(state):
            torch.manual_seed(7)
            loader = going_on(DataLoader(dataset, 4, **options), state)
            list(loader)
            return torch.get_rng_state().tolist()

        assert left_behind(state) == left_behind({})


@thinned(2, engine=[*ENGINES], dataset=[Counting, Stateless], every=[1, 3, 0])
def test_streams(engine, dataset, every, caplog):
    def make():
        return DataLoader(dataset(), 4, snapshot_every_n_steps=every, **ENGINES[engine])

    length = len(list(make()))
    for cut in (0, 1, 2, 7 if engine != "inline" else 5, length - 1, length):
        check(make, cut, later=False)
    told = dataset is Stateless and (every != 0 or engine == "inline")
    assert ("read again" in caplog.text) == told


def test_a_worker_that_has_ended_stays_ended():
    """The state behind the end of a worker's share is its next epoch's, which must not begin again."""

    class Uneven(Counting):
        def __iter__(self):
            for number in super().__iter__():
                if number > 2 and number < 100:
                    break
                yield number
            self.at = 0

    for cut in range(1, 8):
        check(lambda: DataLoader(Uneven(), 1, num_workers=2), cut, later=False)


@pytest.mark.parametrize("engine", ENGINES)
def test_random_transforms_repeat(tmp_path, engine):
    """Crops of a resumed epoch are those it would have had, also of samples that come several times."""
    make_folder(tmp_path)
    dataset = millrace.datasets.ImageFolder(
        tmp_path,
        millrace.transforms.Compose(
            [millrace.transforms.RandomResizedCrop(8), millrace.transforms.ToTensor()]
        ),
    )
    twice = torch.utils.data.RandomSampler(dataset, replacement=True, num_samples=30, generator=own())
    for order in (
        {"batch_size": 4, "shuffle": True},
        {"batch_size": 4, "sampler": twice},
        {"batch_size": 4, "sampler": samplers.MixtureSampler([2, len(dataset) - 2], [1, 1])},
        {"batch_sampler": samplers.StratifiedBatchSampler([i < 2 for i in range(len(dataset))], 4)},
    ):
        options = {"native": "require", **order, **ENGINES[engine]}
        loader = DataLoader(dataset, **options)
        list(loader)
        iterator = advanced(loader, 2)
        state = loader.state_dict()
        rest = list(iterator)
        resumed = going_on(DataLoader(dataset, **options), state)
        again = list(resumed)
        assert len(again) == len(rest) and (resumed.seed, resumed.epoch) == (loader.seed, loader.epoch)
        assert all(torch.equal(a, b) and torch.equal(x, y) for (a, x), (b, y) in zip(again, rest))


def test_state_is_small_quick_and_never_changes():
    loader = DataLoader(TensorDataset(torch.arange(10_000)), 4, shuffle=True, generator=own())
    iterator = advanced(loader, 1)
    state = loader.state_dict()
    text = json.dumps(state)
    for _ in range(5):
        next(iterator)
    assert json.dumps(state) == text and json.dumps(loader.state_dict()) != text
    assert len(text) < 10_000


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("generator", [None, own()])
def test_a_state_before_anything_starts_nothing(generator, engine):
    loader = DataLoader(Squares(), 4, shuffle=True, generator=generator, **ENGINES[engine])
    before = torch.get_rng_state()
    state = loader.state_dict()
    assert torch.equal(before, torch.get_rng_state())
    assert loader._iterator is None
    assert loader.stats()["batches"] == 0
    first = values(loader), values(loader)
    loader.load_state_dict(state)
    assert values(loader) == first[0]
    if generator is not None:
        assert values(loader) == first[1]


def test_a_loop_that_was_left_can_be_resumed():
    loader = DataLoader(Squares(), 4, num_workers=2)
    seen = []
    for batch in loader:
        seen.append(str(batch))
        if len(seen) == 2:
            break
    state = loader.state_dict()
    resumed = going_on(DataLoader(Squares(), 4, num_workers=2), state)
    assert seen + values(resumed) == values(DataLoader(Squares(), 4))


def test_another_batch_size_goes_on_at_the_sample():
    loader = DataLoader(TensorDataset(torch.arange(SIZE)), 4, shuffle=True)
    iterator = advanced(loader, 2)
    state = loader.state_dict()
    rest = [i for batch in iterator for i in batch[0].tolist()]
    resumed = DataLoader(TensorDataset(torch.arange(SIZE)), 3, shuffle=True)
    with pytest.warns(UserWarning, match="batch_size was 4"):
        resumed.load_state_dict(state)
    assert [i for batch in resumed for i in batch[0].tolist()] == rest


@pytest.mark.parametrize("then, now", [(2, {"num_workers": 2, "in_order": False}), (3, {})])
def test_order_is_free_and_nothing_is_lost(then, now):
    """Batches that others overtook come, too, also without workers."""
    loader = DataLoader(Squares(), 1, num_workers=then, in_order=False)
    for cut in (0, 1, 5, 12):
        iterator = iter(loader)
        seen = [int(next(iterator)) for _ in range(cut)]
        state = loader.state_dict()
        del iterator
        resumed = going_on(DataLoader(Squares(), 1, **now), state)
        assert sorted(seen + [int(batch) for batch in resumed]) == [i * i for i in range(SIZE)]


@pytest.mark.parametrize("native", ["auto", "never"])
def test_weights_of_a_mixture_set_while_workers_are_ahead_are_in_the_state(native):
    rows = TensorDataset(torch.arange(600))

    def make():
        sampler = samplers.MixtureSampler([400, 200], [1, 1], num_samples=600)
        return DataLoader(rows, 20, sampler=sampler, num_workers=2, native=native)

    loader = make()
    iterator, states = iter(loader), []
    for step in range(12):
        next(iterator)
        if step in (3, 5, 6):
            loader.sampler.set_weights([step, 10])
        states.append(json.dumps(loader.state_dict()))
    rest = [batch[0].tolist() for batch in iterator]
    for step in (2, 3, 4, 6, 8, 11):
        resumed = going_on(make(), json.loads(states[step]))
        read = [batch[0].tolist() for batch in resumed]
        if step >= 6:
            assert read[-len(rest) :] == rest
            assert resumed.sampler.weights == [6, 10]
        else:
            assert read[-len(rest) :] != rest, "the state knows nothing of what comes after it"


@pytest.mark.parametrize("engine", [engine for engine in ENGINES if engine != "threads"])
@pytest.mark.filterwarnings("ignore")
def test_the_shuffling_of_a_data_pipe(engine):
    from torch.utils.data.datapipes.iter import IterableWrapper

    def make():
        return DataLoader(
            IterableWrapper(range(SIZE)).shuffle().sharding_filter(),
            4,
            True,
            generator=own(),
            **ENGINES[engine],
        )

    for cut in (0, 2):
        check(make, cut)
    loader, resumed = make(), make()
    first = values(loader)
    resumed.load_state_dict(loader.state_dict())
    assert values(loader) == values(resumed) != first
