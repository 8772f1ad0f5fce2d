"""ShardShuffle, TwoTierShuffle, ChunkShuffle: shuffles of samples that lie in shards or chunks, which are
read one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from torch.utils.data import Dataset

from .. import _core
from .global_order import GlobalOrderSampler, checked_number, digest
from .native import known
from .plain import SEED_BITS
from .readers import Indices, Order


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
    """Samples of shards that lie one behind the other: the shards in random order, each from its beginning to
    its end.

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
        shard_lengths: Sequence[int],
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
    """ShardShuffle's order through a shuffle buffer of `buffer_size` samples: nearly a full shuffle, of files
    that are read in order.

    Other arguments are those of `ShardShuffle`.
    """

    random_access = False

    def __init__(
        self,
        shard_lengths: Sequence[int],
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
    """Chunks in random order, and samples in random order within about `buffer_chunks` of them at a time: for
    chunks decoded whole.

    ShardShuffle's order is cut into `streams` equal parts, which are read side by side, and these into
    windows of as many samples as `buffer_chunks` chunks have on average; each window is permuted. So every
    chunk is needed within one window, or two neighbouring ones, and can be let go behind them; a shuffle
    buffer (TwoTierShuffle) would ask for a chunk's last samples very much later.

    chunk_lengths: samples in each chunk; ints [chunks].
    streams: with one for each rank, every rank has chunks of its own; so None takes num_replicas, and a state
        brings its number along, so that an epoch goes on under any number of ranks.

    Other arguments are those of `ShardShuffle`.
    """

    def __init__(
        self,
        chunk_lengths: Sequence[int],
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
