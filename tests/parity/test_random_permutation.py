"""RandomPermutation is torch.randperm, drawn piece by piece."""

import numpy as np
import pytest
import torch

from millrace import _core


def randperm(n, seed):
    return torch.randperm(n, generator=torch.Generator().manual_seed(seed)).numpy()


@pytest.mark.parametrize("n", [0, 1, 2, 3, 100, 65_537, 1_281_167])
@pytest.mark.parametrize("seed", [0, 1, 123_456_789, 2**31, 2**32 + 7, 2**63 - 1])
def test_equals_torch(n, seed):
    assert np.array_equal(_core.RandomPermutation(n, seed).take(n), randperm(n, seed))


def test_pieces_equal_the_whole():
    permutation, pieces = _core.RandomPermutation(1000, 5), []
    for size in [1, 0, 7, 500, 400, 300, 1]:
        pieces.append(permutation.take(size))
    assert [len(piece) for piece in pieces] == [1, 0, 7, 500, 400, 92, 0]
    assert np.array_equal(np.concatenate(pieces), randperm(1000, 5))
