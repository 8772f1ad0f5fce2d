"""Which data sets in memory run natively, what explain() says of those that do not, and how their iterators
end.
"""

import copy
import gc
import os
import pickle
import signal
import types

import millrace
import numpy as np
import pytest
import torch
from torch.utils.data import ConcatDataset, Dataset, StackDataset, Subset, TensorDataset
from torch.utils.data._utils.collate import default_collate_fn_map

X, Y = torch.randn(6, 4), torch.arange(6)


class Sub(TensorDataset):
    """May do anything."""


class Other(Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        return index


def told(dataset, **arguments):
    """What explain() says of the dataset."""
    return millrace.DataLoader(dataset, **arguments).explain().splitlines()[0].removeprefix("dataset: ")


def patched(dataset, **attributes):
    vars(dataset).update(attributes)
    return dataset


NATIVE = {
    "TensorDataset of 6 samples in memory": TensorDataset(X, Y),
    "Tensor of 6 samples": X,
    "numpy array of 6 samples": Y.numpy(),
    "StackDataset of 6 samples": StackDataset(a=X, b=list(range(6))),
    "Subset of Subset of TensorDataset of 1 samples": Subset(Subset(TensorDataset(X), [3, 4]), [-1]),
    "TensorDataset of 4 samples in memory": TensorDataset(X.t()),
    "ConcatDataset of 2 x TensorDataset of 12 samples": TensorDataset(X) + TensorDataset(X),
}


@pytest.mark.parametrize("reason", NATIVE)
def test_what_is_native(reason):
    assert told(NATIVE[reason]).startswith(f"native — {reason}")
    loader = millrace.DataLoader(NATIVE[reason], 4, shuffle=True, native="require")
    assert [line.split(":")[0] for line in loader.explain().splitlines()] == [
        "dataset",
        "sampler",
        "collate_fn",
        "worker_init_fn",
    ]


REFUSED = [
    (lambda: Sub(X), "Sub is Python code"),
    (lambda: Other(), "Other is Python code"),
    (lambda: Subset(Sub(X), [1]), "Sub is Python code"),
    (lambda: StackDataset(X, Other()), "Other is Python code; samples in memory"),
    (lambda: ConcatDataset([TensorDataset(X), Other()]), "Other is Python code; samples in memory"),
    (lambda: TensorDataset(X.clone().requires_grad_()), "use tensor.detach()"),
    (lambda: TensorDataset(torch.nn.Parameter(X)), "something else than a tuple of plain tensors"),
    (lambda: TensorDataset(X.to_sparse()), "use dense numbers on the CPU"),
    (lambda: TensorDataset(X.to("meta")), "use dense numbers on the CPU"),
    (lambda: TensorDataset(torch.randn(6, 4, dtype=torch.complex64).conj()), "use tensor.clone()"),
    (
        lambda: TensorDataset(torch.empty(6, 2, 4, 4, 3).permute(0, 1, 4, 2, 3)),
        "four or more axes with the channels last",
    ),
    (lambda: np.empty((6, 2, 4, 4, 3)).transpose(0, 1, 4, 2, 3), "four or more axes with the channels last"),
    (lambda: patched(TensorDataset(X), tensors=[X]), "something else than a tuple"),
    (lambda: patched(TensorDataset(X), tensors=(X, Y[:3])), "differ in length"),
    (lambda: patched(TensorDataset(X), __getitems__=lambda indices: []), "a __getitems__ of its own"),
    (lambda: patched(StackDataset(X), datasets=(X[:3],)), "changed their length"),
    (
        lambda: patched(ConcatDataset([TensorDataset(X)]), datasets=[TensorDataset(X[:3])]),
        "changed their length",
    ),
    (lambda: StackDataset(["a"] * 6), "a list holds more than ints"),
    (lambda: StackDataset([1, True]), "a list holds more than ints"),
    (lambda: StackDataset([1, 2.0]), "a list holds more than ints"),
    (lambda: StackDataset([2**70]), "a list holds more than ints"),
    (lambda: np.array(["a", "b"]), "a numpy array is <U1"),
    (lambda: np.array([1, 2], dtype=object), "a numpy array is object"),
    (lambda: np.array([1.0, 2.0], dtype=">f4"), "a numpy array is >f4"),
    (
        lambda: np.zeros((6, 4))[:, ::-1],
        "no rows of arrays that are reversed, or parts of records; use array.copy()",
    ),
    (lambda: np.zeros((6, 4), [("a", "u1"), ("b", "f4")])["b"], "or parts of records; use array.copy()"),
    (lambda: np.zeros(6, np.uint64), "no batches of numpy.uint64 numbers"),
    (
        lambda: ConcatDataset([TensorDataset(X), TensorDataset(X.t().contiguous().t())]),
        "lie in memory in different ways",
    ),
    (
        lambda: ConcatDataset([TensorDataset(X), TensorDataset(X.double())]),
        "differ in what their samples are",
    ),
    (lambda: ConcatDataset([TensorDataset(X), TensorDataset(X[:, :2])]), "differ in what their samples are"),
    (lambda: ConcatDataset([TensorDataset(X), X]), "differ in what their samples are"),
    (
        lambda: ConcatDataset([StackDataset(a=X, b=X), StackDataset(b=X, a=X)]),
        "differ in what their samples are",
    ),
    (lambda: ConcatDataset([X, X.numpy()]), "differ in what their samples are"),
    (lambda: Subset(TensorDataset(X), [6]), "reach from 6 to 6 in a dataset of 6"),
    (lambda: Subset(TensorDataset(X), [0, -7]), "reach from -7 to 0 in a dataset of 6"),
    (lambda: Subset(TensorDataset(X), [1, True]), "a list of other things than plain ints"),
    (lambda: Subset(TensorDataset(X), np.array([1.0])), "a ndarray of other things"),
    (lambda: Subset(TensorDataset(X), types.MappingProxyType({0: 1})), "a mappingproxy of other things"),
]


@pytest.mark.parametrize("make, reason", REFUSED, ids=[reason for _, reason in REFUSED])
def test_what_is_refused(make, reason):
    said = told(make())
    assert said.startswith("python — ") and reason in said


def test_exchanged_methods_run(monkeypatch):
    monkeypatch.setattr(TensorDataset, "__getitem__", lambda self, index: index)
    dataset = TensorDataset(X)
    assert "TensorDataset.__getitem__ was replaced" in told(dataset)
    assert next(iter(millrace.DataLoader(dataset, 3))).tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "kind, dataset",
    [
        (torch.Tensor, TensorDataset(X)),
        (tuple, TensorDataset(X)),
        (dict, StackDataset(a=X)),
        (np.ndarray, X.numpy()),
        (torch.Tensor, X.numpy()),
        (np.float32, X[:, 0].numpy()),
        (float, StackDataset([1.5])),
        (int, StackDataset([1])),
    ],
)
def test_a_changed_collate_map(monkeypatch, kind, dataset):
    monkeypatch.setitem(default_collate_fn_map, kind, lambda batch, *, collate_fn_map: "mine")
    explained = millrace.DataLoader(dataset).explain()
    assert "collate_fn: python — default_collate_fn_map was changed for" in explained
    assert "mine" in str(next(iter(millrace.DataLoader(dataset))))


