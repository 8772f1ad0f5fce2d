"""Samplers that are ours: a global order by (seed, epoch), of which each rank takes its part.

RankedSampler and GlobalOrderSampler are the bases: each rank takes every num_replicas-th index.
PermutationSampler shuffles any number of samples in no memory; ShardShuffle, TwoTierShuffle and ChunkShuffle
shuffle samples that lie in shards or chunks, which are read one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from zlib import crc32

import numpy as np
from torch.utils.data import Dataset, Sampler

from .. import _core
from .._common.ranks import replicas
from .readers import SEED_BITS, Indices, Order, OrderReader, steps_left
from .resumable import ResumableEpochs, known


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
    return crc32(np.ascontiguousarray(array).view(np.uint8).data)


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
        """An iterator over this rank's part of `order(epoch)`; the first index calls `order`. Past `length`
        the iterator continues from the beginning.
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


def checked_lengths(name: str, lengths: Any) -> Indices:
    """int64 [n] of numbers of 0 or more; ValueError for anything else."""
    if isinstance(lengths, (list, tuple)) and lengths and isinstance(lengths[0], (Dataset, list, tuple, str)):
        raise ValueError(
            f"{name} should be integers, but {name}[0] is a {type(lengths[0]).__name__}; give len() of each"
        )
    array = np.asarray(lengths)
    if array.ndim != 1 or not len(array) or array.dtype.kind not in "iu":
        raise ValueError(
            f"{name} should be a sequence of integers, one at least, but has shape {array.shape} of"
            f" {array.dtype}"
        )
    if (array < 0).any():
        raise ValueError(
            f"{name} should be 0 or more, but {name}[{int(np.argmax(array < 0))}] is {array.min()}"
        )
    return array.astype(np.int64)


@known()
class ShardShuffle(GlobalOrderSampler):
    """Samples of consecutive shards: the shards in random order, each from its beginning to its end.

    Args:
        shard_lengths: samples in each shard; ints [shards].
        seed: the same on all ranks.
        num_replicas, rank: those of the process group or the environment when not given. Neighbouring samples
            go to different ranks.
        drop_last: drop what does not divide by num_replicas, instead of repeating from the beginning.
    """

    random_access = True

    def __init__(
        self,
        shard_lengths: Sequence[int] | Indices,
        seed: int = 0,
        num_replicas: int | None = None,
        rank: int | None = None,
        drop_last: bool = False,
    ) -> None:
        self.shard_lengths = checked_lengths("shard_lengths", shard_lengths)
        self._digest = digest(self.shard_lengths)
        super().__init__(int(self.shard_lengths.sum()), seed, num_replicas, rank, drop_last)

    def _order(self, epoch: int) -> Order:
        return _core.ShardOrder(self.shard_lengths, self.seed & SEED_BITS, epoch).at

    def _facts(self) -> dict[str, Any]:
        return {**super()._facts(), "shards": self._digest}


@known()
class TwoTierShuffle(ShardShuffle):
    """`ShardShuffle`'s order through a shuffle buffer: nearly a full shuffle, of files that are read in
    order.

    Other arguments: see `ShardShuffle`.

    Args:
        buffer_size: samples in the shuffle buffer.
    """

    random_access = False

    def __init__(
        self,
        shard_lengths: Sequence[int] | Indices,
        buffer_size: int,
        seed: int = 0,
        num_replicas: int | None = None,
        rank: int | None = None,
        drop_last: bool = False,
    ) -> None:
        super().__init__(shard_lengths, seed, num_replicas, rank, drop_last)
        self.buffer_size = checked_number("buffer_size", buffer_size, least=1)

    def _order(self, epoch: int) -> Order:
        shards = super()._order(epoch)
        buffer = _core.ShuffleOrder(self.length, self.buffer_size, self.seed & SEED_BITS, epoch)
        return lambda positions: shards(buffer.at(positions))

    def _facts(self) -> dict[str, Any]:
        return {**super()._facts(), "buffer_size": self.buffer_size}


@known()
class ChunkShuffle(ShardShuffle):
    """Chunks in random order, and samples in random order within about `buffer_chunks` of them at a time.

    This is for chunks that are decoded whole. `ShardShuffle`'s order is cut into `streams` equal parts, which
    are read side by side. These are cut into windows of as many samples as `buffer_chunks` chunks have on
    average, and each window is permuted. So every chunk is needed within one window, or two neighbouring
    ones, and can be released after them. A shuffle buffer (`TwoTierShuffle`) would ask for a chunk's last
    samples very much later.

    Other arguments: see `ShardShuffle`.

    Args:
        chunk_lengths: samples in each chunk; ints [chunks].
        buffer_chunks: chunks of average length that fill a window.
        streams: the number of parts. With one for each rank, every rank has chunks of its own; so None takes
            num_replicas, and a state brings its number along, so that an epoch goes on under any number of
            ranks.
    """

    def __init__(
        self,
        chunk_lengths: Sequence[int] | Indices,
        buffer_chunks: int = 8,
        seed: int = 0,
        num_replicas: int | None = None,
        rank: int | None = None,
        drop_last: bool = False,
        streams: int | None = None,
    ) -> None:
        super().__init__(chunk_lengths, seed, num_replicas, rank, drop_last)
        self.buffer_chunks = checked_number("buffer_chunks", buffer_chunks, least=1)
        self.follows_state = streams is None
        self.streams = self.num_replicas if streams is None else checked_number("streams", streams, least=1)

    @property
    def window(self) -> int:
        """Samples that are permuted together."""
        return max(
            1,
            min(self.length // self.streams, self.buffer_chunks * -(-self.length // len(self.shard_lengths))),
        )

    def _order(self, epoch: int) -> Order:
        chunks, streams, window = super()._order(epoch), self.streams, self.window
        each = self.length // streams
        one = [window] * (each // window) + [each % window]
        sizes = np.array(one * streams + [self.length % streams], dtype=np.int64)
        permuted = _core.SegmentShuffle(sizes, self.seed & SEED_BITS, epoch)

        def order(positions: Indices) -> Indices:
            if streams == 1:
                return chunks(permuted.at(positions))
            inside = (positions % streams) * each + positions // streams
            return chunks(permuted.at(np.where(positions < each * streams, inside, positions)))

        return order

    def _checked(self, state: Mapping[str, Any]) -> dict[str, Any]:
        if (
            self.follows_state
            and isinstance(state, Mapping)
            and isinstance(state.get("streams"), int)
            and state["streams"] > 0
        ):
            self.streams = state["streams"]
        return super()._checked(state)

    def _facts(self) -> dict[str, Any]:
        return {**super()._facts(), "buffer_chunks": self.buffer_chunks, "streams": self.streams}
