"""RandomPermutation is torch.randperm, drawn piece by piece, and what the same generator gives behind it."""

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


def test_positions_that_there_are_not():
    for n, position in ((0, 0), (3, -1)):
        with pytest.raises(IndexError, match=f"{n} elements has no position {position}"):
            _core.RandomPermutation(n, 0).at(np.array([position]))
