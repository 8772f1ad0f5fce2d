"""Flows: streams of samples that can say where they are, and be made again at that position; and the random
numbers that they draw: functions of a key and a position, of which nothing has to be saved.

A flow is one stage of a pipeline at work. The invariant, on which resuming rests: between two of its items,

    `position()` is a short list of numbers, and a flow that is made anew with it gives exactly the items that
    are still to come.

A flow that passes samples on one by one has its source's position. One that holds samples (shuffle, batched,
unbatched) has the position that its source had before the oldest of them, and numbers of its own by which it
knows what of the samples behind that position it had given already. So no sample is ever part of a state:
what was held is read again, and never more of it than was held. An error that leaves a flow ends it, as
generators end; its position is then before the samples it had taken and not given.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, Protocol

import numpy as np

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
        """Cheap for positions that rise."""
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
    """On what random choices depend, beside their position: nothing else does."""

    seed: int
    epoch: int
    repetition: int  # of the data within the epoch
    reader: Reader
    stage: int = 0

    def of_stage(self, number: int) -> Context:
        return replace(self, stage=number)

    def draws(self, *more: object) -> Draws:
        """For this stage of this reader, in this epoch."""
        reader = self.reader
        return Draws(self.seed, self.epoch, self.repetition, self.stage, reader.number, reader.readers, *more)

    @property
    def shared_key(self) -> int:
        """The same for all readers, below 2^62: of what is agreed between them. Another one for each epoch
        and repetition.
        """
        return (
            self.epoch
            if self.repetition == 0
            else Draws("repeated", self.epoch, self.repetition).below(0, 2**62)
        )


class Flow(Protocol):
    """Iterated over once. `position()` is asked between two items."""

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
    """One step of a pipeline, as data: what a fluent method appends. Subclasses are dataclasses, compared by
    their fields.

    `has_position`: its flow adds an entry to the position. `counts`: positions behind it depend on it.
    `label`: how it is shown, and what is kept of it in a state.
    """

    has_position = counts = False
    label = ""

    def run(self, source: Flow, context: Context, own: Any = None) -> Flow:
        """The flow of this stage over `source`. `own`: its entry in the place; `source` stands where it is to
        go on.
        """
        return Through(source, self.generate)

    def generate(self, samples: Iterator[Any]) -> Iterator[Any]:
        """Of stages without a position of their own: what they give, sample by sample."""
        raise NotImplementedError

    def __call__(self, items: Iterable[Any]) -> Iterator[Any]:
        """As a function of samples, outside a pipeline. What is random follows the stage's `seed`, or else
        Python's `random`.
        """
        epoch = random.getrandbits(62) if getattr(self, "seed", None) is None else 0
        return iter(self.run(Items(items), Context(0, epoch, 0, Reader.here())))

    def __str__(self) -> str:
        return self.label.format(self) or type(self).__name__


class Items:
    """A flow of anything iterable, which does not say where it is."""

    def __init__(self, items: Iterable[Any]) -> None:
        self._items = items

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items)

    def position(self) -> Position:
        return []


def build(source: Flow, stages: tuple[Stage, ...], context: Context, own: Position | None) -> Flow:
    """The whole pipeline. `own`: the entries of the stages that have one, in order; None at the beginning."""
    entries = iter(own or ())
    for number, stage in enumerate(stages, 1):
        source = stage.run(
            source, context.of_stage(number), next(entries, None) if stage.has_position else None
        )
    return source


class Opaque:
    """Any function from an iterator to an iterator. What it holds is not known, so it is resumed by running
    it from the beginning.
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
    """A function from an iterator to an iterator, or an object whose `run` is one. Resuming runs it from the
    beginning.
    """

    function: Any
    has_position = counts = True

    def run(self, source: Flow, context: Context, own: Any = None) -> Flow:
        return Opaque(source, getattr(self.function, "run", self.function), own)

    def __str__(self) -> str:
        return f"compose({getattr(self.function, '__name__', type(self.function).__name__)})"


def as_stage(thing: Any) -> Stage:
    """A stage as it is; anything else as compose() takes it."""
    if isinstance(thing, Stage):
        return thing
    if not callable(getattr(thing, "run", thing)):
        raise TypeError(
            f"compose() takes stages or functions from an iterator to an iterator, not {type(thing).__name__}"
        )
    return Composed(thing)
