"""Datasets that the engine reads from files: millrace's image folders and indexed shards, those of other
libraries that this program has imported, and torch's Subset and ConcatDataset of them.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np
from torch.utils.data import ConcatDataset, Subset

from ... import _core
from ..._common.lowering.recognising import NotLowered, loaded
from ...datasets import ImageFolder
from ...datasets.lazy_list import Targets as Labels
from ..engines.images import Files, Targets
from .path_lists import recognise_timm, recognise_torchvision
from .pixel_arrays import recogniser_of_arrays
from .source import Source

# What docs/native.md says of it (scripts/native_table.py).
WORDS = (
    "`ImageFolder` of millrace, [lists of paths of torchvision and"
    " timm](#data-sets-of-torchvision-and-timm), also under `Subset` and `ConcatDataset`; torchvision's"
    " pictures in memory; [WebDataset](shards.md). JPEG, PNG and WebP are decoded in C++, and only the"
    " part that the crop needs; other formats, and what is out of the ordinary (damage, odd metadata or"
    " animations, progressive JPEGs that lack scans, a PNG or WebP of more than 89 million pixels), by"
    " Pillow in the same threads: the pixels are Pillow's either way"
)


def joins_pictures(dataset: Any) -> bool:
    """Whether it is a ConcatDataset, or Subset of one, for recognise_source(), not for recognise_rows()."""
    while type(dataset) is Subset:
        dataset = dataset.dataset
    return type(dataset) is ConcatDataset and any(map(_may_be_pictures, dataset.datasets))


def _may_be_pictures(dataset: Any) -> bool:
    while type(dataset) is Subset:
        dataset = dataset.dataset
    return (
        joins_pictures(dataset)
        or isinstance(dataset, ImageFolder)
        or _is_indexed(type(dataset))
        or _library(dataset) is not None
    )


def _is_indexed(cls: type) -> bool:
    """Imports nothing: who has an IndexedWebDataset has imported what is behind it."""
    base = loaded("millrace.datasets.webdataset.indexed", "IndexedWebDataset")
    return base is not None and issubclass(cls, base)


def _library(root: Any) -> Callable[[Any], Source] | None:
    for module, name, recognise in _LIBRARIES:
        base = loaded(module, name)
        if base is not None and isinstance(root, base):
            return recognise
    return None


def _vision(root: Any) -> Source:
    return (recogniser_of_arrays(root) or recognise_torchvision)(root)


# By a base class, looked up in the module that defines it if that was imported.
_LIBRARIES: tuple[tuple[str, str, Callable[[Any], Source]], ...] = (
    ("torchvision.datasets.vision", "VisionDataset", _vision),
    ("timm.data.dataset", "ImageDataset", recognise_timm),
)


# What recognise_source() knows, and their subclasses, by name; and what is said of everything else.
PICTURES = {
    "millrace.datasets.image_folder.ImageFolder",
    "millrace.datasets.webdataset.indexed.IndexedWebDataset",
    *(f"{module}.{name}" for module, name, _ in _LIBRARIES),
}
IS_PYTHON = (
    "is Python code; the engine reads millrace.datasets.ImageFolder, torchvision's ImageFolder, DatasetFolder"
    " and others that are lists of paths and labels, timm's ImageDataset, tensors and numpy arrays, torch's"
    " TensorDataset, StackDataset, ConcatDataset, Hugging Face's Dataset, and Subset of these"
)


def recognise_source(dataset: Any) -> Source:
    """The Source behind `dataset`; NotLowered when its samples must be made by Python."""
    index_maps = []
    root = dataset
    while type(root) is Subset:
        index_maps.append(root.indices)
        root = root.dataset
    source = _recognise_root(root)
    if not index_maps:
        return source
    name = "Subset of " * len(index_maps) + source.name
    return replace(source, name=name, index_maps=(*index_maps, *source.index_maps))


def _recognise_root(root: Any) -> Source:
    if "__getitems__" in getattr(root, "__dict__", ()):
        raise NotLowered(f"this {type(root).__name__} was given a __getitems__ of its own; remove it")
    if type(root) is loaded("millrace.datasets.webdataset.indexed", "IndexedWebDataset"):
        from .shard_stages import recognise_indexed

        transform, make_files = recognise_indexed(root)
        return Source("indexed WebDataset", transform, lambda: Files(*make_files()))
    if isinstance(root, ImageFolder):
        return _folder(root)
    if type(root) is ConcatDataset:
        return recognise_joined(root, recognise_source)
    recognise = _library(root)
    if recognise is None:
        raise NotLowered(f"{type(root).__name__} {IS_PYTHON}")
    return recognise(root)


# What decides which sample an index gives. A subclass that only finds its files in another way (its __init__)
# stays native.
_DECISIVE = (
    "__getitem__",
    "__getitems__",
    "__getattribute__",
    "__getattr__",
    "__len__",
    "samples",
    "transform",
    "target_transform",
    "loader",
)


def _folder(root: ImageFolder) -> Source:
    cls = type(root)
    for name in _DECISIVE:
        if getattr(cls, name, None) is not getattr(ImageFolder, name, None):
            raise NotLowered(f"{cls.__name__} overrides {name} of ImageFolder; use ImageFolder itself")
    if not root.has_default_loader():
        raise NotLowered("the folder has its own loader function; leave `loader` out to decode natively")
    functions = () if root.target_transform is None else (root.target_transform,)
    name = f"millrace {cls.__name__}"
    return Source(
        name, root.transform, partial(_folder_files, root), exif=root.exif, target_transforms=functions
    )


def _folder_files(root: ImageFolder) -> Files:
    paths, labels = root.file_table()
    files = _core.PathFiles(paths)
    if root.target_transform is None:
        return Files(files, labels, paths)
    targets = Targets([(root.targets, root.target_transform)])
    return Files(files, np.arange(len(files)), paths, targets)


# As torch ships them: methods that somebody exchanged since must run.
_METHODS = {
    name: getattr(ConcatDataset, name, None)
    for name in ("__getitem__", "__getitems__", "__getattr__", "__getattribute__", "__len__")
}


def recognise_joined(dataset: ConcatDataset, recognise: Callable[[Any], Source]) -> Source:
    """`recognise`: of each part; its refusal is that of the whole."""
    for name, method in _METHODS.items():
        if getattr(ConcatDataset, name, None) is not method:
            raise NotLowered(f"ConcatDataset.{name} was replaced; restore it")
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


# The joined tables, and those they were made from: a table that is still the same object holds the same.
_known_tables: weakref.WeakKeyDictionary[Any, tuple[list[_core.PathTable], _core.PathTable]] = (
    weakref.WeakKeyDictionary()
)


class _Joined(Sequence[int]):
    """A ConcatDataset's index map, which its files() completes: from an index to a position in the table of
    all files. Raises what ConcatDataset raises for indices before its beginning.
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
            targets += [(Labels(part.labels), None)] if part.targets is None else part.targets.parts
        return Files(files, np.arange(len(table)), table, Targets(targets))

    def _table(self, tables: list[_core.PathTable]) -> _core.PathTable:
        known, table = _known_tables.get(self._dataset, ([], None))
        if table is not None and len(known) == len(tables) and all(map(operator.is_, known, tables)):
            return table
        table = _core.PathTable([part[i] for part in tables for i in range(len(part))])
        _known_tables[self._dataset] = tables, table
        return table


def _positions(part: Source, length: int, files: int) -> np.ndarray:
    """Of the samples of a part in its own files: int64 of shape (length,)."""
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
