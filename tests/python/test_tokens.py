"""Tokens: windows are numpy's, of every dtype and format; boundaries; shuffling in no memory."""

from __future__ import annotations

import pickle
from pathlib import Path

import millrace
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from millrace import samplers
from millrace.datasets import Tokens
from millrace.datasets.tokens.stretches import DTYPES
from token_files import write_litdata, write_llmc, write_mds, write_megatron, write_npy, write_raw
from torch.utils.data import ConcatDataset, StackDataset, Subset

IGNORED = -100


def some(dtype, count, seed=0):
    """Numbers from the whole range of the dtype."""
    info = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(info.min, info.max, count, dtype=dtype, endpoint=True)


def expected(files, length, stride, shift=True):
    """(x, y) of every window, by slicing."""
    windows = []
    for tokens in files:
        wide = tokens.astype(np.int64)
        for at in range(0, len(wide) - length - shift + 1, stride):
            windows.append(
                (wide[at : at + length], wide[at + 1 : at + length + 1]) if shift else wide[at : at + length]
            )
    return windows


def epoch(dataset, workers=0, **options):
    """All of a native epoch in order, and what ran it."""
    loader = millrace.DataLoader(dataset, 4, num_workers=workers, native="require", **options)
    batches = list(loader)
    assert loader.stats()["engine"] == ("threads" if workers else "inline")
    return (
        [torch.cat(parts) for parts in zip(*batches)] if isinstance(batches[0], list) else torch.cat(batches)
    )


