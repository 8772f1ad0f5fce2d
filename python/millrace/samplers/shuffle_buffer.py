"""ShuffleBuffer: a stream shuffled through a buffer, and resumed without the buffer being saved."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np
from torch.utils.data import IterableDataset, Sampler

from .. import _core
from .._common.states import signing, unsigned_state
from ..errors import StateError
from .global_order import GlobalOrderSampler, checked_number
from .readers import CHUNK, SEED_BITS, Indices, Order
from .resumable import ResumableEpochs, known, native
from .torchs import BatchSampler

ENDLESS = 2**62


class ShuffleBuffer:
    """`ShuffleBuffer(size, seed)(source)`: what `source` gives, through a buffer of `size` from which a
    random one comes out each time.

    For an iterable it is an iterable dataset, for a sampler a sampler. Which place of the buffer is next
    depends on (seed, epoch, how many came before), so a state holds numbers only. What was in the buffer is
    read again: from the source's own state (state_dict and load_state_dict of the source or its iterator), or
    else from its beginning.

    Every epoch has the same order until set_epoch() is called, on this object; worker processes that stay
    (persistent_workers) do not see that. A loader's workers each have a copy, so `source` must give each its
    part, as iterable datasets do (get_worker_info()).

    Args:
        size: samples in the buffer, 1 or more.
        seed: the same on all ranks.

    Raises:
        ValueError: if `size` is below 1.
    """

    def __init__(self, size: int, seed: int = 0) -> None:
        self.size = checked_number("size", size, least=1)
        self.seed = checked_number("seed", seed, least=-(2**63))

    def __call__(self, source: Iterable[Any]) -> Any:
        sampler = native(source)
        if isinstance(sampler, BatchSampler):
            raise TypeError(
                "a shuffle buffer takes single indices: put it around the sampler below the BatchSampler"
            )
        if isinstance(sampler, GlobalOrderSampler) and sampler.random_access:
            return ShuffledOrder(sampler, self.size, self.seed)
        if isinstance(source, Sampler):
            return ShuffledSampler(source if sampler is None else sampler, self.size, self.seed)
        if not hasattr(source, "__iter__") or isinstance(source, Iterator):
            raise TypeError(
                f"a shuffle buffer takes an iterable that can be iterated again, not {type(source).__name__};"
                " give what made the iterator"
            )
        return ShuffledStream(source, self.size, self.seed)


@known()
class ShuffledOrder(GlobalOrderSampler):
    """The global order of a sampler of this package through a buffer; ranks share one buffer's order."""

    def __init__(self, source: GlobalOrderSampler, size: int, seed: int) -> None:
        super().__init__(source.length, seed, source.num_replicas, source.rank, source.drop_last)
        self.source, self.size, self.epoch = source, size, source.epoch

    def set_epoch(self, epoch: int) -> None:
        super().set_epoch(epoch)
        self.source.set_epoch(epoch)

    def _order(self, epoch: int) -> Order:
        order, buffer = (
            self.source._order(epoch),
            _core.ShuffleOrder(self.length, self.size, self.seed & SEED_BITS, epoch),
        )
        return lambda positions: order(buffer.at(positions))

    def _facts(self) -> dict[str, Any]:
        source = {"kind": type(self.source).__name__, **self.source._facts()}
        return {**super()._facts(), "size": self.size, "source": source}


class _Shuffled(ResumableEpochs):
    _state_is_json = False  # the source may be of anybody's making
    _whole_numbers = ("position", "read", "source_position")
    _ends_at_length = False  # of a stream, somebody may have declared another
    counted = False  # a state has the source's

    def __init__(self, source: Any, size: int, seed: int) -> None:
        self.source, self.size, self.seed = source, size, seed
        epoch = getattr(source, "epoch", 0)
        self.epoch = epoch if isinstance(epoch, int) else 0

    def __len__(self) -> int:
        return len(self.source)

    def set_epoch(self, epoch: int) -> None:
        """Which order the iterators made from here on have; also the source's, when it has set_epoch()."""
        super().set_epoch(epoch)
        self._set_source_epoch()

    def load_state_dict(self, state: Mapping[str, Any], verify: bool = True) -> None:
        """As Resumable's; sets the epoch, also the source's, when it has set_epoch()."""
        super().load_state_dict(state, verify)
        self._set_source_epoch()

    def _set_source_epoch(self) -> None:
        if hasattr(self.source, "set_epoch"):
            self.source.set_epoch(self.epoch)

    def __iter__(self) -> ShuffledIterator:
        head, (_, state) = self._head(), self._resume()
        self._latest = ShuffledIterator(self, head, state)
        return self._latest

    def _checked(self, state: Any) -> dict[str, Any]:
        # from before the first iterator
        if isinstance(state, Mapping) and state.get("position") == 0 and "read" not in state:
            state = {**state, "read": 0, "ended": False, "source": None, "source_position": 0}
        state = super()._checked(state)
        if not isinstance(state.get("ended"), bool) or "source" not in state:
            raise StateError(
                "the state of a shuffle buffer says whether its source has ended, and where it was: 'ended',"
                " 'source'"
            )
        if not state["source_position"] <= state["read"] >= state["position"]:
            raise StateError(
                f"the state of a shuffle buffer has given {state['position']} samples and noted its source at"
                f" {state['source_position']}, but read {state['read']}: it is damaged"
            )
        return state

    def _facts(self) -> dict[str, Any]:
        try:
            length: int | None = len(self.source)
        except TypeError:
            length = None
        return {
            "length": length,
            "seed": self.seed,
            "size": self.size,
            "num_replicas": getattr(self.source, "num_replicas", None),
        }


