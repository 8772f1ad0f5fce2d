"""A loaded state, checked and read; and the merged state of all ranks."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..._common.ranks import gathered
from ..._common.states import KEY, REMEDY, Fields, signed, verified_copy
from ...errors import StateError, WorkersError
from ...samplers.resumable import inner_sampler

VERSION = 1
_INLINE_KEY, _WORKERS_KEY, _LAST_KEY = "_num_yielded", "_snapshot", "_last_yielded_worker_id"


@dataclass
class CursorStart:
    """The beginning of a cursor over index lists: `lists` and `samples` handed out before, and the states
    that lead there.
    """

    lists: int = 0
    samples: int = 0
    index_sampler_state: Any = None
    iterator_state: Any = None
    generators: dict[str, str | None] = field(default_factory=dict)
    pending: list[Any] = field(default_factory=list)
    again: list[Any] = field(default_factory=list)
    elastic: bool = False  # the state is of all ranks; their number may differ
    iterated_anew: bool = False  # without workers; as in IndexCursor
    drew_when_made: bool = (
        False  # the sampler drew in iter(), before torch drew the base seed; `generators`: before both
    )


@dataclass
class SavedState:
    """One loader's state. `finished`: it was taken after an epoch, and the next epoch begins."""

    inline: bool
    workers_then: int
    finished: bool
    base_seed: int | None
    shared_seed: int | None
    epoch: int
    yielded: int
    cursor: CursorStart
    workers: dict[int, dict[str, Any]]
    ended_workers: list[int]
    dataset_state: Any
    fetcher_state: dict[str, Any] | None
    last_worker: int
    replay: int
    left_out: int
    fingerprint: dict[str, Any] | None
    sampler_epoch: int | None
    dataset_epoch: int | None
    number: int = -1  # of the epoch, counted over all iterators of the loader; -1: not known
    workers_stay: bool | None = None  # from epoch to epoch, in the run that saved the state; None: not known
    state: dict[str, Any] = field(default_factory=dict)  # all of it

    @staticmethod
    def read(state: Any, verify: bool = True) -> SavedState:
        """Read millrace's states and, as far as they go, those of torchdata's StatefulDataLoader.
        Keeps nothing of `state`, which may change later.

        StateError if it is no state, fails its checksum (unless `verify` is False), or lacks a part."""
        if not isinstance(state, dict):
            raise TypeError(
                f"a loader's state is a dict, not {type(state).__name__}; give what state_dict() returned"
            )
        ours = "millrace" in state
        if ours and (version := Fields(state).part("millrace").any("version", VERSION)) != VERSION:
            raise StateError(
                f"this state has version {version!r}, and this millrace reads version {VERSION}; load it with"
                " the millrace that saved it"
            )
        if _WORKERS_KEY not in state and _INLINE_KEY not in state:
            if "kind" in state and "position" in state:
                raise StateError(
                    f"this is the state of a sampler, {state['kind']}; give it to the sampler's"
                    " load_state_dict()"
                )
            raise StateError(
                f"this is no loader's state: it has neither '{_INLINE_KEY}' (no workers) nor '{_WORKERS_KEY}'"
                f" (workers), only {sorted(map(str, state))}"
            )
        state = verified_copy(state, "the loader's state", verify)
        own = Fields(state).part("millrace") if ours else Fields({})
        saved = _read(Fields(state), own, own.part("order") if ours else Fields({}))
        saved.state = state if verify else signed({k: v for k, v in state.items() if k != KEY})
        return saved

    def for_an_iterator(self) -> SavedState:
        """A copy for an iterator, which writes into it and may fail to begin."""
        twin, cursor = SavedState.__new__(SavedState), CursorStart.__new__(CursorStart)
        cursor.__dict__.update(self.cursor.__dict__)
        twin.__dict__.update(self.__dict__, cursor=cursor, state={})
        return twin

    @property
    def is_of_second_iterator(self) -> bool:
        """Whether the lists come from another iterator than the one that torch makes first, before the base
        seed.
        """
        return not self.finished and (self.workers_then > 0 or self.cursor.iterated_anew)

    @property
    def reads_again(self) -> bool:
        """Whether an iterable dataset's position is known only as a number of batches, to be read and
        dropped.
        """
        if self.finished or not self.yielded:
            return False
        if not self.inline:
            return not self.workers
        return self.dataset_state is None and (self.fetcher_state or {}).get("dataset_iter_state") is None

    def check_workers(self, workers: int, streams: bool) -> None:
        """Raise StateError (which is an AssertionError, as in torchdata) if the number of workers has changed
        and the state belongs to the workers: it holds the states of their copies of the dataset, or how many
        batches of a stream each worker made. A position in an order belongs to no worker.
        """
        at_a_start = self.finished or not (self.yielded or self.replay)
        if self.workers_then == workers or not (self.holds_dataset or (streams and not at_a_start)):
            return
        whose = "a position in an iterable dataset" if streams else "the state of a Stateful dataset"
        raise WorkersError(
            f"this state was saved with num_workers={self.workers_then}, and the loader has {workers}:"
            f" {whose} belongs to the worker that runs it. Load the state with"
            f" num_workers={self.workers_then}"
        )

    @property
    def holds_dataset(self) -> bool:
        """Whether the state has the position of a dataset, or of its iterator."""
        return (
            bool(self.workers)
            or self.dataset_state is not None
            or _tells_something({"fetcher_state": self.fetcher_state})
        )

    def set_sampler_epoch(self, loader: Any) -> None:
        """Set the state's epoch in a sampler that shuffles by epoch; a later set_epoch() of the training loop
        replaces it.
        """
        sampler = inner_sampler(loader._index_sampler)
        if self.sampler_epoch is not None and callable(getattr(sampler, "set_epoch", None)):
            sampler.set_epoch(self.sampler_epoch)

    def check_fingerprint(self, now: dict[str, Any]) -> None:
        """StateError if dataset length or sampler differ; a warning for differences that change the meaning
        but not the order.
        """
        then = self.fingerprint or {}
        for key, what in (("length", "samples in the dataset"), ("sampler", "sampler")):
            if key in then and then[key] != now.get(key):
                raise StateError(
                    f"the state was saved for {what}: {then[key]}, and this loader has {now.get(key)}; a"
                    " resumed order would be wrong. Give the loader what it had then, or start anew"
                )
        for key in (
            ("dataset", "drop_last") if self.cursor.elastic else ("dataset", "batch_size", "drop_last")
        ):
            if key in then and then[key] != now.get(key):
                warnings.warn(
                    f"the loader's {key} was {then[key]!r} when its state was saved and is {now.get(key)!r}"
                    " now; the order of samples goes on where it was",
                    stacklevel=4,
                )


