"""ChunkedDataset: samples in chunks that are decoded whole, such as Parquet's row groups."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.utils.data as torch_data
from torch.utils.data import get_worker_info

from ... import _core, samplers
from ..._common.per_process import PerProcess
from ..._common.ranks import local_world_size
from ..._common.torch_private import default_collate
from ...errors import note
from .chunk_cache import ChunkCache
from .dataset import BatchDataset, BatchMaker, MakerOptions

_LEAST_CACHE_BYTES = 64 << 20
# of batches made in one go: some 0.5 ms, so that the GIL's way from thread to thread costs little of it
_BYTES_AT_ONCE = 512 << 10
_MOST_AT_ONCE = 8

_SHUFFLING = (torch_data.RandomSampler, samplers.RandomSampler, samplers.PermutationSampler)
_DISTRIBUTED = (torch_data.DistributedSampler, samplers.DistributedSampler)


@dataclass(frozen=True)
class Field:
    """One value of a sample. `dtype` (torch's name) and `shape` (of one row) of numbers; both None for Python
    values.
    """

    name: str
    dtype: str | None = None
    shape: tuple[int, ...] | None = None

    @property
    def is_array(self) -> bool:
        return self.dtype is not None


class ChunkedDataset(BatchDataset):
    """Samples that lie in chunks; a chunk is read and decoded whole, whichever of its samples is asked for.

    A class derived from it sets, in its __init__:

    fields: what a sample is made of. layout: "dict", {name: value}; "tuple", the values; "single", the only
        one.
    chunk_lengths: int64 [chunks], samples in each chunk.

    and says how a chunk is read (`read_chunk`) and what it will occupy (`chunk_bytes`). Decoded chunks stay
    in a cache of `cache_bytes`, one for each iterator and for each process; loaders fill it ahead, by what
    their sampler will ask for.
    """

    fields: tuple[Field, ...]
    layout: str = "dict"
    chunk_lengths: np.ndarray

    def __init__(self, cache_bytes: int | None = None) -> None:
        if cache_bytes is not None and cache_bytes < 0:
            raise ValueError(f"cache_bytes should be 0 or more bytes, but got cache_bytes={cache_bytes}")
        self.cache_bytes = cache_bytes
        self._chunk_starts: np.ndarray | None = None
        self._own = PerProcess(_ChunkMaker)  # makes ds[i]

    def read_chunk(self, number: int) -> Sequence[Any]:
        """Read one chunk. Any thread, several at once.

        The result is changed by nobody.

        Returns:
            One column for each field: an array of shape (rows, *field.shape), rows dense, or an object with
            take(rows) -> list and nbytes. Errors name the file and the chunk.
        """
        raise NotImplementedError

    def chunk_bytes(self, number: int) -> int:
        """The bytes that read_chunk(number) will occupy, about."""
        raise NotImplementedError

    def laid_out(self, values: Sequence[Any], sequence: type) -> Any:
        """One value for each field as a sample has them, or as a batch has.

        Args:
            values: one for each field.
            sequence: the type that values without names go into.
        """
        if self.layout == "dict":
            return {field.name: value for field, value in zip(self.fields, values)}
        return values[0] if self.layout == "single" else sequence(values)

    def __len__(self) -> int:
        return int(self.chunk_starts[-1])

    @property
    def chunk_starts(self) -> np.ndarray:
        """int64 [chunks + 1]: the first sample of each chunk, and the end of the last."""
        if self._chunk_starts is None:
            self._chunk_starts = np.concatenate(([0], np.cumsum(self.chunk_lengths, dtype=np.int64)))
        return self._chunk_starts

    @property
    def rows_ahead(self) -> int:  # type: ignore[override]
        """A number that keeps some chunks on their way while one is used."""
        chunks = len(self.chunk_lengths)
        return 4 * (len(self) // chunks) if chunks else 0

    def shuffled(self, buffer_chunks: int = 8, seed: int = 0, **ranks: Any) -> samplers.ChunkShuffle:
        """The sampler to shuffle by: chunks in random order, samples permuted within some of them at a time.

        Each chunk is decoded once in an epoch. The cache should hold twice as many chunks as `buffer_chunks`.

        Args:
            buffer_chunks: samples are permuted within about so many chunks at a time.
            seed: of the order.
            **ranks: num_replicas, rank, drop_last.
        """
        return samplers.ChunkShuffle(self.chunk_lengths, buffer_chunks, seed, **ranks)

    def budget(self) -> int:
        """The bytes of decoded chunks that one iterator may keep.

        Returns:
            `cache_bytes`, or an eighth of the memory that is left, shared among the ranks of the node and the
            workers of a loader.
        """
        if self.cache_bytes is not None:
            return self.cache_bytes
        left, _ = _core.memory_budget()
        worker = get_worker_info()
        share = local_world_size() * (worker.num_workers if worker is not None else 1)
        return max(_LEAST_CACHE_BYTES, left // 8 // share)

    def order_advice(self, sampler: Any) -> str | None:
        known = type(sampler) in _SHUFFLING or (type(sampler) in _DISTRIBUTED and sampler.shuffle)
        chunks, budget = len(self.chunk_lengths), self.budget()
        if not known or sum(map(self.chunk_bytes, range(chunks))) <= budget:
            return None
        return (
            f"{type(sampler).__name__} jumps among {chunks} chunks, of which {budget >> 20} MB (cache_bytes)"
            " are kept, so most samples decode a chunk of their own; shuffle with"
            " sampler=dataset.shuffled(), which decodes each chunk once in an epoch, or raise cache_bytes"
            " until all fit"
        )

    def batch_maker(self, options: MakerOptions) -> BatchMaker:
        return _ChunkMaker(self, options)

    def batches_at_once(self, batch_size: int) -> int:
        if not all(field.is_array for field in self.fields):
            return 1
        row_bytes = sum(
            getattr(torch, str(field.dtype)).itemsize * math.prod(field.shape or ()) for field in self.fields
        )
        return max(1, min(_MOST_AT_ONCE, _BYTES_AT_ONCE // max(1, batch_size * row_bytes)))

    def _samples(self, indices: np.ndarray) -> list[Any]:
        return self._own(self, MakerOptions()).samples(indices)


class _Chunk:
    """A chunk's columns, and those that are arrays as rows are copied from them."""

    __slots__ = ("columns", "table")

    def __init__(self, columns: Sequence[Any], arrays: list[int], in_any_order: bool) -> None:
        self.table = _core.ChunkTable([columns[i] for i in arrays], in_any_order)
        self.columns = list(columns)
        for i, array in zip(arrays, self.table.arrays):
            self.columns[i] = array


class _Reader:
    """Reads chunks for a cache, which it knows nothing of: the two of them go when the maker goes, not when
    cycles are looked for.
    """

    def __init__(self, dataset: ChunkedDataset, arrays: list[int]) -> None:
        self.dataset, self.arrays = dataset, arrays
        self.in_any_order = False  # the batch named last is of samples that do not follow one another

    def __call__(self, number: int) -> _Chunk:
        try:
            return _Chunk(self.dataset.read_chunk(number), self.arrays, self.in_any_order)
        except Exception as error:
            note(error, f"raised by read_chunk({number}) of {type(self.dataset).__name__}")
            raise


class _Ticket:
    """A batch, its samples sorted by chunk; `number`: of its use of these chunks."""

    __slots__ = ("count", "number", "shares", "chunks")

    def __init__(self, indices: np.ndarray, starts: np.ndarray) -> None:
        self.count, self.number = len(indices), -1
        self.shares = _core.ChunkShares(indices, starts)
        self.chunks = self.shares.chunks

    def parts(self, first: int, count: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """(rows in the chunk, places in the batch) for `count` of its chunks, from number `first` on."""
        rows, places, bounds = self.shares.rows, self.shares.places, self.shares.bounds
        for begin, end in zip(bounds[first : first + count], bounds[first + 1 : first + count + 1]):
            yield rows[begin:end], places[begin:end]


class _ChunkMaker(BatchMaker):
    def __init__(self, dataset: ChunkedDataset, options: MakerOptions) -> None:
        self._dataset, self._collate = dataset, options.collate
        budget = dataset.budget()
        # bytes of chunks that one make() holds besides the cache
        self._in_hand = budget // (options.threads + 1)
        # a window of shuffled() and its edges: mostly the cache's, and other threads' too
        self._in_hand_of_several = 3 * budget // 4
        self._arrays = [i for i, field in enumerate(dataset.fields) if field.is_array]
        self._values = [i for i, field in enumerate(dataset.fields) if not field.is_array]
        self._read = _Reader(dataset, self._arrays)
        self._cache = ChunkCache(
            self._read, dataset.chunk_bytes, budget, lambda chunk: sum(map(_memory_of, chunk.columns))
        )
        rows = [(dataset.fields[i].shape or (), str(dataset.fields[i].dtype)) for i in self._arrays]
        self._memory = _core.BatchMemory(rows, options.slots, options.memory)
        self._lock = threading.Lock()
        self._collate_seconds = 0.0

    def expect(self, indices: np.ndarray) -> _Ticket:
        ticket = _Ticket(indices, self._dataset.chunk_starts)
        ticket.number = self._cache.announce(ticket.chunks)
        self._read.in_any_order = self._collate is None and not ticket.shares.in_order
        return ticket

    def make(self, ticket: _Ticket) -> Any:
        if self._collate is not None:
            return self._collate(self._rows_of(ticket))
        tensors = self._memory.empty(ticket.count)
        lists: list[list[Any]] = [[None] * ticket.count for _ in self._values]
        held: list[_Chunk] = []
        first, bytes_in_hand = 0, 0
        last = len(ticket.chunks) - 1
        chunks: Iterable[tuple[_Chunk, int]] = self._cache.get_all(
            ticket.chunks, [(ticket.number,)] * len(ticket.chunks)
        ) or (self._cache.get(number, (ticket.number,)) for number in ticket.chunks)
        for share, (chunk, size) in enumerate(chunks):  # one after the other where some have to be read
            held.append(chunk)
            bytes_in_hand += size
            if bytes_in_hand >= self._in_hand or share == last:
                with self._collating():
                    self._copy(held, ticket, first, tensors, lists)
                held, first, bytes_in_hand = [], share + 1, 0
        with self._collating():
            return self._put_together(tensors, lists)

    def make_several(self, tickets: Sequence[_Ticket]) -> list[Any]:
        uses: dict[int, list[int]] = {}
        for ticket in tickets:
            for number in ticket.chunks:
                uses.setdefault(number, []).append(ticket.number)
        if (
            self._collate is not None
            or self._values
            or sum(map(self._dataset.chunk_bytes, uses)) > self._in_hand_of_several
        ):
            return super().make_several(tickets)
        numbers = sorted(uses)
        found = self._cache.get_all(numbers, [uses[number] for number in numbers])
        if found is None:
            found = [self._cache.get(number, uses[number]) for number in numbers]
        tables = {number: chunk.table for number, (chunk, _) in zip(numbers, found)}
        with self._collating():
            made = [self._memory.empty(ticket.count) for ticket in tickets]
            _core.copy_rows(
                [
                    (ticket.shares, 0, [tables[number] for number in ticket.chunks], tensors)
                    for ticket, tensors in zip(tickets, made)
                ]
            )
            return [self._put_together(tensors, []) for tensors in made]

    @contextmanager
    def _collating(self) -> Iterator[None]:
        started = time.perf_counter()
        yield
        with self._lock:
            self._collate_seconds += time.perf_counter() - started

    def _copy(
        self,
        held: list[_Chunk],
        ticket: _Ticket,
        first: int,
        tensors: list[torch.Tensor],
        lists: list[list[Any]],
    ) -> None:
        """Fills in the batch's shares from `first` on; `held`: their chunks."""
        _core.copy_rows([(ticket.shares, first, [chunk.table for chunk in held], tensors)])
        for values, i in zip(lists, self._values):
            for chunk, (rows, places) in zip(held, ticket.parts(first, len(held))):
                _put(values, chunk.columns[i].take(rows), places)

    def _put_together(self, tensors: list[torch.Tensor], lists: list[list[Any]]) -> Any:
        columns: list[Any] = [None] * len(self._dataset.fields)
        for i, tensor in zip(self._arrays, tensors):
            columns[i] = tensor
        listed = tuple if self._dataset.layout == "tuple" else list  # what default_collate leaves text in
        for i, values in zip(self._values, lists):
            columns[i] = self._collated(self._dataset.fields[i].name, listed(values))
        return self._dataset.laid_out(columns, list)

    @staticmethod
    def _collated(name: str, values: Sequence[Any]) -> Any:
        try:
            return default_collate(values)
        except (RuntimeError, TypeError) as error:
            remedy = "give the loader collate_fn=millrace.Pad(...), or a function of your own"
            raise type(error)(
                f"field {name!r}: its values cannot be put together as they are ({error}); {remedy}"
            ) from None

    def samples(self, indices: np.ndarray) -> list[Any]:
        return self._rows_of(_Ticket(indices, self._dataset.chunk_starts))

    def _rows_of(self, ticket: _Ticket) -> list[Any]:
        fields = self._dataset.fields
        columns: list[list[Any]] = [[None] * ticket.count for _ in fields]
        for chunk, (rows, places) in zip(ticket.chunks, ticket.parts(0, len(ticket.chunks))):
            for values, field, column in zip(
                columns, fields, self._cache.get(chunk, (ticket.number,))[0].columns
            ):
                _put(values, sample_values(column, field, rows), places)
        return [self._dataset.laid_out(row, tuple) for row in zip(*columns)]

    def read_ahead(self) -> bool:
        return self._cache.read_ahead()

    def discard(self) -> None:
        self._cache.forget()

    def close(self) -> None:
        self._cache.empty()

    def seconds(self) -> dict[str, float]:
        return {"read": self._cache.read_seconds, "collate": self._collate_seconds}


def sample_values(column: Any, field: Field, rows: np.ndarray) -> list[Any]:
    """What single samples hold of these rows: numpy scalars, tensors of their own, or Python's values."""
    if not field.is_array:
        return column.take(rows)
    chosen = column[rows]
    return list(chosen) if not field.shape else list(torch.from_numpy(chosen).unbind(0))


def _put(values: list[Any], found: list[Any], places: np.ndarray) -> None:
    for place, value in zip(places.tolist(), found):
        values[place] = value


def _memory_of(column: Any) -> int:
    """Rows that overlap, such as windows of a series, share their bytes."""
    if not isinstance(column, np.ndarray) or column.size == 0:
        return column.nbytes
    spanned = (
        sum((size - 1) * abs(step) for size, step in zip(column.shape, column.strides)) + column.itemsize
    )
    return min(column.nbytes, spanned)
