"""Arrays: dicts of rows from arrays, tensors and files, gathered natively, equal to numpy's; and what cannot
be one.
"""

from __future__ import annotations

import pickle

import millrace
import numpy as np
import pytest
import torch
from array_cases import COMPLEX, DTYPES
from hypothesis import given, settings
from hypothesis import strategies as st
from millrace import CorruptDataError
from millrace.datasets import Arrays
from torch.utils.data import ConcatDataset, Subset

NAMES = [name for name in (*DTYPES, *COMPLEX) if name not in ("uint16", "uint32", "uint64")]


def some(dtype, shape, seed=0):
    return (np.random.default_rng(seed).random(shape) * 200 - 100).astype(dtype)


@settings(max_examples=50, derandomize=True, deadline=None)
@given(
    dtype=st.sampled_from(NAMES),
    shape=st.lists(st.integers(1, 4), max_size=2),
    rows=st.integers(1, 40),
    place=st.sampled_from(["array", "memmap", "npy", "npz", "compressed", "tensor"]),
    workers=st.sampled_from([0, 2]),
)
def test_every_dtype_from_everywhere(tmp_path_factory, dtype, shape, rows, place, workers):
    folder = tmp_path_factory.mktemp("arrays")
    array = some(dtype, (rows, *shape))
    np.save(folder / "x.npy", array)
    np.savez(folder / "x.npz", other=array[:0], x=array)
    np.savez_compressed(folder / "c.npz", x=array)
    given_field = {
        "array": lambda: array,
        "memmap": lambda: np.load(folder / "x.npy", mmap_mode="r"),
        "npy": lambda: folder / "x.npy",
        "npz": lambda: str(folder / "x.npz"),
        "compressed": lambda: folder / "c.npz",
        "tensor": lambda: torch.from_numpy(array),
    }[place]()
    dataset = Arrays(x=given_field, number=np.arange(rows))
    loader = millrace.DataLoader(dataset, 7, num_workers=workers, native="require")
    batches = list(loader)
    assert loader.stats()["engine"] == ("threads" if workers else "inline")
    assert np.array_equal(torch.cat([batch["x"] for batch in batches]).numpy(), array)
    assert torch.cat([batch["number"] for batch in batches]).tolist() == list(range(rows))
    for batch, right in zip(torch.utils.data.DataLoader(dataset, 7), batches, strict=True):
        assert batch.keys() == right.keys() and all(
            torch.equal(batch[k], right[k]) and batch[k].dtype is right[k].dtype for k in batch
        )
    sample = dataset[-1]
    assert np.array_equal(np.asarray(sample["x"]), array[-1]) and np.asarray(sample["x"]).dtype == array.dtype
    assert type(sample["x"]) is (
        torch.Tensor if place == "tensor" else np.ndarray if shape else array.dtype.type
    )


def test_members_of_an_archive(tmp_path):
    a, b = some("float32", (5, 2)), some("int64", 5)
    np.savez(tmp_path / "two.npz", a=a, b=b)
    np.savez(tmp_path / "one.npz", only=b)
    dataset = Arrays(a=tmp_path / "two.npz", c=f"{tmp_path}/two.npz:b", d=tmp_path / "one.npz")
    assert [type(array) for array in dataset.datasets.values()] == [np.memmap] * 3
    batch = next(iter(millrace.DataLoader(dataset, 5, native="require")))
    assert np.array_equal(batch["a"].numpy(), a) and batch["c"].tolist() == batch["d"].tolist() == b.tolist()
    with pytest.raises(ValueError, match=r"has the arrays \['a', 'b'\], not 'x'"):
        Arrays(x=tmp_path / "two.npz")


def test_files_pickle_as_paths(tmp_path):
    np.save(tmp_path / "x.npy", some("float64", (2000, 50)))
    memmap = np.load(tmp_path / "x.npy", mmap_mode="r")
    dataset = Arrays(path=tmp_path / "x.npy", memmap=memmap)
    dataset[0]
    pickled = pickle.dumps(dataset)
    assert len(pickled) < 2000
    again = pickle.loads(pickled)
    assert np.array_equal(again[7]["path"], memmap[7]) and np.array_equal(again[7]["memmap"], memmap[7])
    part = pickle.loads(pickle.dumps(Arrays(x=memmap[100:])))
    assert np.array_equal(part[0]["x"], memmap[100])


def test_inside_subsets_and_concatenations(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(30).reshape(10, 3))
    dataset = Arrays(x=tmp_path / "x.npy")
    both = ConcatDataset([Subset(dataset, [3, -1]), dataset])
    batch = next(iter(millrace.DataLoader(both, 4, native="require")))
    assert batch["x"].tolist() == [[9, 10, 11], [27, 28, 29], [0, 1, 2], [3, 4, 5]]


def test_rows_with_gaps():
    array = np.arange(24).reshape(4, 6)[:, ::2]
    dataset = Arrays(x=array)
    assert dataset[2]["x"].tolist() == array[2].tolist()
    assert next(iter(millrace.DataLoader(dataset, 4, native="require")))["x"].tolist() == array.tolist()


def test_what_cannot_be_arrays(tmp_path):
    with pytest.raises(ValueError, match="no fields"):
        Arrays()
    with pytest.raises(ValueError, match="'x': 3, 'y': 4"):
        Arrays(x=np.zeros(3), y=torch.zeros(4))
    with pytest.raises(ValueError, match="Python objects"):
        Arrays(x=np.array([None, "a"]))
    with pytest.raises(ValueError, match="single number"):
        Arrays(x=np.array(3.0))
    with pytest.raises(TypeError, match="is a list"):
        Arrays(x=[1, 2])
    with pytest.raises(FileNotFoundError, match="none.npy"):
        Arrays(x=tmp_path / "none.npy")
    for name in "bad.npy", "bad.npz":
        (tmp_path / name).write_bytes(b"something else")
        with pytest.raises(CorruptDataError, match=name):
            Arrays(x=tmp_path / name)
    np.save(tmp_path / "x.npy", np.zeros((100, 10)))
    with open(tmp_path / "x.npy", "r+b") as file:
        file.truncate(4000)
    with pytest.raises(CorruptDataError, match="cannot be mapped|can be mapped"):
        Arrays(x=tmp_path / "x.npy")
    for index in 3, -4:
        with pytest.raises(IndexError):
            Arrays(x=np.zeros(3))[index]
