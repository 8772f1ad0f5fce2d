"""PermutationSampler: any number of samples shuffled in no memory."""

from __future__ import annotations

from .. import _core
from .global_order import GlobalOrderSampler, checked_number
from .native import known
from .plain import SEED_BITS
from .readers import Order


@known()
class PermutationSampler(GlobalOrderSampler):
    """0 .. n-1 in an order that is computed, index by index, from (seed, epoch): nothing is stored and
    nothing drawn, so 10^9 samples start as fast as ten, and resuming is free.

    Args:
        n: samples, up to 2^62.
        num_replicas, rank: those of the process group or the environment when not given.
        seed: the same on all ranks.
        drop_last: drop what does not divide by num_replicas, instead of repeating from the beginning.
    """

    random_access = True

    def __init__(
        self,
        n: int,
        seed: int = 0,
        num_replicas: int | None = None,
        rank: int | None = None,
        drop_last: bool = False,
    ) -> None:
        super().__init__(checked_number("n", n), seed, num_replicas, rank, drop_last)
        if n > 2**62:
            raise ValueError(f"n should be at most 2**62, but got n={n}")

    def _order(self, epoch: int) -> Order:
        return _core.KeyedPermutation(self.length, self.seed & SEED_BITS, epoch).at
