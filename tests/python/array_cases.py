"""Arrays of every dtype and shape for the tests of HDF5 and Zarr, and what numpy says samples of them are."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import millrace
import numpy as np
import torch
from hypothesis import strategies as st
from torch.utils.data import default_collate

# The stated table: each of these, in either byte order, becomes the torch dtype of the same name.
DTYPES = [
    "bool",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "float32",
    "float64",
]
COMPLEX = ["complex64", "complex128"]
settings_of_all = {"deadline": None, "derandomize": True}


@dataclass(frozen=True)
class Case:
    """An array to write, and how it is to be cut."""

    dtype: np.dtype
    shape: tuple[int, ...]
    chunk: tuple[int, ...]
    select: tuple[Any, ...]  # for the axes behind the first
    window: int | None
    stride: int | None
    written: int  # rows; those behind are fill value

    def values(self) -> np.ndarray:
        """Of the array's shape; the machine's byte order."""
        plain = self.dtype.newbyteorder("=")
        count = int(np.prod(self.shape))
        bits = np.random.default_rng(count).integers(0, 256, (count, plain.itemsize), dtype=np.uint8)
        values = (bits[:, 0] & 1).astype(bool) if plain == bool else bits.view(plain).ravel()
        if plain.kind in "fc":
            values = np.where(np.isfinite(values), values, 1).astype(plain)  # NaN is equal to nothing
        return values.reshape(self.shape)

    def samples(self, values: np.ndarray) -> list[np.ndarray]:
        cut = values[(slice(None), *self.select)]
        if self.window is None:
            return list(cut)
        starts = range(0, len(cut) - self.window + 1, self.stride or self.window)
        return [cut[start : start + self.window] for start in starts]


@st.composite
def cases(draw: Any, dtypes: list[str] = DTYPES + COMPLEX) -> Case:
    dtype = np.dtype(draw(st.sampled_from(dtypes)))
    if dtype.itemsize > 1 and draw(st.booleans()):
        dtype = dtype.newbyteorder(">")
    shape = (draw(st.integers(1, 23)), *draw(st.lists(st.integers(1, 6), max_size=3)))
    chunk = tuple(draw(st.integers(1, size)) for size in shape)
    select = []
    for size in shape[1:]:
        start = draw(st.integers(0, size - 1))
        part = st.one_of(
            st.just(slice(None)),
            st.builds(slice, st.just(start), st.integers(start + 1, size), st.integers(1, 3)),
        )
        select.append(draw(st.one_of(part, st.integers(-size, size - 1))))
    window = draw(st.one_of(st.none(), st.integers(1, 5)))
    stride = draw(st.one_of(st.none(), st.integers(1, 6))) if window is not None else None
    return Case(dtype, shape, chunk, tuple(select), window, stride, draw(st.integers(0, shape[0])))


def check_dataset(dataset: Any, right: list[np.ndarray], loader_of: Any, name: str | None = None) -> None:
    """Single samples, lists of them, and batches of a loader are `right`: their dtype, shape and values."""
    assert len(dataset) == len(right)
    right = [np.asarray(sample, sample.dtype.newbyteorder("=")) for sample in right]
    if not right:
        assert list(loader_of(dataset, 4)) == []
        return
    value = (lambda sample: sample) if name is None else (lambda sample: sample[name])
    for i in (0, len(right) // 2, -1):
        same(torch.as_tensor(np.asarray(value(dataset[i]))), right[i])
    picked = [len(right) - 1, 0, len(right) // 3]
    for sample, i in zip(dataset.__getitems__(picked), picked):
        same(torch.as_tensor(np.asarray(value(sample))), right[i])
    if right[0].dtype != np.uint64 or right[0].ndim:  # which torch does not collate
        assert torch.equal(value(default_collate([dataset[0]])), torch.as_tensor(right[0])[None])
    seen = torch.cat([value(batch) for batch in loader_of(dataset, 4)])
    same(seen, np.stack(right))


def in_order(dataset: Any, batch_size: int, **options: Any) -> millrace.DataLoader:
    return millrace.DataLoader(dataset, batch_size, native="require", **options)


def check_resuming(dataset: Any) -> None:
    """`dataset`: the numbers 0 to 102 in chunks. A shuffled run goes on at any batch, and with other ranks
    and batches.
    """

    def loader(rank: int = 0, ranks: int = 1, batch_size: int = 4, **streams: int) -> millrace.DataLoader:
        sampler = dataset.shuffled(buffer_chunks=3, seed=5, rank=rank, num_replicas=ranks, **streams)
        return in_order(dataset, batch_size, sampler=sampler, num_workers=2)

    whole = torch.cat(list(loader(batch_size=1))).tolist()
    assert sorted(whole) == list(range(103)) and whole != list(range(103))
    for cut in (0, 1, 7, 26):
        first = loader()
        iterator = iter(first)
        seen = [i for _ in range(cut) for i in next(iterator).tolist()]
        second = loader()
        second.load_state_dict(json.loads(json.dumps(first.state_dict())))
        assert seen + torch.cat([*second, torch.empty(0, dtype=torch.int64)]).tolist() == whole
    # Two ranks read eight batches of 3; three go on with batches of 5.
    states = []
    for rank in range(2):
        part = loader(rank, 2, 3)
        iterator = iter(part)
        for _ in range(8):
            next(iterator)
        states.append(part.state_dict())
    merged = millrace.merge_states(states)
    rest = []
    for rank in range(3):
        part = loader(rank, 3, 5)
        part.load_state_dict(merged)
        rest.append(torch.cat(list(part)).tolist())
    read = [i for step in zip(*rest) for i in step]
    order = torch.cat(
        list(loader(batch_size=1, streams=2))
    ).tolist()  # two ranks read two parts of the order side by side
    assert read[: 103 - 48] == order[48:]


def same(got: torch.Tensor, right: np.ndarray) -> None:
    right = torch.from_numpy(np.array(right))
    assert got.dtype == right.dtype and got.shape == right.shape and torch.equal(got, right)
