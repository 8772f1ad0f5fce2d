"""replay(): the batch of a past step is the one that was handed out, and the running iterator does not notice."""

from __future__ import annotations

import itertools
import json
import random
import warnings

import numpy as np
import pytest
import torch
from loader_data import generator_states, make_folder, pictures
from process_data import Noisy
from shard_data import same
from stream_cases import FIXED, RANDOM, images, stream, write_shards
from test_resume import DATA, ENGINES, ORDERS, Counting, Stateless
from torch.utils.data import Dataset, DistributedSampler, RandomSampler, Subset, TensorDataset

import millrace
from millrace import DataLoader, FlightRecorder, samplers, transforms
from millrace.datasets import WebDataset


def seed():
    torch.manual_seed(5)
    np.random.seed(5)
    random.seed(5)


def run_with_replays(make, epochs=1, each=4, **recorder):
    """Equal to a run without replays; each `each`-th step, a step of the past is replayed, and at the end all are."""
    seed()
    plain = make()
    expected = [list(plain) for _ in range(epochs)]
    seed()
    loader = make()
    loader.flight = FlightRecorder(**recorder)
    for epoch in range(epochs):
        given = []
        for step, batch in enumerate(loader):
            given.append(batch)
            if step % each == 0:
                before = generator_states()
                assert same(loader.replay(step // 2), given[step // 2])
                assert generator_states() == before
        assert same(given, expected[epoch])
    count = len(expected[0])
    steps = sorted({0, count // 2, count - 1}) if loader.stats()["engine"] == "processes" else range(count)  # each takes a new process
    for epoch, step in itertools.product(range(epochs), steps):
        assert same(loader.replay(step, epoch), expected[epoch][step]), (epoch, step)
    return loader, expected


# ---------------------------------------------------------------- orders and engines


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("data", DATA)
def test_every_order(data, order):
    def make():
        dataset = DATA[data]()
        return DataLoader(dataset, **ORDERS[order](dataset))

    run_with_replays(make, epochs=2)


@pytest.mark.parametrize("engine", [name for name in ENGINES if name != "inline"])
@pytest.mark.parametrize("data", DATA)
def test_every_engine(data, engine):
    run_with_replays(lambda: DataLoader(DATA[data](), 4, True, **ENGINES[engine]), epochs=2)


@pytest.mark.parametrize("order", ["shuffled", "own generator", "weighted", "user's sampler", "permutation", "buffered", "our batches"])
def test_steps_whose_lists_are_gone_are_drawn_again(order):
    def make():
        dataset = DATA["rows"]()
        return DataLoader(dataset, **ORDERS[order](dataset))

    run_with_replays(make, steps=2)


def test_ranks():
    def make():
        data = TensorDataset(torch.arange(50))
        return DataLoader(data, 3, sampler=DistributedSampler(data, 3, 1, seed=4), auto_epoch=True)

    loader, expected = run_with_replays(make, epochs=3)
    assert not same(expected[0], expected[1])
    loader.flight.epochs[0].steps.clear()  # forgotten: the sampler's epoch has to be gone back to
    assert same(loader.replay(2, 0), expected[0][2])
    assert loader.sampler.epoch == 2


def test_in_order_false_follows_what_was_handed_out():
    loader = DataLoader(DATA["python"](), 2, True, num_workers=2, in_order=False)
    given = list(loader)
    assert all(same(loader.replay(step), batch) for step, batch in enumerate(given))


# ---------------------------------------------------------------- pictures


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("replay") / "root"
    make_folder(root)
    return root


AUGMENTED = transforms.Compose([transforms.RandomResizedCrop(12), transforms.RandomHorizontalFlip(), transforms.ToTensor()])


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("steps", [4096, 1])
def test_pictures_with_random_augmentation(folder, workers, steps):
    run_with_replays(lambda: DataLoader(pictures(folder, transform=AUGMENTED), 4, True, num_workers=workers), epochs=2, steps=steps)


@pytest.mark.parametrize("steps", [4096, 1])
def test_pictures_that_come_several_times(folder, steps):
    def make():
        data = pictures(folder, transform=AUGMENTED)
        return DataLoader(data, 5, sampler=RandomSampler(data, replacement=True, num_samples=40), num_workers=2)

    loader, _ = run_with_replays(make, steps=steps)
    told = loader.seen(7, draws=True)
    assert max(told["occurrences"] if "occurrences" in told else [0]) > 0 or steps == 1
    assert len(told["paths"]) == len(told["draws"]) == 5
    assert all(str(folder) in path for path in told["paths"])


def test_subset_and_persistent_workers(folder):
    def make():
        data = Subset(pictures(folder, transform=AUGMENTED), [3, 5, 7, 9, 11, 13])
        return DataLoader(data, 2, True, num_workers=2, persistent_workers=True)

    run_with_replays(make, epochs=3)


@pytest.mark.parametrize("policy", ["skip", "replace"])
@pytest.mark.parametrize("workers", [0, 2])
def test_pictures_that_cannot_be_read(tmp_path, policy, workers):
    paths = make_folder(tmp_path / "root")
    for path in (paths[2], paths[9]):
        with open(path, "wb") as file:
            file.write(b"no picture")
    run_with_replays(lambda: DataLoader(pictures(tmp_path / "root", transform=AUGMENTED), 4, True, num_workers=workers, on_error=policy))


def test_an_error_is_raised_again(tmp_path):
    paths = make_folder(tmp_path / "root")
    with open(paths[9], "wb") as file:
        file.write(b"no picture")
    loader = DataLoader(pictures(tmp_path / "root"), 4, num_workers=2)
    batches = iter(loader)
    first, second = next(batches), next(batches)
    with pytest.raises(OSError) as raised:
        next(batches)
    with pytest.raises(OSError) as again:
        loader.replay(2)
    assert str(raised.value) == str(again.value)
    assert same(loader.replay(0), first) and same(loader.replay(1), second)


# ---------------------------------------------------------------- Python datasets that draw


@pytest.mark.parametrize("engine", ["inline", "workers", "persistent"])
def test_draws_of_python_datasets(engine):
    run_with_replays(lambda: DataLoader(Noisy(), 2, True, **ENGINES[engine]), epochs=2)


class SeldomNoisy(Dataset):
    def __len__(self):
        return 60

    def __getitem__(self, index):
        return torch.rand(()).item() if index % 7 == 0 else float(index)


@pytest.mark.parametrize("engine", ["inline", "workers"])
def test_draws_that_come_seldom(engine):
    run_with_replays(lambda: DataLoader(SeldomNoisy(), 3, **ENGINES[engine]), each=100)


def init_worker(number):
    torch.manual_seed(1000 + number)


def test_worker_init_fn_runs_before_the_draws_are_put_back():
    run_with_replays(lambda: DataLoader(Noisy(), 2, num_workers=2, worker_init_fn=init_worker))


class Broken(Dataset):
    def __len__(self):
        return 23

    def __getitem__(self, index):
        if index in (3, 4, 11):
            raise ValueError(f"{index} is broken")
        return index, torch.rand(2)


@pytest.mark.parametrize("policy", ["skip", "replace"])
@pytest.mark.parametrize("workers", [0, 2])
def test_python_datasets_that_fail(policy, workers):
    run_with_replays(lambda: DataLoader(Broken(), 4, True, num_workers=workers, on_error=policy))


class OwnGenerator(Noisy):
    """Draws from a generator that nobody knows."""

    def __init__(self):
        self.rng = np.random.default_rng(0)

    def __getitem__(self, index):
        return self.rng.random()


def test_a_hash_tells_what_is_approximate():
    loader = DataLoader(OwnGenerator(), 3, flight=FlightRecorder(hashes=True))
    given = list(loader)
    with pytest.warns(UserWarning, match=r"step 1 is not the one that was handed out: batch differs in 3 of 3 rows, first in row 0"):
        again = loader.replay(1)
    assert not same(again, given[1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loader.replay(1, verify=False)


# ---------------------------------------------------------------- streams, and datasets with a place


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    return write_shards(tmp_path_factory.mktemp("replay shards"))


@pytest.mark.parametrize("native", ["auto", "never"])
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("every", [2, 0])
def test_streams(shards, native, workers, every):
    def make():
        data = WebDataset(f"{shards}/s-{{0..3}}.tar", shardshuffle=True).shuffle(5, initial=5)
        return DataLoader(images(data, RANDOM if native == "auto" else FIXED), 3, num_workers=workers, native=native)

    run_with_replays(make, epochs=2, states_every=every)


def test_streams_tell_shards_and_keys(shards):
    loader = DataLoader(stream(shards), 3, num_workers=2)
    list(loader)
    told = loader.seen(1)
    assert [key for _, key in told["samples"]] == ["d/003.jpg", "d/004.png", "d/005.webp"] and "s-0.tar" in told["samples"][0][0]


@pytest.mark.parametrize("make", [Counting, Stateless])
@pytest.mark.parametrize("workers", [0, 2])
def test_iterable_datasets(make, workers):
    run_with_replays(lambda: DataLoader(make(), 4, num_workers=workers), epochs=2, states_every=2)


def test_states_are_thinned_out():
    class Long(Counting):
        def __iter__(self):
            self.at, self.start = self.start, 0
            while self.at < 2000:
                self.at += 1
                yield self.at
            self.at = 0

    loader = DataLoader(Long(), 2, flight=FlightRecorder(states_every=1, steps=3))
    given = list(loader)
    log = loader.flight.epochs[0]
    assert len(log.states) <= 128 and len(log.steps) == 3
    assert all(same(loader.replay(step), given[step]) for step in (0, 499, 998))


# ---------------------------------------------------------------- resumed runs, other processes


@pytest.mark.parametrize("order", ["shuffled", "weighted", "user's sampler", "permutation", "no batches"])
@pytest.mark.parametrize("workers", [0, 2])
def test_resumed_runs_count_on(order, workers):
    def make():
        dataset = DATA["rows"]()
        return DataLoader(dataset, num_workers=workers, **ORDERS[order](dataset))

    seed()
    loader = make()
    first = list(loader)
    batches = iter(loader)
    second = [next(batches) for _ in range(3)]
    state = json.loads(json.dumps(loader.state_dict()))
    second += list(batches)

    resumed = make()
    resumed.load_state_dict(state)
    rest = list(resumed)
    assert same(rest, second[3:])
    for step, batch in enumerate(second):
        assert same(resumed.replay(step, 1), batch), step
        assert same(millrace.replay(make(), state, step), batch), step
    with pytest.raises(IndexError, match="epoch 0 is not known here"):
        resumed.replay(0, 0)
    assert same(loader.replay(1, 0), first[1])


@pytest.mark.parametrize("workers", [0, 2])
def test_a_state_and_a_step_in_another_process(folder, workers):
    def make():
        return DataLoader(pictures(folder, transform=AUGMENTED), 4, True, num_workers=workers)

    loader = make()
    state = loader.state_dict()
    given = list(loader)
    later = iter(loader)
    for _ in range(2):
        next(later)
    middle = loader.state_dict()
    second = [loader.replay(0), loader.replay(1), *later]
    assert same(millrace.replay(make(), state, 3), given[3])
    for step, batch in enumerate(second):
        assert same(millrace.replay(make(), middle, step), batch)
    with pytest.raises(IndexError, match="no step 99"):
        millrace.replay(make(), middle, 99)


def test_a_state_from_behind_an_epoch_leads_into_the_next():
    make = lambda: DataLoader(DATA["rows"](), 4, True)  # noqa: E731
    loader = make()
    list(loader)
    state = loader.state_dict()
    given = list(loader)
    assert same(millrace.replay(make(), state, 2), given[2])


def test_streams_go_only_forwards(shards):
    loader = DataLoader(stream(shards), 3)
    batches = iter(loader)
    given = [next(batches) for _ in range(3)]
    state = loader.state_dict()
    given += list(batches)
    assert same(millrace.replay(DataLoader(stream(shards), 3), state, 4), given[4])
    with pytest.raises(ValueError, match="goes only forwards"):
        millrace.replay(DataLoader(stream(shards), 3), state, 1)


# ---------------------------------------------------------------- what is refused


def test_steps_that_are_not_there():
    loader = DataLoader(DATA["rows"](), 4)
    with pytest.raises(IndexError, match="no step has been taken"):
        loader.replay(0)
    batches = iter(loader)
    next(batches)
    with pytest.raises(IndexError, match="step 1 of epoch 0 has not been taken yet: 1 have"):
        loader.replay(1)
    for wrong in (-1, "3", True):
        with pytest.raises(ValueError, match="steps are numbers from 0 on"):
            loader.replay(wrong)
    with pytest.raises(IndexError, match="epoch 4 is not known here"):
        loader.replay(0, 4)


def test_without_a_recorder():
    loader = DataLoader(DATA["rows"](), 4, flight=False)
    assert len(list(loader)) == 6
    with pytest.raises(millrace.UnavailableError, match="flight=False"):
        loader.replay(0)
    with pytest.raises(ValueError, match="is no FlightRecorder"):
        DataLoader(DATA["rows"](), 4, flight="yes")
    with pytest.raises(ValueError, match="steps=-1"):
        FlightRecorder(-1)


def test_memory_is_bounded():
    loader = DataLoader(TensorDataset(torch.arange(4000)), 4, flight=FlightRecorder(memory=20_000))
    given = list(loader)
    assert loader.flight.bytes <= 20_000 and len(loader.flight.epochs[0].steps) < 100
    assert same(loader.replay(3), given[3]) and same(loader.replay(999), given[999])


def test_copies_and_pickles_begin_anew():
    import copy
    import pickle

    loader = DataLoader(DATA["rows"](), 4, flight=FlightRecorder(7, hashes=True))
    list(loader)
    for twin in (copy.deepcopy(loader), pickle.loads(pickle.dumps(loader))):
        assert (twin.flight.max_steps, twin.flight.hashes, twin.flight.epochs) == (7, True, {})
        given = list(twin)
        assert same(twin.replay(1), given[1])


def test_lists_of_files(tmp_path):
    log = tmp_path / "flight.jsonl"
    loader = DataLoader(DATA["rows"](), 4, True, flight=FlightRecorder(hashes=True, file=log))
    list(loader)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["step"] for line in lines] == list(range(6))
    assert [line["indices"] for line in lines] == [loader.seen(step)["indices"] for step in range(6)]
    assert [line["hash"] for line in lines] == [loader.seen(step)["hash"] for step in range(6)]
    assert len({line["hash"] for line in lines}) == 6 and list(lines[0]["fields"]) == ["[0]"]


def test_mixtures_and_epochs_of_samplers():
    def make():
        sampler = samplers.MixtureSampler([10, 70, 25], [0.2, 0.5, 0.3], 60, 4)
        return DataLoader(TensorDataset(torch.arange(105)), 7, sampler=sampler, auto_epoch=True)

    run_with_replays(make, epochs=2, steps=1)
