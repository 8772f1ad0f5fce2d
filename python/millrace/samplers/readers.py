"""Readers: what an iterator of a sampler reads its indices from, chunk by chunk; and Origin: what an epoch
was drawn from, when that is one of torch's generators: remembered at the draw, drawn from again on resume.

A reader has `read(count)`, the next `count` indices as int64 [<= count], fewer only at the end; `chunk()`,
the next few that may be drawn together when one is asked for, none at the end; `taken`, how many it gave;
and `position_at(taken)`, entries of the global order that all ranks together have consumed when each has
taken so many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from .._common.states import draw_base_seed, packed, unpacked
from ..errors import StateError

Indices = NDArray[np.int64]
Order = Callable[[Indices], Indices]  # the entries at these positions of the global order

CHUNK = 1024  # indices that next() makes at once: enough to forget the call, few enough to be at hand at once
EMPTY = np.empty(0, dtype=np.int64)
SEED_BITS = 2**64 - 1  # torch takes negative seeds for the same bits


def in_order(positions: Indices) -> Indices:
    return positions


def steps_left(length: int, start: int, entries: int, drop_last: bool) -> int:
    """Equal steps that each rank still has, when all of them together take `entries` of the order at a
    step.
    """
    left = max(length - start, 0)
    return left // entries if drop_last else -(-left // entries)


class OrderReader:
    """One rank's part of a global order: positions start + rank, start + rank + replicas, ...; past the
    end, from the beginning.

    `begin()` is called for the first index, and gives (order, length of the order, how many to read).
    """

    def __init__(
        self, begin: Callable[[], tuple[Order, int, int]], start: int = 0, rank: int = 0, replicas: int = 1
    ) -> None:
        self._begin: Callable[[], tuple[Order, int, int]] | None = begin
        self._order: Order | None = None
        self._start, self._rank, self._replicas = start, rank, replicas
        self._length = self._count = self.taken = 0
        self._chunk = 16  # growing, because the first index is waited for

    def position_at(self, taken: int) -> int:
        return self._start + taken * self._replicas

    def chunk(self) -> Indices:
        count, self._chunk = self._chunk, min(4 * self._chunk, CHUNK)
        return self.read(count)

    def read(self, count: int) -> Indices:
        if count <= 0:
            return EMPTY
        if self._begin is not None:
            begin, self._begin = self._begin, None
            self._order, self._length, self._count = begin()
        count = min(count, self._count - self.taken)
        if count <= 0 or self._order is None:
            self._order = None  # its memory is not needed any more
            return EMPTY
        first = self._start + self._rank + self.taken * self._replicas
        self.taken += count
        end = first + (count - 1) * self._replicas + 1
        positions = np.arange(first, end, self._replicas)
        if end > self._length:
            positions %= self._length
        return self._order(positions)

    def back(self, count: int) -> None:
        """The last `count` indices are to be read again."""
        self.taken -= count


class BlockReader:
    """Indices that a generator function draws block by block: each is drawn when its first index is asked
    for, not before.
    """

    def __init__(self, blocks: Callable[[], Iterator[Indices]], start: int = 0) -> None:
        self._blocks: Iterator[Indices] | None = None
        self._make, self._start, self._skip = blocks, start, start
        self._block = EMPTY  # the rest of it
        self.taken = 0

    def position_at(self, taken: int) -> int:
        return self._start + taken

    def _next_block(self) -> bool:
        """Whether there is one."""
        if self._blocks is None:
            self._blocks = self._make()
            skip, self._skip = self._skip, 0
            while skip > 0 and self._next_block():
                passed = min(skip, len(self._block))
                self._block = self._block[passed:]
                skip -= passed
            if len(self._block):
                return True
        for block in self._blocks:
            if len(block):
                self._block = block
                return True
        return False

    def chunk(self) -> Indices:
        if not len(self._block) and not self._next_block():
            return EMPTY
        return self.read(min(CHUNK, len(self._block)))

    def read(self, count: int) -> Indices:
        parts, wanted = [], count
        while wanted > 0 and (len(self._block) or self._next_block()):
            parts.append(self._block[:wanted])
            self._block = self._block[wanted:]
            wanted -= len(parts[-1])
        self.taken += max(count, 0) - max(wanted, 0)
        return parts[0] if len(parts) == 1 else np.concatenate([EMPTY, *parts])


class StepReader:
    """Numbers of steps, for samplers with batches that are blocks of a global order: all ranks together take
    `entries` of the order at a step.
    """

    def __init__(self, start: int, length: int, entries: int, steps: int) -> None:
        self._start, self._length, self._entries, self._steps, self.taken = start, length, entries, steps, 0

    def position_at(self, taken: int) -> int:
        return max(min(self._start + taken * self._entries, self._length), self._start)

    def chunk(self) -> Indices:
        return self.read(16)

    def read(self, count: int) -> Indices:
        first = self.taken
        self.taken = min(first + count, self._steps)
        return np.arange(first, self.taken)

    def back(self, count: int) -> None:
        self.taken -= count


Reader = Any  # one of the three


class Origin:
    """The origin of one epoch's order, with the draws of an ordinary epoch whether it is resumed or not.

    A generator of the sampler's own is put back to where it was before the epoch, so that the epochs after it
    are those of the run that was left, too. The global generator is the whole program's: it makes its
    ordinary draws from where it is.
    """

    def __init__(self, state: dict[str, Any], generator: torch.Generator | None) -> None:
        self._own = generator
        self._seed: int | None = state.get("seed")
        self._before = unpacked(state.get("generator"))  # the generator's state
        self._text: str | None = None  # the same, for state()

    def state(self) -> dict[str, Any]:
        """Part of the sampler's state: what was drawn from; nothing when nothing was drawn yet."""
        if self._before is not None:
            self._text = self._text or packed(self._before)
            return {"generator": self._text}
        return {} if self._seed is None else {"seed": self._seed}

    def own_generator(self) -> torch.Generator:
        """The sampler's generator, to be drawn from."""
        assert self._own is not None
        if self._before is None:
            self._before = self._own.get_state()
        else:
            self._own.set_state(self._before)
        return self._own

    def seed(self) -> int:
        """64 bits from the global generator or the sampler's own, as torch's RandomSampler draws them."""
        drawn = draw_base_seed(None if self._own is None else self.own_generator())
        if self._own is not None:
            return drawn
        if self._seed is None:
            self._seed = drawn
        return self._seed

    def draw(self, make: Callable[[torch.Generator | None], torch.Tensor]) -> torch.Tensor:
        """make(generator) from the sampler's generator, or with None from the global one."""
        if self._own is not None:
            return make(self.own_generator())
        if self._before is None:
            self._before = torch.default_generator.get_state()
            return make(None)
        make(None)
        again = torch.Generator()
        again.set_state(self._before)
        return make(again)


def check_origin(state: Mapping[str, Any], name: str) -> None:
    """StateError unless it says what was drawn from, if anything was."""
    seed, generator = state.get("seed"), state.get("generator")
    if not isinstance(seed, (int, type(None))) or not isinstance(generator, (str, type(None))):
        kinds = (
            f"a seed that is a {type(seed).__name__}, and a generator that is a {type(generator).__name__}"
        )
        raise StateError(f"the state of a {name} has {kinds}: it is damaged; load another one")
    if state["position"] > 0 and seed is None and generator is None:
        raise StateError(
            f"the state of a {name} at position {state['position']} has neither 'seed' nor 'generator', so"
            " its order is lost; load another one"
        )


def own_generator(sampler: Any) -> dict[str, Any]:
    """Part of a state: whether the sampler draws from a generator of its own."""
    return {"own_generator": sampler.generator is not None}
