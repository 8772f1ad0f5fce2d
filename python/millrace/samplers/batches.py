"""BatchSampler: torch's, resumable."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from torch.utils import data

from .native import known, native
from .resumable import Resumable


class BatchIterator:
    """The next indices of one iterator over a sampler: lists, or int64 arrays where `arrays` is set and the sampler makes numbers."""

    def __init__(self, indices: Iterator[Any], sampler: data.BatchSampler, head: dict[str, Any], start: int, arrays: bool) -> None:
        self._indices, self._batch_size, self._drop_last = indices, sampler.batch_size, sampler.drop_last
        self._head, self._position = head, start
        self._take = indices.take if arrays and getattr(indices, "gives_numbers", False) else self._list  # type: ignore[attr-defined]

    def _list(self, count: int) -> list[Any]:
        return [*islice(self._indices, count)]

    def __iter__(self) -> BatchIterator:
        return self

    def __next__(self) -> Any:
        batch = self._take(self._batch_size)
        if not len(batch) or (self._drop_last and len(batch) < self._batch_size):
            raise StopIteration
        self._position += len(batch)
        return batch

    def state_dict(self) -> dict[str, Any]:
        """Where the next batch comes from: "position" indices in, and the state of the sampler's iterator when it has one."""
        state = {**self._head, "position": self._position}
        if hasattr(self._indices, "state_dict"):
            state["sampler"] = self._indices.state_dict()
        return state


@known(data.BatchSampler)
class BatchSampler(Resumable, data.BatchSampler):
    """torch's: lists of `batch_size` indices of `sampler`, which may be any iterable.

    A state holds that of `sampler`, and loads under another batch size, too. When `sampler` has none, resuming draws and drops what
    came before.
    """

    def __iter__(self) -> BatchIterator:  # type: ignore[override]
        return self._iterate(arrays=False)

    def arrays(self) -> BatchIterator:
        """iter() with int64 arrays of shape [rows] instead of lists, where the sampler is one that `native` knows."""
        return self._iterate(arrays=True)

    def _iterate(self, arrays: bool) -> BatchIterator:
        state = self._resume()
        sampler = native(self.sampler)
        sampler = self.sampler if sampler is None else sampler
        inner = state.get("sampler") if state else None
        if inner is not None:
            sampler.load_state_dict(inner)
        indices = iter(sampler)
        start = state["position"] if state else 0
        if start and inner is None:
            for _ in islice(indices, start):
                pass
        head = self._head()
        self._begun += 1
        self._latest = BatchIterator(indices, self, head, start, arrays)  # type: ignore[assignment]
        return self._latest  # type: ignore[return-value]

    def _checked(self, state: Any) -> dict[str, Any]:
        state = super()._checked(state)
        inner, sampler = state.get("sampler"), native(self.sampler)
        sampler = self.sampler if sampler is None else sampler
        if inner is not None and not hasattr(sampler, "load_state_dict"):
            raise ValueError(f"the state is of batches of a {inner.get('kind')}; {type(sampler).__name__} has no load_state_dict")
        if isinstance(sampler, Resumable) and inner is not None:
            sampler._checked(inner)
        return state

    def _facts(self) -> dict[str, Any]:
        try:
            return {"length": len(self.sampler)}  # type: ignore[arg-type]
        except TypeError:  # a sampler without an end
            return {"length": None}
