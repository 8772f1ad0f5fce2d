"""The history recorder across resumed runs and processes, its bounds and files, and what it refuses."""

from __future__ import annotations

import copy
import json
import pickle
import random
from array import array

import millrace
import numpy as np
import pytest
import torch
from loader_data import pictures
from millrace import BatchHistory, DataLoader, samplers
from millrace._history import draws
from replay_cases import AUGMENTED, run_with_replays, seed
from shard_data import same
from stream_cases import stream
from test_resume import DATA, ORDERS
from torch.utils.data import TensorDataset

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
def test_a_state_and_a_step_in_another_process(replay_folder, workers):
    def make():
        return DataLoader(pictures(replay_folder, transform=AUGMENTED), 4, True, num_workers=workers)

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


def test_streams_go_only_forwards(replay_shards):
    loader = DataLoader(stream(replay_shards), 3)
    batches = iter(loader)
    given = [next(batches) for _ in range(3)]
    state = loader.state_dict()
    given += list(batches)
    assert same(millrace.replay(DataLoader(stream(replay_shards), 3), state, 4), given[4])
    with pytest.raises(ValueError, match="goes only forwards"):
        millrace.replay(DataLoader(stream(replay_shards), 3), state, 1)


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
    loader = DataLoader(DATA["rows"](), 4, history=False)
    assert len(list(loader)) == 6
    with pytest.raises(millrace.UnavailableError, match="history=False"):
        loader.replay(0)
    with pytest.raises(ValueError, match="is no BatchHistory"):
        DataLoader(DATA["rows"](), 4, history="yes")
    with pytest.raises(ValueError, match="steps=-1"):
        BatchHistory(-1)


def test_memory_is_bounded():
    loader = DataLoader(TensorDataset(torch.arange(4000)), 4, history=BatchHistory(memory=20_000))
    given = list(loader)
    assert loader.history.bytes <= 20_000 and len(loader.history.epochs[0].steps) < 100
    assert same(loader.replay(3), given[3]) and same(loader.replay(999), given[999])


def test_copies_and_pickles_begin_anew():
    loader = DataLoader(DATA["rows"](), 4, history=BatchHistory(7, hashes=True))
    list(loader)
    for twin in (copy.deepcopy(loader), pickle.loads(pickle.dumps(loader))):
        assert (twin.history.max_steps, twin.history.hashes, twin.history.epochs) == (7, True, {})
        given = list(twin)
        assert same(twin.replay(1), given[1])


def test_lists_of_files(tmp_path):
    log = tmp_path / "history.jsonl"
    loader = DataLoader(DATA["rows"](), 4, True, history=BatchHistory(hashes=True, file=log))
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


@pytest.mark.parametrize(
    "name, draw",
    [
        ("random", random.random),
        ("random", lambda: random.gauss(0, 1)),
        ("random", lambda: [random.getrandbits(32) for _ in range(624)]),  # which ends where it began
        ("numpy", np.random.random),
        ("torch", lambda: torch.rand(1)),
    ],
)
def test_a_glance_sees_each_draw(name, draw):
    """Wherever the generator stands: what was drawn from is remembered before the next batch."""
    for _ in range(700):
        watch = draws.DrawWatch()
        watch.tasks = 16  # behind the first batches, whose generators' states are read
        assert watch.after(watch.before()) is None and watch.before() is None
        watch.tasks = 32
        assert watch.before() is None
        draw()
        watch.after(None)
        assert list(watch.before()) == [name]


def test_only_an_index_list_is_kept_of_a_plain_step():
    """It is told as any other."""
    for size in (None, 2):
        loader = DataLoader(list(range(100)), size, native="never", history=BatchHistory(steps=10))
        list(loader)
        log, last = loader.history.epochs[0], 99 if size is None else 49
        assert {type(kept) for kept in log.steps.values()} == {int if size is None else array}
        assert sorted(log.steps) == list(range(last - 9, last + 1))
        assert loader.seen(last)["indices"] == (99 if size is None else [98, 99])
        assert loader.history.bytes == sum(log.step(at).bytes for at in log.steps)
