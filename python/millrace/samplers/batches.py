"""BatchSampler: torch's, resumable."""

from __future__ import annotations

from itertools import islice
from typing import Any, Optional

from torch.utils import data

from .native import known, native
from .resumable import Resumable


class BatchIterator:
    """The next indices of a sampler, whose iterator is made for the first batch, as torch's BatchSampler does: lists, or int64 arrays
    where `arrays` is set and the sampler makes numbers."""

    def __init__(self, sampler: BatchSampler, state: Optional[dict[str, Any]], arrays: bool) -> None:
        self._head, self._position = sampler._head(), state["position"] if state else 0
        self._inner = state.get("sampler") if state else None
        self._counts_all = isinstance(sampler.indices(), Resumable)  # positions of all ranks together; else of this one
        self._sampler: Optional[BatchSampler] = sampler  # until the first batch
        self._arrays = arrays
        self._indices: Any = None
        self._inner_state: Any = None  # asks the sampler's iterator for its state, if it has one

    def __iter__(self) -> BatchIterator:
        return self

    def __next__(self) -> Any:
        if self._sampler is not None:
            sampler, self._sampler = self._sampler, None
            self._begin(sampler)
        batch = self._take(self._batch_size)
        if not len(batch) or (self._drop_last and len(batch) < self._batch_size):
            raise StopIteration
        self._position += len(batch)
        return batch

    def state_dict(self) -> dict[str, Any]:
        """Where the next batch comes from: "position", in the sampler's global order, and its state when it has one."""
        inner = self._inner if self._inner_state is None else self._inner_state()
        if inner is None:
            return {**self._head, "position": self._position}
        return {**self._head, "position": inner["position"] if self._counts_all else self._position, "sampler": inner}

    def _begin(self, sampler: BatchSampler) -> None:
        self._batch_size, self._drop_last = sampler.batch_size, sampler.drop_last
        inner = sampler.indices()
        if self._inner is not None:
            inner.load_state_dict(self._inner)
        self._indices = iter(inner)
        self._inner_state = getattr(self._indices, "state_dict", None)
        if self._inner is None:
            for _ in islice(self._indices, self._position):
                pass
        self._take = self._indices.take if self._arrays and getattr(self._indices, "gives_numbers", False) else self._list

    def _list(self, count: int) -> list[Any]:
        return [*islice(self._indices, count)]


@known(data.BatchSampler)
class BatchSampler(Resumable, data.BatchSampler):
    """torch's: lists of `batch_size` indices of `sampler`, which may be any iterable.

    A state holds that of `sampler`, so it loads under another batch size, and where `sampler` allows it under another number of ranks.
    When `sampler` has none, resuming draws and drops what came before.
    """

    def __iter__(self) -> BatchIterator:  # type: ignore[override]
        return self._iterate(arrays=False)

    def arrays(self) -> BatchIterator:
        """iter() with int64 arrays of shape [rows] instead of lists, where the sampler is one that `native` knows."""
        return self._iterate(arrays=True)

    def _iterate(self, arrays: bool) -> BatchIterator:
        iterator = BatchIterator(self, self._resume(), arrays)
        self._begun += 1
        self._latest = iterator  # type: ignore[assignment]
        return iterator

    def indices(self) -> Any:
        """What gives the indices: `sampler`, run natively if it can be."""
        sampler = native(self.sampler)
        return self.sampler if sampler is None else sampler

    def _checked(self, state: Any) -> dict[str, Any]:
        state = super()._checked(state)
        sampler, inner = self.indices(), state.get("sampler")
        if inner is not None and not hasattr(sampler, "load_state_dict"):
            raise ValueError(f"the state is of batches of a {inner.get('kind')}; {type(sampler).__name__} has no load_state_dict")
        if inner is not None and isinstance(sampler, Resumable):
            sampler._checked(inner)
        return state

    def _facts(self) -> dict[str, Any]:
        sampler = self.indices()
        if isinstance(sampler, Resumable):  # of its global order, whatever the number of ranks
            return {"length": sampler._facts()["length"]}
        try:
            return {"length": len(self.sampler)}  # type: ignore[arg-type]
        except (TypeError, AttributeError, NotImplementedError):  # torch asks for the length only when it is asked
            return {"length": None}
