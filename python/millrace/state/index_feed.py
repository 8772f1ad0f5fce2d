"""One epoch's index lists: drawn ahead of what the consumer has, and able to say where the consumer is.

Workers run ahead, so a sampler stands further on than the training loop. A feed remembers, for each list that was drawn and not
yet handed out, where the sampler stood behind it. Samplers without a state of their own are described by what torch's generators
looked like when the epoch's first index was drawn, and by how many indices have been handed out: drawn again from there, they
come to the same place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import Any, NamedTuple, Optional

import torch
from torch.utils.data import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from torch.utils.data.dataloader import _InfiniteConstantSampler

from .generators import global_generator_at, packed, unpacked
from .saved import FeedStart
from .stateful import is_stateful, put_back, state_of

_DRAWS_NOTHING = (SequentialSampler, _InfiniteConstantSampler, DistributedSampler)
_DRAWS_ANEW = (RandomSampler, SubsetRandomSampler, WeightedRandomSampler)  # a second iter() draws what a first would have


class _Drawn(NamedTuple):
    """An index list that was drawn, and where the sampler stood behind it."""

    lists: int
    samples: int
    sampler: Any  # (index sampler's state, its iterator's), or None
    item: Any  # kept only where lists may be handed out in another order


class IndexFeed:
    """An iterator over the lists of `index_sampler`. One thread, the consumer's.

    `made`: the iterator that torch made of it. `generators`: those of the loader and the sampler, by name. `start`: where to begin.
    `keep_items`: lists may be handed out in another order than they were drawn in.
    """

    def __init__(
        self,
        index_sampler: Any,
        made: Iterator[Any],
        generators: dict[str, torch.Generator],
        start: Optional[FeedStart] = None,
        keep_items: bool = False,
    ) -> None:
        self._index_sampler = index_sampler
        self._made = made
        self._generators = generators
        self._start = start or FeedStart()
        self._keep_items = keep_items
        self._lists: Optional[Iterator[Any]] = None
        self._snapshot: Optional[Callable[[], Any]] = None
        self._waiting = list(self._start.pending)
        self._before: dict[str, torch.Tensor] = {}  # generators' states at the first draw
        self._packed: Optional[dict[str, Optional[str]]] = None
        self._ahead: dict[int, _Drawn] = {}
        self._drawn = 0
        self._reached = -1  # the highest number that was handed out
        self._last = _Drawn(self._start.lists, self._start.samples, None, None)
        self._at = self._last

    def __iter__(self) -> IndexFeed:
        return self

    def __next__(self) -> Any:
        if self._waiting:
            item, last = self._waiting.pop(0), self._last
        else:
            if self._lists is None:
                self.open()
            item = next(self._lists)
            last = self._last = _Drawn(self._last.lists + 1, self._last.samples + _size(item), None, None)
            if self._snapshot is not None:
                last = self._last = last._replace(sampler=self._snapshot())
        self._ahead[self._drawn] = last._replace(item=item) if self._keep_items else last
        self._drawn += 1
        return item

    def handed_out(self, number: int) -> None:
        """The batch of one list went to the consumer: the oldest of those drawn, or, with keep_items, that of draw `number`."""
        number = number if self._keep_items else next(iter(self._ahead), -1)
        drawn = self._ahead.pop(number, None)
        if drawn is not None and number > self._reached:
            self._reached, self._at = number, drawn

    # ---------------------------------------------------------------- state

    def state(self) -> dict[str, Any]:
        """Where the consumer is. Keys with an underscore are those of torchdata's StatefulDataLoader."""
        sampler, iterator = self._at.sampler or self._unmoved()
        state = {
            "_index_sampler_state": sampler,
            "_sampler_iter_state": iterator,
            "_sampler_iter_yielded": self._at.lists,
            "samples": self._at.samples,
            "generators": self._generators_at_start(),
        }
        if self._keep_items and self._reached >= 0:
            passed_over = [drawn.item for number, drawn in self._ahead.items() if number < self._reached]
            if pending := passed_over + self._waiting:
                state["pending"] = pending
        return state

    def state_at_end(self) -> dict[str, Any]:
        """What the next epoch begins with."""
        sampler = self._index_sampler
        inner = sampler.sampler if type(sampler) is BatchSampler else sampler
        state = self.state()
        state["_index_sampler_state"], state["_sampler_iter_state"] = state_of(sampler), None
        if inner is not sampler and is_stateful(inner):
            state["_sampler_iter_state"] = {"samples_yielded": self._at.samples, "sampler_state": state_of(inner)}
        state["generators"] = {name: packed(rng) for name, rng in self._generators_now(at_end=True).items()}
        state.pop("pending", None)
        return state

    def _unmoved(self) -> tuple[Any, Any]:
        """The samplers' states before the first draw."""
        sampler, start = self._index_sampler, self._start
        if start.lists or start.samples or start.iterator_state is not None:
            return start.index_sampler_state, start.iterator_state
        if type(sampler) is BatchSampler and is_stateful(sampler.sampler):
            return None, {"samples_yielded": 0, "sampler_state": state_of(sampler.sampler)}
        return state_of(sampler), None

    def _generators_now(self, at_end: bool = False) -> dict[str, torch.Tensor]:
        states = {name: generator.get_state() for name, generator in self._generators.items()}
        if at_end or self._draws_globally():
            states["global"] = torch.get_rng_state()
        return states

    def _generators_at_start(self) -> dict[str, Optional[str]]:
        if self._lists is None and self._start.generators:
            return dict(self._start.generators)
        if self._packed is None or self._lists is None:
            self._packed = {name: packed(rng) for name, rng in (self._before or self._generators_now()).items()}
        return dict(self._packed)

    def _draws_globally(self) -> bool:
        sampler = self._index_sampler
        inner = getattr(sampler, "sampler", sampler)
        return type(inner) not in _DRAWS_NOTHING and getattr(inner, "generator", None) is None and not is_stateful(inner)

    # ---------------------------------------------------------------- the first draw

    def open(self) -> None:
        """Makes the lists, and draws those before the start: at the first draw, unless it is called before."""
        start = self._start
        for name, text in start.generators.items():
            if name in self._generators:
                self._generators[name].set_state(unpacked(text))
        then = unpacked(start.generators.get("global"))
        self._before = self._generators_now()
        if then is None:
            self._lists = self._open()
            return
        self._before["global"] = then
        with global_generator_at(then):
            self._lists = _after_first(self._open())
        sampler = self._index_sampler
        if type(getattr(sampler, "sampler", sampler)) in _DRAWS_ANEW:
            next(iter(sampler), None)  # so that the global generator moves on as if the epoch had begun here

    def _open(self) -> Iterator[Any]:
        sampler, start = self._index_sampler, self._start
        if hasattr(sampler, "after"):  # lists as arrays, for the native engine
            return sampler.after(start.samples)
        if type(sampler) is BatchSampler:
            return self._open_batches(sampler, start)
        put_back(sampler, start.index_sampler_state)
        iterator = self._made if start.index_sampler_state is None else iter(sampler)
        put_back(iterator, start.iterator_state)
        if is_stateful(sampler) or is_stateful(iterator):
            self._remember(lambda: (state_of(sampler), state_of(iterator)))
        elif type(sampler) is not _InfiniteConstantSampler:
            _skip(iterator, start.lists)
        return iterator

    def _open_batches(self, batches: BatchSampler, start: FeedStart) -> Iterator[Any]:
        sampler = batches.sampler
        saved = start.iterator_state if isinstance(start.iterator_state, dict) else {}
        put_back(sampler, saved.get("sampler_state"))
        iterator = iter(sampler)
        put_back(iterator, saved.get("sampler_iter_state"))
        if is_stateful(sampler) or is_stateful(iterator):
            self._remember(
                lambda: (
                    None,
                    {
                        "samples_yielded": self._last.samples,
                        "sampler_state": state_of(sampler),
                        "sampler_iter_state": state_of(iterator),
                    },
                )
            )
        elif type(sampler) is not _InfiniteConstantSampler:
            _skip(iterator, start.samples)
        return _in_batches(iterator, batches.batch_size, batches.drop_last)

    def _remember(self, snapshot: Callable[[], Any]) -> None:
        self._snapshot = snapshot
        self._last = self._at = self._last._replace(sampler=snapshot())


class FedSampler:
    """In place of an iterator's index sampler: each iter() is a new epoch's feed."""

    def __init__(self, index_sampler: Any, feed: Callable[[Any, Iterator[Any]], IndexFeed]) -> None:
        self._index_sampler = index_sampler
        self._feed = feed

    def __len__(self) -> int:
        return len(self._index_sampler)

    def __iter__(self) -> IndexFeed:
        return self._feed(self._index_sampler, iter(self._index_sampler))


def _after_first(lists: Iterator[Any]) -> Iterator[Any]:
    """The same, with the first one taken already: samplers draw when it is asked for."""
    return chain([*islice(lists, 1)], lists)


def _in_batches(indices: Iterator[Any], size: int, drop_last: bool) -> Iterator[list[Any]]:
    """Lists as torch's BatchSampler makes them, taking from `indices` at the same moments."""
    while batch := [*islice(indices, size)]:
        if len(batch) < size and drop_last:
            return
        yield batch


def _skip(iterator: Iterator[Any], count: int) -> None:
    next(islice(iterator, count, count), None)


def _size(item: Any) -> int:
    """Samples in what an index sampler gave: a list of them, an array, or one."""
    try:
        return len(item)
    except TypeError:
        return 1
