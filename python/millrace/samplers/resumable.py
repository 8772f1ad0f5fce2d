"""The common parts of all samplers of this package: native(), which knows torch's own; checked states; and
resumable iterators: plain Python ints at the speed of a list, arrays with take().
"""

from __future__ import annotations

import copy
import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping
from itertools import chain, islice
from operator import length_hint
from typing import Any

import numpy as np
import torch
from torch.utils.data import RandomSampler, SequentialSampler

from .._common.shipped import replaced_builtin, replaced_in
from .._common.states import global_generator_at, signing, unsigned_state, verified
from ..errors import StateError
from .readers import Indices, Reader, check_origin

_OURS: dict[type, type[Resumable]] = {}  # exact type -> our class that replaces it


def known(torchs: type | None = None) -> Callable[[type[Resumable]], type[Resumable]]:
    """Decorator: makes native() know objects of exactly this class, and of torch's class that it replaces."""

    def register(ours: type[Resumable]) -> type[Resumable]:
        _OURS[ours] = ours
        if torchs is not None:
            _OURS[torchs] = ours
        return ours

    return register


def native(sampler: Any) -> Any:
    """Find the sampler of this package that gives the same as `sampler`, with the same draws.

    For objects of exactly torch's types (also BatchSampler), the result shares their attributes, now and
    later. A subclass may have another order, so the result is None for it, and for anything else.

    Returns:
        A sampler with iterators over indices that have take(); `sampler` itself, if it is a sampler of this
        package; or None.
    """
    ours = _OURS.get(type(sampler))
    if ours is None or ours is type(sampler):
        return None if ours is None else sampler
    if not is_known(sampler):
        return None
    view = ours.__new__(ours)
    view.__dict__ = sampler.__dict__
    return view


def is_known(sampler: Any) -> bool:
    """Whether native() finds a sampler. It does not if a script has replaced a method of torch's class: that
    method has to run.
    """
    cls = type(sampler)
    ours = _OURS.get(cls)
    return ours is cls or ours is not None and replaced_in(cls) is None and replaced_builtin("torch") is None


def inner_sampler(sampler: Any) -> Any:
    """The sampler from which a batch sampler makes lists; any other sampler itself."""
    return getattr(sampler, "sampler", sampler)


def given_before(sampler: Any, state: dict[str, Any], count: int) -> np.ndarray | None:
    """The first `count` indices of the epoch of `state`, int64 (count,), for a sampler known to native();
    None if no index can come twice, or if they are not known.
    """
    sampler = native(sampler)
    if sampler is None or _never_repeats(sampler):
        return None
    if state.get("since", 0) > 0:  # a mixture with changed weights: its earlier indices are forgotten
        return None
    twin = copy.copy(sampler)
    twin.load_state_dict({**state, "position": 0})
    found: list[Any] = []
    own = getattr(inner_sampler(sampler), "generator", None)  # the one that goes on drawing the epoch
    before = None if own is None else own.get_state()
    with global_generator_at(torch.get_rng_state()):
        for item in iter(twin):
            found += item if isinstance(item, list) else (item,)
            if len(found) >= count:
                break
    if own is not None:
        own.set_state(before)
    return np.array(found[:count], dtype=np.int64)


def _never_repeats(sampler: Any) -> bool:
    if isinstance(sampler, RandomSampler):
        return not sampler.replacement and sampler.num_samples <= len(sampler.data_source)
    return isinstance(sampler, SequentialSampler)


class _Chunks:
    """The reader's chunks, as iterators that `chain` walks without coming back to Python for each index."""

    def __init__(self, reader: Reader, item: Callable[[int], Any] | None) -> None:
        self.reader, self.item = reader, item
        self.rest: Iterator[int] = iter([])  # the rest of the chunk

    def __iter__(self) -> _Chunks:
        return self

    def __next__(self) -> Iterator[Any]:
        chunk = self.reader.chunk()
        if not len(chunk):
            raise StopIteration
        self.rest = iter(chunk.tolist())
        return self.rest if self.item is None else map(self.item, self.rest)


