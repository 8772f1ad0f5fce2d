"""replay() gives the batch of a past step as it was handed out; the running iterator does not notice."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from loader_data import make_folder, pictures
from millrace import BatchHistory, DataLoader
from millrace._loader.engines import processes
from millrace.datasets import WebDataset
from process_data import Noisy
from replay_cases import AUGMENTED, run_with_replays
from shard_data import same
from stream_cases import FIXED, RANDOM, images, stream
from test_resume import DATA, ENGINES, ORDERS, Counting, Stateless
from torch.utils.data import Dataset, DistributedSampler, RandomSampler, Subset, TensorDataset

pytestmark = pytest.mark.slow

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


@pytest.mark.parametrize(
    "order",
    ["shuffled", "own generator", "weighted", "user's sampler", "permutation", "buffered", "our batches"],
)
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
    loader.history.epochs[0].steps.clear()  # forgotten: the sampler's epoch has to be gone back to
    assert same(loader.replay(2, 0), expected[0][2])
    assert loader.sampler.epoch == 2


def test_in_order_false_follows_what_was_handed_out():
    loader = DataLoader(DATA["python"](), 2, True, num_workers=2, in_order=False)
    given = list(loader)
    assert all(same(loader.replay(step), batch) for step, batch in enumerate(given))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_only_worker_of_a_replay_has_the_only_row_of_its_clocks(monkeypatch):
    """It is told that it is one of three, as the one that made the batch was."""
    jobs, new_job = [], processes.WorkerSetup
    monkeypatch.setattr(processes, "WorkerSetup", lambda **parts: jobs.append(new_job(**parts)) or jobs[-1])
    loader = DataLoader(DATA["python"](), 2, num_workers=3)
    given = list(loader)
    assert same(loader.replay(1), given[1])
    assert [job.num_workers for job in jobs] == [3, 3, 3, 3]
    assert [job.board[1:] for job in jobs] == [(3, 0), (3, 1), (3, 2), (1, 0)]


# ---------------------------------------------------------------- pictures


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("steps", [4096, 1])
def test_pictures_with_random_augmentation(replay_folder, workers, steps):
    run_with_replays(
        lambda: DataLoader(pictures(replay_folder, transform=AUGMENTED), 4, True, num_workers=workers),
        epochs=2,
        steps=steps,
    )


@pytest.mark.parametrize("steps", [4096, 1])
def test_pictures_that_come_several_times(replay_folder, steps):
    def make():
        data = pictures(replay_folder, transform=AUGMENTED)
        return DataLoader(
            data, 5, sampler=RandomSampler(data, replacement=True, num_samples=40), num_workers=2
        )

    loader, _ = run_with_replays(make, steps=steps)
    told = loader.seen(7, draws=True)
    assert max(told["occurrences"] if "occurrences" in told else [0]) > 0 or steps == 1
    assert len(told["paths"]) == len(told["draws"]) == 5
    assert all(str(replay_folder) in path for path in told["paths"])


def test_subset_and_persistent_workers(replay_folder):
    def make():
        data = Subset(pictures(replay_folder, transform=AUGMENTED), [3, 5, 7, 9, 11, 13])
        return DataLoader(data, 2, True, num_workers=2, persistent_workers=True)

    run_with_replays(make, epochs=3)


@pytest.mark.parametrize("policy", ["skip", "replace"])
@pytest.mark.parametrize("workers", [0, 2])
def test_pictures_that_cannot_be_read(tmp_path, policy, workers):
    paths = make_folder(tmp_path / "root")
    for path in (paths[2], paths[9]):
        with open(path, "wb") as file:
            file.write(b"no picture")
    run_with_replays(
        lambda: DataLoader(
            pictures(tmp_path / "root", transform=AUGMENTED), 4, True, num_workers=workers, on_error=policy
        )
    )


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


class LateNoisy(SeldomNoisy):
    def __getitem__(self, index):
        return torch.rand(()).item() if index > 40 else float(index)


def test_what_is_approximate_is_said():
    loader = DataLoader(LateNoisy(), 1)
    given = list(loader)
    assert loader.seen(45)["approximate"].startswith("Approximate: the dataset draws random numbers")
    assert "approximate" not in loader.seen(59) and same(loader.replay(59), given[59])


class OwnGenerator(Noisy):
    """Draws from a generator that nobody knows."""

    def __init__(self):
        self.rng = np.random.default_rng(0)

    def __getitem__(self, index):
        return self.rng.random()


def test_a_hash_tells_what_is_approximate():
    loader = DataLoader(OwnGenerator(), 3, history=BatchHistory(hashes=True))
    given = list(loader)
    with pytest.warns(
        UserWarning,
        match=r"step 1 is not the one that was handed out: batch differs in 3 of 3 rows, first in row 0",
    ):
        again = loader.replay(1)
    assert not same(again, given[1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loader.replay(1, verify=False)


# ---------------------------------------------------------------- streams, and datasets with a place


@pytest.mark.parametrize("native", ["auto", "never"])
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("every", [2, 0])
def test_streams(replay_shards, native, workers, every):
    def make():
        data = WebDataset(f"{replay_shards}/s-{{0..3}}.tar", shardshuffle=True).shuffle(5, initial=5)
        return DataLoader(
            images(data, RANDOM if native == "auto" else FIXED), 3, num_workers=workers, native=native
        )

    run_with_replays(make, epochs=2, states_every=every)


def test_streams_tell_shards_and_keys(replay_shards):
    loader = DataLoader(stream(replay_shards), 3, num_workers=2)
    list(loader)
    told = loader.seen(1)
    assert [key for _, key in told["samples"]] == [
        "d/003.jpg",
        "d/004.png",
        "d/005.webp",
    ] and "s-0.tar" in told["samples"][0][0]


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

    loader = DataLoader(Long(), 2, history=BatchHistory(states_every=1, steps=3))
    given = list(loader)
    log = loader.history.epochs[0]
    assert len(log.states) <= 128 and len(log.steps) == 3
    assert all(same(loader.replay(step), given[step]) for step in (0, 499, 998))
