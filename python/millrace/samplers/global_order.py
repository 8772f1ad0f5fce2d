"""The base of samplers that are ours: a global order by (seed, epoch), of which each rank takes every
num_replicas-th index.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from zlib import crc32

import numpy as np
from torch.utils.data import Sampler

from .._common.ranks import replicas
from .readers import Order, OrderReader, steps_left
from .resumable import ResumableEpochs


def checked_number(name: str, value: Any, least: int = 0) -> int:
    """`value` as int. TypeError when it is no whole number, ValueError when it is below `least`."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} should be an integer, but got {name}={value!r}")
    number = value.__index__()
    if number < least:
        raise ValueError(f"{name} should be an integer of {least} or more, but got {name}={number}")
    return number


def digest(array: np.ndarray) -> int:
    """A number that is another one for other contents, so that a state knows what data it is from without
    holding it.
    """
    return crc32(np.ascontiguousarray(array).view(np.uint8))


class RankedSampler(ResumableEpochs):
    """Steps of a global order by (seed, epoch), shared by all ranks: each takes every num_replicas-th. At the
    end, drop_last=False repeats from the beginning until all ranks have as many, and drop_last=True leaves
    out what does not divide.

    A state counts steps of all ranks together, so it loads under another num_replicas.
    """

    def __init__(
        self,
        length: int,
        seed: int,
        num_replicas: int | None,
        rank: int | None,
        drop_last: bool = False,
    ) -> None:
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.length = length
        self.seed = checked_number("seed", seed, least=-(2**63))
        self.num_replicas, self.rank = replicas(num_replicas, rank)
        self.drop_last = drop_last
        self.epoch = 0

    def __len__(self) -> int:
        """Steps of this rank in a whole epoch."""
        return steps_left(self.length, 0, self.num_replicas, self.drop_last)

    def __iter__(self) -> Any:
        start, _ = self._resume()
        return self._over(start, self._order, self.length)

    def _over(
        self, start: int, order: Callable[[int], Order], length: int, item: Callable[[int], Any] | None = None
    ) -> Any:
        """An iterator over this rank's part of `order(epoch)`, which is called for the first index; behind
        `length` it goes on from the beginning.
        """
        epoch, steps = self.epoch, steps_left(self.length, start, self.num_replicas, self.drop_last)
        reader = OrderReader(lambda: (order(epoch), length, steps), start, self.rank, self.num_replicas)
        return self._follow(reader, item=item)

    def _order(self, epoch: int) -> Order:
        """The global order of an epoch."""
        raise NotImplementedError

    def _facts(self) -> dict[str, Any]:
        return {"length": self.length, "seed": self.seed}


class GlobalOrderSampler(RankedSampler, Sampler[int]):
    """A RankedSampler of `length` indices."""

    seekable = True
    random_access = False  # whether positions of the order may be asked for in any order, at the same cost
