"""torch's ConcatDataset of datasets with pictures in files: one table of all their files."""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from torch.utils.data import ConcatDataset

from ... import _core
from ..._common.lowering.as_shipped import check_class
from ..._common.lowering.recognising import NotLowered
from ...datasets.lazy_list import Targets as Labels
from ..engines.native import Files
from ..engines.targets import Targets
from .source import Source


def recognise_joined(dataset: ConcatDataset, recognise: Callable[[Any], Source]) -> Source:
    """The Source of a ConcatDataset. `recognise`: called with each part; its NotLowered passes through."""
    check_class(ConcatDataset)
    parts = tuple(map(recognise, dataset.datasets))
    lengths = [len(part) for part in dataset.datasets]  # type: ignore[arg-type]
    if dataset.cumulative_sizes != list(accumulate(lengths)):
        raise NotLowered("ConcatDataset's parts have changed their length; make a new ConcatDataset")
    first = parts[0]
    for part in parts:
        if part.on_error is not None:  # the engine would go on in the next part
            raise NotLowered(
                f"{part.name} in a ConcatDataset replaces what it cannot read by samples of its own; use an"
                " ImageFolder"
            )
    if any(part.exif != first.exif for part in parts):
        raise NotLowered(
            "ConcatDataset's parts differ in how they turn pictures; give all the same exif=, or one kind of"
            " dataset"
        )
    names = ", ".join(dict.fromkeys(part.name for part in parts))
    functions = tuple(function for part in parts for function in part.target_transforms)
    joined = _Joined(dataset, parts, lengths)
    return Source(
        f"ConcatDataset of {len(parts)} x {names}",
        first.transform,
        joined.files,
        (joined,),
        first.exif,
        first.any_mode,
        first.grey,
        functions,
        parts=parts,
    )


# By dataset: its parts' tables, and the joined table, which is valid while these are the same objects.
_known_tables: weakref.WeakKeyDictionary[Any, tuple[list[_core.PathTable], _core.PathTable]] = (
    weakref.WeakKeyDictionary()
)


class _Joined(Sequence[int]):
    """A ConcatDataset's index map, from an index to a position in the table of all files. files() fills it.
    Raises ConcatDataset's error for indices before its beginning.
    """

    def __init__(self, dataset: ConcatDataset, parts: Sequence[Source], lengths: Sequence[int]) -> None:
        self._dataset, self._parts, self._lengths = dataset, parts, lengths
        self._positions = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return len(self._positions)

    def __getitem__(self, index: Any) -> Any:
        if index < -len(self._positions):
            raise ValueError("absolute value of index should not exceed dataset length")
        return int(self._positions[index])

    def files(self) -> Files:
        made = [part.make_files() for part in self._parts]
        tables = [files.paths for files in made if files.paths is not None]
        if len(tables) < len(made):
            raise NotLowered("ConcatDataset of pictures that are no files of their own; use ImageFolder")
        starts = [0, *accumulate(map(len, tables))]
        self._positions = np.concatenate(
            [
                _positions(part, length, len(table)) + start
                for part, length, table, start in zip(self._parts, self._lengths, tables, starts)
            ]
        )
        table = self._table(tables)
        files = _core.PathFiles(table)
        if all(part.targets is None for part in made):
            return Files(files, np.concatenate([part.labels for part in made]), table)
        targets: list[Any] = []
        for part in made:
            known = part.targets.parts if isinstance(part.targets, Targets) else ()
            targets += known or [(Labels(part.labels), None)]
        return Files(files, np.arange(len(table)), table, Targets(targets))

    def _table(self, tables: list[_core.PathTable]) -> _core.PathTable:
        known, table = _known_tables.get(self._dataset, ([], None))
        if table is not None and len(known) == len(tables) and all(map(operator.is_, known, tables)):
            return table
        table = _core.PathTable([part[i] for part in tables for i in range(len(part))])
        _known_tables[self._dataset] = tables, table
        return table


def _positions(part: Source, length: int, files: int) -> np.ndarray:
    """Positions of a part's samples in its own files: int64 of shape (length,)."""
    positions: list[int] = list(range(length))
    for indices in part.index_maps:
        positions = [operator.index(indices[i]) for i in positions]
    found = np.array(positions, np.int64)
    if length and (found.min() < -files or found.max() >= files):
        raise NotLowered(
            f"{part.name} reaches from index {found.min()} to {found.max()} in {files} files; leave those"
            " outside out"
        )
    return np.where(found < 0, found + files, found)
