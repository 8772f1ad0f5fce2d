"""Samplers: any of ints feeds the engine from the consumer's thread; torch's plain orders are made as arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import BatchSampler, RandomSampler, SequentialSampler

from .. import _core


class PlainBatches:
    """The index lists of BatchSampler over SequentialSampler(data) or RandomSampler(data, generator=any), as int64 arrays of shape
    (rows,), without n Python ints.

    The same order and the same draws, from torch's global generator or the sampler's own, made at the same moments: at the first
    index, and from an own generator once more behind the last one.
    """

    def __init__(self, batches: BatchSampler) -> None:
        self._batches = batches

        self.sampler = batches.sampler

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[np.ndarray]:
        return self.after(0)

    def after(self, skipped: int) -> Iterator[np.ndarray]:
        """The lists behind the first `skipped` indices."""
        sampler, size = self._batches.sampler, self._batches.batch_size
        n = len(sampler.data_source)
        generator = getattr(sampler, "generator", None)
        take = _order(sampler, n)
        skipped = min(skipped, n)
        take(0, skipped)
        last = (n - skipped) % size
        for start in range(skipped, n - last, size):
            yield take(start, size)
        if generator is not None:
            torch.randperm(n, generator=generator)  # torch draws a permutation to take none of its elements
        if last and not self._batches.drop_last:
            yield take(n - last, last)


def _order(sampler: Any, n: int) -> Callable[[int, int], np.ndarray]:
    """take(start, rows), to be asked for one part behind the other."""
    if type(sampler) is SequentialSampler:
        return lambda start, rows: np.arange(start, start + rows)
    if sampler.generator is not None:
        order = torch.randperm(n, generator=sampler.generator).numpy()
        return lambda start, rows: order[start : start + rows]
    seed = int(torch.empty((), dtype=torch.int64).random_().item())
    permutation = _core.RandomPermutation(n, seed)
    return lambda start, rows: permutation.take(rows)


def is_plain(index_sampler: Any) -> bool:
    """Whether PlainBatches gives what `index_sampler` gives."""
    sampler = index_sampler.sampler if type(index_sampler) is BatchSampler else None
    if type(sampler) is SequentialSampler:
        return True
    return (
        type(sampler) is RandomSampler
        and sampler.replacement is False
        and sampler._num_samples is None
        and len(sampler.data_source) > 0
    )


def lowered_index_sampler(index_sampler: Iterable[Any]) -> Iterable[Any]:
    """What to iterate instead of `index_sampler`; itself when Python must run it."""
    return PlainBatches(index_sampler) if is_plain(index_sampler) else index_sampler


def sampler_name(index_sampler: Any) -> str:
    name = type(index_sampler).__name__
    return (
        f"{type(index_sampler.sampler).__name__} in batches of {index_sampler.batch_size}"
        if type(index_sampler) is BatchSampler
        else name
    )
