"""Users' own objects. Samplers with an unknown order: the index lists that torch makes of them from an
epoch's start on, the state known after each list, and the draws that come before torch's. And datasets that
tell their position.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils.data import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

from ..._common.shipped import replaced_in
from ..._common.states import (
    REMEDY,
    draw_base_seed,
    generator_states,
    is_stateful,
    packed,
    put_back,
    put_generators,
    state_of,
    unpacked,
)
from ..._common.torch_private import _InfiniteConstantSampler
from ...errors import StateError
from .saved import CursorStart

DRAWS_NOTHING = (SequentialSampler, _InfiniteConstantSampler, DistributedSampler, list, tuple, range)
# a second iter() draws the same as the first would have
DRAWS_ANEW = (RandomSampler, SubsetRandomSampler, WeightedRandomSampler)


_NESTED = ("sampler_state", "sampler_iter_state")  # as torchdata nests states


class Lists(NamedTuple):
    """Index lists, and how to note the position after the last list drawn."""

    iterator: Iterator[Any]
    note: Callable[[], Any] | None = None  # None: the samplers have no state, or one that is `counted`
    # of (lists, samples, note): (the index sampler's state, its iterator's)
    states_of: Callable[[tuple[int, int, Any]], tuple[Any, Any]] = lambda at: at[2]
    notes_the_start: bool = False  # whether a note before the first list says more than that there is none
    begins_anew: bool = False  # the state that was to start from is of another epoch
    dropped: Any = None  # indices that were drawn again, up to the start
    # Each note is the number of lists (0) or samples (1) before the first list: a state follows from how many
    # came after it.
    counted: int | None = None


def users_lists(index_sampler: Any, made: Iterator[Any] | None, start: CursorStart) -> Lists:
    """The lists after `start`. `made`: torch's iterator over `index_sampler`, if there is one."""
    if type(index_sampler) is BatchSampler and replaced_in(BatchSampler) is None:
        return _of_batches(index_sampler, start)
    put_back(index_sampler, start.index_sampler_state)
    iterator = made if made is not None and start.index_sampler_state is None else iter(index_sampler)
    put_back(iterator, start.iterator_state)
    if is_stateful(index_sampler) or is_stateful(iterator):
        return Lists(iterator, lambda: (state_of(index_sampler), state_of(iterator)), notes_the_start=True)
    if type(index_sampler) is _InfiniteConstantSampler:
        return Lists(iterator)
    return Lists(iterator, dropped=_skip(iterator, start.lists, "index lists"))


def _of_batches(batches: BatchSampler, start: CursorStart) -> Lists:
    """Make torch's batches of a user's sampler here: torch's iterator would hide the sampler's iterator."""
    sampler = batches.sampler
    saved = start.iterator_state if isinstance(start.iterator_state, dict) else {}
    put_back(sampler, saved.get("sampler_state"))
    try:
        iterator = iter(sampler)
    except (
        StopIteration
    ) as error:  # as from torch's generator of batches; StopIteration would silently end the epoch
        raise RuntimeError("generator raised StopIteration") from error
    put_back(iterator, saved.get("sampler_iter_state"))
    lists = _in_batches(iterator, batches.batch_size, batches.drop_last)
    if is_stateful(sampler) or is_stateful(iterator):
        return Lists(
            lists,
            lambda: (state_of(sampler), state_of(iterator)),
            lambda at: (None, {"samples_yielded": at[1], **dict(zip(_NESTED, at[2]))}),
            notes_the_start=True,
        )
    if type(sampler) is _InfiniteConstantSampler:
        return Lists(lists)
    return Lists(lists, dropped=_skip(iterator, start.samples, "indices"))


def _in_batches(indices: Iterator[Any], size: int, drop_last: bool) -> Iterator[list[Any]]:
    """Lists as torch's BatchSampler makes them, taking from `indices` at the same moments."""
    while batch := [*islice(indices, size)]:
        if len(batch) < size and drop_last:
            return
        yield batch


