"""What lies in memory row by row, as the engine takes it: columns, and the shape of what default_collate
makes of a batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Union

import numpy as np
import torch

from ... import _core

Table = Union[torch.Tensor, np.ndarray]


def row_form(table: Table) -> tuple[tuple[int, int], ...] | None:
    """How the values of each of a table's rows lie, as (size, bytes from one to the next) of its axes; None:
    row-major without gaps.
    """
    strides = (
        table.strides
        if isinstance(table, np.ndarray)
        else [stride * table.itemsize for stride in table.stride()]
    )
    axes = tuple((size, stride) for size, stride in zip(table.shape[1:], strides[1:]) if size != 1)
    dense = table.itemsize
    for size, stride in reversed(axes):
        if stride != dense and 0 not in table.shape:
            return axes
        dense *= size
    return None


@dataclass(frozen=True)
class Column:
    """One field: its rows lie in `tables`, counted through; `index_map`, int64, leads from samples to rows
    (None: the same).

    `mapped`: the tables lie in mapped files, so that reading a row may have to wait for the disk, and files
        may be cut short.
    `made`: the dtype of batches; None: `dtype`, that of the tables. Whole numbers are widened as they are
    gathered, others converted once per batch.
    `files`, `borders`: one per table, or none; `highest`, `excluded`: as `_core.RowGather` has them.
    """

    tables: tuple[Table, ...]
    sample_type: type  # of the field in one sample
    dtype: str
    shape: tuple[int, ...]  # of one row
    made: str | None = None
    index_map: np.ndarray | None = None
    mapped: bool = False
    files: tuple[Any, ...] = ()
    borders: tuple[Any, ...] = ()
    highest: int | None = None
    excluded: tuple[int | None, int, int] | None = None

    @property
    def gathered(self) -> str:
        """The dtype that rows have when they come out of the engine."""
        return self.made if self.made is not None and _core.widens(self.dtype, self.made) else self.dtype

    @property
    def row_bytes(self) -> int:
        """Of a batch."""
        return math.prod(self.shape) * getattr(torch, self.gathered).itemsize

    @property
    def look(self) -> tuple[Any, ...]:
        """What must be equal for rows to be of one batch."""
        return self.sample_type, self.dtype, self.shape, self.made, self.highest, self.excluded

    def field(self, reads_ahead: bool = False) -> tuple[Any, ...]:
        """As `_core.RowGather` takes it."""
        options = {
            "made": self.gathered,
            "highest": self.highest,
            "excluded": self.excluded,
            "files": self.files or None,
            "borders": self.borders or None,
            "reads_ahead": reads_ahead,
        }
        return self.tables, self.index_map, self.shape, self.dtype, self.mapped, options


@dataclass(frozen=True)
class RowSet:
    """`length` samples. `layout`: the number of a column, or (list or dict, its parts): what a batch of
    samples collates to.

    `counts_back`: whether index -1 is the last sample. `alone`: whether a sample asked for by itself has the
    dtypes that it has in a list of samples, which is how torch's fetcher asks.
    """

    name: str
    length: int
    columns: tuple[Column, ...]
    layout: Any
    counts_back: bool = True
    alone: bool = True

    @property
    def refuses(self) -> bool:
        """Whether values in the rows can make samples errors."""
        return any(column.highest is not None for column in self.columns)

    @property
    def mapped_files(self) -> list[_core.MappedFile]:
        """The mapped files, each once; the system may be given advice on their pages."""
        files = (
            file for column in self.columns for file in column.files if isinstance(file, _core.MappedFile)
        )
        return list({id(file): file for file in files}.values())

    @property
    def row_bytes(self) -> int:
        return sum(column.row_bytes for column in self.columns)

    @property
    def sample_types(self) -> set[type]:
        """All types that default_collate meets in samples."""
        types = {column.sample_type for column in self.columns} | _containers(self.layout)
        return types | {torch.Tensor} if np.ndarray in types else types

    def collated(self) -> Callable[[Sequence[torch.Tensor]], Any]:
        """The function that puts the columns' batches together as default_collate does."""
        flat = (list, tuple(range(len(self.columns))))
        assemble = list if self.layout == flat else _assembler(self.layout)
        made = (
            (i, column.made)
            for i, column in enumerate(self.columns)
            if column.made not in (None, column.gathered)
        )
        converted = {i: getattr(torch, dtype) for i, dtype in made}
        if not converted:
            return assemble
        return lambda fields: assemble(
            [f.to(converted[i]) if i in converted else f for i, f in enumerate(fields)]
        )


def _containers(layout: Any) -> set[type]:
    if isinstance(layout, int):
        return set()
    kind, parts = layout
    inner = parts if kind is list else (part for _, part in parts)
    return {tuple if kind is list else dict}.union(*map(_containers, inner))


def _assembler(layout: Any) -> Callable[[Sequence[torch.Tensor]], Any]:
    if isinstance(layout, int):
        return lambda columns: columns[layout]
    kind, parts = layout
    if kind is dict:
        named = [(name, _assembler(part)) for name, part in parts]
        return lambda columns: {name: assemble(columns) for name, assemble in named}
    assemblers = [_assembler(part) for part in parts]
    return lambda columns: [assemble(columns) for assemble in assemblers]
