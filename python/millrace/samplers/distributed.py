"""DistributedSampler: torch's, without a list of all indices on each rank."""

from __future__ import annotations

from typing import Any

from torch.utils.data import distributed

from .. import _core
from .iterators import SamplerIterator
from .native import known
from .plain import SEED_BITS, in_order
from .readers import Order, OrderReader, steps_left
from .resumable import ResumableEpochs


@known(distributed.DistributedSampler)
class DistributedSampler(ResumableEpochs, distributed.DistributedSampler):
    """torch's: every num_replicas-th index of an order that (seed + epoch) shuffles, from `rank` on; at the
    end, from the beginning (drop_last=False) or not at all. `dataset` gives the length; `shuffle=False`: the
    indices in their order.

    A state counts indices of all ranks together, so it loads under another num_replicas: what was left of the
    order comes, each once, and only behind its end is the beginning repeated until all ranks have as many.
    """

    seekable = True

    def __iter__(self) -> SamplerIterator:  # type: ignore[override]
        start, _ = self._resume()
        length = len(self.dataset)  # type: ignore[arg-type]
        self._check_length(length)
        steps = self.num_samples
        if start:
            steps = steps_left(length, start, self.num_replicas, self.drop_last)
        seed, shuffle = self.seed + self.epoch, self.shuffle

        def begin() -> tuple[Order, int, int]:
            return (
                _core.RandomPermutation(length, seed & SEED_BITS).at if shuffle else in_order,
                length,
                steps,
            )

        return self._follow(OrderReader(begin, start, self.rank, self.num_replicas))

    def _check_length(self, length: int) -> None:
        """The errors that torch's iterator raises when the dataset has changed its length since this was
        made.
        """
        total = self.total_size
        if length == 0 and total > 0 and not self.drop_last:
            raise ZeroDivisionError("division by zero")
        if (length < total) if self.drop_last else (length > total):
            taken = length if self.drop_last else 2 * length - max(length - total, 0)
            raise AssertionError(f"Number of indices ({taken}) does not match total_size ({total})")

    def _facts(self) -> dict[str, Any]:
        return {"length": len(self.dataset), "seed": self.seed, "shuffle": self.shuffle}  # type: ignore[arg-type]
