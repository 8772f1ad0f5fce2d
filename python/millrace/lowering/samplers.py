"""Samplers: any of ints feeds the engine from the consumer's thread; torch's plain shuffle is permuted natively."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import BatchSampler, RandomSampler

from .. import _core


class PermutedBatches:
    """The index lists of BatchSampler(RandomSampler(data)), as int64 arrays of shape (rows,), without n Python ints.

    The same order and the same draw from torch's global generator, made at the same moment: at the first index.
    """

    def __init__(self, batches: BatchSampler) -> None:
        self._batches = batches

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[np.ndarray]:
        n = len(self._batches.sampler.data_source)
        seed = int(torch.empty((), dtype=torch.int64).random_().item())
        permutation = _core.RandomPermutation(n, seed)
        size = self._batches.batch_size
        for start in range(0, n, size):
            rows = min(size, n - start)
            if rows == size or not self._batches.drop_last:
                yield permutation.take(rows)


def is_plain_shuffle(index_sampler: Any) -> bool:
    """Whether PermutedBatches gives what `index_sampler` gives."""
    sampler = index_sampler.sampler if type(index_sampler) is BatchSampler else None
    return (
        type(sampler) is RandomSampler
        and sampler.replacement is False
        and sampler.generator is None
        and sampler._num_samples is None
        and len(sampler.data_source) > 0
    )


def lowered_index_sampler(index_sampler: Iterable[Any]) -> Iterable[Any]:
    """What to iterate instead of `index_sampler`; itself when Python must run it."""
    return PermutedBatches(index_sampler) if is_plain_shuffle(index_sampler) else index_sampler


def sampler_name(index_sampler: Any) -> str:
    name = type(index_sampler).__name__
    return (
        f"{type(index_sampler.sampler).__name__} in batches of {index_sampler.batch_size}"
        if type(index_sampler) is BatchSampler
        else name
    )