def check(dataset, windows):
    """Samples, native batches with and without threads, and torch's own batches are these windows."""
    assert len(dataset) == len(windows)
    x, y = (np.stack(part) for part in zip(*windows))
    for workers in 0, 2:
        got = epoch(dataset, workers)
        assert [part.dtype for part in got] == [torch.int64] * 2 and all(part.is_contiguous() for part in got)
        assert np.array_equal(got[0].numpy(), x) and np.array_equal(got[1].numpy(), y)
    for i in {0, len(windows) // 2, -1}:
        sample = dataset[i]
        assert type(sample) is tuple
        assert np.array_equal(sample[0].numpy(), x[i])
        assert np.array_equal(sample[1].numpy(), y[i])
    for batch, (a, b) in zip(
        torch.utils.data.DataLoader(dataset, 5),
        zip(torch.tensor(x).split(5), torch.tensor(y).split(5)),
        strict=True,
    ):
        assert torch.equal(batch[0], a) and torch.equal(batch[1], b)


@settings(max_examples=60, derandomize=True, deadline=None)
@given(
    dtype=st.sampled_from(DTYPES),
    counts=st.lists(st.integers(1, 90), min_size=1, max_size=4),
    length=st.integers(1, 40),
    stride=st.one_of(st.none(), st.integers(1, 50)),
    shift=st.booleans(),
    workers=st.sampled_from([0, 2]),
)
def test_every_dtype_is_numpys(tmp_path_factory, dtype, counts, length, stride, shift, workers):
    folder = tmp_path_factory.mktemp("tokens")
    files = [some(dtype, count, seed) for seed, count in enumerate(counts)]
    paths = [write_raw(folder / f"{i}.bin", tokens) for i, tokens in enumerate(files)]
    windows = expected(files, length, stride or length, shift)
    arguments = dict(dtype=dtype, stride=stride, targets="shift" if shift else None)
    if not windows:
        with pytest.raises(ValueError, match="no window"):
            Tokens(paths, length, **arguments)
        return
    dataset = Tokens(paths, length, **arguments)
    got = epoch(dataset, workers)
    assert len(dataset) == len(windows)
    wanted = [np.stack(part) for part in zip(*windows)] if shift else [np.stack(windows)]
    for part, right in zip(got if shift else [got], wanted, strict=True):
        assert part.dtype is torch.int64 and np.array_equal(part.numpy(), right)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16", "int32"])
def test_int32_when_asked(tmp_path, dtype):
    tokens = some(dtype, 100)
    x, y = epoch(Tokens(write_raw(tmp_path / "a.bin", tokens), 9, dtype, out_dtype=torch.int32))
    assert x.dtype is y.dtype is torch.int32
    assert np.array_equal(x.numpy(), tokens[:99].reshape(11, 9).astype(np.int32))


FORMATS = {
    "raw": (lambda p, t: write_raw(p / "a.bin", t), True),
    "npy": (lambda p, t: write_npy(p / "a.npy", t), False),
    "llm.c": (lambda p, t: write_llmc(p / "a.bin", t), False),
    "llm.c of 32 bits": (lambda p, t: write_llmc(p / "a.bin", t.astype(np.uint32)), False),
    "megatron": (lambda p, t: write_megatron(p / "a", np.split(t, [10, 10, 37])), False),
    "megatron's index": (lambda p, t: write_megatron(p / "a", np.split(t, [5])).with_suffix(".idx"), False),
    "megatron's prefix": (lambda p, t: write_megatron(p / "a", np.split(t, [5])).with_suffix(""), False),
    "litdata": (lambda p, t: write_litdata(p / "a", [np.split(t, [30, 60])]), False),
    "litdata of 64 bits": (lambda p, t: write_litdata(p / "a", [[t.astype(np.int64)]]), False),
}


@pytest.mark.parametrize("name", FORMATS)
def test_every_format(tmp_path, name):
    write, raw = FORMATS[name]
    tokens = some("uint16", 203)
    path = write(tmp_path, tokens)
    check(Tokens(path, 8, "uint16" if raw else None), expected([tokens], 8, 8))
    check(Tokens(str(path), 8, "uint16" if raw else None, stride=3), expected([tokens], 8, 3))


def test_chunks_and_files_of_several_formats_follow_each_other(tmp_path):
    a, b, c, d = (some("uint16", count, count) for count in (50, 3, 70, 41))
    paths = [
        write_raw(tmp_path / "a.bin", a),
        write_npy(tmp_path / "b.npy", b),
        write_litdata(tmp_path / "c", [[c], [d]]),
    ]
    check(Tokens(paths, 10, "uint16"), expected([a, b, c, d], 10, 10))


@pytest.mark.parametrize("form", [None, "bytes"])
@pytest.mark.parametrize("extra", [False, True])
def test_mds_records(tmp_path, form, extra):
    shards = [some("uint16", 5 * 17).reshape(5, 17), some("uint16", 3 * 17, 1).reshape(3, 17)]
    path = write_mds(tmp_path / "mds", shards, form, extra)
    dtype = "uint16" if form else None
    check(
        Tokens(path, 16, dtype),
        [window for shard in shards for record in shard for window in expected([record], 16, 16)],
    )
    several = Tokens(path, 5, dtype)  # the first windows of a shard's records, then the second ones, ...
    wide = [shard.astype(np.int64) for shard in shards]
    check(
        several, [(r[at : at + 5], r[at + 1 : at + 6]) for shard in wide for at in (0, 5, 10) for r in shard]
    )


def masked(tokens, starts, length, stride):
    """expected(), with targets that begin a document left out."""
    windows = []
    for at in range(0, len(tokens) - length, stride):
        y = tokens[at + 1 : at + length + 1].astype(np.int64)
        y[[s - at - 1 for s in starts if at < s <= at + length]] = IGNORED
        windows.append((tokens[at : at + length].astype(np.int64), y))
    return windows


@settings(max_examples=40, derandomize=True, deadline=None)
@given(
    data=st.data(),
    dtype=st.sampled_from(DTYPES),
    at=st.sampled_from(["end", "start"]),
    length=st.integers(1, 30),
)
def test_targets_across_separators_are_left_out(tmp_path_factory, data, dtype, at, length):
    tokens = np.array(data.draw(st.lists(st.integers(0, 4), min_size=length + 1, max_size=120)), dtype)
    path = write_raw(tmp_path_factory.mktemp("tokens") / "a.bin", tokens)
    places = np.flatnonzero(tokens == 4)
    starts = (places + 1 if at == "end" else places).tolist()
    dataset = Tokens(path, length, dtype, boundaries="mask", document_separator=4, separator_at=at)
    windows = masked(tokens, starts, length, length)
    got = epoch(dataset, 2)
    for part, right in zip(got, zip(*windows), strict=True):
        assert np.array_equal(part.numpy(), np.stack(right))


@settings(max_examples=40, derandomize=True, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 30), min_size=1, max_size=9),
    length=st.integers(1, 20),
    stride=st.one_of(st.none(), st.integers(1, 40)),
)
def test_documents_of_an_index(tmp_path_factory, lengths, length, stride):
    """Documents without a token are none, and several sequences are one document."""
    tokens = some("uint16", sum(lengths))
    if not len(tokens):
        return
    splits = np.cumsum(lengths)
    path = write_megatron(tmp_path_factory.mktemp("tokens") / "a", np.split(tokens, splits[:-1]))
    starts = sorted({end - count for end, count in zip(splits.tolist(), lengths) if count})
    steps = [
        s
        for a, b in zip(starts, starts[1:] + [len(tokens)])
        for s in range(a, b, stride or length)
        if s + length < len(tokens)
    ]
    if len(tokens) > length:
        got = epoch(Tokens(path, length, boundaries="mask"))
        for part, right in zip(got, zip(*masked(tokens, starts, length, length)), strict=True):
            assert np.array_equal(part.numpy(), np.stack(right))
    if not steps:
        return
    everything = masked(tokens, starts, length, 1)
    check(Tokens(path, length, stride=stride, boundaries=("start", "mask")), [everything[s] for s in steps])
    plain = expected([tokens], length, 1)
    check(Tokens(path, length, stride=stride, boundaries="start"), [plain[s] for s in steps])


