"""Windows over stretches of tokens: where samples begin, as tables of overlapping rows without memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ... import _core
from ..._common.lowering.rows import Column, RowSet
from .stretches import Stretch


class Windows:
    """`need` tokens from each place where a window begins. Stretches too short for one have none.

    `files`, `borders`: one per table of tables(). `starts`: int64 (windows,), rows of the tables counted
    through; None: each is one.
    `excluded`: (separator or None, tokens from it to the target that is left out), or None: no target is.
    """

    def __init__(
        self,
        stretches: Sequence[Stretch],
        length: int,
        need: int,
        stride: int,
        boundaries: Sequence[str],
        separator: int | None,
        at_end: bool,
    ) -> None:
        self.dtype = stretches[0].tokens.dtype.name
        self._length, self._need, self._stride = length, need, stride
        self._by_document = "start" in boundaries
        self._stretches = [stretch for stretch in stretches if stretch.tokens.shape[1] >= need]
        self._separator, self._at_end = separator, at_end
        self.starts = self._document_windows() if self._by_document else None
        self.files = tuple(stretch.file for stretch, _ in self._blocks())
        self.excluded: tuple[int | None, int] | None = None
        self.borders: tuple[Any, ...] = ()
        if "mask" in boundaries:
            self.excluded = separator, int(at_end)
            self.borders = tuple(
                None if stretch.documents is None else (stretch.offset, stretch.documents)
                for stretch, _ in self._blocks()
            )
        self.count = (
            len(self.starts) if self.starts is not None else sum(len(table) for table in self.tables(0))
        )

    def _blocks(self) -> Iterator[tuple[Stretch, int | None]]:
        """A stretch for each table; with separate records also the window's number in its record: all first
        ones, then all second ones.
        """
        for stretch in self._stretches:
            if len(stretch.tokens) == 1:
                yield stretch, None
            else:
                per_run = (stretch.tokens.shape[1] - self._need) // self._stride + 1
                yield from ((stretch, number) for number in range(per_run))

    def tables(self, first: int) -> Iterator[np.ndarray]:
        """Of shape (rows, length), overlapping: the tokens at [first, first + length) of each row's
        `need`.
        """
        for stretch, number in self._blocks():
            tokens = stretch.tokens
            run_bytes, size = tokens.strides
            if number is None:
                step = 1 if self._by_document else self._stride
                rows, row_bytes, begin = (tokens.shape[1] - self._need) // step + 1, step * size, first
            else:
                rows, row_bytes, begin = len(tokens), run_bytes, first + number * self._stride
            yield np.lib.stride_tricks.as_strided(
                tokens[0, begin:], (rows, self._length), (row_bytes, size), writeable=False
            )

    def _document_windows(self) -> NDArray[np.int64]:
        found, rows = [np.empty(0, np.int64)], 0
        for stretch, number in self._blocks():
            if number is not None:  # a record is a document
                found.append(np.arange(rows, rows + len(stretch.tokens)))
                rows += len(stretch.tokens)
                continue
            count = stretch.tokens.shape[1] - self._need + 1
            documents = document_starts(stretch, self._separator, self._at_end)
            found.append(_steps(documents, stretch.tokens.shape[1], self._stride, count) + rows)
            rows += count
        return np.concatenate(found)


def document_starts(stretch: Stretch, separator: int | None, at_end: bool) -> NDArray[np.int64]:
    """int64 (documents,), the first 0: by the file's index, else by the separators in its only run, which
    ends or begins a document.
    """
    if stretch.documents is not None:
        return stretch.documents
    assert separator is not None
    places = _core.positions(stretch.tokens[0], stretch.tokens.dtype.name, separator)
    return np.union1d([0], places + 1 if at_end else places).astype(np.int64)


def _steps(documents: NDArray[np.int64], end: int, stride: int, count: int) -> NDArray[np.int64]:
    """document, document + stride, ... within each, as far as they are below `count`."""
    documents = documents[documents < end]
    lengths = np.diff(documents, append=end)
    each = -(-lengths // stride)
    first = np.cumsum(each) - each
    starts = np.repeat(documents, each) + stride * (np.arange(int(each.sum())) - np.repeat(first, each))
    return starts[starts < count]


def token_rows(dataset: Any) -> RowSet:
    windows = dataset.windows
    excluded = None if windows.excluded is None else (*windows.excluded, dataset.ignore_index)
    made = dataset.out_dtype.removeprefix("torch.")

    def column(first: int, **more: Any) -> Column:
        """The tokens at [first, first + length) of each window."""
        return Column(
            tuple(windows.tables(first)),
            torch.Tensor,
            windows.dtype,
            (dataset.length,),
            made=made,
            index_map=windows.starts,
            mapped=True,
            files=windows.files,
            highest=dataset.max_token,
            **more,
        )

    if dataset.targets is None:
        return RowSet("Tokens", len(dataset), (column(0),), 0)
    borders = windows.borders if excluded is not None else ()
    columns = column(0), column(1, borders=borders, excluded=excluded)
    return RowSet("Tokens", len(dataset), columns, (list, (0, 1)))
