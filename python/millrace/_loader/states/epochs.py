"""Epochs of samplers (calls set_epoch(), or warns if nobody did) and of iterable datasets that count them;
and the position of each worker's dataset within an epoch.

An iterable dataset that counts its epochs has an `epoch` and `_notify_workers(epoch)`, which sets the epoch
that the copies begin next (None: the epoch that is next in turn) and returns it. Without it, each worker's
copy would count for itself.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

from torch.utils.data import DistributedSampler

from ..._common.interpreter import level_of_the_loop
from ..._common.torch_private import ExceptionWrapper
from ...samplers.resumable import ResumableEpochs, inner_sampler
from .saved import SavedState


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