def _skip(iterator: Iterator[Any], count: int, what: str) -> Any:
    """Skip and return the indices before the start: an array if all are ints; None if there are none."""
    given = [*islice(iterator, count)]
    if len(given) < count:
        raise StateError(
            f"the state is from behind {count} {what}, and the sampler gives only {len(given)}: {REMEDY}"
        )
    plain = (item.tolist() if hasattr(item, "tolist") else item for item in given)
    indices = [i for item in plain for i in (item if isinstance(item, (list, tuple)) else [item])]
    return (np.array(indices) if all(type(index) is int for index in indices) else indices) if given else None


class EarlyDraws:
    """The draws of a user's sampler in its __iter__, which torch calls before it draws the base seed.

    Without workers, torch reads from the iterator that it makes then. Make an EarlyDraws before that
    iterator, and call `end` after torch's draws. `own`: generators by name; `saved`: the states of these and
    of the global generators before the resumed epoch, if that had such draws.
    """

    def __init__(self, own: dict[str, torch.Generator], saved: dict[str, str | None] | None) -> None:
        self._own = own
        self._outside = None if saved is None else generator_states({}, pythons=True)
        if saved is not None:
            then = {name: unpacked(text) for name, text in saved.items()}
            for name, generator in own.items():
                if then.get(name) is not None:
                    generator.set_state(then[name])
            put_generators(then)
        self._before = generator_states(own, pythons=True)

    def end(self) -> tuple[dict[str, torch.Tensor] | None, dict[str, str | None]]:
        """(the states before the sampler drew, or None if it did not; with `saved`, the global ones that the
        first draw finds).

        Puts the global generators back to their positions before `saved` was loaded.
        """
        expected, now = dict(self._before), generator_states(self._own, pythons=True)
        seeds = "loader" if "loader" in self._own else "global"
        twin = torch.Generator().set_state(expected[seeds])
        draw_base_seed(twin)
        expected[seeds] = twin.get_state()
        drew = any(not torch.equal(state, now[name]) for name, state in expected.items())
        found: dict[str, str | None] = {}
        if self._outside is not None:
            found = {name: packed(now[name]) for name in self._outside}
            put_generators(self._outside)
        return self._before if drew else None, found


def dataset_parts(fetcher: Any, streams: bool) -> tuple[Any, Any]:
    """(the dataset's state, its iterator's state as torchdata nests it), from the dataset's fetcher."""
    if not streams:
        return state_of(fetcher.dataset), None
    iterator = fetcher.dataset_iter
    return (
        None if iterator is fetcher.dataset else state_of(fetcher.dataset),
        {"dataset_iter_state": state_of(iterator), "fetcher_ended": fetcher.ended},
    )


def put_dataset_back(dataset: Any, saved: Any) -> None:
    """Put the dataset back to the position of `saved`, a SavedState or None, in the middle of an epoch.
    Called after torch's draws, because the dataset may hold the state of torch's generator.
    """
    if saved is not None and not saved.finished:
        from .kept_states import load_dataset_state  # few runs have a use for it

        parts = saved.fetcher_state or {}
        load_dataset_state(dataset, saved.dataset_state, bool(parts.get("fetcher_ended")))


def put_ended_back(dataset: Any, saved: Any) -> None:
    """The same, at an epoch's end, before torch's draws."""
    if saved is not None and saved.finished:
        from .kept_states import load_dataset_state

        load_dataset_state(dataset, saved.dataset_state, True)


def put_fetcher_back(fetcher: Any, saved: Any, streams: bool) -> None:
    parts = None if saved is None or not streams else saved.fetcher_state
    if parts is None:
        return
    if not saved.finished:
        put_back(fetcher.dataset_iter, parts["dataset_iter_state"])
        fetcher.ended = parts["fetcher_ended"]
    elif fetcher.dataset_iter is fetcher.dataset:
        put_back(fetcher.dataset, parts["dataset_iter_state"])
        fetcher.dataset_iter = iter(fetcher.dataset)
