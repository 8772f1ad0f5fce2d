"""Batch samplers that are ours: LengthGroupedSampler, batches of samples of similar length, and
StratifiedBatchSampler, batches with a steady share of each class.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch.utils.data import Sampler

from .. import _core
from .global_order import RankedSampler, checked_lengths, checked_number, digest
from .readers import SEED_BITS, Indices, Order, StepReader, in_order, steps_left
from .resumable import ResumableIterator, known
from .weighted import class_counts


@known()
class LengthGroupedSampler(RankedSampler, Sampler[list[int]]):
    """Batches of samples with similar lengths, in random order, so that little is padded; every rank has the
    same number of batches.

    Samples are grouped so that in a group the shortest is at least 1 - max_padding times the longest. A batch
    is taken from one group; only what a group has left over is batched with the next group's, one batch at
    most. Which samples come together, and in which order the batches come, depends on (seed, epoch); how many
    batches there are does not.

    For a loader's `batch_sampler`. A state counts batches of all ranks together; it loads under another
    number of ranks.

    Args:
        lengths: of each sample, in any unit; ints [n].
        batch_size: samples in a batch; all have as many but the last of each pass, or those that max_tokens
            makes smaller.
        max_tokens: the longest sample's length times the number of samples is at most this. One of the two
            must be given.
        max_padding: 0 <= max_padding < 1, the share of a batch that may be padding.
        shuffle: False orders batches from short to long.
        seed: the same on all ranks.
        num_replicas, rank: those of the process group or the environment when not given.
        drop_last: drop the last batch when it is smaller, and batches that do not divide by num_replicas;
            else some batches come twice.
    """

    _iterator = ResumableIterator

    def __init__(
        self,
        lengths: Sequence[int],
        batch_size: int | None = None,
        max_tokens: int | None = None,
        max_padding: float = 0.1,
        shuffle: bool = True,
        seed: int = 0,
        num_replicas: int | None = None,
        rank: int | None = None,
        drop_last: bool = False,
    ) -> None:
        if batch_size is None and max_tokens is None:
            raise ValueError("give batch_size, max_tokens or both: without them a batch has no end")
        if not 0 <= max_padding < 1:
            raise ValueError(
                f"max_padding should be at least 0 and below 1, but got max_padding={max_padding}"
            )
        array = checked_lengths("lengths", lengths)
        self.batch_size = None if batch_size is None else checked_number("batch_size", batch_size, least=1)
        self.max_tokens = None if max_tokens is None else checked_number("max_tokens", max_tokens, least=1)
        if self.max_tokens is not None and array.max() > self.max_tokens:
            longest = int(array.argmax())
            raise ValueError(
                f"lengths[{longest}] is {array[longest]}, more than max_tokens={max_tokens}: it fits into no"
                " batch; leave it out or cut it"
            )
        self.max_padding, self.shuffle, self.drop_last = max_padding, shuffle, drop_last
        self._digest = digest(array)
        self._by_length = np.argsort(array, kind="stable")
        self._group_sizes, self._ends = self._cut(array[self._by_length])
        # length: batches of all ranks together, before some come twice or are dropped
        super().__init__(len(self._ends), seed, num_replicas, rank, drop_last)

    def _rows(self, longest: int) -> int:
        """Number of samples in a batch if its longest sample has this length."""
        by_tokens = self.max_tokens // max(longest, 1) if self.max_tokens is not None else 2**62
        return by_tokens if self.batch_size is None else min(by_tokens, self.batch_size)

    def _cut(self, ordered: Indices) -> tuple[Indices, Indices]:
        """(samples in each group, where each batch ends), among the samples from short to long."""
        group_ends: list[int] = []
        while not group_ends or group_ends[-1] < len(ordered):
            shortest = ordered[group_ends[-1] if group_ends else 0]
            group_ends.append(int(np.searchsorted(ordered, shortest / (1 - self.max_padding), side="right")))
        rows = [self._rows(int(ordered[end - 1])) for end in group_ends]
        ends: list[Indices] = []
        begin = done = 0  # the group's first sample; samples in batches so far
        for group, end in enumerate(group_ends):
            if done < begin and done + rows[group] <= end:  # what groups before left over comes first
                done += rows[group]
                ends.append(np.array([done]))
            if done >= begin:
                full = np.arange(done + rows[group], end + 1, rows[group])
                ends.append(full)
                done = int(full[-1]) if len(full) else done
            last = group + 1 == len(group_ends)
            if done < end and (not self.drop_last if last else end - done >= rows[group + 1]):
                ends.append(np.array([end]))
                done = end
            begin = end
        return np.diff(group_ends, prepend=0), np.concatenate(ends) if ends else np.empty(0, dtype=np.int64)

    def __iter__(self) -> ResumableIterator:
        start, _ = self._resume()
        seed, epoch = self.seed & SEED_BITS, self.epoch
        samples = _core.SegmentShuffle(self._group_sizes, seed, epoch).at if self.shuffle else in_order

        def batch(number: int) -> list[int]:
            begin = self._ends[number - 1] if number else 0
            return self._by_length[samples(np.arange(begin, self._ends[number]))].tolist()

        return self._over(start, self._order, self.length, batch)

    def _order(self, epoch: int) -> Order:
        seed = self.seed & SEED_BITS
        return _core.KeyedPermutation(self.length, seed, epoch).at if self.shuffle else in_order

    def _facts(self) -> dict[str, Any]:
        return {
            **super()._facts(),
            "lengths": self._digest,
            "shuffle": self.shuffle,
            "batch_size": self.batch_size,
            "max_tokens": self.max_tokens,
        }


AT_ONCE = 4096  # samples


@known()
class StratifiedBatchSampler(RankedSampler, Sampler[list[int]]):
    """Batches in which each class has its share: in every prefix of the epoch to less than one sample, in a
    batch to less than two.

    Ranks take consecutive batches of one order by (seed, epoch). An epoch has as many samples as there are
    labels; when the last ones do not fill a batch on every rank, they are shared evenly (drop_last=False),
    from the beginning where they do not divide, or dropped. A state counts samples of all ranks, so it loads
    under other batch sizes and numbers of ranks.

    For a loader's `batch_sampler`; `sampler` takes it with batch_size=None only.

    Args:
        labels: one per sample; a sequence, array or tensor of one dimension, of numbers or strings.
        batch_size: of one rank.
        mode: "balanced": every class alike; samples of small classes come several times in an epoch, in a new
            order each time, and of large ones some do not. "proportional": every class as in `labels`; each
            sample comes once.
        seed: the same on all ranks.
        num_replicas, rank: those of the process group or the environment when not given.
        drop_last: drop the last samples when they do not fill a batch on every rank.
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
            """The batches of `step` and of some later steps, by step: asking for many at once costs half."""
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
