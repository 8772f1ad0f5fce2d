"""Rows in memory: odd index lists, empty batches, tensors that move; torch decides what is right."""

import millrace
import numpy as np
import pytest
import torch
from test_in_memory import COUNT, DATASETS, X, both, plain
from thinned import thinned
from torch.utils.data import (
    TensorDataset,
)

BAD = [
    COUNT,
    -COUNT - 1,
    2**70,
    -(2**70),
    1.5,
    "x",
    None,
    True,
    (0, 1),
    slice(2),
    np.float32(1),
    np.int8(2),
    torch.tensor(3.0),
]


@thinned(
    2,
    workers=[0, 2],
    bad=BAD,
    rows=[
        "tensors",
        "wide rows",
        "stacked",
        "stacked by name",
        "concatenated",
        "subset",
        "an array",
        "a tensor",
    ],
)
def test_odd_indices_are_torchs_to_answer(rows, bad, workers):
    """The batch or the error comes when its turn comes, with torch's type and words, and the next batch
    follows.

    Words are those of no workers: a worker's collate function writes into shared memory, which sometimes says
    it differently.
    """

    def use(loader):
        iterator, seen = iter(loader), []
        for _ in range(4):
            try:
                seen.append(plain(next(iterator)))
            except StopIteration:
                seen.append("end")
            except Exception as error:
                seen.append((type(error), str(error) if workers == 0 else None))
        return seen

    (torchs, ours), _ = both(
        DATASETS[rows](), use, num_workers=workers, batch_sampler=[[0, 1], [2, bad], [3]]
    )
    assert ours == torchs


@pytest.mark.parametrize("workers", [0, 2])
def test_an_empty_batch(workers):
    def use(loader):
        iterator = iter(loader)
        with pytest.raises(IndexError, match="list index out of range"):
            next(iterator)
        return plain(next(iterator))

    (torchs, ours), _ = both(TensorDataset(X), use, num_workers=workers, batch_sampler=[[], [1]])
    assert ours == torchs


def test_rows_are_read_when_the_batch_is_made():
    x = X.clone()
    iterator = iter(millrace.DataLoader(TensorDataset(x), 4, native="require"))
    next(iterator)
    x.zero_()
    assert next(iterator)[0].eq(0).all()


@pytest.mark.parametrize("workers", [0, 1])
def test_tensors_that_move_meanwhile(workers):
    x = torch.arange(12.0).reshape(6, 2)
    loader = millrace.DataLoader(TensorDataset(x), 2, num_workers=workers, native="require")
    iterator = iter(loader)
    assert next(iterator)[0].tolist() == [[0, 1], [2, 3]]
    with torch.no_grad():
        x.resize_(100_000, 2)
        x[6:] = 0
    assert [batch[0].tolist() for batch in iterator] == [[[4, 5], [6, 7]], [[8, 9], [10, 11]]]
    assert loader.stats()["samples"] == 6


def test_batches_are_the_users_own():
    for rows, large in ("tensors", False), ("wide rows", True):
        for workers in 0, 2:
            dataset = DATASETS[rows]()
            before = dataset.tensors[0].clone()
            kept = []
            for batch in millrace.DataLoader(dataset, 4, num_workers=workers, native="require"):
                batch[0] += 1
                kept.append(batch[0])
            assert torch.equal(torch.cat(kept), before + 1) and torch.equal(dataset.tensors[0], before)