def test_windows_begin_at_documents_of_several_files(tmp_path):
    files = [
        np.array([7, 1, 2, 9, 3, 9, 4, 5, 6, 7, 8, 9], np.uint16),
        np.array([9, 1, 2, 3, 4], np.uint16),
        np.array([1], np.uint16),
    ]
    paths = [write_raw(tmp_path / f"{i}.bin", tokens) for i, tokens in enumerate(files)]
    dataset = Tokens(paths, 3, "uint16", boundaries="start", document_separator=9, stride=100)
    assert [x.tolist() for x, _ in dataset] == [[7, 1, 2], [3, 9, 4], [4, 5, 6], [9, 1, 2], [1, 2, 3]]
    dataset = Tokens(
        paths, 3, "uint16", boundaries="start", document_separator=9, separator_at="start", stride=100
    )
    assert [x.tolist() for x, _ in dataset] == [[7, 1, 2], [9, 3, 9], [9, 4, 5], [9, 1, 2]]


def test_inside_subsets_concatenations_and_stacks(tmp_path):
    tokens = some("uint16", 400)
    path = write_raw(tmp_path / "a.bin", tokens)
    windows, close = expected([tokens], 10, 10), expected([tokens], 10, 3)
    check(Subset(Tokens(path, 10, "uint16"), range(30, 5, -2)), windows[30:5:-2])
    both = ConcatDataset([Tokens(path, 10, "uint16"), Subset(Tokens(path, 10, "uint16", stride=3), [5, 1])])
    check(both, [*windows, close[5], close[1]])
    labels = StackDataset(
        input_ids=Tokens(path, 10, "uint16", targets=None), labels=Tokens(path, 10, "uint16", targets=None)
    )
    batch = next(iter(millrace.DataLoader(labels, 4, native="require")))
    assert set(batch) == {"input_ids", "labels"} and np.array_equal(batch["labels"][3].numpy(), tokens[30:40])
    mixed = ConcatDataset(
        [Tokens(path, 10, "uint16"), Tokens(path, 10, "uint16", boundaries="mask", document_separator=3)]
    )
    assert "differ in what their samples are" in millrace.DataLoader(mixed).explain()


def test_workers_of_python_code_map_the_files_themselves(tmp_path):
    tokens = some("uint16", 300)
    dataset = Tokens(
        write_raw(tmp_path / "a.bin", tokens), 10, "uint16", boundaries="mask", document_separator=3
    )
    dataset[0]
    assert len(pickle.dumps(dataset)) < 1000
    copied = pickle.loads(pickle.dumps(dataset))
    assert len(copied) == len(dataset) and torch.equal(copied[7][1], dataset[7][1])
    right = [x.clone() for x, _ in dataset]
    for loader_class, method in (
        (millrace.DataLoader, "fork"),
        (torch.utils.data.DataLoader, "fork"),
        (millrace.DataLoader, "spawn"),
    ):
        loader = loader_class(dataset, None, num_workers=1, multiprocessing_context=method)
        assert all(torch.equal(x, r) for (x, _), r in zip(loader, right, strict=True))


