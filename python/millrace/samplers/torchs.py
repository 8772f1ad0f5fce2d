"""torch's samplers, with torch's arguments, errors, indices and draws: SequentialSampler, RandomSampler,
SubsetRandomSampler, BatchSampler and DistributedSampler. weighted.py has the weighted one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

import torch
from torch.utils import data
from torch.utils.data import distributed

from .. import _core
from .._common.states import signing, unsigned_state
from ..errors import StateError
from .readers import (
    SEED_BITS,
    BlockReader,
    Indices,
    Order,
    OrderReader,
    Origin,
    in_order,
    own_generator,
    steps_left,
)
from .resumable import Resumable, ResumableEpochs, SamplerIterator, known, native


@known(data.SequentialSampler)
class SequentialSampler(Resumable, data.SequentialSampler):
    """torch's SequentialSampler: 0, 1, ..., len(data_source) - 1."""

    seekable = True

    def __iter__(self) -> SamplerIterator:
        start, _ = self._resume()
        length = len(self.data_source)
        return self._follow(OrderReader(lambda: (in_order, length, max(length - start, 0)), start))

    def _facts(self) -> dict[str, Any]:
        return {"length": len(self.data_source)}


@known(data.RandomSampler)
class RandomSampler(Resumable, data.RandomSampler):
    """torch's RandomSampler, with its draws at its moments.

    From the global generator, 64 bits are drawn at the first index. From a generator of its own, a
    permutation is drawn at each round's first index and one after the last, or with replacement 32 numbers at
    a time.

    From the global generator, without replacement, a permutation is drawn as far as it is taken: 4 bytes per
    sample, and the first index comes at once. Resuming a sampler with a generator of its own puts the
    generator back, too.

    One difference: more than 2^31 samples, or more than the data source has as `computed_shuffle_above`, are
    shuffled without replacement by a keyed permutation, in no memory (torch would hold 8 bytes for each, and
    a Python int). Its seed is drawn as torch's.

    Other arguments are torch's.

    Args:
        num_samples: samples of an epoch; None: as many as `data_source` has.
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
            # No other code uses this generator, so it may draw ahead: the numbers are the same.
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
    """Whether these are a list of plain ints, which are unchanged as numbers of an array."""
    return type(indices) in (list, tuple) and set(map(type, indices)) <= {int}


@known(data.SubsetRandomSampler)
class SubsetRandomSampler(Resumable, data.SubsetRandomSampler):
    """torch's SubsetRandomSampler: a permutation of `indices`, drawn at the first index.

    Args:
        indices: any elements; next() gives them as they are.
        generator: the permutation is drawn from it, if there is one.
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


class BatchIterator:
    """The next indices of a sampler: lists, or int64 arrays if `arrays` is set and the sampler makes numbers.
    The sampler's iterator is made for the first batch, as by torch's BatchSampler.
    """

    def __init__(self, sampler: BatchSampler, state: dict[str, Any], arrays: bool) -> None:
        self._head, self._start, self.given = sampler._head(), state.get("position", 0), 0
        self._inner = state.get("sampler")
        self._skipped = 0  # indices of the sampler that came before the start
        # positions of all ranks together; else of this one
        self._counts_all = isinstance(sampler.indices(), Resumable)
        self._sampler: BatchSampler | None = sampler  # until the first batch
        self._arrays = arrays
        self._indices: Any = None
        self._take: Callable[[int], Any] | None = None  # gives arrays

    def __iter__(self) -> BatchIterator:
        return self

    def __next__(self) -> Any:
        if self._sampler is not None:
            sampler, self._sampler = self._sampler, None
            self._begin(sampler)
        size = self._batch_size
        batch = [*islice(self._indices, size)] if self._take is None else self._take(size)
        count = len(batch)
        if count < size and (not count or self._drop_last):
            raise StopIteration
        self.given += count
        return batch

    @signing
    def state_dict(self) -> dict[str, Any]:
        """The position of the next batch: "position", in the sampler's global order, and the sampler's state,
        if it has one.
        """
        tells = hasattr(self._indices, "state_dict")
        return self._state(self.given, unsigned_state(self._indices) if tells else self._inner)

    def state_after(self, given: int) -> dict[str, Any]:
        """The result of state_dict() after `given` indices."""
        return self._state(given, self._indices.state_after(self._skipped + given))

    def _state(self, given: int, inner: Any) -> dict[str, Any]:
        position = self._start + given
        if inner is None:
            return {**self._head, "position": position}
        return {
            **self._head,
            "position": inner["position"] if self._counts_all else position,
            "sampler": inner,
        }

    def _begin(self, sampler: BatchSampler) -> None:
        self._batch_size, self._drop_last = sampler.batch_size, sampler.drop_last
        inner = sampler.indices()
        if self._inner is not None:
            inner.load_state_dict(self._inner)
        self._indices = iter(inner)
        if self._inner is None:
            self._skipped = sum(1 for _ in islice(self._indices, self._start))
            if self._skipped < self._start:
                raise StateError(
                    f"the state is from behind {self._start} indices, and the sampler gives only"
                    f" {self._skipped}"
                )
        if self._arrays and getattr(self._indices, "gives_numbers", False):
            self._take = self._indices.take


