"""Epochs of samplers (calls set_epoch(), or warns if nobody did) and of iterable datasets that count them;
the position of each worker's dataset within an epoch; and all facts about an iterator's epoch, with the state
written from them.

An iterable dataset that counts its epochs has an `epoch` and `_notify_workers(epoch)`, which sets the epoch
that the copies begin next (None: the epoch that is next in turn) and returns it. Without it, each worker's
copy would count for itself.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any, cast

import torch
from torch.utils.data import DistributedSampler

from ..._common.data_parallel import part_of
from ..._common.interpreter import level_of_the_loop
from ..._common.states import deep_copy, is_stateful, packed, signed
from ..._common.torch_private import ExceptionWrapper, _DatasetKind
from ..._history.recorder import EpochLog, recorder_of
from ...samplers.resumable import ResumableEpochs, inner_sampler
from .index_cursor import draws_unknown, own_generators
from .saved import VERSION, SavedState, fingerprint
from .users_objects import EarlyDraws, dataset_parts


class SamplerEpochs:
    """Follows the epoch of a loader's sampler from iterator to iterator.

    A sampler that shuffles by (seed, epoch), like torch's DistributedSampler, gives every epoch the same
    order until set_epoch() is called. `begin` is called at each epoch's start, `go_on` instead if the rest of
    an epoch is resumed.
    """

    def __init__(self, loader: Any, previous: SamplerEpochs | None) -> None:
        sampler = inner_sampler(loader._index_sampler)
        self._sampler = sampler if _shuffles_by_epoch(sampler) else None
        # A DistributedSampler on one rank belongs to a script that runs without ranks for once; a sampler of
        # ours is there to shuffle.
        self._should_move = getattr(sampler, "num_replicas", 1) > 1 or (
            isinstance(sampler, ResumableEpochs) and not isinstance(sampler, DistributedSampler)
        )
        self._sets_epoch: bool = loader.auto_epoch
        same = previous is not None and previous._sampler is self._sampler
        self._last: int | None = previous._last if previous is not None and same else None
        self._finished: bool = previous is not None and previous._finished
        self._warned: bool = previous is not None and previous._warned

    def go_on(self) -> None:
        """Start with the rest of an epoch that another run began."""
        if self._sampler is not None:
            self._last = self._sampler.epoch

    def begin(self, behind_saved: bool) -> bool:
        """Start an epoch. `behind_saved`: the run that saved the state ran the epoch before. Returns whether
        it set the sampler's epoch: an iterator made before then has the order of the epoch before.
        """
        if self._sampler is None:
            return False
        epoch = self._sampler.epoch
        sets = self._sets_epoch and (behind_saved or self._last == epoch)
        if sets:
            self._sampler.set_epoch(epoch + 1)
        elif self._last == epoch and self._finished and not self._warned and self._should_move:
            self._warned = True
            warnings.warn(
                f"the sampler's epoch is still {epoch}, so this epoch has the order of the last one: call"
                " sampler.set_epoch(epoch) before each epoch, or give the loader auto_epoch=True",
                stacklevel=level_of_the_loop(),
            )
        self._last, self._finished = self._sampler.epoch, False
        return sets

    def finish(self) -> None:
        self._finished = True

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_sampler": None, "_last": None}


def _shuffles_by_epoch(sampler: Any) -> bool:
    return (
        callable(getattr(sampler, "set_epoch", None))
        and isinstance(getattr(sampler, "epoch", None), int)
        and bool(getattr(sampler, "differs_by_epoch", getattr(sampler, "shuffle", True)))
    )


def notify_workers(dataset: Any, saved: SavedState | None) -> int | None:
    """Tell the dataset that workers begin an epoch, and return it: the epoch of `saved`, or the one after it
    if that has finished; the next in turn if `saved` is None or does not know its epoch.
    """
    if not hasattr(dataset, "_notify_workers"):
        return None
    if saved is None or saved.dataset_epoch is None:
        return dataset._notify_workers(None)
    return dataset._notify_workers(saved.dataset_epoch + saved.finished)


def declared_steps(loader: Any) -> int | None:
    """Return the number of steps per epoch of a stream with a declared epoch (`_items_of_epoch`, for each
    reader); None for other datasets.
    """
    items = getattr(loader.dataset, "_items_of_epoch", None)
    if items is None:
        return None
    size, readers = loader.batch_size or 1, max(1, loader.num_workers)
    if hasattr(loader, "_millrace_readers"):  # one reader replaces so many
        items, readers = items * loader._millrace_readers, 1
    return readers * (items // size if loader.drop_last else -(-items // size))


class WorkerPositions:
    """Positions of `count` workers. `ended`: workers that have used up their share of an iterable dataset,
    with all their batches handed out.
    """

    def __init__(
        self, count: int, streams: bool, states: dict[int, Any] | None = None, ended: Iterable[int] = ()
    ) -> None:
        self._streams = streams
        self._states: dict[int, Any] = dict(states or {})  # after the batches that were delivered
        self._waiting = [0] * count  # batches that the consumer does not have yet, by worker
        self._ending: dict[int, Any] = {}  # states of ended workers, until the consumer has all their batches
        self.ended = set(ended)
        self.last = count - 1  # the worker that made the batch handed out last

    def forget(self) -> None:
        """Forget all states: new workers begin an epoch."""
        self._states.clear()

    def follow(self, places: WorkerPositions) -> None:
        """Take over the states of `places`: new workers begin an epoch where those workers are."""
        self._states |= places._states

    def start_epoch(self, last: int, goes_on: bool) -> None:
        """Start an epoch. `last`: the worker that made the batch handed out last before, or -1; `goes_on`:
        the epoch is resumed in its middle.
        """
        if not goes_on:
            self.ended.clear()
        self.last = last if last >= 0 else len(self._waiting) - 1
        self._waiting = [0] * len(self._waiting)
        self._ending.clear()

    def restarted(self, worker: int, state: Any) -> None:
        """Note that a worker that stays is at the start of the epoch. Its earlier answers belong to the epoch
        that was left.
        """
        self._waiting[worker] = 0
        self._ending.pop(worker, None)
        self.ended.discard(worker)
        self._keep(worker, state)

    def arrived(self, worker: int) -> None:
        """Note that a batch of `worker` waits to be delivered."""
        self._waiting[worker] += 1

    def handed_out(self, worker: int, state: Any) -> None:
        """Note that a batch of `worker` was handed out. `state`: its dataset's after that batch, or None."""
        self.last = worker
        if state is not None:
            self._states[worker] = state
        self._waiting[worker] -= 1
        if worker in self._ending and self._waiting[worker] == 0:
            self._end(worker, self._ending.pop(worker))

    def has_ended(self, worker: int, state: Any) -> None:
        """Note that the worker's share is used up; the consumer may not have all of it yet."""
        if self._waiting[worker]:
            self._ending[worker] = state
        else:
            self._end(worker, state)

    def state_of(self, worker: int) -> Any:
        """Return the worker's state as torchdata nests it; None if it has none: the dataset is not Stateful,
        or the consumer has no batch of that worker yet.
        """
        return self._states.get(worker)

    def states(self) -> dict[str, Any]:
        """Return all states, by torchdata's names."""
        return {f"worker_{i}": self._states.get(i) or self._unknown(i) for i in range(len(self._waiting))}

    def check(self) -> None:
        """Raise the error that a dataset's state_dict() raised in a worker, if any."""
        for state in self._states.values():
            if isinstance(state, ExceptionWrapper):
                state.reraise()

    def _keep(self, worker: int, state: Any) -> None:
        if state is not None:
            self._states[worker] = state

    def _end(self, worker: int, state: Any) -> None:
        self.ended.add(worker)
        self._keep(worker, state)

    def _unknown(self, worker: int) -> dict[str, Any]:
        unread = (
            {"dataset_iter_state": None, "fetcher_ended": worker in self.ended} if self._streams else None
        )
        return {"worker_id": worker, "fetcher_state": unread, "dataset_state": None}


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


class Written:
    """Base of Progress: its attributes, and the state written from them, nested as in torchdata, with
    millrace's own entries. `number`: of the epoch, counted over all iterators of the loader, also before it
    was resumed; -1 before the first. `log` is None if nothing is remembered (history=False).
    """

    workers_then = 0  # to make a batch again: the number of workers of its run, if not as many as now
    draws: Any = None  # and the states of the generators then
    _takes_second = False  # as SavedState.is_of_second_iterator
    _stayed_then: bool | None
    _base_seed: int | None
    positions: WorkerPositions

    def __init__(self, loader: Any, saved: SavedState | None = None, previous: Written | None = None) -> None:
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
