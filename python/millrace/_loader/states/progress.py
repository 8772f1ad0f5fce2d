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
from typing import TYPE_CHECKING, Any, cast

import torch

from ..._common.batch_place import OF_STREAM, Place
from ..._common.data_parallel import agreed_steps, part_of, shared_seed
from ..._common.states import (
    deep_copy,
    draw_base_seed,
    generator_states,
    global_generator_at,
    is_stateful,
    packed,
    put_generators,
    signed,
    state_of,
    unpacked,
)
from ..._common.torch_private import _DatasetKind
from ..._history.recorder import EpochLog, recorder_of
from ...errors import UnavailableError
from .epochs import SamplerEpochs, WorkerPositions, declared_steps, notify_workers
from .equal_steps import Steps
from .index_cursor import IndexCursor, draws_unknown, own_generators
from .saved import VERSION, CursorStart, SavedState, fingerprint
from .users_objects import EarlyDraws, dataset_parts

if TYPE_CHECKING:
    from ..engine import Delivered

_logger = logging.getLogger(__name__)

_CURSOR_KEYS = ("_index_sampler_state", "_sampler_iter_state", "_sampler_iter_yielded")
_ORDER_KEYS = (
    "samples",
    "ranks",
    "sampler_epoch",
    "generators",
    "drew_when_made",
    "iterated_anew",
    "pending",
    "again",
)


