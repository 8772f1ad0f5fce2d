"""Whatever the engine does not know runs as Python code, and nobody can tell the difference."""

import collections
import random

import millrace
import numpy as np
import pytest
import torch
from loader_data import generator_states, outcome
from process_data import Noisy
from torch.utils.data import DataLoader as TorchLoader
from torch.utils.data import Dataset, IterableDataset, TensorDataset, get_worker_info
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter, _SingleProcessDataLoaderIter


class Stream(IterableDataset):
    def __iter__(self):
        worker = get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker else (0, 1)
        return iter(range(first, 11, step))


class Broken(Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        if index == 2:
            raise KeyError(f"sample {index}")
        return index


class Tensors(TensorDataset):
    """Not torch's own class, so that it may do anything."""


Point = collections.namedtuple("Point", "x y")


def points(samples):
    return [Point(sample, sample + 1) for sample in samples]


CASES = {
    "tensors": (
        Tensors(torch.arange(10), torch.randn(10, 3, generator=torch.Generator().manual_seed(1))),
        {"batch_size": 3},
    ),
    "shuffled": (Noisy(), {"batch_size": 4, "shuffle": True}),
    "no batches": (Noisy(), {"batch_size": None}),
    "collate": (range(9), {"batch_size": 2, "collate_fn": points}),
    "list": ([1.5, 2.5, 3.5], {"batch_size": 2, "drop_last": True}),
    "stream": (Stream(), {"batch_size": 4}),
    "stream, no batches": (Stream(), {"batch_size": None}),
}


def plain(value):
    if isinstance(value, torch.Tensor):
        return str(value.dtype), value.tolist()
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [plain(part) for part in value]
    return type(value).__name__, value


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("case", CASES)
def test_same_batches_and_states(case, workers):
    dataset, arguments = CASES[case]
    results, loaders = [], []
    for loader_class in (TorchLoader, millrace.DataLoader):
        torch.manual_seed(3), random.seed(3), np.random.seed(3)
        loaders.append(loader_class(dataset, num_workers=workers, **arguments))
        batches = [[plain(batch) for batch in loaders[-1]] for _ in range(2)]
        results.append((batches, generator_states()))
    assert results[1] == results[0]
    stats = loaders[1].stats()
    assert stats["engine"] == ("processes" if workers else "inline")
    assert stats["batches"] == len(results[1][0][1]) and stats["wait_seconds"] > 0
    assert stats["samples"] == {"list": 2, "collate": 9, "tensors": 10}.get(
        case, 11 if "stream" in case else 13
    )
    assert "dataset: python — " in loaders[1].explain()


@pytest.mark.parametrize("workers", [0, 1])
def test_same_errors_and_going_on(workers):
    def walk(loader_class):
        iterator, seen = iter(loader_class(Broken(), batch_size=2, num_workers=workers)), []
        for _ in range(5):
            kind, value = outcome(lambda: next(iterator).tolist())
            seen.append(
                (kind, value if kind == "returned" else str(value).split("\n")[0].split(" process")[0])
            )
        return seen

    assert walk(millrace.DataLoader) == walk(TorchLoader)


@pytest.mark.parametrize(
    "workers, kind", [(0, _SingleProcessDataLoaderIter), (1, _MultiProcessingDataLoaderIter)]
)
def test_iterators_keep_their_type_and_name(workers, kind):
    loader = millrace.DataLoader(range(4), num_workers=workers)
    iterator = iter(loader)
    assert isinstance(iterator, kind) and len(iterator) == 4 and iter(iterator) is iterator
    assert iterator._profile_name == iter(TorchLoader(range(4), num_workers=workers))._profile_name
    if workers:
        processes = iterator._workers
        assert [process.is_alive() for process in processes] == [True]
        list(iterator)
        assert [process.exitcode for process in processes] == [0]


def test_persistent_workers_stay_and_epochs_count():
    loader = millrace.DataLoader(range(4), num_workers=1, persistent_workers=True)
    pids = set()
    for epoch in range(3):
        list(loader)
        pids.add(loader._iterator._workers[0].pid)
        assert loader.epoch == epoch
    assert len(pids) == 1 and loader.stats()["samples"] == 12
    assert loader.seed == loader._iterator._base_seed


def test_what_python_code_cannot_have_is_refused():
    with pytest.raises(millrace.UnavailableError, match="map-style dataset, in batches"):
        iter(millrace.DataLoader(Stream(), on_error="replace"))
    loader = millrace.DataLoader([1, 2], native="require")
    with pytest.raises(millrace.UnavailableError) as caught:
        iter(loader)
    assert loader.explain() in str(caught.value)
    assert isinstance(caught.value, RuntimeError)


@pytest.mark.parametrize("workers, method", [(0, "auto"), (2, "process"), (2, "thread")])
def test_samples_that_cannot_be_had_are_replaced(workers, method):
    loader = millrace.DataLoader(
        Broken(), batch_size=2, num_workers=workers, worker_method=method, on_error="replace"
    )
    assert [batch.tolist() for batch in loader] == [[0, 1], [3, 3], [4, 5]]
    (error,) = loader.stats()["errors"]
    assert error["index"] == 2 and "KeyError" in error["reason"]
