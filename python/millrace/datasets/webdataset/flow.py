"""Flows: streams of samples with a position, from which they can be made again. Draws: random numbers that
are functions of a key and a position, so none of their state has to be saved. Run: one iterator's way through
an epoch, and the state that records its position.

A flow is one stage of a pipeline at work. Resuming rests on one invariant: between two of its items,

    `position()` is a short list of numbers, and a flow that is made anew with it gives exactly the items that
    are still to come.

A flow that passes samples on one by one has its source's position. One that holds samples (shuffle, batched,
unbatched) has the position that its source had before the oldest of them, and numbers of its own that tell
which samples after that position it has given. So no sample is ever part of a state: held samples are read
again, and never more samples than were held. An error that leaves a flow ends it, as generators end; its
position is then before the samples that it had taken and not given.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, Protocol

import numpy as np

from millrace.errors import StateError

from ..._common.states import verified
from .split import Reader

_WORDS = 1024  # made at a time
_PER_BLOCK = 4  # 64-bit words that one step of Philox's counter gives


class Draws:
    """`word(i)` is random in 0 .. 2^64-1. The key is any tuple of numbers and strings; other keys give other
    numbers.
    """

    def __init__(self, *key: object) -> None:
        self._key = int.from_bytes(blake2b(repr(key).encode(), digest_size=16).digest(), "little")
        self._chunk = -1
        self._words: list[int] = []

    def word(self, position: int) -> int:
        """The random number at `position`. Cheap for positions that rise."""
        chunk, offset = divmod(position, _WORDS)
        if chunk != self._chunk:
            philox = np.random.Philox(key=self._key, counter=chunk * (_WORDS // _PER_BLOCK))
            self._words, self._chunk = philox.random_raw(_WORDS).tolist(), chunk
        return self._words[offset]

    def below(self, position: int, end: int) -> int:
        """A number in 0 .. end-1."""
        return self.word(position) * end >> 64

    def uniform(self, position: int) -> float:
        """A number in [0, 1)."""
        return (self.word(position) >> 11) * 2.0**-53


Position = list[Any]  # of numbers and lists of them: JSON's types


@dataclass(frozen=True)
class Context:
    """All that random choices depend on, beside their position."""

    seed: int
    epoch: int
    repetition: int  # of the data within the epoch
    reader: Reader
    stage: int = 0

    def draws(self, *more: object) -> Draws:
        """The draws of this stage of this reader, in this epoch."""
        reader = self.reader
        return Draws(self.seed, self.epoch, self.repetition, self.stage, reader.number, reader.readers, *more)

    @property
    def shared_key(self) -> int:
        """A number below 2^62 that is the same for all readers, for choices on which they must agree. Each
        epoch and repetition has another one.
        """
        return (
            self.epoch
            if self.repetition == 0
            else Draws("repeated", self.epoch, self.repetition).below(0, 2**62)
        )


class Flow(Protocol):
    """A stream of items, iterated over once. position() is asked between two items."""

    def __iter__(self) -> Iterator[Any]: ...

    def position(self) -> Position: ...


class Through:
    """A flow that holds nothing between two items: a generator over another flow."""

    def __init__(self, source: Flow, generate: Callable[[Iterator[Any]], Iterator[Any]]) -> None:
        self._source, self._generate = source, generate

    def __iter__(self) -> Iterator[Any]:
        return self._generate(iter(self._source))

    def position(self) -> Position:
        return self._source.position()


class Stage:
    """One step of a pipeline, as data; fluent methods append them.

    Subclasses are dataclasses, compared by their fields.

    Attributes:
        has_position: whether the stage's flow adds an entry to the position.
        counts: whether positions after it depend on it.
        label: the stage's text, in messages and in a state.
    """

    has_position = counts = False
    label = ""

    def run(self, source: Flow, context: Context, own: Any = None) -> Flow:
        """The flow of this stage over `source`.

        Args:
            source: a flow that already is at the place where it goes on.
            own: the stage's entry in the position.
        """
        return Through(source, self.generate)

    def generate(self, samples: Iterator[Any]) -> Iterator[Any]:
        """The stage's items, made from `samples` one by one.

        It is for stages without a position of their own.
        """
        raise NotImplementedError

    def __call__(self, items: Iterable[Any]) -> Iterator[Any]:
        """The stage as a function of samples, outside a pipeline. Its random choices follow the stage's
        `seed`, or else Python's `random`.
        """
        epoch = random.getrandbits(62) if getattr(self, "seed", None) is None else 0
        return iter(self.run(Items(items), Context(0, epoch, 0, Reader.here())))

    def __str__(self) -> str:
        return self.label.format(self) or type(self).__name__


class Items:
    """A flow of any iterable, without a position."""

    def __init__(self, items: Iterable[Any]) -> None:
        self._items = items

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items)

    def position(self) -> Position:
        return []


def build(source: Flow, stages: tuple[Stage, ...], context: Context, own: Position | None) -> Flow:
    """The flow of the whole pipeline. `own`: the entries of the stages that have one, in order; None at the
    beginning.
    """
    entries = iter(own or ())
    for number, stage in enumerate(stages, 1):
        entry = next(entries, None) if stage.has_position else None
        source = stage.run(source, replace(context, stage=number), entry)
    return source


class Opaque:
    """The flow of any function from an iterator to an iterator. Its state is not known, so resuming runs it
    from the beginning.
    """

    def __init__(self, source: Flow, function: Callable[[Iterator[Any]], Iterator[Any]], own: Any) -> None:
        self._first = source.position()
        self._source, self._function, self._given = source, function, 0
        self._skip = own or 0

    def __iter__(self) -> Iterator[Any]:
        for item in self._function(iter(self._source)):
            self._given += 1
            if self._given > self._skip:
                yield item

    def position(self) -> Position:
        return [*self._first, max(self._given, self._skip)]


@dataclass(frozen=True)
class Composed(Stage):
    """A function from an iterator to an iterator, or an object with such a method `run`. Resuming runs it
    from the beginning.
    """

    function: Any
    has_position = counts = True

    def run(self, source: Flow, context: Context, own: Any = None) -> Flow:
        return Opaque(source, getattr(self.function, "run", self.function), own)

    def __str__(self) -> str:
        return f"compose({getattr(self.function, '__name__', type(self.function).__name__)})"


def as_stage(thing: Any) -> Stage:
    """`thing` itself if it is a stage; else the stage that compose() makes of it."""
    if isinstance(thing, Stage):
        return thing
    if not callable(getattr(thing, "run", thing)):
        raise TypeError(
            f"compose() takes stages or functions from an iterator to an iterator, not {type(thing).__name__}"
        )
    return Composed(thing)


VERSION = 1


@dataclass
class Run:
    """One iterator's way through an epoch. `source`, `stages`: replace the dataset's own. `most`: items of an
    epoch, as in Chain.
    """

    source: Any = None
    stages: tuple[Stage, ...] | None = None
    most: int | None = None
    begun: bool = False
    ended: bool = False
    epoch: int = 0
    repetition: int = 0  # of the data, within the epoch
    given: int = 0
    given_now: int = 0  # in this repetition
    reader: Reader = Reader()
    flow: Flow | None = None

    def state(self) -> dict[str, Any]:
        reader = self.reader
        return {
            "version": VERSION,
            "epoch": self.epoch,
            "repetition": self.repetition,
            "given": [self.given, self.given_now],
            "places": [] if self.flow is None else self.flow.position(),
            "reader": [reader.rank, reader.ranks, reader.worker, reader.workers],
        }

    def go_on(self, state: Mapping[str, Any]) -> Position:
        """Takes up `state`; returns the entries of its position. StateError for another reader's state."""
        then, now = Reader(*state["reader"]), self.reader
        if then != now:
            raise StateError(
                f"the state is that of {then}, and this is {now}; load the DataLoader's state, with as many"
                " workers and ranks as then"
            )
        self.repetition, (self.given, self.given_now) = state["repetition"], state["given"]
        return state["places"]