class Progress:
    """One iterator's position in its data, and the state written from it, nested as in torchdata, with
    millrace's own entries; DataLoader.state_dict returns its `state()`. `number`: of the epoch, counted over
    all iterators of the loader, also before it was resumed; -1 before the first. `log` is None if nothing is
    remembered (history=False).
    """

    workers_then = 0  # to make a batch again: the number of workers of its run, if not as many as now
    draws: Any = None  # and the states of the generators then
    _takes_second = False  # as SavedState.is_of_second_iterator
    _stayed_then: bool | None
    _base_seed: int | None
    positions: WorkerPositions

    def __init__(
        self, loader: Any, saved: SavedState | None = None, previous: Progress | None = None
    ) -> None:
        self.saved: Any = saved
        self._loader_epochs: SamplerEpochs = SamplerEpochs(
            loader, None if previous is None else previous._loader_epochs
        )
        self._equal_steps: Any = loader.equal_steps
        self._declared = declared_steps(loader)
        self._part = (
            part_of(loader.process_group, loader.mesh_dim) if loader.process_group is not None else None
        )
        self.workers = int(loader.num_workers)
        self.streams: bool = loader._dataset_kind == _DatasetKind.Iterable
        self.epoch: int = 0
        self.left_out: Callable[[], int] = int  # samples that on_error="skip" left out of this iterator
        self.as_arrays = False  # set by native iterators
        self.finished = False
        persistent: bool = loader.persistent_workers and self.workers > 0
        # whether the saved run kept its workers; None without a saved run
        self._stayed_then = None if previous is None else previous._stayed_then
        if saved is not None:
            self._stayed_then = persistent if saved.workers_stay is None else saved.workers_stay
        self.stays: bool = persistent if self._stayed_then is None else self._stayed_then
        self.keeps_workers = persistent and self.stays
        self._followed: Any = None  # base seed, epoch and positions of workers that stayed, for new workers
        if saved is None and previous is not None and self.stays and not persistent:
            self._followed = previous._base_seed, previous.epoch, previous.positions
        # Whether workers' states are from after an epoch.
        self.between_epochs = self._followed is not None or (saved is not None and saved.finished)
        self._undrawn: Any = None  # generators' states before draws by torch that do not count
        self.began_in = 0  # the epoch in which the iterator's workers were started
        self._prefetched: int = self.workers * (loader.prefetch_factor or 0)
        self._keeps_items: bool = not loader.in_order and self.workers > 0 and not self.streams
        self._generators = own_generators(loader)
        self._draws_unknown = draws_unknown(loader._index_sampler)
        self._early: EarlyDraws | None = None
        self._before_made: dict[str, torch.Tensor] | None = None
        self._asks_workers = self.streams or is_stateful(loader.dataset)
        self._every: int = (loader.snapshot_every_n_steps or 0) if self._asks_workers else 1
        self._dataset_epoch: int | None = None  # of a dataset that counts them
        self._base_seed = self._shared_seed = cast(int | None, None)
        self._start: Any = None  # of the first epoch
        self._cursor: Any = None  # the IndexCursor, once there is one
        self._left_out_before_epoch = 0
        self._length: int | None = None  # of the epoch, in index lists
        self.yielded = self._resumed_at = 0  # batches handed out in this epoch
        self._behind: dict[str, Any] | None = None  # the cursor's state after the epoch
        self._snapshot: Any = None  # the last one, if not every step has one
        left, ended = (None, ()) if saved is None else (saved.workers, saved.ended_workers)
        self.positions = WorkerPositions(self.workers, self.streams, left, ended)
        self._inline: Callable[[], Any] = _nothing
        self._parts: tuple[Any, Any] = (None, None)
        self._held: Any = None  # batches that wait outside the iterator to be delivered; see hold()
        self._most_held = 0
        self.recorder = recorder_of(loader)
        self.log: EpochLog | None = None  # if something is remembered
        self.number: int = -1 if previous is None else previous.number
        self._iterator_seed, self._dataset = 0, cast(Any, None)
        self.iterator: Callable[[], Any] = type(None)  # the iterator of this progress, while it lives
        self._left_out_then: int | None = None  # left_out() when the batch handed out last was made
        if saved is not None:
            saved.check_workers(self.workers, self.streams)
            self.epoch = saved.epoch
            self._base_seed, self._shared_seed, self._start = saved.base_seed, saved.shared_seed, saved.cursor
            self._takes_second = self._draws_unknown and self.workers == 0 and saved.is_of_second_iterator
            if saved.workers_then != self.workers:
                saved.last_worker = -1

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

    # ---------------------------------------------------------------- the state

    @property
    def left_out_before(self) -> int:
        """Samples that on_error="skip" had left out of this epoch when its state was saved."""
        return 0 if self._resumed_at == 0 or self.saved is None else self.saved.left_out

    def state(self, loader: Any) -> dict[str, Any]:
        """Return a new dict that nothing changes later, with its checksum; of JSON's types, if the states of
        users' objects are.
        """
        # else the state has parts that users' objects made
        of_json = not self._asks_workers and not self._keeps_items and self._cursor.known_throughout
        state = self._shared_state() if of_json else self._state()
        state["millrace"]["fingerprint"] = fingerprint(loader)
        return signed(state, of_json)

    def _state(self) -> dict[str, Any]:
        return deep_copy(self._shared_state())

    def _shared_state(self) -> dict[str, Any]:
        self.positions.check()
        if self.workers == 0:
            return self._inline_state()
        snapshot = dict(self._now() if self._every == 1 else self._snapshot)
        return {
            "_snapshot": snapshot,
            "_steps_since_snapshot": self.yielded - snapshot["_snapshot_step"],
            "_iterator_finished": self.finished,
            "millrace": snapshot.pop("millrace"),
        }

    def _inline_state(self) -> dict[str, Any]:
        cursor = self._place()
        live = self._inline() is not None and self._held is None
        dataset_state, fetcher_state = (
            dataset_parts(self._inline().fetcher, self.streams) if live else self._parts
        )
        return {
            **{key: cursor[key] for key in _CURSOR_KEYS},
            "_num_yielded": self.yielded,
            "_IterableDataset_len_called": None,
            "_shared_seed": self._shared_seed,
            "fetcher_state": fetcher_state,
            "dataset_state": dataset_state,
            "_iterator_finished": self.finished,
            "millrace": self._own(cursor),
        }

    def _place(self) -> dict[str, Any]:
        place = self._behind or self._cursor.state()
        place["generators"] = {name: packed(rng) for name, rng in place["generators"].items()}
        return place

    def _now(self) -> dict[str, Any]:
        """Return a snapshot of the consumer's step."""
        cursor = self._place()
        return {
            "_snapshot_step": self.yielded,
            "_last_yielded_worker_id": self.positions.last,
            "_main_snapshot": {
                "_num_workers": self.workers,
                **{key: cursor[key] for key in _CURSOR_KEYS},
                "_IterableDataset_len_called": None,
                "_shared_seed": self._shared_seed,
                "_base_seed": self._base_seed,
            },
            "_worker_snapshots": self.positions.states(),
            "millrace": self._own(cursor),
        }

    def _own(self, cursor: dict[str, Any]) -> dict[str, Any]:
        """Return the entries that torchdata's keys have no place for."""
        order = {key: cursor[key] for key in _ORDER_KEYS if key in cursor}
        own: dict[str, Any] = {
            "version": VERSION,
            "base_seed": self._base_seed,
            "epoch": self.epoch,
            "number": self.number,
            "workers_stay": self.stays,
            "order": order,
        }
        if self._dataset_epoch is not None:
            own["dataset_epoch"] = self._dataset_epoch
        if self.positions.ended and not self.finished:
            own["ended_workers"] = sorted(self.positions.ended)
        made = self.left_out() if self._left_out_then is None else self._left_out_then
        if left_out := made - self._left_out_before_epoch + self.left_out_before:
            own["left_out"] = left_out
        return own

    def __getstate__(self) -> dict[str, Any]:
        """Loaders are pickled and deep-copied; a copy's next iterator starts anew."""
        names = "_cursor _start _part _held log recorder _dataset _stayed_then _followed".split()
        gone = dict.fromkeys(names)
        empty = {"_inline": _nothing, "left_out": int, "_generators": {}, "iterator": type(None)}
        return {**self.__dict__, **gone, **empty}


def _nothing() -> None:
    return None


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