@known(data.BatchSampler)
class BatchSampler(Resumable, data.BatchSampler):
    """torch's BatchSampler: lists of `batch_size` indices of `sampler`.

    A state holds the state of `sampler`, so it loads with another batch size, and, if `sampler` allows it,
    with another number of ranks. If `sampler` has no state, resuming draws the earlier indices and drops
    them.

    Args:
        sampler: any iterable.
        batch_size: indices in a list.
        drop_last: leave out the last list if it is shorter.
    """

    _state_is_json = False  # `sampler` may be a user's
    _ends_at_length = False  # positions are those of `sampler`, which checks them itself

    def __iter__(self) -> BatchIterator:  # type: ignore[override]
        return self._is_latest(BatchIterator(self, self._resume()[1], arrays=False))

    def arrays(self) -> BatchIterator:
        """iter() with int64 arrays of shape [rows] instead of lists, if `native` knows the sampler."""
        return self._is_latest(BatchIterator(self, self._resume()[1], arrays=True))

    @property
    def counted(self) -> bool:  # type: ignore[override]
        inner = self.indices()
        return isinstance(inner, Resumable) and type(inner) is not BatchSampler and inner.counted

    def indices(self) -> Any:
        """The sampler that gives the indices: `sampler`, natively if possible."""
        sampler = native(self.sampler)
        return self.sampler if sampler is None else sampler

    def _checked(self, state: Any) -> dict[str, Any]:
        state = super()._checked(state)
        sampler, inner = self.indices(), state.get("sampler")
        if inner is not None and not hasattr(sampler, "load_state_dict"):
            kind = inner.get("kind") if isinstance(inner, Mapping) else type(inner).__name__
            raise StateError(
                f"the state is of batches of a {kind}; {type(sampler).__name__} has no load_state_dict"
            )
        if inner is not None and isinstance(sampler, Resumable):
            sampler._checked(inner)
        return state

    def _facts(self) -> dict[str, Any]:
        sampler = self.indices()
        if isinstance(sampler, Resumable):  # the length of its global order, for any number of ranks
            return {"length": sampler._facts()["length"]}
        try:
            return {"length": len(self.sampler)}  # type: ignore[arg-type]
        except (
            TypeError,
            AttributeError,
            NotImplementedError,
        ):  # torch asks for the length only when it is asked
            return {"length": None}


@known(distributed.DistributedSampler)
class DistributedSampler(ResumableEpochs, distributed.DistributedSampler):
    """torch's DistributedSampler: every num_replicas-th index, from `rank` on, of an order that (seed +
    epoch) shuffles.

    A state counts indices of all ranks together, so it loads under another num_replicas: the rest of the
    order comes, each index once; only after its end is the beginning repeated until all ranks have equally
    many.

    Other arguments are torch's.

    Args:
        dataset: gives the length.
        shuffle: False: the indices in their order.
        drop_last: at the end, False goes on from the beginning, True does not.
    """

    seekable = True

    def __iter__(self) -> SamplerIterator:  # type: ignore[override]
        start, _ = self._resume()
        length = len(self.dataset)  # type: ignore[arg-type]
        self._check_length(length)
        steps = self.num_samples
        if start:
            steps = steps_left(length, start, self.num_replicas, self.drop_last)
        seed, shuffle = self.seed + self.epoch, self.shuffle

        def begin() -> tuple[Order, int, int]:
            return (
                _core.RandomPermutation(length, seed & SEED_BITS).at if shuffle else in_order,
                length,
                steps,
            )

        return self._follow(OrderReader(begin, start, self.rank, self.num_replicas))

    def _check_length(self, length: int) -> None:
        """The errors that torch's iterator raises when the dataset has changed its length since this was
        made.
        """
        total = self.total_size
        if length == 0 and total > 0 and not self.drop_last:
            raise ZeroDivisionError("division by zero")
        if (length < total) if self.drop_last else (length > total):
            taken = length if self.drop_last else 2 * length - max(length - total, 0)
            raise AssertionError(f"Number of indices ({taken}) does not match total_size ({total})")

    def _facts(self) -> dict[str, Any]:
        return {"length": len(self.dataset), "seed": self.seed, "shuffle": self.shuffle}  # type: ignore[arg-type]