def _tells_something(worker: dict[str, Any] | None) -> bool:
    if worker is None:
        return False
    return (
        worker.get("dataset_state") is not None
        or (worker.get("fetcher_state") or {}).get("dataset_iter_state") is not None
    )


def _read(state: Fields, own: Fields, order: Fields) -> SavedState:
    inline = state.any(_WORKERS_KEY, None) is None
    snapshot = state if inline else state.part(_WORKERS_KEY)
    main = state if inline else snapshot.part("_main_snapshot")
    workers_then = 0 if inline else main.number("_num_workers", least=1)
    iterator = main.any("_sampler_iter_state")
    lists = main.number("_sampler_iter_yielded")
    # as torchdata has it
    samples = Fields(iterator).number("samples_yielded", lists) if isinstance(iterator, Mapping) else lists
    return SavedState(
        inline=inline,
        workers_then=workers_then,
        finished=state.flag("_iterator_finished"),
        base_seed=own.number("base_seed", main.any("_base_seed", None), least=-(2**63), optional=True),
        shared_seed=main.number("_shared_seed", None, least=-(2**63), optional=True),
        epoch=own.number("epoch", 0),
        yielded=state.number(_INLINE_KEY) if inline else snapshot.number("_snapshot_step"),
        cursor=CursorStart(
            lists=lists,
            samples=order.number("samples", samples),
            index_sampler_state=main.any("_index_sampler_state"),
            iterator_state=iterator,
            generators=_generators(order.part("generators", {})),
            pending=order.entries("pending", ()),
            again=order.entries("again", ()),
            elastic=own.flag("elastic", False),
            iterated_anew=order.flag("iterated_anew", False),
            drew_when_made=order.flag("drew_when_made", False),
        ),
        workers={} if inline else _workers(snapshot.part("_worker_snapshots"), workers_then),
        ended_workers=[
            _one_of(worker, "ended_workers", workers_then) for worker in own.entries("ended_workers", ())
        ],
        dataset_state=state.any("dataset_state") if inline else None,
        fetcher_state=_fetcher_state(state) if inline else None,
        last_worker=-1 if inline else _one_of(snapshot.number(_LAST_KEY, least=-1), _LAST_KEY, workers_then),
        replay=0 if inline else state.number("_steps_since_snapshot"),
        left_out=own.number("left_out", 0),
        fingerprint=own.dict("fingerprint", None, optional=True),
        sampler_epoch=order.number("sampler_epoch", None, least=-(2**63), optional=True),
        dataset_epoch=own.number("dataset_epoch", None, optional=True),
        number=own.number("number", -1, least=-1),
        workers_stay=None if own.any("workers_stay", None) is None else own.flag("workers_stay"),
    )


def _one_of(worker: Any, key: str, workers: int) -> int:
    if not isinstance(worker, int) or worker >= workers:
        raise StateError(
            f"the state names worker {worker!r} in {key!r}, and it is of {workers} workers: {REMEDY}"
        )
    return worker


