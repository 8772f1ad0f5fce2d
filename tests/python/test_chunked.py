"""Datasets in chunks: batches equal default_collate of samples, the cache's budget, errors at their turn,
states, forks.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import os
import pickle
import threading
import warnings
import weakref

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from loader_data import next_in_the_end
from millrace import CorruptDataError, DataLoader
from millrace.datasets.batches import ChunkedDataset, Field
from torch.utils.data import DataLoader as TorchLoader
from torch.utils.data import Subset, default_collate


class Words:
    def __init__(self, first, rows):
        self.first, self.nbytes = first, 50 * rows

    def take(self, rows):
        return [f"row {self.first + row}" for row in rows.tolist()]


class Numbers(ChunkedDataset):
    """Sample i: x = [i, i + 0.5], y = i, a word. Counts how its chunks are read."""

    fields = (Field("x", "float32", (2,)), Field("y", "int64", ()), Field("word"))

    def __init__(self, lengths, layout="dict", broken=(), **options):
        super().__init__(**options)
        self.chunk_lengths = np.array(lengths, dtype=np.int64)
        self.layout, self.broken = layout, broken
        if layout == "single":
            self.fields = self.fields[1:2]
        self.reads = []

    def read_chunk(self, number):
        self.reads.append(number)
        if number in self.broken:
            raise CorruptDataError(f"numbers.bin: chunk {number} cannot be read")
        y = np.arange(self.chunk_starts[number], self.chunk_starts[number + 1])
        x = np.stack([y, y + 0.5], axis=1).astype(np.float32)
        return (y,) if self.layout == "single" else (x, y, Words(int(self.chunk_starts[number]), len(y)))

    def chunk_bytes(self, number):
        return int(self.chunk_lengths[number]) * 66


def equal(a, b):
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(equal(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(equal, a, b))
    return type(a) is type(b) and a == b


LENGTHS = [5, 0, 17, 1, 30, 12]


@pytest.mark.parametrize("layout", ["dict", "tuple", "single"])
@pytest.mark.parametrize("workers", [0, 1, 3])
@pytest.mark.parametrize("cache_bytes", [0, 1500, None])
def test_batches_equal_torchs(layout, workers, cache_bytes):
    dataset = Numbers(LENGTHS, layout, cache_bytes=cache_bytes)
    generator = torch.Generator().manual_seed(3)
    ours = DataLoader(dataset, 7, shuffle=True, num_workers=workers, native="require", generator=generator)
    torchs = TorchLoader(
        Numbers(LENGTHS, layout), 7, shuffle=True, generator=torch.Generator().manual_seed(3)
    )
    for _ in range(2):
        for a, b in itertools.zip_longest(ours, torchs):
            assert equal(a, b)
    assert ours.stats()["engine"] == ("threads" if workers else "inline")
    assert ours.stats()["samples"] == sum(LENGTHS)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=12).filter(any),
    st.integers(0, 3),
    st.integers(0, 3000),
    st.integers(1, 20),
    st.data(),
)
def test_any_indices(lengths, workers, cache_bytes, batch_size, data):
    dataset, count = Numbers(lengths, cache_bytes=cache_bytes), sum(lengths)
    indices = data.draw(st.lists(st.integers(-count, count - 1), min_size=1, max_size=60))
    loader = DataLoader(dataset, batch_size, sampler=indices, num_workers=workers, native="require")
    batches = list(loader)
    expected = [
        default_collate([dataset[i] for i in indices[at : at + batch_size]])
        for at in range(0, len(indices), batch_size)
    ]
    assert len(batches) == len(expected) and all(map(equal, batches, expected))


def test_shuffled_order_reads_each_chunk_once():
    dataset = Numbers([10] * 40, cache_bytes=10 * 66 * 14)
    for workers in (0, 2):
        dataset.reads.clear()
        loader = DataLoader(
            dataset, 8, sampler=dataset.shuffled(buffer_chunks=4, seed=1), num_workers=workers
        )
        seen = torch.cat([batch["y"] for batch in loader])
        assert sorted(seen.tolist()) == list(range(400)) and seen.tolist() != list(range(400))
        assert len(dataset.reads) <= 40 + 6, "the buffer's chunks fit the cache but for a few stragglers"


def test_reads_ahead_while_the_consumer_works():
    dataset = Numbers([10] * 8, cache_bytes=10 * 66 * 6)
    read = threading.Event()
    loader = DataLoader(dataset, 5, num_workers=1)
    original = dataset.read_chunk
    dataset.read_chunk = lambda number: (read.set() if number == 2 else None, original(number))[1]
    iterator = iter(loader)
    next(iterator)
    next(iterator)
    assert read.wait(60), "chunk 2 is needed by none of the four batches that torch would have asked for"


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_chunks_go_with_their_iterator(workers):
    dataset, kept = Numbers([1000] * 4, "single", cache_bytes=1 << 20), []
    original = dataset.read_chunk

    def read_chunk(number):
        columns = original(number)
        kept.append(weakref.ref(columns[0]))
        return columns

    dataset.read_chunk = read_chunk
    gc.disable()  # caches are large, and cycles may stay for long
    try:
        for _ in DataLoader(dataset, 50, num_workers=workers):
            pass
        assert len(kept) == 4 and not any(array() is not None for array in kept)
    finally:
        gc.enable()


class CountsTheEnd:
    """A sampler that counts how often it is asked behind its last index."""

    def __init__(self, length):
        self.length, self.asked = length, 0

    def __len__(self):
        return self.length

    def __iter__(self):
        self.left = self.length
        return _Counting(self)


class _Counting:
    def __init__(self, sampler):
        self.sampler = sampler

    def __iter__(self):
        return self

    def __next__(self):
        if self.sampler.left == 0:
            self.sampler.asked += 1
            raise StopIteration
        self.sampler.left -= 1
        return self.sampler.left


def test_the_samplers_end_is_met_once_per_batch():
    dataset, sampler = Numbers([1000] * 4), CountsTheEnd(4000)
    loader = DataLoader(dataset, 10, sampler=sampler, num_workers=2)
    assert sum(len(batch["y"]) for batch in loader) == 4000 and loader.stats()["engine"] == "threads"
    assert sampler.asked <= 401, "though the loader reads all of them ahead"


@pytest.mark.parametrize("workers", [0, 2])
def test_chunks_of_many_rows_in_any_order(workers):
    dataset = Numbers([20_000, 5, 30_000])
    order = [*torch.randperm(50_005, generator=torch.Generator().manual_seed(1)).tolist(), *range(3000)]
    seen = []
    for batch in DataLoader(dataset, 777, sampler=order, num_workers=workers, native="require"):
        y = batch["y"]
        seen += y.tolist()
        assert torch.equal(batch["x"], torch.stack([y, y + 0.5], dim=1).float()) and batch["word"] == [
            f"row {i}" for i in y.tolist()
        ]
    assert seen == order


def test_a_broken_chunk_is_an_error_at_its_turn():
    for workers in (0, 2):
        dataset = Numbers([10] * 5, broken=(2,))
        iterator, seen = iter(DataLoader(dataset, 5, num_workers=workers)), []
        for _ in range(10):
            try:
                seen += next(iterator)["y"].tolist()
            except CorruptDataError as error:
                assert "chunk 2" in str(error)
        assert seen == [*range(20), *range(30, 50)]


@pytest.mark.parametrize("workers", [1, 3])
def test_an_error_among_batches_made_in_one_go_is_its_batchs(workers):
    dataset = Numbers([100] * 8, "single", broken={3, 6})
    assert dataset.batches_at_once(7) > 1
    order = torch.randperm(800, generator=torch.Generator().manual_seed(0)).tolist()[:30] + list(range(800))
    batches = iter(DataLoader(dataset, 7, sampler=order, num_workers=workers, native="require"))
    for first in range(0, len(order), 7):
        wanted = order[first : first + 7]
        if any(dataset.broken & {index // 100} for index in wanted):
            with pytest.raises(CorruptDataError, match="chunk [36] cannot be read"):
                next(batches)
        else:
            assert next(batches).tolist() == wanted
    with pytest.raises(StopIteration):
        next(batches)


def test_skip_leaves_out_what_cannot_be_read():
    loader = DataLoader(
        Numbers([10] * 5, broken=(2,)), 5, on_error="skip", worker_method="thread", num_workers=2
    )
    assert "on_error" in loader.explain()
    seen = [y for batch in loader for y in batch["y"].tolist()]
    assert sorted(seen) == [*range(20), *range(30, 50)] and loader.stats()["left_out"] == 10


def test_indices_that_are_not_there():
    dataset = Numbers(LENGTHS)
    with pytest.raises(IndexError, match="index 65 is out of range for 65 samples"):
        dataset[65]
    assert equal(dataset[-1], dataset[64])
    for workers in (0, 2):
        iterator = iter(DataLoader(dataset, 2, sampler=[0, 1, 2, 99, 3, 4], num_workers=workers))
        next(iterator)
        with pytest.raises(IndexError, match="index 99"):
            next(iterator)
        assert next(iterator)["y"].tolist() == [3, 4]


def test_subsets_and_collate_functions():
    dataset = Subset(Subset(Numbers(LENGTHS), range(5, 60)), [3, -1, 0])
    loader = DataLoader(dataset, 3, native="require")
    assert next(iter(loader))["y"].tolist() == [8, 59, 5]
    words = DataLoader(
        Numbers(LENGTHS), 3, collate_fn=lambda samples: [s["word"] for s in samples], num_workers=2
    )
    assert words.stats()["engine"] == "processes"
    assert next(iter(words)) == ["row 0", "row 1", "row 2"]


def test_pickles_and_resumes():
    dataset = pickle.loads(pickle.dumps(Numbers([10] * 7)))
    assert dataset[3]["word"] == "row 3" and pickle.loads(pickle.dumps(dataset))[3]["y"] == 3

    def loader():
        return DataLoader(dataset, 4, sampler=dataset.shuffled(2, seed=5), num_workers=2)

    whole = [batch["y"].tolist() for batch in loader()]
    for cut in range(len(whole)):
        first = loader()
        iterator = iter(first)
        for _ in range(cut):
            next(iterator)
        rest = loader()
        rest.load_state_dict(first.state_dict())
        assert [batch["y"].tolist() for batch in rest] == whole[cut:]


def test_ends_and_timeouts():
    dataset, before = Numbers([10] * 5), set(threading.enumerate())
    gate = threading.Event()
    original = dataset.read_chunk
    dataset.read_chunk = lambda number: (gate.wait(300), original(number))[1]
    iterator = iter(DataLoader(dataset, 5, num_workers=1, timeout=0.1))
    with pytest.raises(RuntimeError, match="timed out after 0.1 seconds"):
        next(iterator)
    gate.set()
    assert next_in_the_end(iterator)["y"].tolist() == [0, 1, 2, 3, 4]
    del iterator
    assert set(threading.enumerate()) <= before


def test_persistent_workers_start_anew():
    dataset = Numbers([10] * 5)
    loader = DataLoader(dataset, 4, num_workers=2, persistent_workers=True)
    iterator = iter(loader)
    next(iterator)
    next(iterator)
    for _ in range(2):
        assert torch.cat([batch["y"] for batch in loader]).tolist() == list(range(50))


def test_each_rank_reads_chunks_of_its_own():
    dataset = Numbers([10] * 24)
    chunks, seen = [], []
    for rank in range(4):
        sampler = dataset.shuffled(buffer_chunks=2, seed=3, num_replicas=4, rank=rank)
        indices = list(sampler)
        chunks.append({index // 10 for index in indices})
        seen += indices
    assert sorted(seen) == list(range(240))
    assert all(len(own) <= 7 for own in chunks), "a fourth of the chunks, and one that is cut"


def test_an_epoch_goes_on_under_other_ranks():
    """streams=None takes the number of ranks, and a state says which number that was."""
    lengths = [10] * 24

    def ranks(count):
        return [Numbers(lengths).shuffled(2, 3, num_replicas=count, rank=rank) for rank in range(count)]

    order = [index for step in zip(*map(list, ranks(4))) for index in step]
    before = [iter(sampler) for sampler in ranks(4)]
    taken = [next(iterator) for _ in range(9) for iterator in before]
    after = ranks(2)
    for sampler in after:
        sampler.load_state_dict(before[0].state_dict())
    taken += [index for step in zip(*map(list, after)) for index in step]
    assert taken == order


def test_ctrl_c_without_workers_loses_no_batch():
    dataset = Numbers([10] * 3)
    original, interrupts = dataset.read_chunk, [KeyboardInterrupt]

    def read(number):
        if number == 1 and interrupts:
            raise interrupts.pop()
        return original(number)

    dataset.read_chunk = read
    iterator = iter(DataLoader(dataset, 10))
    next(iterator)
    with pytest.raises(KeyboardInterrupt):
        next(iterator)
    assert [batch["y"].tolist() for batch in iterator] == [list(range(10, 20)), list(range(20, 30))]


def test_a_forked_child_leaves_the_threads_alone():
    dataset = Numbers([10] * 50)
    loader = DataLoader(dataset, 5, num_workers=2)
    iterator = iter(loader)
    next(iterator)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            with contextlib.suppress(RuntimeError):
                next(iterator)
                os._exit(2)
            del iterator
            gc.collect()
            status = (
                0
                if dataset[499]["y"] == 499 and len(list(DataLoader(dataset, 50, num_workers=1))) == 10
                else 3
            )
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(list(iterator)) == 99


def test_a_shuffle_that_the_cache_cannot_hold_is_warned_of():
    dataset = Numbers([10] * 50, cache_bytes=10 * 66 * 8)
    for loader in (
        DataLoader(dataset, 5, shuffle=True),
        DataLoader(Subset(dataset, range(9)), 5, shuffle=True, num_workers=1),
    ):
        assert "order: RandomSampler jumps among 50 chunks" in loader.explain()
        with pytest.warns(UserWarning, match=r"sampler=dataset\.shuffled\(\)"):
            iter(loader)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        small = Numbers([9] * 5)
        for good in (
            DataLoader(dataset, 5),
            DataLoader(dataset, 5, sampler=dataset.shuffled()),
            DataLoader(small, shuffle=True),
        ):
            iter(good)
            assert "order:" not in good.explain()