def checked_state(state: Any, name: str, described: list[str], verify: bool) -> dict[str, Any]:
    """A copy of `state`. StateError for a state of another version, of another pipeline than `described`, or
    damaged (by its checksum, unless `verify` is False).
    """
    if not isinstance(state, Mapping):
        raise StateError(f"the state of a {name} is a dict from state_dict(), not {type(state).__name__}")
    if state.get("version") != VERSION:
        raise StateError(
            f"this state has version {state.get('version')!r}, and this millrace reads version {VERSION}"
            f" of a {name}'s"
        )
    state = verified(state, f"the {name}'s state", verify)
    _check_types(state, name)
    if state.get("pipeline", described) != described:
        raise StateError(
            f"the state was saved for the pipeline {' | '.join(map(str, state['pipeline']))}, and this"
            f" one is {' | '.join(described)}; resume with the same shards, seed and stages"
        )
    return copy.deepcopy(state)


def _check_types(state: Mapping[str, Any], name: str) -> None:
    """Raises StateError unless `state` has all numbers of a position, or, at the start of an epoch, the epoch
    alone.
    """
    of_position = {"repetition": 1, "given": 2, "places": None, "reader": 4, "pipeline": None}
    missing = [key for key in of_position if key not in state]
    if missing and len(missing) < len(of_position):
        raise StateError(f"the state of a {name} lacks {', '.join(missing)}: it is damaged; load another one")
    for key, count in {"epoch": 1, **({} if missing else of_position)}.items():
        value = state.get(key)
        numbers: Any = [value] if count == 1 else value
        fits = isinstance(numbers, (list, tuple)) and count in (None, len(numbers))
        if not fits or (
            count is not None and not all(type(number) is int and number >= 0 for number in numbers)
        ):
            raise StateError(f"the state of a {name} has {key!r} {value!r}: it is damaged; load another one")
