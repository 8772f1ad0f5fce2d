"""BatchSampler: torch's, resumable."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

from torch.utils import data

from .._common.checksum import signing, unsigned_state
from ..errors import StateError
from .iterators import ResumableIterator
from .native import known, native
from .resumable import Resumable


class BatchIterator:
    """The next indices of a sampler, whose iterator is made for the first batch, as torch's BatchSampler
    does: lists, or int64 arrays where `arrays` is set and the sampler makes numbers.
    """

    def __init__(self, sampler: BatchSampler, state: dict[str, Any], arrays: bool) -> None:
        self._head, self._position = sampler._head(), state.get("position", 0)
        self._inner = state.get("sampler")
        # positions of all ranks together; else of this one
        self._counts_all = isinstance(sampler.indices(), Resumable)
        self._sampler: BatchSampler | None = sampler  # until the first batch
        self._arrays = arrays
        self._indices: Any = None
        self._take: Callable[[int], Any] | None = None  # gives arrays
        self._inners: Callable[[], Any] | None = None  # says where `_indices` stand

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
        self._position += count
        return batch

    @signing
    def state_dict(self) -> dict[str, Any]:
        """Where the next batch comes from: "position", in the sampler's global order, and its state when it
        has one.
        """
        return self.state_at(self.place())

    def place(self) -> tuple[int, Any]:
        """What state_at() needs to make the state of here, in a fraction of its time."""
        return self._position, self._inner if self._inners is None else self._inners()

    def state_at(self, place: tuple[int, Any]) -> dict[str, Any]:
        """What state_dict() would have given at `place`."""
        position, inner = place
        if isinstance(inner, tuple):
            inner = self._indices.state_at(inner)
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
            given = sum(1 for _ in islice(self._indices, self._position))
            if given < self._position:
                raise StateError(
                    f"the state is from behind {self._position} indices, and the sampler gives only {given}"
                )
        if self._arrays and getattr(self._indices, "gives_numbers", False):
            self._take = self._indices.take
        if isinstance(self._indices, ResumableIterator):
            self._inners = self._indices.place
        elif hasattr(self._indices, "state_dict"):
            self._inners = functools.partial(unsigned_state, self._indices)


@known(data.BatchSampler)
class BatchSampler(Resumable, data.BatchSampler):
    """torch's: lists of `batch_size` indices of `sampler`, which may be any iterable. `drop_last`: without
    the last list where it is shorter.

    A state holds that of `sampler`, so it loads under another batch size, and where `sampler` allows it under
    another number of ranks. When `sampler` has none, resuming draws and drops what came before.
    """

    _state_is_json = False  # `sampler` may be of anybody's making
    _ends_at_length = False  # positions are those of `sampler`, which looks at them, too

    def __iter__(self) -> BatchIterator:  # type: ignore[override]
        return self._is_latest(BatchIterator(self, self._resume()[1], arrays=False))

    def arrays(self) -> BatchIterator:
        """iter() with int64 arrays of shape [rows] instead of lists, where the sampler is one that `native`
        knows.
        """
        return self._is_latest(BatchIterator(self, self._resume()[1], arrays=True))

    def indices(self) -> Any:
        """What gives the indices: `sampler`, run natively if it can be."""
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
        if isinstance(sampler, Resumable):  # of its global order, whatever the number of ranks
            return {"length": sampler._facts()["length"]}
        try:
            return {"length": len(self.sampler)}  # type: ignore[arg-type]
        except (
            TypeError,
            AttributeError,
            NotImplementedError,
        ):  # torch asks for the length only when it is asked
            return {"length": None}
