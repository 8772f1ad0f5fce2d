"""Epochs: of samplers, for which set_epoch() is called, or noticed when it is forgotten; of iterable datasets
that count them; and where each worker's dataset is within one.

An iterable dataset that counts its epochs has an `epoch` and `_notify_workers(epoch)`: which epoch the copies
begin next, None for the one whose turn it is; returns it. Of its copies in workers each would count for
itself.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from typing import Any

from torch._utils import ExceptionWrapper
from torch.utils.data import DistributedSampler

from ...errors import UnavailableError
from ...samplers.resumable import ResumableEpochs, inner_sampler
from .saved import SavedState


class SamplerEpochs:
    """Follows the epoch of a loader's sampler from iterator to iterator.

    A sampler that shuffles by (seed, epoch), as torch's DistributedSampler does, gives every epoch the same
    order until somebody calls set_epoch(). `begin` comes at each epoch's start, `go_on` where the rest of one
    is resumed.
    """

    def __init__(self, loader: Any, previous: SamplerEpochs | None) -> None:
        sampler = inner_sampler(loader._index_sampler)
        self._sampler = sampler if _shuffles_by_epoch(sampler) else None
        # A DistributedSampler on one rank is a script that runs without ranks for once; who takes one of ours
        # wants it to shuffle.
        self._should_move = getattr(sampler, "num_replicas", 1) > 1 or (
            isinstance(sampler, ResumableEpochs) and not isinstance(sampler, DistributedSampler)
        )
        self._sets_epoch: bool = loader.auto_epoch
        same = previous is not None and previous._sampler is self._sampler
        self._last: int | None = previous._last if previous is not None and same else None
        self._finished: bool = previous is not None and previous._finished
        self._warned: bool = previous is not None and previous._warned

    def go_on(self) -> None:
        """The rest of an epoch that somebody else began comes first."""
        if self._sampler is not None:
            self._last = self._sampler.epoch

    def begin(self, behind_saved: bool) -> bool:
        """`behind_saved`: the epoch before this one was run by whoever saved the state. Returns whether it
        set the epoch: an iterator that the sampler made before has the order of the epoch before.
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
                stacklevel=_level_of_the_loop(),
            )
        self._last, self._finished = self._sampler.epoch, False
        return sets

    def finish(self) -> None:
        self._finished = True

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_sampler": None, "_last": None}


def _level_of_the_loop() -> int:
    """The stacklevel of whoever iterates over the loader, counted from the caller's warning."""
    frame: Any = sys._getframe(1)
    level = 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(
        ("millrace.", "torch.utils.data.")
    ):
        frame, level = frame.f_back, level + 1
    return level


def _shuffles_by_epoch(sampler: Any) -> bool:
    return (
        callable(getattr(sampler, "set_epoch", None))
        and isinstance(getattr(sampler, "epoch", None), int)
        and bool(getattr(sampler, "shuffle", True))
    )


def epoch_of(dataset: Any) -> int | None:
    """The one that its next iterator begins; None for other datasets."""
    return dataset.epoch if hasattr(dataset, "_notify_workers") else None


def notify_workers(dataset: Any, saved: SavedState | None) -> int | None:
    """The epoch that workers are about to begin: that of `saved`, if that is not None and knows it, or the
    one after it.
    """
    if not hasattr(dataset, "_notify_workers"):
        return None
    if saved is None or saved.dataset_epoch is None:
        return dataset._notify_workers(None)
    return dataset._notify_workers(saved.dataset_epoch + saved.finished)


def declared_steps(loader: Any) -> int | None:
    """Of a stream with a declared epoch (`_items_of_epoch`, of each reader), what `loader` makes of it; None
    for other datasets.
    """
    items = getattr(loader.dataset, "_items_of_epoch", None)
    if items is None:
        return None
    size, readers = loader.batch_size or 1, max(1, loader.num_workers)
    if hasattr(loader, "_millrace_readers"):  # one reader in the place of so many
        items, readers = items * loader._millrace_readers, 1
    return readers * (items // size if loader.drop_last else -(-items // size))


def own_steps(index_sampler: Any, declared: int | None, equal_steps: str) -> int:
    """How many steps this rank has. UnavailableError when that is not known before they are taken."""
    if declared is not None:
        return declared
    try:
        return len(index_sampler)
    except TypeError:
        raise UnavailableError(
            f"equal_steps={equal_steps!r} agrees on the number of steps before the epoch starts, and"
            f" {type(index_sampler).__name__} has no len(): give a WebDataset an epoch, by .with_epoch(n), or"
            " leave equal_steps out"
        ) from None


class WorkerPositions:
    """Of `count` workers. `ended`: those whose share of an iterable dataset is used up, all their batches
    handed out.
    """

    def __init__(
        self, count: int, streams: bool, states: dict[int, Any] | None = None, ended: Iterable[int] = ()
    ) -> None:
        self._streams = streams
        self._states: dict[int, Any] = dict(states or {})  # after the batches that were delivered
        self._waiting = [0] * count  # batches that it does not have yet
        self._ending: dict[
            int, Any
        ] = {}  # the states of those that have ended, until it has all their batches
        self.ended = set(ended)
        self.last = count - 1  # whose batch was handed out last

    def forget(self) -> None:
        """New workers begin an epoch."""
        self._states.clear()

    def start_epoch(self, last: int, goes_on: bool) -> None:
        """`last`: whose batch was handed out last before, or -1; `goes_on`: the epoch is resumed in its
        middle.
        """
        if not goes_on:
            self.ended.clear()
        self.last = last if last >= 0 else len(self._waiting) - 1
        self._waiting = [0] * len(self._waiting)
        self._ending.clear()

    def restarted(self, worker: int, state: Any) -> None:
        """One that stays is at the start of the epoch. What it had answered before was of the epoch that was
        left.
        """
        self._waiting[worker] = 0
        self._ending.pop(worker, None)
        self.ended.discard(worker)
        self._keep(worker, state)

    def arrived(self, worker: int) -> None:
        """A batch of its waits to be delivered."""
        self._waiting[worker] += 1

    def handed_out(self, worker: int, state: Any) -> None:
        """`state`: its dataset's after that batch, or None."""
        self.last = worker
        self._keep(worker, state)
        self._waiting[worker] -= 1
        if worker in self._ending and self._waiting[worker] == 0:
            self._end(worker, self._ending.pop(worker))

    def has_ended(self, worker: int, state: Any) -> None:
        """Its share is used up; the consumer may not have all of it yet."""
        if self._waiting[worker]:
            self._ending[worker] = state
        else:
            self._end(worker, state)

    def state_of(self, worker: int) -> Any:
        """As torchdata nests it; None when it has said nothing: the dataset is not Stateful, or the consumer
        has no batch of it yet.
        """
        return self._states.get(worker)

    def states(self) -> dict[str, Any]:
        """By torchdata's names."""
        return {f"worker_{i}": self._states.get(i) or self._unknown(i) for i in range(len(self._waiting))}

    def check(self) -> None:
        """Raises what a dataset's state_dict() raised in a worker."""
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