def test_a_collate_map_changed_for_others(monkeypatch):
    monkeypatch.setitem(default_collate_fn_map, dict, lambda batch, *, collate_fn_map: "mine")
    assert told(TensorDataset(X)).startswith("native")


def test_what_does_not_concern_rows():
    loader = millrace.DataLoader(
        TensorDataset(X, Y), 2, on_error="skip", num_workers=1, timeout=60, in_order=False, pin_memory=False
    )
    assert loader.explain().count("native") == 4
    assert [labels.tolist() for _, labels in loader] == [[0, 1], [2, 3], [4, 5]]
    assert "python" in millrace.DataLoader(TensorDataset(X), batch_size=None).explain()
    assert "python" in millrace.DataLoader(TensorDataset(X), num_workers=1, worker_init_fn=print).explain()


def test_loaders_are_copied_and_pickled():
    loader = millrace.DataLoader(TensorDataset(X, Y), 4, shuffle=True, num_workers=1)
    list(loader)
    for twin in copy.deepcopy(loader), pickle.loads(pickle.dumps(loader)):
        assert twin.stats()["samples"] == 6
        assert sorted(torch.cat([labels for _, labels in twin]).tolist()) == list(range(6))


@pytest.mark.parametrize("workers", [0, 2])
def test_counts(workers):
    wide = torch.zeros(20, 70_000)
    loader = millrace.DataLoader(
        TensorDataset(wide, torch.arange(20)), 4, num_workers=workers, native="require"
    )
    kept = list(loader)
    stats = loader.stats()
    assert (stats["samples"], stats["batches"], stats["bytes"]) == (20, 5, 20 * (280_000 + 8))
    assert stats["slots"] == 3 and stats["overflow_slots"] >= 2, "five batches are alive"
    assert stats["wait_seconds"] > 0 and stats["seconds"]["collate"] > 0 and stats["seconds"]["read"] == 0
    assert len({batch[0].data_ptr() for batch in kept}) == 5


def test_memory_comes_back():
    wide = torch.zeros(64, 100_000)
    loader = millrace.DataLoader(TensorDataset(wide), 8, num_workers=2, native="require")
    for _ in range(3):
        for batch in loader:
            pass
    assert loader.stats()["overflow_slots"] == 0
    del batch, loader
    gc.collect()
    assert millrace._core.empty_cache() > 0


@pytest.mark.parametrize("workers", [0, 1])
def test_an_iterator_in_a_forked_child(workers):
    iterator = iter(
        millrace.DataLoader(TensorDataset(torch.zeros(20, 70_000)), 4, num_workers=workers, native="require")
    )
    held = next(iterator)
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        try:
            next(iterator)
        except RuntimeError as error:
            right = "Make a new iterator here" in str(error) and held[0][3, 69_999].item() == 0
            del iterator, held
            gc.collect()
            os._exit(0 if right else 1)
        os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert len(list(iterator)) == 4


def test_time_runs_out_and_the_iterator_goes_on():
    loader = millrace.DataLoader(
        TensorDataset(torch.zeros(8, 1_250_000)), 4, num_workers=1, timeout=1e-6, native="require"
    )
    iterator, seen = iter(loader), 0
    while seen < 2:
        try:
            seen += len(next(iterator)) == 1
        except RuntimeError as error:
            assert str(error) == "DataLoader timed out after 1e-06 seconds"


def test_small_rows_of_a_mapped_file_are_the_threads_and_may_all_be_kept(tmp_path):
    numbers = np.memmap(tmp_path / "numbers", np.int64, "w+", shape=(4000,))
    numbers[:] = np.arange(4000)
    loader = millrace.DataLoader(numbers, 10, num_workers=2, native="require")
    assert [value for batch in list(loader) for value in batch.tolist()] == list(range(4000))
    stats = loader.stats()
    assert stats["slots"] > 0 and stats["overflow_slots"] == 0
    loader = millrace.DataLoader(numbers, 10, native="require")
    assert len(list(loader)) == 400 and loader.stats()["slots"] == 0
