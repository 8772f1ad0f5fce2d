"""RandomPermutation is torch.randperm, drawn piece by piece, and what the same generator gives behind it."""

import os

import numpy as np
import pytest
import torch
from millrace import _core


def randperm(n, seed, rounds=1):
    generator = torch.Generator().manual_seed(seed)
    return np.concatenate([torch.randperm(n, generator=generator).numpy() for _ in range(rounds)])


@pytest.mark.parametrize("n", [1, 2, 3, 100, 65_537, 1_281_167])
@pytest.mark.parametrize("seed", [0, 1, 123_456_789, 2**31, 2**32 + 7, 2**63 - 1])
def test_equals_torch(n, seed):
    assert np.array_equal(_core.RandomPermutation(n, seed).at(np.arange(n)), randperm(n, seed))


@pytest.mark.parametrize("n", [1, 2, 5, 1000])
def test_rounds_and_any_order_of_questions(n):
    whole, permutation = randperm(n, 5, rounds=4), _core.RandomPermutation(n, 5)
    questions = np.random.default_rng(0)
    for count in (1, 0, 7, 500, 400):
        positions = questions.integers(0, 4 * n, count)
        assert np.array_equal(permutation.at(positions), whole[positions])
    assert np.array_equal(permutation.at(np.arange(4 * n)), whole)


@pytest.mark.slow
@pytest.mark.skipif(
    os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") < 8 * 2**30, reason="takes 3 GB"
)
def test_the_size_from_which_torch_draws_otherwise():
    n = (2**32 - 1) // 20
    whole, permutation = randperm(n, 7), _core.RandomPermutation(n, 7)
    for start in range(0, n, 2**22):
        positions = np.arange(start, min(start + 2**22, n))
        assert np.array_equal(permutation.at(positions), whole[start : start + 2**22])


def test_positions_that_there_are_not():
    for n, position in ((0, 0), (3, -1)):
        with pytest.raises(IndexError, match=f"{n} elements has no position {position}"):
            _core.RandomPermutation(n, 0).at(np.array([position]))
