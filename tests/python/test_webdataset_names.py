"""What `wds.` names: lists of steps, WebLoader, errors that say what to write."""

from __future__ import annotations

import pickle
import sys
import types

import millrace
import pytest
import torch
from loader_data import advanced, going_on
from millrace import DataLoader
from millrace.datasets import WebDataset
from millrace.datasets import webdataset as wds
from shard_data import same, write_tar
from split_cases import number
from stream_cases import COUNT, LENGTHS, shards  # noqa: F401


def pipeline(shards, *before, source=wds.SimpleShardList, **options):
    return wds.DataPipeline(source(shards, **options), *before, wds.tarfile_to_samples(), wds.map(number))


# ---------------------------------------------------------------- lists of steps


def test_a_list_of_steps_is_the_same_pipeline(shards):
    for_samples = [wds.decode(), wds.shuffle(0), wds.to_tuple("cls")]
    steps = [wds.SimpleShardList(shards), None, wds.tarfile_to_samples(), for_samples, wds.batched(4)]
    listed = wds.DataPipeline(*steps)
    chained = (
        WebDataset(shards, nodesplitter=None, workersplitter=None, empty_check=False)
        .decode()
        .to_tuple("cls")
        .batched(4)
    )
    assert (
        isinstance(listed, WebDataset) and listed.stages == chained.stages and listed.shards == chained.shards
    )
    assert same(list(listed), list(chained))
    assert same(list(listed.unbatched().slice(3)), list(chained.unbatched().slice(3)))
    assert list(wds.DataPipeline(wds.DataPipeline(*steps[:-1]), wds.listed(2))) == list(
        listed.unbatched().listed(2)
    )


@pytest.mark.parametrize(
    "before, expected",
    [
        ((), (None, None, False)),
        ((wds.split_by_worker,), (None, "auto", False)),
        ((wds.split_by_node, wds.split_by_worker), ("auto", "auto", False)),
        ((wds.shuffle(100), wds.split_by_node), ("auto", None, True)),
        (
            (wds.detshuffle(bufsize=100, initial=10, seed=3, epoch=0), wds.single_node_only, wds.non_empty),
            (None, None, True),
        ),
    ],
)
def test_steps_for_shards(shards, before, expected):
    source = pipeline(shards, *before).shards
    assert (source.nodesplitter, source.workersplitter, source.shuffled) == expected


@pytest.mark.parametrize("ranks, workers", [(1, 2), (2, 1), (2, 2), (3, 2)])
def test_readers_of_a_list_of_steps_divide_it(shards, monkeypatch, ranks, workers):
    seen = []
    for rank in range(ranks):
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("WORLD_SIZE", str(ranks))
        data = pipeline(shards, wds.split_by_node, wds.split_by_worker)
        seen += DataLoader(data, batch_size=None, num_workers=workers)
    assert sorted(seen) == list(range(COUNT))


def test_functions_for_shards(shards):
    def last_first(urls):
        return reversed(list(urls))

    class EverySecond:
        def run(self, urls):
            yield from list(urls)[::2]

    def split_by_node(urls):
        return urls

    assert pipeline(shards, split_by_node).shards.nodesplitter not in (None, "auto")
    ends = [sum(LENGTHS[:i]) for i in range(len(LENGTHS) + 1)]
    chosen = pipeline(shards, last_first, EverySecond(), wds.split_by_worker)
    assert list(chosen) == [*range(ends[3], ends[4]), *range(ends[1], ends[2])]
    assert sorted(DataLoader(chosen, batch_size=None, num_workers=2)) == sorted(chosen)


def test_shuffled_and_resampled_lists(shards):
    shuffled = pipeline(shards, seed=True)
    first, second = list(shuffled), list(shuffled)
    assert sorted(first) == sorted(second) == list(range(COUNT)) and not first == second == sorted(first)
    endless = pipeline(
        shards, wds.split_by_node, wds.shuffle(9), source=wds.ResampledShards, deterministic=True, seed=5
    ).with_epoch(100)
    assert len(list(endless)) == 100 and set(endless) <= set(range(COUNT))
    assert [entry["url"] for entry in wds.SimpleShardList(shards)] == shards
    assert len(wds.SimpleShardList(shards, seed=1)) == 4
    assert sorted(entry["url"] for entry in wds.SimpleShardList(shards, seed=1)) == sorted(shards)


def test_any_iterable_goes_through_steps():
    mixed = wds.RandomMix([[1] * 40, [2] * 40], probs=[3, 1], longest=True)
    seen = list(wds.DataPipeline(mixed, wds.map(lambda x: x * 10), wds.select(lambda x: x > 0)))
    assert sorted(seen) == [10] * 40 + [20] * 40 and seen[:40].count(10) > 20
    assert list(wds.RoundRobin([[1, 2, 3], [7, 8]])) == [1, 7, 2, 8, 3]
    assert list(
        wds.DataPipeline(range(5), wds.pipelinefilter(lambda items, by: (i * by for i in items))(3))
    ) == [0, 3, 6, 9, 12]


