"""How far a loader's latest iterator has come, kept where the loader can be asked for it after the iterator
has gone.

Notified by the iterators, on the consumer's thread: `prepare` before torch's draws, `begun` after them,
`cursor` at the start of each epoch, `deliver` for each batch that goes to the consumer (or ends in an error),
`finish` after the last.
"""

from __future__ import annotations

import logging
import weakref
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import torch
from torch.utils.data.dataloader import _DatasetKind

from ..._common.data_parallel import agreed_steps, part_of, shared_seed
from ..._common.generators import EarlyDraws, draw_base_seed, global_generator_at, packed, unpacked
from ..._common.states import is_stateful
from ...errors import UnavailableError
from .epochs import SamplerEpochs, WorkerPositions, declared_steps, notify_workers, own_steps
from .index_cursor import IndexCursor, Steps
from .index_lists import draws_unknown, own_generators
from .saved import CursorStart, SavedState
from .written import Written, dataset_parts

if TYPE_CHECKING:
    from ..engine import Delivered

_logger = logging.getLogger(__name__)


class Progress(Written):
    """One iterator's position in its data; `state()` is what DataLoader.state_dict returns."""

    _loader_epochs: SamplerEpochs
    _takes_second = False  # as SavedState.is_of_second_iterator

    def __init__(
        self, loader: Any, saved: SavedState | None = None, previous: Progress | None = None
    ) -> None:
        self.saved = saved
        before: SamplerEpochs | None = None if previous is None else previous._loader_epochs
        self._loader_epochs = SamplerEpochs(loader, before)
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
        self._persistent: bool = loader.persistent_workers
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
        self._yielded = self._resumed_at = 0  # batches handed out in this epoch
        self._behind: dict[str, Any] | None = None  # the cursor's state after the epoch
        self._snapshot: dict[str, Any] | None = None  # the last one, where not every step has one
        left, ended = (None, ()) if saved is None else (saved.workers, saved.ended_workers)
        self.positions = WorkerPositions(self.workers, self.streams, left, ended)
        self._inline: Callable[[], Any] = _nothing
        self._parts: tuple[Any, Any] = (None, None)
        self._held: Any = None  # batches that wait elsewhere to be delivered; see hold()
        self._most_held = 0
        self._begin_remembering(loader, previous)
        self._left_out_then: int | None = None  # when the batch was made that was handed out last
        if saved is not None:
            saved.check_workers(self.workers, self.streams)
            self.epoch = saved.epoch
            self._base_seed, self._shared_seed, self._start = saved.base_seed, saved.shared_seed, saved.cursor
            self._takes_second = self._draws_unknown and self.workers == 0 and saved.is_of_second_iterator
            if saved.workers_then != self.workers:
                saved.last_worker = -1

    # ---------------------------------------------------------------- notified by iterators

    def workers_begin(self, dataset: Any, resumes: bool) -> None:
        """Before workers begin an epoch."""
        self._dataset_epoch = notify_workers(dataset, self.saved if resumes else None)

    def prepare(self) -> None:
        """Before torch's draws. A state from after an epoch becomes the start of the next one."""
        if self.saved is not None and self.saved.finished:
            self._prepare_next_epoch(self.saved)
        again = self.saved is not None and self.saved.cursor.drew_when_made
        if self._draws_unknown and (again or self.workers == 0):
            self._early = EarlyDraws(self._generators, self.saved.cursor.generators if again else None)

    def _prepare_next_epoch(self, saved: SavedState) -> None:
        self._start = CursorStart(
            index_sampler_state=saved.cursor.index_sampler_state, iterator_state=saved.cursor.iterator_state
        )
        if self._persistent and self.workers > 0:
            self.epoch += 1
        else:
            self._base_seed = None  # drawn below or by torch
            self.positions.forget()
        self._shared_seed = None  # torch draws one for each epoch
        if saved.cursor.drew_when_made:
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
        """Behind torch's draws. What was saved counts, and torch's generator has moved on as ever."""
        if self._early is not None:
            before_made, found = self._early.end()
            self._early = None
            # workers' lists come from another iterator, made after the base seed
            if self.workers == 0 and not self._takes_second:
                self._before_made = before_made
            if self._start is not None and found:
                # Who had no workers took his lists from the iterator that drew before the base seed: so will
                # workers now.
                if self.workers == 0 or self.saved.workers_then > 0 or before_made is None:
                    self._start.generators = found
                self._start.drew_when_made = False
        if self._base_seed is not None:
            iterator._base_seed = self._base_seed
        elif self._part is not None:  # ranks that read the same make the same of it
            iterator._base_seed = shared_seed(iterator._base_seed)
        if self._shared_seed is not None:
            iterator._shared_seed = self._shared_seed
        self._base_seed, self._shared_seed = iterator._base_seed, iterator._shared_seed
        # ranks that read different samples draw differently in Python
        if self._part is not None and not self.as_arrays:
            iterator._base_seed += self._part.rank * max(1, self.workers)
        self._iterator_seed, self._dataset, self.iterator = (
            iterator._base_seed,
            iterator._dataset,
            weakref.ref(iterator),
        )

    def cursor(self, index_sampler: Any, made: Any) -> IndexCursor:
        """The index lists of the epoch that begins; IndexCursor says what `made` is."""
        start, self._start = self._start, None
        goes_on = (
            start is not None and not self.saved.finished and not (self.streams and self.saved.reads_again)
        )
        self._yielded = self._resumed_at = self.saved.yielded if goes_on else 0
        self.positions.start_epoch(self.saved.last_worker if goes_on else -1, goes_on)
        self.finished, self._behind = False, None
        self._held = self._left_out_then = None
        self._left_out_before_epoch = self.left_out()
        if goes_on:
            self._loader_epochs.go_on()
        elif self._loader_epochs.begin(behind_saved=start is not None):
            made = None
        anew = goes_on and self._takes_second
        elastic = goes_on and start.elastic
        steps = self._agreed(index_sampler) if self._equal_steps is not None and not elastic else None
        made = None if anew else made
        self._cursor = IndexCursor(
            index_sampler,
            made,
            self._generators,
            start,
            self._keeps_items,
            self.as_arrays,
            steps,
            self._before_made,
        )
        self._cursor.iterated_anew = anew
        if goes_on and start.lists:
            self._cursor.open()  # now: what draws further on begins after the sampler's draws
        self._begin_log(start, steps)
        if self._asks_workers and not self.streams:
            self._length = len(index_sampler) if hasattr(index_sampler, "__len__") else None
        return self._cursor

    def starts(self, shared_seed: int | None) -> None:
        """All workers are at the start of the epoch. `shared_seed`: what data pipes are seeded with anew in
        workers that stay.
        """
        self._shared_seed = self._shared_seed if shared_seed is None else shared_seed
        self._snapshot = None if self._every == 1 else self._now()

    def deliver(self, delivered: Delivered) -> None:
        """A batch goes to the consumer, or the error that it came to."""
        if self.log is not None:
            self.log.made += 1
        if self._held is None:
            self._deliver(delivered)
            return
        # The batch belongs to who asked for it, who may drop it before its turn.
        kept, parts, left_out = delivered.without_batch(), self._live_parts(), self.left_out()
        self._held.append(lambda: self._deliver(kept, parts, left_out))

    def _deliver(self, delivered: Delivered, parts: Any = None, left_out: int | None = None) -> None:
        if parts is not None:
            self._parts = parts
        self._left_out_then = left_out
        log = self.log
        if log is not None and log.start is None and not self._asks_workers:
            self.remember_start()  # where the samplers stood when the first list was drawn
        item, worker = self._cursor.handed_out(delivered.number), delivered.worker
        if worker is not None:
            self.positions.handed_out(worker, delivered.state)
        self._yielded += 1
        if log is not None:
            if delivered.rows is not None or self.streams:
                item = delivered.rows
            self._remember(log, item, worker, delivered.draws)
        if self._every > 1 and self._yielded % self._every == 0:
            self._snapshot = self._now()

    def hold(self, most: int) -> None:
        """From now on, in this epoch, batches wait elsewhere until the consumer takes them: as many as
        `most`, which says take_delivered().
        """
        self._held, self._most_held = deque(), most
        if (parts := self._live_parts()) is not None:
            self._parts = parts

    @property
    def held(self) -> int:
        return len(self._held or ())

    def take_delivered(self, count: int | None) -> None:
        """The consumer takes the oldest of the batches that wait, `count` of them; None: what is left,
        the epoch's end too.
        """
        for _ in range(self.held if count is None else min(count, self.held)):
            self._held.popleft()()

    def lost_one(self) -> bool:
        """Without workers, before a list is drawn: whether one that is still out was lost to Ctrl-C; its
        iterator does not make it again.
        """
        return len(self._cursor.ahead) > self.held

    def finish(self) -> None:
        """Behind the last batch."""
        if self._held is None:
            self._finish()
        else:
            parts, left_out = self._live_parts(), self.left_out()
            self._held.append(lambda: self._finish(parts, left_out))

    def _finish(self, parts: Any = None, left_out: int | None = None) -> None:
        if parts is not None:
            self._parts = parts
        self._left_out_then = left_out
        if self._cursor is not None and not self.finished:
            self.finished, self._behind = True, self._cursor.state_at_end()
            if self._draws_unknown and not (self._persistent and self.workers > 0):
                self._behind["drew_when_made"] = True  # it may, in the next epoch's iter()
            self._loader_epochs.finish()
            self._snapshot = None if self._every == 1 else self._now()

    def runs_inline(self, engine: Any) -> None:
        """`engine` runs the dataset in this process: its `fetcher` knows what to ask."""
        self._inline = weakref.ref(engine)

    def ends_inline(self, fetcher: Any) -> None:
        """That iterator is being deleted."""
        self._inline = _nothing
        if self._held is None:
            self._parts = dataset_parts(fetcher, self.streams)

    def _live_parts(self) -> tuple[Any, Any] | None:
        """The states that a dataset in this process has at this moment; None where there is no such thing."""
        engine = self._inline()
        return (
            None if engine is None or not self._asks_workers else dataset_parts(engine.fetcher, self.streams)
        )

    def _agreed(self, index_sampler: Any) -> Steps:
        own = own_steps(index_sampler, self._declared, self._equal_steps)
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
        """Whether the worker that gets the epoch's task `number` is to send its state along."""
        if not self._asks_workers:
            return False
        if self.streams:  # which step it will be depends on the other workers
            return (
                self._every > 0
                and self._yielded % self._every + 1 + self._prefetched + self._most_held + self.workers
                >= self._every
            )
        step = self._resumed_at + number
        last = self._length is not None and step >= self._length - self.workers
        return last or (self._every > 0 and step % self._every + self.workers >= self._every)

    @property
    def between_epochs(self) -> bool:
        """Whether workers' states are from after an epoch."""
        return self.saved is not None and self.saved.finished

    @property
    def is_under_way(self) -> bool:
        """Whether an iterator has begun; not so in a copy of the loader."""
        return self._cursor is not None

    def steps_to_drop(self) -> int:
        """Batches that a new iterator makes and drops: those after the last snapshot, or all where nothing
        else is known.
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

    def indices_before(self) -> Any:
        """What an epoch that begins in its middle has handed out already, where that matters to what comes;
        else None.
        """
        return self._cursor.indices_before() if self._resumed_at else None

    @property
    def left_out_before(self) -> int:
        """Samples that on_error="skip" had left out of this epoch when its state was saved."""
        return 0 if self._resumed_at == 0 or self.saved is None else self.saved.left_out

    @property
    def yielded(self) -> int:
        return self._yielded

    def __getstate__(self) -> dict[str, Any]:
        """Loaders are pickled and deep-copied; a copy's next iterator starts anew."""
        return {
            **self.__dict__,
            "_cursor": None,
            "_inline": _nothing,
            "left_out": int,
            "_start": None,
            "_generators": {},
            "_part": None,
            "_held": None,
            **self._forgotten,
        }


def _nothing() -> None:
    return None
