"""One epoch's index lists: drawn ahead of the consumer, with the consumer's position.

Workers run ahead, so a sampler is further on than the training loop. For each list that was drawn and not yet
handed out, a cursor remembers the sampler's position after it. For samplers without a state of their own, it
remembers the states of torch's generators when the epoch's first index was drawn, and the number of indices
handed out: if it draws again from there, such a sampler comes to the same position.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterator
from operator import length_hint
from typing import Any

import numpy as np
import torch
from torch.utils.data import BatchSampler

from ..._common.states import (
    REMEDY,
    Fields,
    generator_states,
    generators_at,
    is_stateful,
    packed,
    state_of,
    unpacked,
    unsigned_state,
)
from ..._profiling.stages import DRAW, enter, recorded, recording
from ...errors import StateError
from ...samplers import BatchSampler as OurBatchSampler
from ...samplers import native
from ...samplers.resumable import given_before, inner_sampler, is_known
from ...samplers.shuffle_buffer import ShuffledSampler
from .equal_steps import AgreedLists, Steps
from .saved import CursorStart
from .users_objects import DRAWS_ANEW, DRAWS_NOTHING, Lists, users_lists

_END = object()


_Position = tuple[int, int, Any]
"""The position after a drawn index list: lists, samples, and a note, from which `states_of` makes the
samplers' states, or None. A plain tuple, as each list has one.
"""


class IndexCursor:
    """An iterator over the lists of `index_sampler`. One thread, the consumer's.

    `made`: torch's iterator over it; None: open() makes one. `generators`: those of the loader and the
    sampler, by name. `start`: the position to begin at. `before_made`: the states of all generators before
    torch made `made`, if the sampler drew then. `keep_items`: lists may be handed out in another order than
    they were drawn in. `as_arrays`: lists of known samplers are int64 arrays of shape (rows,), without a
    Python int for each index.
    """

    # Whether the lists come from another iterator than torch's first one, though there are no workers.
    iterated_anew = False

    def __init__(
        self,
        index_sampler: Any,
        made: Iterator[Any] | None,
        generators: dict[str, torch.Generator],
        start: CursorStart | None = None,
        keep_items: bool = False,
        as_arrays: bool = False,
        steps: Steps | None = None,
        before_made: dict[str, torch.Tensor] | None = None,
    ) -> None:
        self._index_sampler = index_sampler
        self._made = made
        self._as_arrays = as_arrays
        self._steps = steps
        self._generators = generators
        self._start = start or CursorStart()
        self.keep_items = keep_items
        self._known = known_sampler(index_sampler)
        self._draws_unknown = draws_unknown(index_sampler)
        self._lists: Any = None  # an iterator, once it is open
        self._note: Callable[[], Any] | None = None  # from Lists, as are the next two
        self._states_of: Any = None
        self._dropped: Any = None
        self._waiting = list(self._start.pending)
        self._first: Any = _END  # drawn by open()
        self._before_made = before_made
        self._before: dict[str, torch.Tensor] = before_made or {}  # generators' states at the first draw
        self._packed: dict[str, str | None] = {}  # the same as text, for generators that were saved
        self._again = list(self._start.again)  # lists that come again after the last one
        # the positions after the last list drawn, and after the last list handed out
        self._last: _Position = (self._start.lists, self._start.samples, None)
        self.at = self._last
        # the positions between the two; without keep_items, with their lists
        self.ahead: deque[tuple[_Position, Any]] = deque()
        # With keep_items: lists that are not handed out, by the number of their draw; how many were drawn;
        # the highest number handed out.
        self._items: dict[int, Any] = {}
        self._drawn, self._reached = 0, -1

    def __iter__(self) -> IndexCursor:
        return self

    def __next__(self) -> Any:
        before, shown = enter(DRAW), None
        try:
            if recording():
                shown = recorded("draw").__enter__()
            if self._lists is None:
                self.open()
            if self._waiting:
                item = self._waiting.pop(0)
            else:
                item, self._first = self._first, _END
                if item is _END:
                    item = next(self._lists)
                number, samples, note = self._last
                if self._note is not None:
                    note = self._note()
                self._last = number + 1, samples + length_hint(item, 1), note
        finally:
            if shown is not None:
                shown.__exit__(None, None, None)
            enter(before)
        if self.keep_items:
            self._items[self._drawn] = item
            self._drawn += 1
        # at once: a signal's handler may raise after it
        self.ahead.append((self._last, None if self.keep_items else item))
        return item

    def handed_out(self, number: int) -> Any:
        """With keep_items: note that the batch of draw `number` went to the consumer, and return its list.
        Without keep_items, that list is the oldest of `ahead`; the caller takes it and puts its position into
        `at`.
        """
        item = self._items.pop(number, None)
        if item is not None:
            while self._reached < number:
                self._reached, (self.at, _) = self._reached + 1, self.ahead.popleft()
        return item

    @property
    def known_throughout(self) -> bool:
        """Whether all that a state says of the samplers is millrace's own."""
        return self._known is not None and type(inner_sampler(self._known)) is not ShuffledSampler

    # ---------------------------------------------------------------- state

    def state(self, generators: dict[str, Any] | None = None) -> dict[str, Any]:
        """The consumer's position. Keys with an underscore are those of torchdata's StatefulDataLoader."""
        lists, samples, note = self.at
        sampler, iterator = self._unmoved() if note is None else self._states_of(self.at)
        state = {
            "_index_sampler_state": sampler,
            "_sampler_iter_state": iterator,
            "_sampler_iter_yielded": lists,
            "samples": samples,
            "generators": self._generators_to_save() if generators is None else generators,
            "ranks": getattr(inner_sampler(self._known), "num_replicas", 1),
        }
        if self._before_made is not None or (self._lists is None and self._start.drew_when_made):
            state["drew_when_made"] = True
        if self.iterated_anew:
            state["iterated_anew"] = True
        if self.keep_items and self._reached >= 0:
            passed_over = [item for number, item in self._items.items() if number < self._reached]
            if pending := passed_over + self._waiting:
                state["pending"] = pending
        if again := self._again_known():
            state["again"] = [[int(index) for index in item] for item in again]
        epoch = getattr(inner_sampler(self._index_sampler), "epoch", None)
        if isinstance(epoch, int):
            state["sampler_epoch"] = epoch
        return state

    def _again_known(self) -> list[Any]:
        """The lists that come again and were handed out: the others will be drawn again."""
        lists, steps = self.at[0], self._steps
        if steps is None or (not steps.repeats_first and lists < steps.own):
            return []
        return self._again[:lists]

    def state_at_end(self) -> dict[str, Any]:
        """The state that the next epoch begins with. Generators' states are no text yet, as that is slow."""
        sampler = self._index_sampler
        inner = sampler.sampler if type(sampler) is BatchSampler else sampler
        state = self.state(self.generators_now())
        state["_index_sampler_state"] = state["_sampler_iter_state"] = None
        if self._known is None:
            state["_index_sampler_state"] = state_of(sampler)
            if inner is not sampler and is_stateful(inner):
                of_inner = {"samples_yielded": self.at[1], "sampler_state": state_of(inner)}
                state["_sampler_iter_state"] = of_inner
        for key in ("pending", "again", "iterated_anew"):
            state.pop(key, None)
        return state

    def _unmoved(self) -> tuple[Any, Any]:
        """The samplers' states before the first draw."""
        sampler, start = self._index_sampler, self._start
        if self._known is not None and start.iterator_state is None:
            inner = inner_sampler(self._known)
            if not getattr(inner, "follows_state", False):
                return None, None
            # An order that depends on how many ranks there are stays that of the ranks that began.
            state = unsigned_state(inner) | {"position": 0}
            if inner is self._known:
                return None, state
            return None, unsigned_state(self._known) | {"position": 0, "sampler": state}
        if start.lists or start.samples or start.iterator_state is not None:
            return start.index_sampler_state, start.iterator_state
        if type(sampler) is BatchSampler and is_stateful(sampler.sampler):
            return None, {"samples_yielded": 0, "sampler_state": state_of(sampler.sampler)}
        return state_of(sampler), None

    def generators_now(self) -> dict[str, torch.Tensor]:
        """The states of all generators that the sampler may draw from, by name."""
        return generator_states(self._generators, pythons=self._draws_unknown)

    def _generators_to_save(self) -> dict[str, str | None]:
        """The generators' states at the first draw, without those that a sampler's own state covers."""
        needless, (lists, _, note) = set(), self.at
        if not self._draws_globally() or (note is not None and lists):
            needless |= {"global", "python"}
        if self._lists is None and self._before_made is None:
            now = self.generators_now()
            return {name: packed(now[name]) for name in now if name not in needless} | self._start.generators
        if self._known is not None and lists:  # its state holds that of the generator it draws from
            drawn_from = getattr(inner_sampler(self._known), "generator", None)
            needless |= {name for name, generator in self._generators.items() if generator is drawn_from}
        before = self._before or self.generators_now()
        for name in before.keys() - self._packed.keys() - needless:
            self._packed[name] = packed(before[name])
        return {name: text for name, text in self._packed.items() if name not in needless}

    def _draws_globally(self) -> bool:
        if self._known is None:
            return self._draws_unknown
        sampler = drawing_sampler(self._index_sampler)
        return type(sampler) not in DRAWS_NOTHING and getattr(sampler, "generator", None) is None

    def indices_before(self) -> Any:
        """The indices handed out in this epoch before the start, int64 (samples,); None if no index can come
        twice, or if they are not known.
        """
        state = self._start.iterator_state
        if self._known is None or state is None:
            return self._dropped
        start = self._start
        again = self._steps.given_again(start.lists, start.again) if self._steps is not None else []
        count = start.samples - sum(map(len, again))
        given = given_before(inner_sampler(self._known), state.get("sampler", state), count)
        if start.again:  # what may come again came once at least, whatever else the sampler gives twice
            first = [given] if given is not None else start.again
            given = np.concatenate([np.asarray(item, dtype=np.int64) for item in (*first, *again)])
        return given

    # ---------------------------------------------------------------- the first draw

    def open(self) -> None:
        """Make the lists, and draw those before the start. The first draw calls this, unless it was called
        before.
        """
        if self._lists is not None:
            return
        start = self._start
        for name, text in start.generators.items():
            if name in self._generators:
                self._generators[name].set_state(unpacked(text))
        then = {name: unpacked(start.generators.get(name)) for name in ("global", "python")}
        if self._before_made is None:
            self._before = self.generators_now() | {
                name: state for name, state in then.items() if state is not None
            }
        if then["global"] is None:
            self._open_lists(bool(start.lists))
            return
        with generators_at(then):
            self._open_lists(True)  # samplers draw when it is asked for
        sampler = self._index_sampler
        if type(drawing_sampler(sampler)) in DRAWS_ANEW and self._draws_globally():
            next(iter(sampler), None)  # so that the global generator moves on as if the epoch had begun here

    def _open_lists(self, draws: bool) -> None:
        self._lists = iter(())  # an error here ends the epoch, as it ends torch's generator of batches
        if self._known is not None:
            lists = _of_known(self._known, self._start, self._as_arrays)
        else:
            lists = users_lists(self._index_sampler, self._made, self._start)
        if lists.begins_anew:
            self._last = self.at = 0, 0, None
        self._lists, self._note, self._states_of = lists.iterator, lists.note, lists.states_of
        self._dropped = lists.dropped
        if lists.counted is not None:
            self._last = *self._last[:2], self._last[lists.counted]
            if self._last[0]:
                self.at = self._last
        elif self._note is not None and (lists.notes_the_start or self._last[0]):
            self._last = self.at = *self._last[:2], self._note()
        if self._steps is not None:
            self._lists = AgreedLists(self._lists, self._steps, self._last[0], self._again)
        if draws and not self._waiting:
            self._first = next(self._lists, _END)


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
    unit = int(type(known) is OurBatchSampler)
    lists = known.arrays() if as_arrays and unit else iter(known)
    if not known.counted:
        return Lists(lists, lambda: (None, unsigned_state(lists)), begins_anew=begins_anew)

    def states_of(at: _Position) -> tuple[None, Any]:
        given = at[unit] - at[2]
        # Past the last list, lists come again, and the sampler stays at its end.
        return None, lists.state_after(given) if given <= lists.given else unsigned_state(lists)

    return Lists(lists, None, states_of, begins_anew=begins_anew, counted=unit)


