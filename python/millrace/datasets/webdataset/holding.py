"""The stages that hold samples or count them: shuffle, batched, listed, unbatched, unlisted, slice,
rsample.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from .collation import default_collation_fn
from .flow import Context, Draws, Flow, Position, Stage

# ---------------------------------------------------------------- shuffle


@dataclass(frozen=True)
class Shuffle(Stage):
    """Shuffles through a buffer of `size` samples: each output is a random one of them. The first output
    comes when the buffer has `initial` samples.

    Before output g (from 0) the buffer has taken min(initial + 2 g, size + g) samples in all, as long as
    there are more: it grows by one at each output until it is full. Output g is the sample in place
    draw(g, length); the next sample takes that place, or, at the end, the last one. So the buffer's content
    is a function of g and of the stream's length.
    """

    size: int
    initial: int = 100
    seed: int | None = None
    has_position = counts = True
    label = "shuffle({0.size}, initial={0.initial}, seed={0.seed})"

    def run(self, source: Flow, context: Context, own: Any = None) -> Flow:
        return ShuffleFlow(source, self, context.draws("shuffle", self.seed), own)


@dataclass(frozen=True)
class DetShuffle(Shuffle):
    """detshuffle(): Shuffle with epochs counted from `start` + 1. `epoch`: the last one that began here, for
    scripts that read it.
    """

    start: int = -1
    epoch: int = field(init=False, compare=False, default=-1)

    def run(self, source: Flow, context: Context, own: Any = None) -> Flow:
        epoch = context.epoch + self.start + 1
        object.__setattr__(self, "epoch", epoch)
        return super().run(source, replace(context, epoch=epoch), own)

    def __str__(self) -> str:
        return super().__str__() + ("" if self.start == -1 else f" from epoch {self.start}")


class ShuffleFlow:
    """The flow of Shuffle. Its own entry: [outputs given, length of the source or None, number of the sample
    at which the source's position was noted].

    Positions are noted a few times per `size` samples, and forgotten when all samples held are newer.
    """

    def __init__(
        self, source: Flow, stage: Shuffle, draws: Draws, own: tuple[int, int | None, int] | None
    ) -> None:
        self._source, self._size, self._initial = source, stage.size, max(1, min(stage.initial, stage.size))
        self._draws = draws
        self._given, self._total, self._read = own or (0, None, 0)
        self._resumed = own is not None
        self._every = max(1, self._size // 8)
        self._marks: deque[tuple[int, Position]] = deque([(self._read, source.position())])
        self._numbers: list[int] = []  # of the samples in the buffer
        self._held: list[Any] = []

    def __iter__(self) -> Iterator[Any]:
        items = iter(self._source)
        if self._resumed:
            self._refill(items)
        numbers, held = self._numbers, self._held
        if self._total is None:
            wanted = self._wanted(self._given)
            for item in items:
                numbers.append(self._read)
                held.append(item)
                self._read += 1
                if self._read % self._every == 0:
                    self._mark()
                if self._read == wanted:
                    yield self._take()
                    wanted = self._wanted(self._given)
            self._total = self._read
        while held:
            yield self._take()

    def _take(self) -> Any:
        numbers, held = self._numbers, self._held
        at = self._draws.below(self._given, len(held))
        given, held[at], numbers[at] = held[at], held[-1], numbers[-1]
        held.pop()
        numbers.pop()
        self._given += 1
        return given

    def position(self) -> Position:
        number, position = self._marks[0]
        return [*position, [self._given, self._total, number]]

    def _wanted(self, given: int) -> int:
        """The number of samples that are read before output `given`."""
        return min(self._initial + 2 * given, self._size + given)

    def _mark(self) -> None:
        """Notes the source's position before sample `_read`."""
        if self._read > self._marks[-1][0]:
            self._marks.append((self._read, self._source.position()))
        oldest = min(self._numbers, default=self._read)
        while len(self._marks) > 1 and self._marks[1][0] <= oldest:
            self._marks.popleft()

    def _refill(self, items: Iterator[Any]) -> None:
        """Fills the buffer again, from the noted position on. Reads as many samples as were read at the last
        output.
        """
        self._resumed = False
        numbers = self._held_numbers()
        end = (
            max(numbers, default=-1) + 1
            if self._total is not None
            else self._wanted(self._given - 1)
            if self._given
            else self._read
        )
        found: dict[int, Any] = dict.fromkeys(numbers)
        for number in range(self._read, end):
            if number % self._every == 0 and number > self._marks[-1][0]:
                self._marks.append((number, self._source.position()))
            try:
                item = next(items)
            except StopIteration:
                raise ValueError(
                    f"the state was taken behind sample {end} of a stream that now has {number}; resume with"
                    " the same shards and stages"
                ) from None
            if number in found:
                found[number] = item
        self._read = end if self._total is None else self._total
        self._numbers[:] = numbers
        self._held[:] = [found[number] for number in numbers]

    def _held_numbers(self) -> list[int]:
        """The numbers of the samples held, by place in the buffer, after `_given` outputs, with as many
        samples read as the last of these outputs needed.
        """
        numbers: list[int] = []
        read, end, below = 0, 2**62 if self._total is None else self._total, self._draws.below
        for given in range(self._given):
            wanted = min(self._wanted(given), end)
            numbers.extend(range(read, wanted))
            read = max(read, wanted)
            at = below(given, len(numbers))
            numbers[at] = numbers[-1]
            numbers.pop()
        return numbers


# ---------------------------------------------------------------- batches

Collate = Callable[[list[Any]], Any]


@dataclass(frozen=True)
class Batched(Stage):
    """Lists of `batchsize` samples, passed through `collation_fn` unless it is None; with `partial`, the last
    list may be shorter.
    """

    batchsize: int
    collation_fn: Collate | None = default_collation_fn
    partial: bool = True
    counts = True
    label = "batched({0.batchsize}, partial={0.partial})"

    def run(self, source: Flow, context: Context, own: Any = None) -> Flow:
        return BatchedFlow(source, self)


class BatchedFlow:
    """The flow of Batched. Holds samples only while it waits for more."""

    def __init__(self, source: Flow, stage: Batched) -> None:
        self._source, self._stage = source, stage
        self._before: Position | None = None  # the first sample of the batch that is being made

    def __iter__(self) -> Iterator[Any]:
        items, size, collate = iter(self._source), self._stage.batchsize, self._stage.collation_fn
        while True:
            self._before = self._source.position()
            batch = list(islice(items, size))
            if not batch or (len(batch) < size and not self._stage.partial):
                self._before = None
                return
            made = batch if collate is None else collate(batch)
            self._before = None
            yield made

    def position(self) -> Position:
        return self._source.position() if self._before is None else self._before


@dataclass(frozen=True)
class Unpacked(Stage):
    """unbatched() or unlisted(), by `name`: the elements that `unpack` finds in each batch."""

    name: str
    unpack: Callable[[Any], Iterator[Any]]
    has_position = counts = True
    label = "{0.name}()"

    def run(self, source: Flow, context: Context, own: Any = None) -> Flow:
        return UnpackedFlow(source, self.unpack, own)


class UnpackedFlow:
    """The flow of Unpacked. Its own entry: the number of elements of the present batch that it has given."""

    def __init__(self, source: Flow, unpack: Callable[[Any], Iterator[Any]], own: Any) -> None:
        self._source, self._unpack, self._given = source, unpack, own or 0
        self._before = source.position()

    def __iter__(self) -> Iterator[Any]:
        for batch in iter(self._source):
            first = self._given
            for row in islice(self._unpack(batch), first, None):
                self._given += 1
                yield row
            self._given, self._before = 0, self._source.position()

    def position(self) -> Position:
        return [*self._before, self._given]


def rows_of(batch: Any) -> Iterator[Any]:
    """The samples of a batch, which is a tuple of fields with lengths or a dict of them. ValueError for any
    other type, and for fields of different lengths.
    """
    if isinstance(batch, (list, tuple)):
        for row in range(len(batch[0])):
            yield tuple(field[row] for field in batch)
    elif isinstance(batch, dict):
        lengths = {name: len(field) for name, field in batch.items()}
        if len(set(lengths.values())) != 1:
            raise ValueError(f"unbatched() needs fields of one length, but they have {lengths}")
        for row in range(next(iter(lengths.values()))):
            yield {name: field[row] for name, field in batch.items()}
    else:
        raise ValueError(f"unbatched() takes tuples, lists or dicts of fields, not {type(batch).__name__}")


def elements_of(batch: Any) -> Iterator[Any]:
    if not isinstance(batch, list):
        raise ValueError(f"unlisted() takes lists, as listed() makes them, not {type(batch).__name__}")
    return iter(batch)


# ---------------------------------------------------------------- counted


@dataclass(frozen=True)
class Slice(Stage):
    """itertools.islice of each reader's samples."""

    start: int
    stop: int | None
    step: int = 1
    has_position = counts = True
    label = "slice({0.start}, {0.stop}, {0.step})"

    def run(self, source: Flow, context: Context, own: Any = None) -> Flow:
        start, step = self.start, self.step
        return CountedFlow(
            source, lambda number: number >= start and (number - start) % step == 0, own, self.stop
        )


@dataclass(frozen=True)
class RandomSample(Stage):
    """Each sample with probability `p`, which depends on (seed, epoch, reader, its number in the reader's
    stream).
    """

    p: float = 0.5
    has_position = counts = True
    label = "rsample({0.p})"

    def run(self, source: Flow, context: Context, own: Any = None) -> Flow:
        draws, p = context.draws("rsample"), self.p
        return CountedFlow(source, lambda number: draws.uniform(number) < p, own)


class CountedFlow:
    """The samples with chosen numbers among the first `stop` of the source. Its own entry: the number of
    samples it has seen.
    """

    def __init__(
        self, source: Flow, chooses: Callable[[int], bool], own: Any, stop: int | None = None
    ) -> None:
        self._source, self._chooses, self._count, self._stop = source, chooses, own or 0, stop

    def __iter__(self) -> Iterator[Any]:
        rest = None if self._stop is None else min(max(0, self._stop - self._count), sys.maxsize)
        for item in islice(self._source, rest):
            self._count += 1
            if self._chooses(self._count - 1):
                yield item

    def position(self) -> Position:
        return [*self._source.position(), self._count]