class ResumableIterator(chain):
    """The iterator of a sampler of this package: next(), and state_dict()."""

    _state_is_json = True
    _chunks: _Chunks
    _head: dict[str, Any]
    _tail: Callable[[], dict[str, Any]]

    @classmethod
    def over(
        cls,
        reader: Reader,
        head: dict[str, Any],
        tail: Callable[[], dict[str, Any]],
        item: Callable[[int], Any] | None = None,
    ) -> ResumableIterator:
        """An iterator over `reader`. Its state is `head`, the position and `tail()`; `item` makes the result
        of next() of a number of the reader.
        """
        chunks = _Chunks(reader, item)
        self: Any = cls.from_iterable(chunks)  # of this class, whatever chain says
        self._chunks, self._head, self._tail = chunks, head, tail
        return self

    @signing
    def state_dict(self) -> dict[str, Any]:
        """The position of the next index: {"version", "kind", "epoch", "position", "length", ...}, for the
        sampler's load_state_dict.

        "position" counts entries of the global order, all ranks together: this rank's own times the number of
        ranks, plus the position that it resumed at.
        """
        return self.state_after(self.given)

    @property
    def given(self) -> int:
        """How many indices this iterator has given."""
        return self._chunks.reader.taken - length_hint(self._chunks.rest)

    def state_after(self, given: int) -> dict[str, Any]:
        """The result of state_dict() after `given` indices; at least one."""
        return {**self._head, "position": self._chunks.reader.position_at(given), **self._tail()}

    def rewind(self) -> None:
        """Step back over indices that were made but not handed out: they are made again."""
        left = length_hint(self._chunks.rest)
        for _ in self._chunks.rest:
            pass
        self._chunks.reader.back(left)


class SamplerIterator(ResumableIterator):
    """An iterator over single indices, which also gives them as arrays."""

    @property
    def gives_numbers(self) -> bool:
        """Whether next() gives plain ints, not elements of a user's list."""
        return self._chunks.item is None

    def take(self, count: int) -> Indices:
        """The next `count` indices as int64 [count], fewer at the end; draws what `count` calls of next()
        would draw.
        """
        chunks = self._chunks
        if not length_hint(chunks.rest):
            numbers = chunks.reader.read(count)
        else:
            numbers = np.fromiter(islice(chunks.rest, count), dtype=np.int64)
            if len(numbers) < count:
                numbers = np.concatenate([numbers, chunks.reader.read(count - len(numbers))])
        return (
            numbers
            if chunks.item is None
            else np.fromiter(map(chunks.item, numbers.tolist()), dtype=np.int64)
        )


VERSION = 1
_MOST_RANKS = 1 << 16


