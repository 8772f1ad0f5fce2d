"""A WebDataset goes on at every sample where it was, for any number of ranks and workers, and they divide
what there is.
"""

from __future__ import annotations

import json
import pickle
import random

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from millrace import DataLoader
from millrace.datasets import WebDataset
from millrace.datasets.webdataset import holding
from millrace.datasets.webdataset.draws import Draws
from shard_data import numbered_shards, write_tar
from torch.utils.data._utils import worker as torch_worker

LENGTHS = [3, 5, 1, 6, 4, 0, 7, 2, 5, 4]
TOTAL = sum(LENGTHS)


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    return numbered_shards(tmp_path_factory.mktemp("numbered"), LENGTHS)


@pytest.fixture
def become(monkeypatch):
    """become(rank, ranks, worker, workers): this process answers as that reader would."""

    def become(rank=0, ranks=1, worker=0, workers=1):
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("WORLD_SIZE", str(ranks))
        info = torch_worker.WorkerInfo(id=worker, num_workers=workers, seed=0, dataset=None)
        monkeypatch.setattr(torch_worker, "_worker_info", info)

    return become


def readers(ranks, workers):
    return [(rank, ranks, worker, workers) for rank in range(ranks) for worker in range(workers)]


def number(sample):
    return int(sample["cls"])


def pairs(source):
    """A user's function that holds samples."""
    for item in source:
        yield (item, next(source, None))


def is_even(n):
    return n % 2 == 0


CHAINS = {
    "plain": lambda ds: ds.map(number),
    "shuffled": lambda ds: ds.shuffle(7, initial=3).map(number),
    "shuffled behind": lambda ds: ds.map(number).select(is_even).shuffle(4),
    "shuffled twice": lambda ds: ds.shuffle(5, initial=2).map(number).shuffle(9, initial=1),
    "large buffer": lambda ds: ds.shuffle(1000, initial=500).map(number),
    "batched": lambda ds: ds.map(number).listed(4),
    "batched whole": lambda ds: ds.shuffle(3).map(number).listed(4, partial=False),
    "unlisted": lambda ds: ds.map(number).listed(4).unlisted(),
    "rebatched": lambda ds: ds.map(number).listed(5).shuffle(3, initial=2).unlisted().listed(3),
    "unbatched": lambda ds: ds.map(lambda s: (number(s), "x")).batched(4).shuffle(2).unbatched(),
    "sliced": lambda ds: ds.shuffle(4).slice(2, 11, 3).map(number),
    "sampled": lambda ds: ds.rsample(0.6).shuffle(3).map(number),
    "composed": lambda ds: ds.shuffle(3).map(number).compose(pairs).shuffle(3),
    "epoch of 17": lambda ds: ds.shuffle(6, initial=2).map(number).with_epoch(17),
    "epoch of 70": lambda ds: ds.shuffle(6, initial=2).map(number).listed(3).with_epoch(40),
    "three times": lambda ds: ds.shuffle(6).map(number).repeat(3),
}


def check_every_cut(make, later=True):
    """Of one reader. Returns what its first epoch gave."""
    dataset = make()
    states, given = [], []
    for item in dataset:
        given.append(item)
        states.append(json.dumps(dataset.state_dict()))
    after = list(dataset)
    states.insert(0, json.dumps(make().state_dict()))
    for cut, state in enumerate(states):
        resumed = make()
        resumed.load_state_dict(json.loads(state))
        assert resumed.state_dict() == json.loads(state)
        items = iter(resumed)
        assert resumed.state_dict() == json.loads(state), "an iterator that has not begun is nowhere else"
        assert list(items) == given[cut:], cut
        if later and cut % 5 == 0:
            assert list(resumed) == after, "and the next epoch is the same"
    return given


@pytest.mark.parametrize("workers", [1, 2, 3, 4])
@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_every_sample_of_every_reader(shards, become, ranks, workers):
    seen = []
    for reader in readers(ranks, workers):
        become(*reader)
        seen += check_every_cut(
            lambda: (
                WebDataset(shards, shardshuffle=True, seed=4, empty_check=False)
                .shuffle(7, initial=3)
                .map(number)
            )
        )
    assert sorted(seen) == list(range(TOTAL))


