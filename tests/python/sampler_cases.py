"""Samplers for tests: how to make each for any number of ranks, and what is known of its global order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from millrace import samplers

LENGTHS = np.random.default_rng(3).integers(1, 60, 210)
LABELS = np.random.default_rng(4).choice(4, 157, p=[0.6, 0.25, 0.1, 0.05])
WEIGHTS = np.random.default_rng(5).random(97) * (np.arange(97) % 5 > 0)


@dataclass(frozen=True)
class Case:
    """make(num_replicas, rank, drop_last) -> sampler. `repeats`: what makes the ranks equal is the beginning
    of the order again.
    """

    make: Callable[[int, int, bool], Any]
    repeats: bool = True


def distributed(shuffle: bool) -> Callable[[int, int, bool], Any]:
    return lambda ranks, rank, drop_last: samplers.DistributedSampler(
        range(101), ranks, rank, shuffle=shuffle, seed=3, drop_last=drop_last
    )


def permutation(ranks: int, rank: int, drop_last: bool) -> Any:
    return samplers.PermutationSampler(131, 7, ranks, rank, drop_last)


def weighted(replacement: bool, count: int) -> Callable[[int, int, bool], Any]:
    return lambda ranks, rank, drop_last: samplers.DistributedWeightedSampler(
        WEIGHTS, count, replacement, ranks, rank, 2, drop_last
    )


def shards(ranks: int, rank: int, drop_last: bool) -> Any:
    return samplers.ShardShuffle([20, 1, 0, 33, 40, 7], 5, ranks, rank, drop_last)


def two_tier(ranks: int, rank: int, drop_last: bool) -> Any:
    return samplers.TwoTierShuffle([20, 1, 0, 33, 40, 7], 16, 5, ranks, rank, drop_last)


def chunks(streams: Any) -> Callable[[int, int, bool], Any]:
    return lambda ranks, rank, drop_last: samplers.ChunkShuffle(
        [20, 1, 0, 33, 40, 7], 2, 5, ranks, rank, drop_last, streams
    )


def buffered(ranks: int, rank: int, drop_last: bool) -> Any:
    return samplers.ShuffleBuffer(19, seed=8)(permutation(ranks, rank, drop_last))


def mixture(shuffle: bool) -> Callable[[int, int, bool], Any]:
    return lambda ranks, rank, drop_last: samplers.MixtureSampler(
        [10, 70, 25], [0.2, 0.5, 0.3], 140, 4, shuffle, ranks, rank, drop_last
    )


def by_length(ranks: int, rank: int, drop_last: bool) -> Any:
    return samplers.LengthGroupedSampler(
        LENGTHS, max_tokens=200, seed=1, num_replicas=ranks, rank=rank, drop_last=drop_last
    )


GLOBAL_ORDERS = {
    "distributed": Case(distributed(shuffle=True)),
    "distributed in order": Case(distributed(shuffle=False)),
    "permutation": Case(permutation),
    "weighted": Case(weighted(True, 150)),
    "weighted once": Case(weighted(False, 60)),
    "shards": Case(shards),
    "two tiers": Case(two_tier),
    "chunks": Case(chunks(1)),
    "chunks, 3 streams": Case(chunks(3)),
    "buffered": Case(buffered),
    "mixture": Case(mixture(True), repeats=False),
    "mixture in order": Case(mixture(False), repeats=False),
    "lengths": Case(by_length),
}


def plain(value: Any) -> Any:
    """An entry of an order as what can be compared: an int, or a tuple of a batch's."""
    return tuple(value) if isinstance(value, list) else int(value)
