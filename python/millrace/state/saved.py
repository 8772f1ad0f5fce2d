"""A state that was loaded, looked at and understood: what the next iterator begins with."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any, Optional

from ..samplers.native import inner_sampler

VERSION = 1
_INLINE_KEY, _WORKERS_KEY = "_num_yielded", "_snapshot"


@dataclass
class FeedStart:
    """Where a feed of index lists begins: `lists` and `samples` handed out before, and how to come there."""

    lists: int = 0
    samples: int = 0
    index_sampler_state: Any = None
    iterator_state: Any = None
    generators: dict[str, Optional[str]] = field(default_factory=dict)
    pending: list[Any] = field(default_factory=list)
    again: list[Any] = field(default_factory=list)
    elastic: bool = False  # the state is of all ranks, who may have been others
    drew_when_made: bool = False  # in iter(), before torch drew the base seed: `generators` are from before both


@dataclass
class SavedState:
    """One loader's state. `finished`: it was taken behind an epoch, and the next one begins."""

    inline: bool
    workers_then: int
    finished: bool
    base_seed: Optional[int]
    shared_seed: Optional[int]
    epoch: int
    yielded: int
    feed: FeedStart
    workers: dict[int, dict[str, Any]]
    ended_workers: list[int]
    dataset_state: Any
    fetcher_state: Optional[dict[str, Any]]
    last_worker: int
    replay: int
    left_out: int
    fingerprint: Optional[dict[str, Any]]
    sampler_epoch: Optional[int]
    dataset_epoch: Optional[int]
    number: int = -1  # of the epoch, counted over all iterators of the loader; -1: not known

    @staticmethod
    def read(state: dict[str, Any]) -> SavedState:
        """Understands millrace's states and, as far as they go, those of torchdata's StatefulDataLoader."""
        if not isinstance(state, dict):
            raise TypeError(f"a loader's state is a dict, not {type(state).__name__}; give what state_dict() returned")
        own = state.get("millrace", {})
        if own.get("version", VERSION) != VERSION:
            raise ValueError(
                f"this state has version {own.get('version')!r}, and this millrace reads version {VERSION}; load it with the millrace "
                "that saved it"
            )
        snapshot = state.get(_WORKERS_KEY)
        if snapshot is None and "kind" in state and "position" in state:
            raise ValueError(f"this is the state of a sampler, {state['kind']}; give it to the sampler's load_state_dict()")
        if snapshot is None and _INLINE_KEY not in state:
            raise ValueError(
                f"this is no loader's state: it has neither '{_INLINE_KEY}' (no workers) nor '{_WORKERS_KEY}' (workers), only "
                f"{sorted(map(str, state))}"
            )
        main = state if snapshot is None else snapshot["_main_snapshot"]
        workers = {} if snapshot is None else snapshot.get("_worker_snapshots", {})
        finished = bool(state.get("_iterator_finished", False))
        order = own.get("order", {})
        return SavedState(
            inline=snapshot is None,
            workers_then=main.get("_num_workers", 0),
            finished=finished,
            base_seed=own.get("base_seed", main.get("_base_seed")),
            shared_seed=main.get("_shared_seed"),
            epoch=own.get("epoch", 0),
            yielded=state[_INLINE_KEY] if snapshot is None else snapshot["_snapshot_step"],
            feed=FeedStart(
                lists=main["_sampler_iter_yielded"],
                samples=order.get("samples", _samples_yielded(main)),
                index_sampler_state=main.get("_index_sampler_state"),
                iterator_state=main.get("_sampler_iter_state"),
                generators=dict(order.get("generators", {})),
                pending=list(order.get("pending", ())),
                again=list(order.get("again", ())),
                elastic=bool(own.get("elastic", False)),
                drew_when_made=bool(order.get("drew_when_made", False)),
            ),
            workers={int(name.rsplit("_", 1)[1]): value for name, value in workers.items() if _tells_something(value)},
            ended_workers=list(own.get("ended_workers", ())),
            dataset_state=state.get("dataset_state"),
            fetcher_state=state.get("fetcher_state"),
            last_worker=-1 if snapshot is None else snapshot["_last_yielded_worker_id"],
            replay=state.get("_steps_since_snapshot", 0),
            left_out=own.get("left_out", 0),
            fingerprint=own.get("fingerprint"),
            sampler_epoch=order.get("sampler_epoch"),
            dataset_epoch=own.get("dataset_epoch"),
            number=own.get("number", -1),
        )

    @property
    def reads_again(self) -> bool:
        """Whether an iterable dataset's place is only known as a number of batches, which have to be read and dropped."""
        if self.finished or not self.yielded:
            return False
        if not self.inline:
            return not self.workers
        return self.dataset_state is None and (self.fetcher_state or {}).get("dataset_iter_state") is None

    def check_workers(self, workers: int, streams: bool) -> None:
        """AssertionError, as torchdata raises it, when the state belongs to another number of workers."""
        if self.workers_then == workers or (self.feed.elastic and not streams):
            return
        why = (
            "a place in an iterable dataset belongs to each worker"
            if streams
            else "millrace.merge_states([state]) makes one for any number of workers"
        )
        raise AssertionError(f"this state was saved with num_workers={self.workers_then}, and the loader has {workers}: {why}")

    def set_sampler_epoch(self, loader: Any) -> None:
        """A sampler that shuffles by epoch is put to the state's; a later set_epoch() of the training loop counts more."""
        sampler = inner_sampler(loader._index_sampler)
        if self.sampler_epoch is not None and callable(getattr(sampler, "set_epoch", None)):
            sampler.set_epoch(self.sampler_epoch)

    def check_fingerprint(self, now: dict[str, Any]) -> None:
        """ValueError when dataset length or sampler are others; a warning for what changes the meaning, not the order."""
        then = self.fingerprint or {}
        for key, what in (("length", "samples in the dataset"), ("sampler", "sampler")):
            if key in then and then[key] != now.get(key):
                raise ValueError(
                    f"the state was saved for {what}: {then[key]}, and this loader has {now.get(key)}; a resumed order would be wrong. "
                    "Give the loader what it had then, or start anew"
                )
        for key in ("dataset", "drop_last") if self.feed.elastic else ("dataset", "batch_size", "drop_last"):
            if key in then and then[key] != now.get(key):
                warnings.warn(
                    f"the loader's {key} was {then[key]!r} when its state was saved and is {now.get(key)!r} now; the order of samples "
                    "goes on where it was",
                    stacklevel=4,
                )


def _tells_something(worker: Optional[dict[str, Any]]) -> bool:
    if worker is None:
        return False
    return worker.get("dataset_state") is not None or (worker.get("fetcher_state") or {}).get("dataset_iter_state") is not None


def _samples_yielded(main: dict[str, Any]) -> int:
    """In a state that torchdata made."""
    iterator = main.get("_sampler_iter_state")
    return iterator["samples_yielded"] if isinstance(iterator, dict) and "samples_yielded" in iterator else main["_sampler_iter_yielded"]


def fingerprint(loader: Any) -> dict[str, Any]:
    """What a state belongs to."""
    sampler = loader._index_sampler
    inner = inner_sampler(sampler)
    try:
        length = len(loader.dataset)
    except Exception:  # it has none, or will not say
        length = None
    name = type(inner).__name__
    return {
        "dataset": f"{type(loader.dataset).__module__}.{type(loader.dataset).__qualname__}",
        "length": length,
        "sampler": name if inner is sampler else f"{type(sampler).__name__} of {name}",
        "batch_size": loader.batch_size,
        "drop_last": loader.drop_last,
    }
