"""LengthGroupedSampler: batches of samples of similar length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch.utils.data import Sampler

from .. import _core
from .._common.ranks import replicas
from .global_order import checked_number, digest
from .iterators import ResumableIterator
from .native import known
from .plain import SEED_BITS
from .readers import Indices, OrderReader, steps_left
from .resumable import ResumableEpochs
from .shards import checked_lengths


@known()
class LengthGroupedSampler(ResumableEpochs, Sampler[list[int]]):
    """Batches whose samples have similar lengths, in random order, so that little is padded; every rank has
    as many batches.

    Samples are grouped so that in a group the shortest is at least 1 - max_padding times the longest. A batch
    is taken from one group; only what a group has left over is batched with the next group's, one batch at
    most. Which samples come together, and in which order the batches come, depends on (seed, epoch); how many
    batches there are does not.

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

    For a loader's `batch_sampler`. A state counts batches of all ranks together; it loads under another
    number of ranks.
    """

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
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        array = checked_lengths("lengths", lengths)
        self.batch_size = None if batch_size is None else checked_number("batch_size", batch_size, least=1)
        self.max_tokens = None if max_tokens is None else checked_number("max_tokens", max_tokens, least=1)
        if self.max_tokens is not None and array.max() > self.max_tokens:
            longest = int(array.argmax())
            raise ValueError(
                f"lengths[{longest}] is {array[longest]}, more than max_tokens={max_tokens}: it fits into no"
                " batch; leave it out or cut it"
            )
        self.max_padding = max_padding
        self.shuffle = shuffle
        self.seed = checked_number("seed", seed, least=-(2**63))
        self.num_replicas, self.rank = replicas(num_replicas, rank)
        self.drop_last = drop_last
        self.epoch = 0
        self._digest = digest(array)
        self._by_length = np.argsort(array, kind="stable")
        self._group_sizes, self._ends = self._cut(array[self._by_length])

    def _rows(self, longest: int) -> int:
        """Samples in a batch whose longest has this length."""
        by_tokens = self.max_tokens // max(longest, 1) if self.max_tokens is not None else 2**62
        return by_tokens if self.batch_size is None else min(by_tokens, self.batch_size)

    def _cut(self, ordered: Indices) -> tuple[Indices, Indices]:
        """(samples in each group, where each batch ends), among the samples from short to long."""
        group_ends = []
        while not group_ends or group_ends[-1] < len(ordered):
            shortest = ordered[group_ends[-1] if group_ends else 0]
            group_ends.append(int(np.searchsorted(ordered, shortest / (1 - self.max_padding), side="right")))
        rows = [self._rows(int(ordered[end - 1])) for end in group_ends]
        ends: list[Indices] = []
        begin = done = 0  # of the group; of what is in batches
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

    @property
    def length(self) -> int:
        """Batches of all ranks together, before some come twice or are dropped."""
        return len(self._ends)

    def __len__(self) -> int:
        """Batches of this rank in a whole epoch."""
        return steps_left(self.length, 0, self.num_replicas, self.drop_last)

    def __iter__(self) -> ResumableIterator:
        state = self._resume()
        start, seed, epoch = state["position"] if state else 0, self.seed & SEED_BITS, self.epoch
        samples = (
            _core.SegmentShuffle(self._group_sizes, seed, epoch).at
            if self.shuffle
            else lambda positions: positions
        )
        order = (
            _core.KeyedPermutation(self.length, seed, epoch).at
            if self.shuffle
            else lambda positions: positions
        )

        def batch(number: int) -> list[int]:
            begin = self._ends[number - 1] if number else 0
            return self._by_length[samples(np.arange(begin, self._ends[number]))].tolist()

        steps = steps_left(self.length, start, self.num_replicas, self.drop_last)
        reader = OrderReader(lambda: (order, self.length, steps), start, self.rank, self.num_replicas)
        return self._follow(reader, item=batch, kind=ResumableIterator)

    def _facts(self) -> dict[str, Any]:
        return {
            "length": self.length,
            "lengths": self._digest,
            "seed": self.seed,
            "shuffle": self.shuffle,
            "batch_size": self.batch_size,
            "max_tokens": self.max_tokens,
        }