class Resumable:
    """Mixin before torch's class. Its own values are in slots, so they are not among the attributes of
    torch's class.
    """

    __slots__ = ("_latest", "_pending", "_begun")

    _whole_numbers: tuple[str, ...] = ("position",)  # whole numbers in a state
    _ends_at_length = True  # whether the length is known for sure
    _state_is_json = True
    _draws_from_torch = False  # if so, a state holds the generator's state that an epoch was drawn from
    counted = True  # whether the iterators have state_after()
    seekable = (
        False  # whether a state stays true when a multiple of the number of ranks is taken from its position
    )

    _iterator: type[ResumableIterator] = SamplerIterator
    _latest: Any  # the iterator that state_dict() describes
    _pending: dict[str, Any] | None
    _begun: int  # the next iterator's number, which is the epoch of samplers that have no set_epoch()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        own = list(inspect.signature(cls.__init__).parameters.values())[1:]
        cls.__signature__ = inspect.Signature(own)  # type: ignore[attr-defined]  # else help() shows that of __new__

    def __new__(cls, *_: Any, **__: Any) -> Any:
        self = super().__new__(cls)
        self._latest, self._pending, self._begun = None, None, 0
        return self

    def __getstate__(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return dict(self.__dict__), {"_latest": None, "_pending": self._pending, "_begun": self._begun}

    @signing
    def state_dict(self) -> dict[str, Any]:
        """A small dict of JSON's types: the latest iterator's position, or the loaded state that the next
        iterator goes on from, or else the beginning of the epoch.
        """
        if self._pending is not None:
            return dict(self._pending)
        if self._latest is not None:
            return unsigned_state(self._latest)
        return {**self._head(), "position": 0}

    def load_state_dict(self, state: Mapping[str, Any], verify: bool = True) -> None:
        """Let the next iterator go on where `state` was taken; later iterators are ordinary epochs.

        Args:
            state: a result of state_dict().
            verify: False skips the check of the state's checksum.

        Raises:
            StateError: if the state is another sampler's, for example of another kind, version, length or
                seed; or if its checksum shows that it is damaged, unless `verify` is False.
        """
        try:
            rest = (
                verified(state, f"the {type(self).__name__}'s state", verify)
                if isinstance(state, Mapping)
                else state
            )
        except StateError:
            # a state that is plainly wrong, or another sampler's, gets a more exact message
            copy.copy(self)._checked(state)
            raise
        self._pending = self._checked(rest)

    def _facts(self) -> dict[str, Any]:
        """The facts that a state must agree with, besides kind and version."""
        raise NotImplementedError

    def _epoch(self) -> int:
        return self._begun

    def _head(self) -> dict[str, Any]:
        return {"version": VERSION, "kind": type(self).__name__, "epoch": self._epoch(), **self._facts()}

    def _checked(self, state: Mapping[str, Any]) -> dict[str, Any]:
        name = type(self).__name__
        if not isinstance(state, Mapping):
            raise StateError(f"the state of a {name} is a dict from state_dict(), not {type(state).__name__}")
        if "kind" not in state:
            raise StateError(
                f"this is no sampler's state: it has no 'kind'; give a {name} its own, and a loader's to the"
                " loader"
            )
        if state["kind"] != name:
            raise StateError(
                f"this is the state of a {state.get('kind')}, and this sampler is a {name}; build the sampler"
                " it is from"
            )
        if state.get("version") != VERSION:
            raise StateError(
                f"the state has version {state.get('version')}; this millrace reads version {VERSION}"
            )
        facts = self._facts()
        different = [
            f"{key}={state.get(key)!r} there, {value!r} here"
            for key, value in facts.items()
            if state.get(key) != value
        ]
        if different:
            raise StateError(
                f"the state is of another {name}: {'; '.join(different)}. Build it with the same arguments"
                " and data"
            )
        for key in ("epoch", *self._whole_numbers):
            if not isinstance(state.get(key), int) or isinstance(state.get(key), bool) or state[key] < 0:
                raise StateError(f"the state's {key} is a whole number of 0 or more, not {state.get(key)!r}")
        if self._draws_from_torch:
            check_origin(state, name)
        length = facts.get("length")
        # With ranks, the last step may go past the end, by the number of ranks that the saved run had.
        beyond = _MOST_RANKS if isinstance(self, ResumableEpochs) or hasattr(self, "num_replicas") else 0
        if self._ends_at_length and isinstance(length, int) and state["position"] > length + beyond:
            raise StateError(
                f"the state's position is {state['position']}, behind the end of a {name} of length {length}"
            )
        return dict(state)

    def _resume(self) -> tuple[int, dict[str, Any]]:
        """(position, state) of the loaded state, once; else the beginning, and an empty one."""
        state, self._pending = self._pending or {}, None
        self._begun = state.get("epoch", self._begun)
        return state.get("position", 0), state

    def _follow(
        self,
        reader: Reader,
        tail: Callable[[], dict[str, Any]] = dict,
        item: Callable[[int], Any] | None = None,
    ) -> Any:
        """An iterator over `reader`; from now on it is the latest one."""
        return self._is_latest(self._iterator.over(reader, self._head(), tail, item))

    def _is_latest(self, iterator: Any) -> Any:
        self._latest = iterator
        self._begun += 1
        return iterator


class ResumableEpochs(Resumable):
    """Samplers that shuffle by (seed, epoch): the epoch is an attribute."""

    epoch: int

    def _epoch(self) -> int:
        return self.epoch

    def load_state_dict(self, state: Mapping[str, Any], verify: bool = True) -> None:
        """Let the next iterator go on where `state` was taken, and set the epoch; later iterators are
        ordinary epochs.

        Args:
            state: a result of state_dict().
            verify: False skips the check of the state's checksum.

        Raises:
            StateError: if the state is another sampler's, for example of another kind, version, length or
                seed; or if its checksum shows that it is damaged, unless `verify` is False.
        """
        super().load_state_dict(state, verify)
        self.epoch = state["epoch"]

    def set_epoch(self, epoch: int) -> None:
        """Set the order of iterators that are made from now on; the same on all ranks.

        A loaded state of another epoch is dropped.
        """
        if self._pending is not None and self._pending["epoch"] != epoch:
            warnings.warn(
                f"set_epoch({epoch}) gives up the loaded state of epoch {self._pending['epoch']}; start the"
                " loop at that epoch",
                stacklevel=2,
            )
            self._pending = None
        self.epoch = epoch
