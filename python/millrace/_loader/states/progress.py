"""The position of a loader's latest iterator, which the loader can still read after the iterator has gone.

Iterators notify it on the consumer's thread: `prepare` before torch's draws, `begun` after them, `cursor` at
the start of each epoch, `delivered` for each batch (or error in its place) that goes to the consumer,
`finish` after the last.
"""

from __future__ import annotations

import contextlib
import logging
import weakref
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from ..._common.batch_place import OF_STREAM, Place
from ..._common.data_parallel import agreed_steps, shared_seed
from ..._common.states import (
    draw_base_seed,
    generator_states,
    global_generator_at,
    packed,
    put_generators,
    state_of,
    unpacked,
)
from ...errors import UnavailableError
from .epochs import Written, _nothing, notify_workers
from .equal_steps import Steps
from .index_cursor import IndexCursor
from .saved import CursorStart, SavedState
from .users_objects import EarlyDraws, dataset_parts

if TYPE_CHECKING:
    from ..engine import Delivered

_logger = logging.getLogger(__name__)


class Progress(Written):
    """One iterator's position in its data; DataLoader.state_dict returns its `state()`."""

    # ---------------------------------------------------------------- notified by iterators

    def workers_begin(self, dataset: Any, resumes: bool) -> None:
        """Called before workers begin an epoch."""
        self._dataset_epoch = notify_workers(dataset, self.saved if resumes else None)

    def prepare(self, spec: Any) -> None:
        """Called before torch's draws. A state from after an epoch becomes the start of the next one."""
        self.is_keyed = spec.repeats is not None  # whether samples draw from their keys alone, in Python, too
        if spec.native and not self.streams:
            # The engine takes arrays of indices, and keeps the order whatever in_order= says.
            self.as_arrays, self._keeps_items = True, False
        if self.saved is not None and self.saved.finished:
            self._prepare_next_epoch(self.saved)
        elif self._followed is not None:
            self._base_seed, self.epoch, places = self._followed
            self.epoch, self._followed = self.epoch + 1, None
            self.positions.follow(places)
        if self.between_epochs and self.stays and self._base_seed is not None:
            self._undrawn = generator_states(self._generators, pythons=True)
            self._takes_second = self._draws_unknown and self.workers == 0
        again = self.saved is not None and self.saved.cursor.drew_when_made
        if self._draws_unknown and (again or self.workers == 0) and self._undrawn is None:
            self._early = EarlyDraws(self._generators, self.saved.cursor.generators if again else None)

    def _prepare_next_epoch(self, saved: SavedState) -> None:
        self._start = CursorStart(
            index_sampler_state=saved.cursor.index_sampler_state, iterator_state=saved.cursor.iterator_state
        )
        if self.stays:
            self.epoch += 1
        else:
            self._base_seed = None  # drawn below or by torch
            self.positions.forget()
        self._shared_seed = None  # torch draws one for each epoch
        if saved.cursor.drew_when_made:
            self._start.generators = dict(saved.cursor.generators)
            self._takes_second = self.workers == 0 < saved.workers_then
            return
        generators = dict(saved.cursor.generators)
        for name, generator in self._generators.items():
            if (text := generators.get(name)) is not None:
                generator.set_state(unpacked(text))
                if self._base_seed is not None:  # workers that stay draw none, but this loader will now
                    self._start.generators[name] = text
        if (text := generators.get("global")) is not None:
            with global_generator_at(unpacked(text)):
                if self._base_seed is None and "loader" not in self._generators:
                    self._base_seed = draw_base_seed()
                self._start.generators |= {
                    "global": packed(torch.get_rng_state()),
                    "python": generators.get("python"),
                }

    def begun(self, iterator: Any) -> None:
        """Called after torch's draws, which move torch's generator as ever; saved seeds replace theirs."""
        if self._undrawn is not None:  # workers that stay draw nothing before an epoch's lists
            for name, generator in self._generators.items():
                generator.set_state(self._undrawn[name])
            put_generators(self._undrawn)
        self.began_in = self.epoch
        if self._early is not None:
            before_made, found = self._early.end()
            self._early = None
            # workers' lists come from another iterator, made after the base seed
            if self.workers == 0 and not self._takes_second:
                self._before_made = before_made
            if self._start is not None and found:
                # Without workers, index lists are drawn before the base seed; resuming with workers must do
                # the same.
                if self.workers == 0 or self.saved.workers_then > 0 or before_made is None:
                    self._start.generators = found
                self._start.drew_when_made = False
        if self._base_seed is not None:
            iterator._base_seed = self._base_seed
        elif self._part is not None:  # ranks that read the same samples must make the same batches of them
            iterator._base_seed = shared_seed(iterator._base_seed)
        if self._shared_seed is not None:
            iterator._shared_seed = self._shared_seed
        self._base_seed, self._shared_seed = iterator._base_seed, iterator._shared_seed
        # ranks that read different samples draw differently in Python
        if self._part is not None and not self.as_arrays and not self.is_keyed:
            iterator._base_seed += self._part.rank * max(1, self.workers)
        self._iterator_seed, self._dataset = iterator._base_seed, iterator._dataset
        self.iterator = weakref.ref(iterator)

    def cursor(self, index_sampler: Any, made: Any) -> IndexCursor:
        """Return the index lists of the epoch that begins; IndexCursor explains `made`."""
        start, self._start = self._start, None
        goes_on = (
            start is not None and not self.saved.finished and not (self.streams and self.saved.reads_again)
        )
        self.yielded = self._resumed_at = self.saved.yielded if goes_on else 0
        self.positions.start_epoch(self.saved.last_worker if goes_on else -1, goes_on)
        self.finished, self._behind = False, None
        self._held = self._left_out_then = None
        self._left_out_before_epoch = self.left_out()
        if goes_on:
            self._loader_epochs.go_on()
        elif self._loader_epochs.begin(behind_saved=start is not None):
            made = None
        anew = self._takes_second
        elastic = goes_on and start.elastic
        steps = self._agreed(index_sampler) if self._equal_steps is not None and not elastic else None
        self._cursor = IndexCursor(
            index_sampler,
            None if anew else made,
            self._generators,
            start,
            self._keeps_items,
            self.as_arrays,
            steps,
            self._before_made,
        )
        self._cursor.iterated_anew = anew
        if (goes_on and start.lists) or self._undrawn is not None:
            self._cursor.open()  # now: all later draws must come after the sampler's draws
        resumes = start is not None and not self.saved.finished
        before = self.number if start is None else self.saved.number
        self.number = max(0, before) if resumes else 1 + max(self.number, before)
        if self.recorder is not None:
            self.log = self.recorder.begin(
                self.number, self, self._iterator_seed, self.yielded, self._dataset
            )
            self.log.agreed_steps = steps
        if self._asks_workers and not self.streams:
            self._length = len(index_sampler) if hasattr(index_sampler, "__len__") else None
        return self._cursor

    def starts(self, shared_seed: int | None) -> None:
        """Note that all workers are at the start of the epoch. `shared_seed`: the new seed of data pipes in
        workers that stay.
        """
        self._shared_seed = self._shared_seed if shared_seed is None else shared_seed
        self._snapshot = None if self._every == 1 else self._now()

    def delivered(self, delivered: Delivered, waited: bool = False) -> None:
        """Note that a batch, or its error, goes to the consumer. `waited`: it was held until now (hold)."""
        log, cursor, worker = self.log, self._cursor, delivered.worker
        if not waited:
            if log is not None:
                log.made += 1
            if self._held is not None:
                # Without the batch: its holder may drop it before its turn.
                self._held.append((self._live_parts(), self.left_out(), delivered.without_batch()))
                return
        if log is not None and log.start is None and not self._asks_workers:
            self.remember_start()  # with the samplers' position when the first list was drawn
        if cursor.keep_items:
            item = cursor.handed_out(delivered.number)
        else:
            cursor.at, item = cursor.ahead.popleft()
        if worker is not None:
            self.positions.handed_out(worker, delivered.state)
        self.yielded += 1
        if log is not None:
            if delivered.rows is not None or self.streams:
                item = delivered.rows
            log.engine_epoch = self.epoch  # of iterators that stay, known after the epoch's beginning
            log.handed_out(self.yielded - 1, item, -1 if worker is None else worker, delivered.draws)
            if self._asks_workers and log.wants_state(self.yielded):
                log.keep_state(self.yielded, self._state())
        if self._every > 1 and self.yielded % self._every == 0:
            self._snapshot = self._now()

    def remember_start(self) -> None:
        """Keep the state at the epoch's beginning. Errors are ignored here: a dataset that cannot tell its
        position raises in state_dict().
        """
        log = self.log
        if log is None or log.start is not None or log.count > log.first or self.finished:
            return
        with contextlib.suppress(Exception):
            state = self._state()
            if "left_out" in state["millrace"]:  # it counts the first batch's
                state["millrace"]["left_out"] = self.left_out_before
            log.start = state

    def hold(self, most: int) -> None:
        """From now on, in this epoch, up to `most` batches wait outside the iterator until take_delivered()
        says that the consumer takes them.
        """
        self._held, self._most_held = deque(), most
        if (parts := self._live_parts()) is not None:
            self._parts = parts

    @property
    def held(self) -> int:
        return len(self._held or ())

    def take_delivered(self, count: int | None) -> None:
        """Note that the consumer takes the oldest `count` of the batches that wait; None: all of them, and
        the epoch's end.
        """
        for _ in range(self.held if count is None else min(count, self.held)):
            parts, self._left_out_then, kept = self._held.popleft()
            self._parts = parts or self._parts
            self._finish() if kept is None else self.delivered(kept, waited=True)

    def lost_one(self) -> bool:
        """Whether a list that is still out was lost to Ctrl-C: the iterator does not make it again. Asked
        without workers, before a list is drawn.
        """
        return len(self._cursor.ahead) > self.held

    def finish(self) -> None:
        """Called after the last batch."""
        if self._held is None:
            self._finish()
        else:
            self._held.append((self._live_parts(), self.left_out(), None))

    def _finish(self) -> None:
        if self._cursor is not None and not self.finished:
            self.finished, self._behind = True, self._cursor.state_at_end()
            if self._draws_unknown and not self.stays:
                self._behind["drew_when_made"] = True  # it may, in the next epoch's iter()
            self._loader_epochs.finish()
            self._snapshot = None if self._every == 1 else self._now()

    def runs_inline(self, engine: Any) -> None:
        """Follow `engine`, which runs the dataset in this process; its `fetcher` knows what to ask."""
        self._inline = weakref.ref(engine)

    def ends_inline(self, fetcher: Any) -> None:
        """Keep the dataset's states: the iterator is being deleted."""
        self._inline = _nothing
        if self._held is None:
            self._parts = dataset_parts(fetcher, self.streams)

    def _live_parts(self) -> tuple[Any, Any] | None:
        """Return the present states of a dataset in this process; None if there are none."""
        engine = self._inline()
        return (
            None if engine is None or not self._asks_workers else dataset_parts(engine.fetcher, self.streams)
        )

    def _agreed(self, index_sampler: Any) -> Steps:
        """Return the steps that all ranks agree on. UnavailableError if their number is not known before the
        epoch.
        """
        own = self._declared
        if own is None:
            try:
                own = len(index_sampler)
            except TypeError:
                raise UnavailableError(
                    f"equal_steps={self._equal_steps!r} agrees on the number of steps before the epoch"
                    f" starts, and {type(index_sampler).__name__} has no len(): give a WebDataset an epoch,"
                    " by .with_epoch(n), or leave equal_steps out"
                ) from None
        agreed = agreed_steps(own, self._equal_steps, self._part and self._part.group)
        if self.streams and agreed > own:
            raise UnavailableError(
                f"the streams of the ranks have {own} to {agreed} steps and cannot be repeated:"
                ' equal_steps="drop"'
            )
        if self.streams:
            return Steps(agreed, agreed, True)
        return Steps(own, agreed, self._equal_steps == "repeat")

    # ---------------------------------------------------------------- asked by iterators

    def wants_state(self, number: int) -> bool:
        """Whether the worker that gets the epoch's task `number` must send its state along."""
        if not self._asks_workers:
            return False
        if self.streams:  # which step it will be depends on the other workers
            ahead = 1 + self._prefetched + self._most_held + self.workers
            return self._every > 0 and self.yielded % self._every + ahead >= self._every
        step = self._resumed_at + number
        last = self._length is not None and step >= self._length - self.workers
        return last or (self._every > 0 and step % self._every + self.workers >= self._every)

    @property
    def is_under_way(self) -> bool:
        """Whether an iterator has begun; not so in a copy of the loader."""
        return self._cursor is not None

    def steps_to_drop(self) -> int:
        """Return how many batches a new iterator makes and drops: those after the last snapshot, or all if
        the dataset has no state.
        """
        saved = self.saved
        if saved is None or saved.finished:
            return 0
        if not (self.streams and saved.reads_again):
            return saved.replay
        _logger.warning(
            "Neither the dataset nor its iterator has state_dict() and load_state_dict(), so %d batches are"
            " read again and dropped; give one of them these methods to resume at once.",
            saved.yielded + saved.replay,
        )
        return saved.yielded + saved.replay

    def place_of(self, number: int) -> Place:
        """Return the place of the batch of index list `number` that this iterator submits in the epoch."""
        return OF_STREAM if self.streams else (self.number, self._resumed_at + number)

    def worker_number(self, number: int) -> int:
        """Return the id in get_worker_info() of the iterator's worker `number`."""
        return number

    def indices_before(self) -> Any:
        """Return the indices that an epoch resumed in its middle has handed out already, if later batches
        depend on them; else None.
        """
        return self._cursor.indices_before() if self._resumed_at else None