def test_many_files(tmp_path):
    files = [some("uint16", 33, seed) for seed in range(300)]
    paths = [write_raw(tmp_path / f"{i}.bin", tokens) for i, tokens in enumerate(files)]
    x, y = epoch(Tokens(paths, 16, "uint16"), 2)
    assert np.array_equal(x.numpy(), np.concatenate([t[:32].reshape(2, 16) for t in files]))


# -- shuffling
# ------------------------------------------------------------------------------------------------------------


def test_few_windows_are_shuffled_as_torch_shuffles(tmp_path):
    dataset = Tokens(write_raw(tmp_path / "a.bin", np.arange(500, dtype=np.uint16)), 10, "uint16")
    torch.manual_seed(3)
    right = [x[:, 0].tolist() for x, _ in torch.utils.data.DataLoader(dataset, 4, shuffle=True)]
    torch.manual_seed(3)
    assert [
        x[:, 0].tolist() for x, _ in millrace.DataLoader(dataset, 4, shuffle=True, native="require")
    ] == right


@pytest.mark.parametrize("own_generator", [False, True])
def test_many_windows_are_shuffled_in_no_memory(tmp_path, monkeypatch, own_generator):
    monkeypatch.setattr(Tokens, "computed_shuffle_above", 20)
    dataset = Tokens(write_raw(tmp_path / "a.bin", np.arange(501, dtype=np.uint16)), 10, "uint16")
    loader = millrace.DataLoader(
        dataset, 4, shuffle=True, generator=torch.Generator().manual_seed(1) if own_generator else None
    )
    torch.manual_seed(3)
    first, second = ([int(i) for x, _ in loader for i in x[:, 0]] for _ in range(2))
    assert sorted(first) == sorted(second) == list(range(0, 500, 10)) and first != second
    iterator = iter(loader)
    head = [next(iterator)[0][:, 0].tolist() for _ in range(3)]
    state = loader.state_dict()
    rest = [x[:, 0].tolist() for x, _ in iterator]
    again = millrace.DataLoader(
        dataset, 4, shuffle=True, generator=torch.Generator().manual_seed(9) if own_generator else None
    )
    again.load_state_dict(state)
    assert [x[:, 0].tolist() for x, _ in again] == rest and len(head) == 3


def test_ten_billion_windows(tmp_path):
    """Every window of a sparse file of 20 GB: the first batches come at once, far-off windows in them."""
    path = tmp_path / "huge.bin"
    with open(path, "wb") as file:
        file.truncate(20_000_000_000 + 2 * 64)
    dataset = Tokens(path, 64, "uint16", stride=1)
    assert len(dataset) == 10**10
    loader = millrace.DataLoader(dataset, 16, shuffle=True, num_workers=1, native="require")
    for number, (x, _) in zip(range(5), loader):
        assert x.shape == (16, 64)
    order = iter(samplers.RandomSampler(dataset))
    picked = [next(order) for _ in range(1000)]
    assert len(set(picked)) == 1000 and max(picked) > 9 * 10**9 and min(picked) < 10**9
    assert dataset[10**10 - 1][0].tolist() == [0] * 64


@pytest.mark.parametrize(
    "name, dtype",
    [("mds_bytes", "int64"), ("mds_ndarray", None), ("litdata_tensor", None), ("litdata_numpy", None)],
)
def test_folders_that_their_own_packages_wrote(name, dtype):
    """streaming 0.13.0 and litdata 0.2.76 wrote tests/data/tokens: 12 documents of 9 tokens, in shards."""
    tokens = Tokens(Path(__file__).parents[1] / "data" / "tokens" / name, 9, dtype=dtype, targets=None)
    assert np.array_equal(epoch(tokens).numpy(), np.arange(108).reshape(12, 9) * 577 % 50257)
