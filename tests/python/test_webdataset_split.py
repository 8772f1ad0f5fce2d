"""Ranks and workers divide the shards, or the samples, of a stream: nothing twice, nothing left out."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from millrace.datasets import WebDataset
from millrace.datasets.webdataset.flow import Draws
from shard_data import numbered_shards, write_tar
from split_cases import LENGTHS, TOTAL, number, readers


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    return numbered_shards(tmp_path_factory.mktemp("numbered"), LENGTHS)


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
    expected = [number(s) for s in WebDataset(shards)]
    sent = pickle.dumps(WebDataset(shards).shuffle(1).slice(100))
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
    assert len({tuple(epoch) for epoch in epochs}) == 3
    assert all(sorted(epoch) == list(range(TOTAL)) for epoch in epochs)
    assert list(WebDataset(shards, shardshuffle=100, seed=1).map(number)) != epochs[0]
    dataset.set_epoch(1)
    assert dataset.epoch == 1 and list(dataset) == epochs[1] and list(dataset) == epochs[2]


def test_shuffles_are_random(shards):
    """Each position gives each sample as often as any other, about, where the buffer reaches."""
    firsts = [
        next(iter(_at(WebDataset(shards).shuffle(10, initial=10).map(number), epoch))) for epoch in range(400)
    ]
    assert all(20 < firsts.count(n) < 65 for n in range(10)) and max(firsts) == 9
    draws = Draws(1, "x")
    words = [draws.uniform(i) for i in range(3000)]
    assert 0.48 < sum(words) / 3000 < 0.52
    assert words[2500] == Draws(1, "x").uniform(2500) != Draws(2, "x").uniform(2500)


def _at(dataset, epoch):
    dataset.set_epoch(epoch)
    return dataset


def test_a_step_added_in_another_process_keeps_the_rank_that_was_sent(shards, become):
    """A spawned worker has no process group: the dataset says whose share it is, with what is added, too."""
    become(1, 2)
    sent = pickle.dumps(WebDataset(shards).map(number))
    own = list(pickle.loads(sent))
    become(0, 1)
    arrived = pickle.loads(sent)
    assert 0 < len(own) < TOTAL
    assert list(arrived.select(lambda number: True)) == list(arrived) == own
