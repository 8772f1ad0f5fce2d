"""ArrayRows: samples that are rows, or windows of rows, of arrays in files; a ChunkedDataset with chunks that
follow those of the arrays.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..batches import ChunkedDataset, Field
from .sources import ArraySource, Cut, check_select, common_length, cut_of, python_values

_MOST_CHUNK_BYTES = 64 << 20  # that chunks of several fields, or for windows, are joined to
_PLAIN_CHUNK_BYTES = 1 << 20  # where the arrays have no chunks
_VALUE_BYTES = 64  # about what a short text occupies
_WINDOWS_PER_CHUNK = 4  # at least: the rows after a chunk's last window are read twice


@dataclass(frozen=True)
class FileRows:
    """One file's part: a source and its cut per field, and `samples` of them."""

    sources: tuple[ArraySource, ...]
    cuts: tuple[Cut, ...]
    samples: int


class ArrayRows(ChunkedDataset):
    """Samples of arrays: {field: row}, or a row alone for a single field; with `window`, that many successive
    rows.

    Rows of the files are counted through; windows never cross from one file to the next. A row of an array
    [n, ...] is a tensor [...] of the array's dtype, a number where nothing is left of its shape, text as str;
    a window is [window, ...].
    """

    def __init__(
        self,
        files: Sequence[Mapping[str, ArraySource]],
        *,
        alone: bool = False,
        select: Mapping[str, Any] | None = None,
        window: int | None = None,
        stride: int | None = None,
        chunk_rows: int | None = None,
        cache_bytes: int | None = None,
    ) -> None:
        for name, value in (("window", window), ("stride", stride), ("chunk_rows", chunk_rows)):
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
                raise ValueError(f"{name} should be a whole number of rows, 1 or more, not {value!r}")
        if stride is not None and window is None:
            raise ValueError("stride is the distance between windows: give window, too")
        self.window, self.stride = window, (stride or window) if window is not None else None
        self._window, self._stride = window or 1, self.stride or 1
        super().__init__(cache_bytes)
        self._names = tuple(files[0])
        self._files = [self._file(sources, check_select(select, sources)) for sources in files]
        self._check_alike()
        self.chunk_lengths, self._chunk_files, self._chunk_firsts = self._cut_chunks(chunk_rows)
        self.fields = tuple(self._field(i, name) for i, name in enumerate(self._names))
        self.layout = "single" if alone else "dict"

    @property
    def readers(self) -> dict[str, str]:
        """The reader of each field, for people: native, or a library, and why."""
        return {
            name: "; ".join(dict.fromkeys(file.sources[i].reader for file in self._files))
            for i, name in enumerate(self._names)
        }

    def _file(self, sources: Mapping[str, ArraySource], select: Mapping[str, Any]) -> FileRows:
        cuts = {name: cut_of(name, source, select) for name, source in sources.items()}
        rows = common_length(cuts, sources)
        for source, cut in zip(sources.values(), cuts.values()):
            if math.prod(cut.row_shape) == 0:
                raise ValueError(
                    f"nothing is left of the rows of {source.name!r} in {source.where}: their shape is"
                    f" {cut.row_shape}"
                )
        for source in sources.values() if self.window is not None else ():
            if source.dtype is None:
                raise ValueError(
                    f"{source.name!r} in {source.where} is no array of numbers, of which windows could be"
                    " made"
                )
        samples = max(0, (rows - self._window) // self._stride + 1)
        return FileRows(tuple(sources.values()), tuple(cuts.values()), samples)

    def _check_alike(self) -> None:
        first = self._files[0]
        for file in self._files[1:]:
            for i, name in enumerate(self._names):
                here, there = (f.sources[i].dtype for f in (file, first))
                shapes = [f.cuts[i].row_shape for f in (file, first)]
                if here != there or shapes[0] != shapes[1]:
                    raise ValueError(
                        f"field {name!r} differs between files: rows of {file.sources[i].where} are"
                        f" {here or 'no numbers'} {shapes[0]}, those of {first.sources[i].where}"
                        f" {there or 'no numbers'} {shapes[1]}"
                    )

    def _field(self, number: int, name: str) -> Field:
        source, cut = self._files[0].sources[number], self._files[0].cuts[number]
        if source.dtype is None:
            return Field(name)
        shape = cut.row_shape if self.window is None else (self.window, *cut.row_shape)
        return Field(name, source.dtype.name, shape)

    # -- chunks
    # --------------------------------------------------------------------------------------------------------

    def _cut_chunks(self, chunk_rows: int | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Samples of each chunk, its file, and its first sample in that file: int64 [chunks] each.

        A chunk has the samples with their first row in one chunk of the arrays' first axis. If the fields'
        chunks differ, it is the smallest common multiple of these, or the largest chunk if the multiple is
        too much to hold.
        """
        lengths, files, starts = [], [], []
        for number, file in enumerate(self._files):
            if file.samples == 0:
                continue
            rows = chunk_rows or self._usual_chunk_rows(file)
            first = next((cut.first for cut, source in zip(file.cuts, file.sources) if source.chunk_rows), 0)
            last_row = first + (file.samples - 1) * self._stride
            borders = np.arange(first // rows + 1, last_row // rows + 1, dtype=np.int64) * rows
            # the first sample at or after each border
            edges = np.concatenate([[0], -((first - borders) // self._stride), [file.samples]])
            edges = np.unique(edges)
            starts.append(edges[:-1])
            lengths.append(np.diff(edges))
            files.append(np.full(len(edges) - 1, number, np.int64))
        samples, numbers, firsts = (
            np.concatenate(parts) if parts else np.empty(0, np.int64) for parts in (lengths, files, starts)
        )
        return samples, numbers, firsts

    def _usual_chunk_rows(self, file: FileRows) -> int:
        row_bytes = max(1, sum(map(_row_bytes, file.sources, file.cuts)))
        known = [source.chunk_rows for source in file.sources if source.chunk_rows]
        if known:
            rows = math.lcm(*known)
            if rows * row_bytes > _MOST_CHUNK_BYTES:
                rows = max(known)
        else:
            rows = max(1, _PLAIN_CHUNK_BYTES // row_bytes)
        wanted = _WINDOWS_PER_CHUNK * self._window if self.window is not None else 1
        while rows < wanted and 2 * rows * row_bytes <= _MOST_CHUNK_BYTES:
            rows *= 2
        return rows

    def _rows_of_chunk(self, number: int) -> tuple[FileRows, int, int, int]:
        """(file, first row within its cuts, rows, samples)"""
        samples = int(self.chunk_lengths[number])
        first = int(self._chunk_firsts[number]) * self._stride
        return (
            self._files[int(self._chunk_files[number])],
            first,
            (samples - 1) * self._stride + self._window,
            samples,
        )

    def chunk_bytes(self, number: int) -> int:
        """The bytes that read_chunk() occupies; text is estimated."""
        file, _, rows, _ = self._rows_of_chunk(number)
        return rows * sum(map(_row_bytes, file.sources, file.cuts))

    def read_chunk(self, number: int) -> list[Any]:
        """One column per field: arrays [samples, ...], or values of Python."""
        file, first, rows, samples = self._rows_of_chunk(number)
        return [
            self._column(source, cut, first, rows, samples) for source, cut in zip(file.sources, file.cuts)
        ]

    def _column(self, source: ArraySource, cut: Cut, first: int, rows: int, samples: int) -> Any:
        array = source.read(((cut.first + first, rows, 1), *cut.others)).reshape(rows, *cut.row_shape)
        return _Values(python_values(array)) if source.dtype is None else self._windows(array, samples)

    def _windows(self, array: np.ndarray, samples: int) -> np.ndarray:
        """Rows [rows, ...] as samples: themselves, or overlapping windows [samples, window, ...] of the same
        memory.
        """
        if self.window is None:
            return array
        step, *inner = array.strides
        shape = (samples, self.window, *array.shape[1:])
        return np.lib.stride_tricks.as_strided(
            array, shape, (self._stride * step, step, *inner), writeable=False
        )


class _Values:
    """A column of Python's values."""

    def __init__(self, values: list[Any]) -> None:
        self._values = values
        self.nbytes = _VALUE_BYTES * len(values)

    def take(self, rows: np.ndarray) -> list[Any]:
        return [self._values[row] for row in rows.tolist()]


def _row_bytes(source: ArraySource, cut: Cut) -> int:
    return math.prod(cut.row_shape) * (source.dtype.itemsize if source.dtype is not None else _VALUE_BYTES)
