"""The index lists of an epoch, from where it starts on, and what can be said of the samplers after each of
them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, NamedTuple

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

from ..._common.states import REMEDY, Fields, is_stateful, put_back, state_of, unsigned_state
from ...errors import StateError
from ...samplers import BatchSampler as OurBatchSampler
from ...samplers import native
from ...samplers.resumable import inner_sampler
from .saved import CursorStart

DRAWS_NOTHING = (SequentialSampler, _InfiniteConstantSampler, DistributedSampler, list, tuple, range)
# a second iter() draws what a first would have
DRAWS_ANEW = (RandomSampler, SubsetRandomSampler, WeightedRandomSampler)


class Lists(NamedTuple):
    """Index lists, and how the position after the one drawn last is noted."""

    iterator: Iterator[Any]
    note: Callable[[], Any] | None = None  # None: the samplers have no state
    # of a note and the samples drawn by then: (the index sampler's state, its iterator's)
    states_of: Callable[[Any, int], tuple[Any, Any]] = lambda note, _: note
    notes_the_start: bool = False  # whether a note before the first list says more than that there is none
    begins_anew: bool = False  # the state that was to start from is of another epoch


def open_lists(index_sampler: Any, made: Iterator[Any] | None, start: CursorStart, as_arrays: bool) -> Lists:
    """The lists after `start`. `made`: torch's iterator over `index_sampler`, if there is one; `as_arrays`:
    as IndexCursor has it.
    """
    known = known_sampler(index_sampler)
    if known is not None:
        return _of_known(known, start, as_arrays)
    if type(index_sampler) is BatchSampler:
        return _of_batches(index_sampler, start)
    put_back(index_sampler, start.index_sampler_state)
    iterator = made if made is not None and start.index_sampler_state is None else iter(index_sampler)
    put_back(iterator, start.iterator_state)
    if is_stateful(index_sampler) or is_stateful(iterator):
        return Lists(iterator, lambda: (state_of(index_sampler), state_of(iterator)), notes_the_start=True)
    if type(index_sampler) is not _InfiniteConstantSampler:
        _skip(iterator, start.lists, "index lists")
    return Lists(iterator)


def _of_known(known: Any, start: CursorStart, as_arrays: bool) -> Lists:
    inner, begins_anew = inner_sampler(known), False
    saved = start.iterator_state
    if saved is None and start.lists:
        raise StateError(
            f"the state is from behind {start.lists} index lists, and does not say where the"
            f" {type(inner).__name__} stood: '_sampler_iter_state' is None. {REMEDY}"
        )
    if saved is not None:
        of_inner = Fields(
            Fields(saved, "['_sampler_iter_state']").dict("sampler", saved),
            "['_sampler_iter_state']['sampler']",
        )
        there = of_inner.any("epoch", None)
        here = getattr(inner, "epoch", there)
        begins_anew = here != there
        if begins_anew:
            warnings.warn(
                f"the loaded state is from the middle of epoch {there}, and set_epoch({here}) was called:"
                f" epoch {here} begins at its beginning. Start the training loop at epoch {there} to go on"
                " where it stopped",
                stacklevel=2,
            )
        else:
            known.load_state_dict(start.iterator_state)
    lists = known.arrays() if as_arrays and type(known) is OurBatchSampler else iter(known)
    if not hasattr(lists, "state_at"):
        return Lists(lists, lambda: (None, unsigned_state(lists)), begins_anew=begins_anew)
    # A position for each list, and a state for the one that is asked for.
    return Lists(lists, lists.position, lambda at, _: (None, lists.state_at(at)), begins_anew=begins_anew)


def _of_batches(batches: BatchSampler, start: CursorStart) -> Lists:
    """torch's batches of a sampler of the user's, whose iterator is not to be seen through torch's."""
    sampler = batches.sampler
    saved = start.iterator_state if isinstance(start.iterator_state, dict) else {}
    put_back(sampler, saved.get("sampler_state"))
    try:
        iterator = iter(sampler)
    except (
        StopIteration
    ) as error:  # as out of torch's generator of batches: it would end the epoch without a word
        raise RuntimeError("generator raised StopIteration") from error
    put_back(iterator, saved.get("sampler_iter_state"))
    lists = _in_batches(iterator, batches.batch_size, batches.drop_last)
    if is_stateful(sampler) or is_stateful(iterator):
        return Lists(
            lists,
            lambda: (state_of(sampler), state_of(iterator)),
            lambda states, samples: (None, _nested(samples, *states)),
            notes_the_start=True,
        )
    if type(sampler) is not _InfiniteConstantSampler:
        _skip(iterator, start.samples, "indices")
    return Lists(lists)


def _nested(samples: int, sampler: Any, iterator: Any) -> dict[str, Any]:
    """States as torchdata nests them."""
    return {"samples_yielded": samples, "sampler_state": sampler, "sampler_iter_state": iterator}


def known_sampler(index_sampler: Any) -> Any:
    """The sampler of millrace.samplers that does the work of `index_sampler`; None when there is none."""
    known = native(index_sampler)
    return None if type(known) is OurBatchSampler and native(known.sampler) is None else known


def never_repeats(sampler: Any) -> bool:
    if isinstance(sampler, RandomSampler):
        return not sampler.replacement and sampler.num_samples <= len(sampler.data_source)
    return isinstance(sampler, SequentialSampler)


def drawing_sampler(index_sampler: Any) -> Any:
    """The sampler whose draws decide the order: a batch sampler of the user's may shuffle what is in order in
    its `sampler`.
    """
    return index_sampler.sampler if type(index_sampler) in (BatchSampler, OurBatchSampler) else index_sampler


def draws_unknown(index_sampler: Any) -> bool:
    """Whether the sampler is of the user's making, without a state: it may draw from any generator, and at
    any time.
    """
    sampler = drawing_sampler(index_sampler)
    return (
        known_sampler(index_sampler) is None
        and type(sampler) not in DRAWS_NOTHING
        and not is_stateful(sampler)
    )


def _in_batches(indices: Iterator[Any], size: int, drop_last: bool) -> Iterator[list[Any]]:
    """Lists as torch's BatchSampler makes them, taking from `indices` at the same moments."""
    while batch := [*islice(indices, size)]:
        if len(batch) < size and drop_last:
            return
        yield batch


def _skip(iterator: Iterator[Any], count: int, what: str) -> None:
    given = sum(1 for _ in islice(iterator, count))
    if given < count:
        raise StateError(
            f"the state is from behind {count} {what}, and the sampler gives only {given}: {REMEDY}"
        )


def own_generators(loader: Any) -> dict[str, torch.Generator]:
    """Generators that were given to the loader and to its sampler, each once."""
    inner = getattr(inner_sampler(loader._index_sampler), "generator", None)
    generators = {"loader": loader.generator}
    if inner is not loader.generator:
        generators["sampler"] = inner
    return {
        name: generator for name, generator in generators.items() if isinstance(generator, torch.Generator)
    }