class ShuffledStream(_Shuffled, IterableDataset):
    """An iterable through a shuffle buffer."""


@known()
class ShuffledSampler(_Shuffled, Sampler):
    """A sampler through a shuffle buffer, each rank with its own. Resumes under the same number of ranks."""


class ShuffledIterator:
    """Reads the source ahead by the buffer's size. One thread at a time."""

    def __init__(self, owner: _Shuffled, head: dict[str, Any], state: dict[str, Any]) -> None:
        self._head, self._source, self._state = head, owner.source, state
        self._size, self._key = owner.size, (owner.seed & SEED_BITS, owner.epoch)
        self._items: Iterator[Any] | None = None
        self._held: dict[int, Any] = {}  # by position in the source, rising
        self._given, self._read = state.get("position", 0), state.get("read", 0)
        self._ended = state.get("ended", False)
        self._places: Iterator[int] = iter([])
        # (position, the source's state there), one for each `size` samples
        self._marks: deque[tuple[int, Any]] = deque()

    def __iter__(self) -> ShuffledIterator:
        return self

    def __next__(self) -> Any:
        if self._items is None:
            self._begin()
        while not self._ended and len(self._held) < self._size:
            self._read_one()
        if not self._held:
            raise StopIteration
        place = next(self._places, None)
        if place is None:
            ahead = min(CHUNK, self._read - self._given) if self._ended else CHUNK
            self._places = iter(self._order.at(np.arange(self._given, self._given + ahead)).tolist())
            place = next(self._places)
        self._given += 1
        return self._held.pop(place)

    def take(self, count: int) -> Indices:
        """The next `count` indices as int64 [count], fewer at the end; of samplers only."""
        return np.fromiter(islice(self, count), dtype=np.int64)

    def _begin(self) -> None:
        self._order = _core.ShuffleOrder(self._read if self._ended else ENDLESS, self._size, *self._key)
        position, saved = self._state.get("source_position", 0), self._state.get("source")
        if saved is not None and hasattr(self._source, "load_state_dict"):
            self._source.load_state_dict(saved)
        items = iter(self._source)
        if saved is not None and not hasattr(self._source, "load_state_dict"):
            items.load_state_dict(saved)  # type: ignore[attr-defined]
        self._items = items
        if not self._state:
            return
        held = [int(place) for place in self._order.held(self._given) if place < self._read]
        wanted, end = set(held), max(held, default=-1) + 1 if self._ended else self._read
        for place in range(position, end):
            self._mark(place)
            try:
                item = next(items)
            except StopIteration:
                raise StateError(
                    f"the state was taken when {self._read} samples had been read, and now the source ends"
                    f" after {place}; resume with the same data"
                ) from None
            if place in wanted:
                self._held[place] = item

    def _read_one(self) -> None:
        self._mark(self._read)
        try:
            item = next(self._items)  # type: ignore[arg-type]
        except StopIteration:
            self._ended = True
            # Up to here the order is the same for a stream of any length.
            self._order = _core.ShuffleOrder(self._read, self._size, *self._key)
            self._places = iter([])
            return
        self._held[self._read] = item
        self._read += 1

    def _mark(self, position: int) -> None:
        if position % self._size or getattr(self._source, "seekable", False):
            return
        for thing in (self._items, self._source):
            if hasattr(thing, "state_dict") and (
                hasattr(thing, "load_state_dict") or hasattr(self._source, "load_state_dict")
            ):
                self._marks.append((position, unsigned_state(thing)))
                break
        oldest = next(iter(self._held), position)
        while len(self._marks) > 1 and self._marks[1][0] <= oldest:
            self._marks.popleft()

    @signing
    def state_dict(self) -> dict[str, Any]:
        """Where the next sample comes from; small, whatever the buffer's size."""
        state = {**self._head, "position": self._given, "read": self._read, "ended": self._ended}
        if self._items is None:
            before = {"source": self._state.get("source")}
            return {**state, **before, "source_position": self._state.get("source_position", 0)}
        oldest = next(iter(self._held), self._read)
        if getattr(self._source, "seekable", False):
            saved = unsigned_state(self._items)
            ranks = getattr(self._source, "num_replicas", 1)
            saved["position"] -= (self._read - oldest) * ranks
            return {**state, "source": saved, "source_position": oldest}
        fitting = [mark for mark in self._marks if mark[0] <= oldest]
        position, saved = fitting[-1] if fitting else (0, None)
        return {**state, "source": saved, "source_position": position}