@pytest.mark.parametrize("reader", [(0, 1, 0, 1), (1, 2, 0, 2), (3, 4, 2, 4)], ids=str)
@pytest.mark.parametrize("chain", CHAINS)
def test_every_sample_of_every_chain(shards, become, chain, reader):
    become(*reader)
    check_every_cut(lambda: CHAINS[chain](WebDataset(shards, shardshuffle=True)), later=True)


STAGES = st.sampled_from(
    [
        lambda ds: ds.shuffle(3, initial=1),
        lambda ds: ds.shuffle(8, initial=5),
        lambda ds: ds.listed(3).unlisted(),
        lambda ds: ds.listed(4, partial=False).shuffle(2).unlisted(),
        lambda ds: ds.slice(1, None, 2),
        lambda ds: ds.slice(15),
        lambda ds: ds.rsample(0.8),
        lambda ds: ds.select(lambda n: n % 5),
        lambda ds: ds.compose(lambda items: iter(sorted(items))),
        lambda ds: ds.with_epoch(20),
        lambda ds: ds.repeat(2),
    ]
)


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    chain=st.lists(STAGES, max_size=5),
    seed=st.integers(0, 2**64),
    shuffled=st.booleans(),
    reader=st.sampled_from(readers(2, 2)),
)
def test_every_sample_of_any_chain(shards, become, chain, seed, shuffled, reader):
    become(*reader)

    def make():
        dataset = WebDataset(shards, shardshuffle=shuffled, seed=seed, empty_check=False).map(number)
        for stage in chain:
            dataset = stage(dataset)
        return dataset

    check_every_cut(make)


def test_every_sample_of_resampled_shards(shards, become):
    become(1, 2, 1, 2)
    given = check_every_cut(lambda: WebDataset(shards, resampled=True).shuffle(5).map(number).with_epoch(120))
    assert len(given) == 120 and len(set(given)) < 60


def test_a_resumed_place_can_be_left_again(shards):
    """Twice resumed is resumed: marks of the shuffle buffer do not get lost."""

    def make():
        return CHAINS["shuffled twice"](WebDataset(shards, shardshuffle=True))

    expected, state, given = list(make()), None, []
    while len(given) < len(expected):
        dataset = make()
        if state is not None:
            dataset.load_state_dict(json.loads(state))
        items = iter(dataset)
        for _ in range(random.Random(len(given)).randint(1, 4)):
            given.extend([] if (item := next(items, None)) is None else [item])
        state = json.dumps(dataset.state_dict())
    assert given == expected


def test_nothing_that_has_been_given_is_read_again_from_far_back(shards, monkeypatch):
    """Resuming reads shards from the oldest sample in the buffer on, and the state has no samples in it."""
    from millrace import _core

    opened = []
    true = _core.ShardReader

    def reader(source, **options):
        opened.append((source, options["start"]))
        return true(source, **options)

    monkeypatch.setattr(_core, "ShardReader", reader)
    dataset = WebDataset(shards).shuffle(3, initial=1)
    items = iter(dataset)
    for _ in range(25):
        next(items)
    state = dataset.state_dict()
    assert len(json.dumps(state)) < 400
    opened.clear()
    resumed = WebDataset(shards).shuffle(3, initial=1)
    resumed.load_state_dict(state)
    next(iter(resumed))
    shard, start = opened[0]
    assert shards.index(shard) >= 4, "not from the first shards"


# ---------------------------------------------------------------- the split


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lengths=st.lists(st.integers(0, 5), min_size=1, max_size=7),
    ranks=st.integers(1, 4),
    workers=st.integers(1, 4),
    shuffled=st.booleans(),
    splitters=st.sampled_from(
        [
            ("auto", "auto"),
            ("samples", "auto"),
            ("shards", "samples"),
            ("shards", "shards"),
            ("samples", "samples"),
        ]
    ),
)
def test_splits_are_disjoint_and_complete(
    tmp_path_factory, become, lengths, ranks, workers, shuffled, splitters
):
    paths = numbered_shards(tmp_path_factory.mktemp("split"), lengths)
    dataset = WebDataset(
        paths,
        shardshuffle=shuffled,
        empty_check=False,
        nodesplitter=splitters[0],
        workersplitter=splitters[1],
        seed=sum(lengths),
    )
    dataset = dataset.map(number)
    for epoch in range(2):
        parts = []
        for reader in readers(ranks, workers):
            become(*reader)
            dataset.set_epoch(epoch)
            parts.append(list(dataset))
        assert sorted(n for part in parts for n in part) == list(range(sum(lengths)))