def known_sampler(index_sampler: Any) -> Any:
    """The sampler of millrace.samplers that does the work of `index_sampler`; None if there is none."""
    return native(index_sampler) if is_known(drawing_sampler(index_sampler)) else None


def drawing_sampler(index_sampler: Any) -> Any:
    """The sampler that draws the order: the `sampler` of torch's BatchSampler or ours; else `index_sampler`
    itself, because a user's batch sampler may shuffle the indices of an ordered `sampler`.
    """
    return index_sampler.sampler if type(index_sampler) in (BatchSampler, OurBatchSampler) else index_sampler


def draws_unknown(index_sampler: Any) -> bool:
    """Whether the sampler is a user's, without a state: it may draw from any generator, at any time."""
    sampler = drawing_sampler(index_sampler)
    return not is_known(sampler) and type(sampler) not in DRAWS_NOTHING and not is_stateful(sampler)


def own_generators(loader: Any) -> dict[str, torch.Generator]:
    """The generators that were given to the loader and to its sampler, each once."""
    inner = getattr(inner_sampler(loader._index_sampler), "generator", None)
    generators = {"loader": loader.generator}
    if inner is not loader.generator:
        generators["sampler"] = inner
    return {
        name: generator for name, generator in generators.items() if isinstance(generator, torch.Generator)
    }
