"""StratifiedBatchSampler: batches with a steady share of each class."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch.utils.data import Sampler

from .. import _core
from .global_order import RankedSampler, checked_number, digest
from .iterators import ResumableIterator
from .native import known
from .plain import SEED_BITS
from .readers import StepReader, steps_left
from .weighted import class_counts

AT_ONCE = 4096  # samples


@known()
class StratifiedBatchSampler(RankedSampler, Sampler[list[int]]):
    """Batches in which each class has its share: in every prefix of the epoch to less than one sample, in a
    batch to less than two.

    Ranks take consecutive batches of one order by (seed, epoch). An epoch has as many samples as there are
    labels; when the last ones do not fill a batch on every rank, they are shared evenly (drop_last=False),
    from the beginning where they do not divide, or dropped. A state counts samples of all ranks, so it loads
    under other batch sizes and numbers of ranks.

    Args:
        labels: one per sample; a sequence, array or tensor of one dimension, of numbers or strings.
        batch_size: of one rank.
        mode: "balanced": every class alike; samples of small classes come several times in an epoch, in a new
            order each time, and of large ones some do not. "proportional": every class as in `labels`; each
            sample comes once.
        seed: the same on all ranks.
        num_replicas, rank: those of the process group or the environment when not given.
        drop_last: drop the last samples when they do not fill a batch on every rank.

    For a loader's `batch_sampler`; `sampler` takes it with batch_size=None only.
    """

    _iterator = ResumableIterator

    def __init__(
        self,
        labels: Any,
        batch_size: int,
        mode: str = "balanced",
        seed: int = 0,
        num_replicas: int | None = None,
        rank: int | None = None,
        drop_last: bool = False,
    ) -> None:
        if mode not in ("balanced", "proportional"):
            raise ValueError(f'mode should be "balanced" or "proportional", but got mode={mode!r}')
        _, numbers, self._counts = class_counts(labels)
        self._members = np.argsort(numbers, kind="stable")
        self._digest = digest(numbers)
        self.batch_size = checked_number("batch_size", batch_size, least=1)
        self.mode = mode
        super().__init__(len(numbers), seed, num_replicas, rank, drop_last)

    def __len__(self) -> int:
        """Batches of this rank in a whole epoch."""
        return steps_left(self.length, 0, self.batch_size * self.num_replicas, self.drop_last)

    def __iter__(self) -> ResumableIterator:
        start, _ = self._resume()
        epoch, size, ranks = self.epoch, self.batch_size, self.num_replicas
        weights = self._counts if self.mode == "proportional" else np.ones_like(self._counts)
        order = _core.Mixture(self._counts, weights.tolist(), self.seed & SEED_BITS, epoch)

        def several(step: int) -> dict[int, list[int]]:
            """The batches of `step` and some behind it, by their steps: asking for many at once costs
            half.
            """
            whole = (self.length - start) // (size * ranks) - step  # from here on
            if whole < 1:
                first = start + step * size * ranks
                rows = -(-(self.length - first) // ranks)
                positions = np.arange(first + self.rank * rows, first + (self.rank + 1) * rows)
                return {step: self._members[order.at(positions % self.length)].tolist()}
            count = min(whole, max(1, AT_ONCE // size))
            firsts = start + (np.arange(step, step + count) * ranks + self.rank) * size
            positions = (firsts[:, None] + np.arange(size)).reshape(-1)
            samples = self._members[order.at(positions)].tolist()
            return {step + i: samples[i * size : (i + 1) * size] for i in range(count)}

        ahead: dict[int, list[int]] = {}

        def batch(step: int) -> list[int]:
            if step not in ahead:
                ahead.clear()
                ahead.update(several(step))
            return ahead.pop(step)

        steps = steps_left(self.length, start, size * ranks, self.drop_last)
        return self._follow(StepReader(start, self.length, size * ranks, steps), item=batch)

    def _facts(self) -> dict[str, Any]:
        return {**super()._facts(), "mode": self.mode, "labels": self._digest}
