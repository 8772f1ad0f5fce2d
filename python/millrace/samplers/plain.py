"""SequentialSampler, RandomSampler and SubsetRandomSampler: torch's arguments, errors, indices and draws."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils import data

from .. import _core
from .iterators import SamplerIterator
from .native import known
from .origin import Origin, own_generator
from .readers import BlockReader, Indices, Order, OrderReader
from .resumable import Resumable

SEED_BITS = 2**64 - 1  # torch takes negative seeds for the same bits


def in_order(positions: Indices) -> Indices:
    return positions


@known(data.SequentialSampler)
class SequentialSampler(Resumable, data.SequentialSampler):
    """torch's: 0, 1, ..., len(data_source) - 1."""

    seekable = True

    def __iter__(self) -> SamplerIterator:
        start, _ = self._resume()
        length = len(self.data_source)
        return self._follow(OrderReader(lambda: (in_order, length, max(length - start, 0)), start))

    def _facts(self) -> dict[str, Any]:
        return {"length": len(self.data_source)}


@known(data.RandomSampler)
class RandomSampler(Resumable, data.RandomSampler):
    """torch's, with its draws at its moments: from the global generator 64 bits at the first index, from a
    generator of its own a permutation at each round's first index and one behind the last, or with
    replacement 32 numbers at a time.

    From the global generator, without replacement, a permutation is drawn as far as it is taken: 4 bytes per
    sample, and the first index comes at once. Resuming a sampler with a generator of its own puts the
    generator back, too. `num_samples`: of an epoch; None: as many as `data_source` has.

    One difference: more than 2^31 samples, or more than the data source has as `computed_shuffle_above`, are
    shuffled without replacement by a keyed permutation, in no memory (torch would hold 8 bytes for each, and
    a Python int). Its seed is drawn as torch's.
    """

    _draws_from_torch = True
    seekable = True
    _COMPUTED_ABOVE = 2**31

    def is_computed(self) -> bool:
        """Whether the order is not torch's, because there are so many samples."""
        return not self.replacement and self.num_samples == len(self.data_source) > getattr(
            self.data_source, "computed_shuffle_above", self._COMPUTED_ABOVE
        )

    def __iter__(self) -> SamplerIterator:
        start, state = self._resume()
        origin = Origin(state, self.generator)
        reader = (
            BlockReader(lambda: self._blocks(origin), start)
            if self.replacement or (self.generator is not None and not self.is_computed())
            else OrderReader(lambda: self._order(origin, start), start)
        )
        return self._follow(reader, origin.state)

    def _order(self, origin: Origin, start: int) -> tuple[Order, int, int]:
        n = len(self.data_source)
        key = origin.seed() & SEED_BITS
        length = self.num_samples
        if length and not n:
            # torch's, for a data source that has become empty
            raise ZeroDivisionError("integer division or modulo by zero")
        order = _core.KeyedPermutation(n, key, 0) if self.is_computed() else _core.RandomPermutation(n, key)
        return order.at, length, max(length - start, 0)

    def _blocks(self, origin: Origin) -> Iterator[Indices]:
        n = len(self.data_source)
        if self.generator is not None:
            generator, block = origin.own_generator(), 32
        else:
            # Nobody sees this generator, so it may draw ahead: the numbers are the same.
            generator, block = torch.Generator(), 1024
            generator.manual_seed(origin.seed())

        def drawn(count: int) -> Indices:
            if self.replacement:
                return torch.randint(high=n, size=(count,), dtype=torch.int64, generator=generator).numpy()
            return torch.randperm(n, generator=generator).numpy()[:count]

        length, size = self.num_samples, block if self.replacement else n
        for _ in range(length // size):
            yield drawn(size)
        yield drawn(length % size)

    def _facts(self) -> dict[str, Any]:
        return {
            "length": self.num_samples,
            "samples": len(self.data_source),
            "replacement": self.replacement,
            **own_generator(self),
        }


def _are_ints(indices: Any) -> bool:
    """Whether these are a list of plain ints, which as numbers are what they were."""
    return type(indices) in (list, tuple) and set(map(type, indices)) <= {int}


@known(data.SubsetRandomSampler)
class SubsetRandomSampler(Resumable, data.SubsetRandomSampler):
    """torch's: a permutation of `indices`, drawn at the first index, from `generator` if there is one. next()
    gives the elements of `indices` as they are.
    """

    _draws_from_torch = True
    seekable = True

    def __iter__(self) -> SamplerIterator:
        start, state = self._resume()
        origin = Origin(state, self.generator)

        numbers = _core.int64_array(self.indices) if _are_ints(self.indices) else None

        def begin() -> tuple[Order, int, int]:
            length = len(self.indices)
            order = origin.draw(lambda generator: torch.randperm(length, generator=generator)).numpy()
            chosen = order.__getitem__ if numbers is None else lambda positions: numbers[order[positions]]
            return chosen, length, max(length - start, 0)

        return self._follow(
            OrderReader(begin, start), origin.state, self.indices.__getitem__ if numbers is None else None
        )

    def _facts(self) -> dict[str, Any]:
        return {"length": len(self.indices), **own_generator(self)}