def test_other_decoders_and_fields(tmp_path):
    url = write_tar(
        tmp_path / "a.tar",
        [("k/x.cls", b"1"), ("k/x.left.bin", b"ab"), ("k/x.bin", b"abc"), ("k/x.TXT", b"t")],
    )
    (sample,) = WebDataset(url).decode(
        wds.handle_extension("left.bin other", len), wds.autodecode.basichandlers
    )
    assert (sample["left.bin"], sample["bin"], sample["cls"], sample["txt"]) == (2, b"abc", 1, "t")
    assert wds.getfirst(sample, "png;cls") == 1
    assert wds.getfirst(sample, ["png"], 7, missing_is_error=False) == 7
    assert pickle.loads(pickle.dumps(wds.handle_extension("bin", len)))(".bin", b"ab") == 2
    (more,) = WebDataset(url).associate({"k/x": {"score": 3}}).associate(lambda key: {"name": key})
    assert (more["score"], more["name"]) == (3, "k/x")


def test_sound(monkeypatch):
    monkeypatch.setitem(
        sys.modules, "torchaudio", types.SimpleNamespace(load=lambda file: (len(file.read()), 16000))
    )
    assert wds.torch_audio("wav", b"12345") == (5, 16000) and wds.torch_audio("txt", b"") is None
    monkeypatch.setitem(sys.modules, "torchaudio", None)
    with pytest.raises(millrace.UnavailableError, match="pip install torchaudio"):
        wds.torch_audio(".flac", b"")


# ---------------------------------------------------------------- WebLoader


def behind_a_loader(shards, workers, seed=1):
    data = (
        WebDataset(shards, shardshuffle=True, seed=seed)
        .map(number)
        .batched(3, collation_fn=lambda batch: (torch.tensor(batch),))
    )
    return (
        wds.WebLoader(data, batch_size=None, num_workers=workers).unbatched().shuffle(6, initial=3).batched(4)
    )


@pytest.mark.parametrize("workers", [0, 2])
def test_stages_behind_a_loader(shards, workers):
    loader = behind_a_loader(shards, workers)
    epochs = [[value for (batch,) in loader for value in batch.tolist()] for _ in range(2)]
    assert sorted(epochs[0]) == sorted(epochs[1]) == list(range(COUNT)) and epochs[0] != epochs[1]
    again = behind_a_loader(shards, workers)
    assert [value for (batch,) in again for value in batch.tolist()] == epochs[0]
    loader.num_batches = 5
    assert (
        loader.num_batches == 5 and loader.loader.num_workers == workers and len(loader.with_length(5)) == 5
    )
    first, *_, behind = loader.explain().splitlines()
    assert loader.loader.explain().startswith(first) and "unbatched" in behind and "batched(4" in behind
    assert loader.stats()["batches"] == loader.loader.stats()["batches"] > 0
    assert loader.profile(steps=True) == loader.loader.profile(steps=True)
    assert str(loader.advice()) == str(loader.loader.advice()) and str(loader.report())
    assert len(list(loader.with_epoch(nbatches=8))) == 8 and len(list(loader.repeat(2))) == 2 * 5


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("taken", [0, 1, 3, 5])
def test_a_web_loader_is_resumed(shards, workers, taken):
    whole = [list(loader) for loader in [behind_a_loader(shards, workers)] for _ in range(2)]
    one = behind_a_loader(shards, workers)
    _held = advanced(one, taken)
    state = pickle.loads(pickle.dumps(one.state_dict()))
    two = going_on(behind_a_loader(shards, workers), state)
    rest = list(two)
    if taken < 5:
        assert same(rest, whole[0][taken:]) and same(list(two), whole[1])
    else:  # taken before the end was seen
        assert rest == [] and same(list(two), whole[1])


# ---------------------------------------------------------------- what is not there


@pytest.mark.parametrize(
    "wrong, message",
    [
        (lambda: wds.DataPipeline(), "has no steps: begin with SimpleShardList"),
        (lambda: wds.shuffle(10, rng=3), "give seed="),
        (lambda: list(wds.non_empty([])), "there is nothing in this stream"),
        (lambda: wds.getfirst({"a": 1}, "b;c"), "none of the fields 'b', 'c', only 'a'"),
    ],
)
def test_what_means_nothing_is_said(wrong, message):
    with pytest.raises(ValueError, match=message):
        wrong()


@pytest.mark.parametrize(
    "name, remedy",
    [
        ("ShardList", "use WebDataset"),
        ("PytorchShardList", "use WebDataset"),
        ("nothing", "docs/shards.md lists them"),
    ],
)
def test_names_that_are_not_there(name, remedy):
    with pytest.raises(AttributeError, match=f"has no '{name}'.*{remedy}"):
        getattr(wds, name)
    assert not hasattr(wds, name)


@pytest.mark.parametrize(
    "name, remedy",
    [("ddp_equalize", r": use \.with_epoch\(n\)"), ("pipe", r": use \.compose"), ("nothing", "$")],
)
def test_methods_that_are_not_there(shards, name, remedy):
    for thing in (WebDataset(shards), wds.WebLoader(WebDataset(shards))):
        with pytest.raises(
            AttributeError, match=f"'{type(thing).__name__}' object has no attribute '{name}'{remedy}"
        ):
            getattr(thing, name)
        assert not hasattr(thing, name)


def test_modules_of_the_package_are_names(shards):
    assert wds.filters.shuffle is wds.shuffle and wds.shardlists.split_by_node is wds.split_by_node
    assert wds.handlers.warn_and_continue is wds.warn_and_continue and wds.utils.identity(3) == 3
    assert wds.pipeline.DataPipeline is wds.DataPipeline
    assert wds.autodecode.imagehandler("pil") == wds.ImageHandler("pil")