def test_few_shards_are_read_by_all_and_no_reader_starves(tmp_path, become):
    paths = numbered_shards(tmp_path, [12, 12])
    counts = []
    for reader in readers(2, 3):
        become(*reader)
        counts.append(len(list(WebDataset(paths))))
    assert counts == [4] * 6
    text = WebDataset(paths).describe_split(num_workers=3, ranks=2)
    assert "2 shards for 2 ranks: every 2. shard; 1 shard for 3 workers: fewer shards than workers" in text
    assert f"rank 1, worker 2: 1 of 2 shards, every 3. sample from number 2: {paths[1]}" in text


def test_readers_of_the_same_shard_read_only_what_they_take(tmp_path, become):
    """The bytes of the other samples stay on the disk."""
    members = [(f"{i:03d}.bin", bytes([i]) * 20_000) for i in range(40)]
    url = write_tar(tmp_path / "large.tar", members)
    become(1, 2, 3, 4)
    before = _bytes_read()
    samples = list(WebDataset(url))
    assert [s["bin"] for s in samples] == [data for _, data in members[7::8]]
    assert all(type(s["bin"]) is bytes for s in samples) and _bytes_read() - before < 400_000


def _bytes_read():
    with open("/proc/self/io") as file:
        return int(file.readline().split()[1])


def test_a_process_that_knows_no_rank_takes_that_of_the_sender(shards, become, monkeypatch):
    """As spawned workers, where the process group belongs to their parent only."""
    become(1, 2)
    expected, sent = (
        [number(s) for s in WebDataset(shards)],
        pickle.dumps(WebDataset(shards).shuffle(1).slice(100)),
    )
    monkeypatch.delenv("RANK")
    monkeypatch.delenv("WORLD_SIZE")
    assert sorted(number(s) for s in pickle.loads(sent)) == expected


def test_none_and_functions_as_splitters(shards, become):
    become(1, 2, 1, 2)
    assert len(list(WebDataset(shards, nodesplitter=None, workersplitter=None))) == TOTAL
    first = WebDataset(shards, nodesplitter=lambda urls: [next(urls)], workersplitter=None)
    assert [number(s) for s in first] == [0, 1, 2]
    written_anew = WebDataset(
        shards, nodesplitter=lambda urls: ({"url": u["url"]} for u in list(urls)[1:2]), workersplitter=None
    )
    assert [number(s) for s in written_anew] == [3, 4, 5, 6, 7]


def test_all_ranks_shuffle_shards_alike_and_each_epoch_otherwise(shards):
    dataset = WebDataset(shards, shardshuffle=100).map(number)
    epochs = [list(dataset) for _ in range(3)]
    assert len({tuple(epoch) for epoch in epochs}) == 3 and all(
        sorted(epoch) == list(range(TOTAL)) for epoch in epochs
    )
    assert list(WebDataset(shards, shardshuffle=100, seed=1).map(number)) != epochs[0]
    dataset.set_epoch(1)
    assert dataset.epoch == 1 and list(dataset) == epochs[1] and list(dataset) == epochs[2]


def test_a_loop_that_was_left_is_followed_by_the_next_epoch(shards):
    dataset = WebDataset(shards, shardshuffle=True).map(number)
    epochs = [list(dataset) for _ in range(2)]
    other = WebDataset(shards, shardshuffle=True).map(number)
    assert [n for n, _ in zip(other, range(3))] == epochs[0][:3]
    assert list(other) == epochs[1]


def test_shuffles_are_random(shards):
    """Each position gives each sample as often as any other, about, where the buffer reaches."""
    firsts = [
        next(iter(_at(WebDataset(shards).shuffle(10, initial=10).map(number), epoch))) for epoch in range(400)
    ]
    assert all(20 < firsts.count(n) < 65 for n in range(10)) and max(firsts) == 9
    draws = Draws(1, "x")
    words = [draws.uniform(i) for i in range(3000)]
    assert 0.48 < sum(words) / 3000 < 0.52 and words[2500] == Draws(1, "x").uniform(2500) != Draws(
        2, "x"
    ).uniform(2500)


def _at(dataset, epoch):
    dataset.set_epoch(epoch)
    return dataset


# ---------------------------------------------------------------- in a loader