def _generators(texts: Fields) -> dict[str, str | None]:
    return {name: texts.text(name) for name in texts}


def _workers(snapshots: Fields, count: int) -> dict[int, dict[str, Any]]:
    found = {}
    for number in range(count):
        value = snapshots.dict(f"worker_{number}", optional=True)
        if value is not None:
            part = snapshots.part(f"worker_{number}")
            part.any("dataset_state")
            _fetcher_state(part)
        if _tells_something(value):
            found[number] = value
    return found


def _fetcher_state(part: Fields) -> dict[str, Any] | None:
    value = part.dict("fetcher_state", optional=True)
    if value is not None:
        inner = part.part("fetcher_state")
        inner.any("dataset_iter_state")
        inner.flag("fetcher_ended")
    return value


def fingerprint(loader: Any) -> dict[str, Any]:
    """The facts about a loader that a state belongs to."""
    sampler = loader._index_sampler
    inner = inner_sampler(sampler)
    try:
        length = len(loader.dataset)
    except Exception:  # the dataset has no length, or raises
        length = None
    name = type(inner).__name__
    return {
        "dataset": f"{type(loader.dataset).__module__}.{type(loader.dataset).__qualname__}",
        "length": length,
        "sampler": name if inner is sampler else f"{type(sampler).__name__} of {name}",
        "batch_size": loader.batch_size,
        "drop_last": loader.drop_last,
    }


def gather_state(loader: Any) -> dict[str, Any]:
    """Return the state of all ranks' loaders as one, the same on each rank: merge_states() of every rank's
    `loader.state_dict()`.

    If torch.distributed is initialised, this is a collective call: all ranks make it, at the same step.
    """
    return merge_states(gathered(loader.state_dict()))


def merge_states(states: Sequence[dict[str, Any]], verify: bool = True) -> dict[str, Any]:
    """Merge the states of all ranks into one state for any number of ranks and workers and any batch size.

    If each of the new ranks loads it, the rest of the epoch has the same samples in the same global order.
    For map-style datasets in an order that all ranks know: torch's DistributedSampler, the samplers of
    millrace.samplers, or a single rank.

    Args:
        states: one of each rank, in order of rank.
        verify: False takes states that were changed on purpose.

    Raises:
        StateError: if the states are not of one step of one run, if they hold parts of a single worker (the
            state of a Stateful dataset, an iterable dataset), or if one is damaged.
    """
    if isinstance(states, dict):
        raise TypeError(
            "merge_states() takes the states of all ranks in a list; of a single rank: merge_states([state])"
        )
    if not states:
        raise ValueError("merge_states([]): there is no state to merge")
    for rank, state in enumerate(states):
        if isinstance(state, dict) and "millrace" not in state:
            raise StateError(
                f"the state of rank {rank} is not from millrace.DataLoader; only its states can be merged"
            )
    read = [SavedState.read(state, verify) for state in states]
    first = read[0]
    for rank, saved in enumerate(read):
        for what, ours, theirs in (
            ("dataset, sampler or batch size", first.fingerprint, saved.fingerprint),
            ("number of batches", first.yielded, saved.yielded),
            ("end of epoch", first.finished, saved.finished),
            ("position in the order", _position_of(first), _position_of(saved)),
        ):
            if ours != theirs:
                raise StateError(
                    f"ranks 0 and {rank} differ in {what}: {ours} and {theirs}; take the states of all ranks"
                    " at the same step of one run"
                )
        if saved.workers or saved.dataset_state is not None or saved.fetcher_state is not None:
            raise StateError(
                f"the state of rank {rank} holds a dataset's own state, which belongs to one rank and worker;"
                " load each rank's state into that rank instead"
            )
        if saved.replay:
            raise StateError(
                f"the state of rank {rank} was not taken at this step; use snapshot_every_n_steps=1"
            )
    return _merged(states, first)


def _merged(states: Sequence[dict[str, Any]], first: SavedState) -> dict[str, Any]:
    merged = copy.deepcopy(states[0])
    order = merged["millrace"]["order"]
    ranks = order.get("ranks", 1)
    if ranks == 1 < len(states):
        sampler = (first.fingerprint or {}).get("sampler", "this sampler")
        raise StateError(
            f"{sampler} has no order that its {len(states)} ranks share, so their states cannot be merged;"
            " use torch's DistributedSampler or one of millrace.samplers, or load each rank's state into"
            " that rank"
        )
    if ranks != len(states):
        raise StateError(
            f"the states are of {ranks} ranks, and {len(states)} were given; give one of each rank, in order"
        )
    merged["millrace"]["elastic"] = True
    merged.pop(KEY, None)
    return signed(merged)


def _position_of(saved: SavedState) -> Any:
    state = saved.cursor.iterator_state
    state = state.get("sampler", state) if isinstance(state, dict) else {}
    return state.get("position", saved.cursor.samples)
