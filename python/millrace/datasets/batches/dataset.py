"""BatchDataset: map-style, makes whole batches. BatchMaker: what an iterator over it asks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch.utils.data import Dataset

from ... import _core
from ..._common.indices import checked_index
from ...collate import Pad


@dataclass(frozen=True)
class MakerOptions:
    """What a loader's iterator wants of its maker.

    threads: that call make() at once; 0: the consumer's does, in next(). slots: batches that may be in memory
    at once, the consumer's included. memory: of large tensors, by `_core.BatchMemory`'s name. collate: None
    for default_collate, else a collate function that the dataset said it knows.
    """

    threads: int = 0
    slots: int = 3
    memory: str = "system"
    collate: Callable[[list], Any] | None = None


class BatchMaker:
    """Makes the batches of one iterator. Its owner closes it.

    expect() and discard() are called by the consumer's thread; make(), make_several() and read_ahead() by any
    thread, several at once.
    """

    def expect(self, indices: np.ndarray) -> Any:
        """Announces a batch of these samples, int64 and in range; returns the ticket for make(). Called in
        the batches' order.
        """
        return indices

    def make(self, ticket: Any) -> Any:
        """The batch, as `collate` would put its samples together, or a sample's error. Called once for each
        ticket, about in order.
        """
        raise NotImplementedError

    def make_several(self, tickets: Sequence[Any]) -> list[Any]:
        """The batches of tickets that follow one another. After an error the caller gives each ticket to
        make(), to learn which one the error belongs to.
        """
        return [self.make(ticket) for ticket in tickets]

    def read_ahead(self) -> bool:
        """Does one piece of work for batches that are expected; False: no piece may be done now."""
        return False

    def discard(self) -> None:
        """Drops all tickets that are out: they will not be made; the next epoch begins. Calls of make() may
        still be under way.
        """

    def close(self) -> None:
        """No call comes after it; calls of make() and read_ahead() have returned."""

    def seconds(self) -> dict[str, float]:
        """Time spent so far, summed over threads, under the names of DataLoader.stats(): read, decode,
        transform, collate.
        """
        return {}


class BatchDataset(Dataset):
    """The base of our map-style datasets that make whole batches. Any loader can use one; millrace's makes
    its batches in threads.

    A class derived from it says len(), what samples are (`_samples`) and how batches are made
    (`batch_maker`).
    """

    rows_ahead = 0
    """How many samples beyond its prefetched batches a loader should name, for read_ahead() to work on."""

    def __len__(self) -> int:
        raise NotImplementedError

    def batch_maker(self, options: MakerOptions) -> BatchMaker:
        raise NotImplementedError

    def batches_at_once(self, batch_size: int) -> int:
        """The number of batches of so many samples that a thread should make in one go.

        It is above 1 where each batch is too little work to be handed over alone.
        """
        return 1

    def knows_collate(self, collate_fn: Any) -> bool:
        """Whether a maker makes the batch that this function, which is not default_collate, would make."""
        return type(collate_fn) is Pad

    def refusal(self) -> str | None:
        """The reason why its batches cannot be made in threads, with the change to make; None: they can."""
        return None

    def order_advice(self, sampler: Any) -> str | None:
        """The cost of a sampler's order for this dataset, and the order to use instead; None if there is
        nothing to say.
        """
        return None

    def _samples(self, indices: np.ndarray) -> list[Any]:
        """The samples of these indices, int64 and in range. An error names the sample's place in its file."""
        raise NotImplementedError

    def __getitem__(self, index: Any) -> Any:
        return self._samples(np.array([checked_index(index, len(self))], dtype=np.int64))[0]

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        return self._samples(self.checked_indices(indices))

    def checked_indices(self, indices: Any) -> np.ndarray:
        """Indices as int64 (n,), counted from the beginning.

        Raises:
            IndexError: if an index is out of range.
            TypeError: if an index is no integer.
        """
        length = len(self)
        if _core.are_indices(indices, length):
            return indices
        array = np.asarray(indices)
        if _core.are_indices(array, length):
            return array
        return np.array([checked_index(index, length) for index in indices], dtype=np.int64)