ENGINES = {
    "inline": {"num_workers": 0},
    "processes": {"num_workers": 2},
    "persistent": {"num_workers": 2, "persistent_workers": True},
    "threads": {"num_workers": 2, "worker_method": "thread"},
    "spawned": {"num_workers": 2, "multiprocessing_context": "spawn"},
    "seldom": {"num_workers": 2, "snapshot_every_n_steps": 3},
    "never": {"num_workers": 2, "snapshot_every_n_steps": 0},
}


def batches(loader):
    return [batch.tolist() for batch in loader]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_loader_goes_on(shards, engine):
    def make():
        dataset = WebDataset(shards, shardshuffle=True).shuffle(6, initial=2).map(number)
        return DataLoader(dataset, 3, **ENGINES[engine])

    loader = make()
    epochs = [batches(loader) for _ in range(3)]
    assert (
        all(sorted(sum(epoch, [])) == list(range(TOTAL)) for epoch in epochs)
        and epochs[0] != epochs[1] != epochs[2]
    )
    for before, cut in ((0, 1), (1, 0), (1, 5), (1, len(epochs[1]))) if engine != "spawned" else ((1, 4),):
        loader = make()
        for _ in range(before):
            list(loader)
        iterator = iter(loader)
        for _ in range(cut):
            next(iterator)
        state = json.loads(json.dumps(loader.state_dict()))
        del iterator
        resumed = make()
        resumed.load_state_dict(state)
        assert batches(resumed) == epochs[before][cut:]
        if engine != "spawned":
            assert batches(resumed) == epochs[before + 1]


def test_behind_an_epoch_the_next_one_begins(shards):
    for options in ENGINES["inline"], ENGINES["processes"], ENGINES["persistent"]:
        loader = DataLoader(WebDataset(shards, shardshuffle=True).map(number), 3, **options)
        list(loader)
        state, expected = loader.state_dict(), batches(loader)
        resumed = DataLoader(WebDataset(shards, shardshuffle=True).map(number), 3, **options)
        resumed.load_state_dict(state)
        assert batches(resumed) == expected


@pytest.mark.parametrize("persistent", [False, True])
def test_epochs_that_are_set_reach_the_workers(shards, persistent):
    dataset = WebDataset(shards, shardshuffle=True).map(number)
    for cls in (DataLoader, torch.utils.data.DataLoader):
        loader = cls(dataset, 3, num_workers=2, persistent_workers=persistent)
        epochs = {}
        for epoch in (2, 0, 2, 1):
            dataset.set_epoch(epoch)
            epochs.setdefault(epoch, batches(loader))
            dataset.set_epoch(epoch)
            assert batches(loader) == epochs[epoch]
        assert len({str(epoch) for epoch in epochs.values()}) == 3


def test_states_of_others_are_refused(shards, become):
    dataset = WebDataset(shards).shuffle(4)
    next(iter(dataset))
    state = dataset.state_dict()
    with pytest.raises(
        ValueError, match=r"shuffle\(4, initial=100, seed=None\), and this one is .*shuffle\(5"
    ):
        WebDataset(shards).shuffle(5).load_state_dict(state)
    with pytest.raises(ValueError, match="10 shards in order, seed 0"):
        WebDataset(shards[:-1]).shuffle(4).load_state_dict(state)
    with pytest.raises(ValueError, match="version 7"):
        WebDataset(shards).shuffle(4).load_state_dict({**state, "version": 7})
    again = WebDataset(shards).shuffle(4)
    again.load_state_dict(state)
    become(1, 2, 0, 1)
    with pytest.raises(
        ValueError, match="worker 0 of 1 in rank 0 of 1, and this is worker 0 of 1 in rank 1 of 2"
    ):
        next(iter(again))


def test_the_buffers_rule_is_as_written():
    """What comes out at output g was among the first min(initial + 2 g, size + g) samples."""

    class Numbers:
        def __iter__(self):
            return iter(range(200))

        def place(self):
            return [0]

    for size, initial in ((1, 1), (5, 1), (5, 100), (30, 7)):
        flow = holding.ShuffleFlow(Numbers(), holding.Shuffle(size, initial), Draws(size), None)
        out = list(flow)
        assert sorted(out) == list(range(200))
        assert all(n < min(min(initial, size) + 2 * g, size + g) for g, n in enumerate(out))