class CursorSampler:
    """Replaces an iterator's index sampler: each iter() returns a new epoch's cursor, and iterates over the
    sampler at that moment.
    """

    def __init__(self, index_sampler: Any, cursor: Callable[[Any, None], IndexCursor]) -> None:
        self._index_sampler, self._cursor = index_sampler, cursor

    def __len__(self) -> int:
        return len(self._index_sampler)

    def __iter__(self) -> IndexCursor:
        cursor = self._cursor(self._index_sampler, None)
        cursor.open()
        return cursor


def before_first_epoch(loader: Any) -> Progress:
    """Return the progress that an iterator made now would begin with. Starts nothing, moves no generator."""
    progress, start = Progress(loader), CursorStart()
    generators = progress._generators
    if progress._draws_unknown:  # before the base seed or after it
        states = generator_states(generators, pythons=True)
        start.generators = {name: packed(state) for name, state in states.items()}
        start.drew_when_made = True
    else:
        with global_generator_at(torch.get_rng_state()):
            own, twin = loader.generator, torch.Generator()
            progress._base_seed = draw_base_seed(None if own is None else twin.set_state(own.get_state()))
            if own is not None:
                start.generators["loader"] = packed(twin.get_state())
            start.generators["global"] = packed(torch.get_rng_state())
        if "sampler" in generators:
            start.generators["sampler"] = packed(generators["sampler"].get_state())
    progress._dataset_epoch = loader.dataset.epoch if hasattr(loader.dataset, "_notify_workers") else None
    progress._cursor = IndexCursor(loader._index_sampler, None, generators, start)
    progress.starts(None)
    unread = {"dataset_iter_state": None, "fetcher_ended": False} if progress.streams else None
    progress._parts = state_of(loader.dataset), unread
    return progress
