"""ChunkedDataset: samples in chunks that are decoded whole, such as Parquet's row groups."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Optional

import numpy as np
import torch
from torch.utils.data import default_collate, get_worker_info

from ... import _core
from ...ranks import local_world_size
from ...samplers import ChunkShuffle
from .chunk_cache import ChunkCache
from .dataset import BatchDataset, BatchMaker, MakerOptions

_LEAST_CACHE_BYTES = 64 << 20


@dataclass(frozen=True)
class Field:
    """One value of a sample. `dtype` (torch's name) and `shape` (of one row) of numbers; both None for Python values."""

    name: str
    dtype: Optional[str] = None
    shape: Optional[tuple[int, ...]] = None

    @property
    def is_array(self) -> bool:
        return self.dtype is not None


class ChunkedDataset(BatchDataset):
    """Samples that lie in chunks; a chunk is read and decoded whole, whichever of its samples is asked for.

    A class derived from it sets, in its __init__:

    fields: what a sample is made of. layout: "dict", {name: value}; "tuple", the values; "single", the only one.
    chunk_lengths: int64 [chunks], samples in each chunk.

    and says how a chunk is read (`read_chunk`) and what it will occupy (`chunk_bytes`). Decoded chunks stay in a cache of `cache_bytes`,
    one for each iterator and for each process; loaders fill it ahead, by what their sampler will ask for.
    """

    fields: tuple[Field, ...]
    layout: str = "dict"
    chunk_lengths: np.ndarray

    def __init__(self, cache_bytes: Optional[int] = None) -> None:
        if cache_bytes is not None and cache_bytes < 0:
            raise ValueError(f"cache_bytes should be 0 or more bytes, but got cache_bytes={cache_bytes}")
        self.cache_bytes = cache_bytes
        self._chunk_starts: Optional[np.ndarray] = None
        self._own: Optional[tuple[int, _ChunkMaker]] = None  # (process, maker) behind ds[i]

    def read_chunk(self, number: int) -> Sequence[Any]:
        """One column for each field: an array of shape (rows, *field.shape), rows dense, or an object with take(rows) -> list
        and nbytes.

        Any thread, several at once; what it returns is not changed by anybody. Errors name the file and the chunk.
        """
        raise NotImplementedError

    def chunk_bytes(self, number: int) -> int:
        """What read_chunk(number) will occupy, about."""
        raise NotImplementedError

    def __len__(self) -> int:
        return int(self.chunk_starts[-1])

    @property
    def chunk_starts(self) -> np.ndarray:
        """int64 [chunks + 1]: the first sample of each chunk, and behind the last."""
        if self._chunk_starts is None:
            self._chunk_starts = np.concatenate(([0], np.cumsum(self.chunk_lengths, dtype=np.int64)))
        return self._chunk_starts

    @property
    def rows_ahead(self) -> int:  # type: ignore[override]
        """Enough for some chunks to be on their way while one is used."""
        chunks = len(self.chunk_lengths)
        return 4 * (len(self) // chunks) if chunks else 0

    def shuffled(self, buffer_chunks: int = 8, seed: int = 0, **ranks: Any) -> ChunkShuffle:
        """The sampler to shuffle by: chunks in random order, samples permuted within about `buffer_chunks` of them at a time, so that each
        chunk is decoded once in an epoch. The cache should hold twice as many. `ranks`: num_replicas, rank, drop_last."""
        return ChunkShuffle(self.chunk_lengths, buffer_chunks, seed, **ranks)

    def budget(self) -> int:
        """Bytes of decoded chunks that one iterator may keep: `cache_bytes`, or an eighth of what memory is left, shared among the
        ranks of the node and the workers of a loader."""
        if self.cache_bytes is not None:
            return self.cache_bytes
        left, _ = _core.memory_budget()
        worker = get_worker_info()
        share = local_world_size() * (worker.num_workers if worker is not None else 1)
        return max(_LEAST_CACHE_BYTES, left // 8 // share)

    def batch_maker(self, options: MakerOptions) -> BatchMaker:
        return _ChunkMaker(self, options)

    def _samples(self, indices: np.ndarray) -> list[Any]:
        # Its own for each process: a forked child inherits locks in any state.
        if self._own is None or self._own[0] != os.getpid():
            self._own = os.getpid(), _ChunkMaker(self, MakerOptions())
        return self._own[1].samples(indices)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_own": None}


class _Ticket:
    """A batch: for each chunk the rows in it and their places in the batch (None: all of it, in order)."""

    __slots__ = ("indices", "number", "shares")

    def __init__(self, indices: np.ndarray, starts: np.ndarray) -> None:
        self.indices = indices
        self.number = -1
        chunks = np.searchsorted(starts, indices, side="right") - 1
        self.shares: list[tuple[int, np.ndarray, Optional[np.ndarray]]] = []
        if len(indices) == 0:
            return
        if (chunks == chunks[0]).all():
            self.shares.append((int(chunks[0]), indices - starts[chunks[0]], None))
            return
        order = np.argsort(chunks, kind="stable")
        borders = np.flatnonzero(np.diff(chunks[order])) + 1
        for places in np.split(order, borders):
            chunk = int(chunks[places[0]])
            self.shares.append((chunk, indices[places] - starts[chunk], places))


class _ChunkMaker(BatchMaker):
    def __init__(self, dataset: ChunkedDataset, options: MakerOptions) -> None:
        self._dataset, self._collate = dataset, options.collate
        self._cache = ChunkCache(dataset.read_chunk, dataset.chunk_bytes, dataset.budget(), _size_of)
        self._memory = _core.BatchMemory(len(dataset.fields), options.slots, options.memory)
        self._lock = threading.Lock()
        self._collate_seconds = 0.0

    def expect(self, indices: np.ndarray) -> _Ticket:
        ticket = _Ticket(indices, self._dataset.chunk_starts)
        ticket.number = self._cache.announce(chunk for chunk, _, _ in ticket.shares)
        return ticket

    def make(self, ticket: _Ticket) -> Any:
        fields, count = self._dataset.fields, len(ticket.indices)
        if self._collate is not None:
            return self._collate(self._rows_of(ticket))
        columns: list[Any] = [None] * len(fields)
        seconds = 0.0
        for chunk, rows, places in ticket.shares:
            data = self._take(chunk, ticket)
            started = time.perf_counter()
            for i, (field, column) in enumerate(zip(fields, data)):
                if columns[i] is None:
                    columns[i] = self._memory.empty(i, (count, *field.shape), field.dtype) if field.is_array else [None] * count
                if field.is_array:
                    _core.copy_rows(column, rows, columns[i], places)
                else:
                    _put(columns[i], column.take(rows), places)
            del data
            seconds += time.perf_counter() - started
        started = time.perf_counter()
        listed = tuple if self._dataset.layout == "tuple" else list  # what default_collate leaves text in
        made = [column if field.is_array else default_collate(listed(column)) for field, column in zip(fields, columns)]
        batch = _laid_out(self._dataset, made, list)
        with self._lock:
            self._collate_seconds += seconds + time.perf_counter() - started
        return batch

    def samples(self, indices: np.ndarray) -> list[Any]:
        return self._rows_of(_Ticket(indices, self._dataset.chunk_starts))

    def _rows_of(self, ticket: _Ticket) -> list[Any]:
        fields = self._dataset.fields
        columns: list[list[Any]] = [[None] * len(ticket.indices) for _ in fields]
        for chunk, rows, places in ticket.shares:
            data = self._take(chunk, ticket)
            for values, field, column in zip(columns, fields, data):
                _put(values, _values(column, field, rows) if field.is_array else column.take(rows), places)
        return [_laid_out(self._dataset, list(row), tuple) for row in zip(*columns)]

    def _take(self, chunk: int, ticket: _Ticket) -> Any:
        try:
            return self._cache.get(chunk)
        finally:
            self._cache.used(chunk, ticket.number)

    def read_ahead(self) -> bool:
        return self._cache.read_ahead()

    def discard(self) -> None:
        self._cache.forget()

    def seconds(self) -> dict[str, float]:
        return {"read": self._cache.read_seconds, "collate": self._collate_seconds}


def _values(column: np.ndarray, field: Field, rows: np.ndarray) -> list[Any]:
    """What single samples hold: numpy scalars, or tensors of their own."""
    chosen = column[rows]
    return list(chosen) if not field.shape else list(torch.from_numpy(chosen).unbind(0))


def _put(values: list[Any], found: list[Any], places: Optional[np.ndarray]) -> None:
    if places is None:
        values[:] = found
        return
    for place, value in zip(places.tolist(), found):
        values[place] = value


def _laid_out(dataset: ChunkedDataset, values: list[Any], sequence: type) -> Any:
    if dataset.layout == "dict":
        return {field.name: value for field, value in zip(dataset.fields, values)}
    return values[0] if dataset.layout == "single" else sequence(values)


def _size_of(columns: Sequence[Any]) -> int:
    return sum(column.nbytes for column in columns)
