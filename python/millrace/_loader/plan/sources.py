"""Datasets that the engine reads from files: millrace's image folders and indexed shards, those of other
libraries that this program has imported, and torch's Subset and ConcatDataset of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from torch.utils.data import ConcatDataset, Subset

from ... import _core
from ..._common.lowering.refusal import NotLowered, loaded
from ...datasets import ImageFolder
from ..engines.images import Files
from ..engines.targets import Targets
from .joined import recognise_joined
from .path_lists import recognise_torchvision
from .pixel_arrays import recogniser_of_arrays
from .source import Source
from .timm_folders import recognise_timm

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
        raise NotLowered(
            f"{type(root).__name__} is Python code; the engine reads millrace.datasets.ImageFolder,"
            " torchvision's ImageFolder, DatasetFolder and others that are lists of paths and labels, timm's"
            " ImageDataset, tensors and numpy arrays, torch's TensorDataset, StackDataset, ConcatDataset,"
            " Hugging Face's Dataset, and Subset of these"
        )
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
    table = root.file_table()
    files = _core.PathFiles(table.paths)
    if root.target_transform is None:
        return Files(files, table.labels, table.paths)
    targets = Targets([(root.targets, root.target_transform)])
    return Files(files, np.arange(len(files)), table.paths, targets)
