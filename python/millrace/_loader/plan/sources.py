"""Datasets that the engine reads from files: image folders of millrace and torchvision, and torch's Subset of
them.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch.utils.data import Subset

from ... import _core
from ..._common.lowering.refusal import NotLowered, loaded
from ...datasets import ImageFolder, IndexedWebDataset
from ...frozen_list import FrozenList
from ..engines.images import Files
from .shard_stages import recognise_indexed

_TORCHVISION_FOLDER = "torchvision.datasets.folder"


@dataclass(frozen=True)
class Source:
    """A recognised dataset. `transform` takes PIL images; `index_maps` lead from indices to files, outermost
    Subset first.
    """

    name: str
    root: Any
    transform: Any
    index_maps: tuple[Sequence[int], ...]
    exif: bool  # pictures are turned upright before the transform
    make_files: Callable[[], tuple[_core.SampleFiles, np.ndarray]] | None = (
        None  # of sources that are no folders
    )

    def files(self) -> Files:
        """May take a while on first use (millions of files); NotLowered when the samples are not plain (path,
        int) pairs.
        """
        if self.make_files is not None:
            return Files(*self.make_files())
        if not isinstance(self.root, ImageFolder):
            return _torchvision_files(self.root)
        table = self.root.file_table()
        return Files(_core.PathFiles(table.paths), table.labels)


def recognise_source(dataset: Any) -> Source:
    """The Source behind `dataset`; NotLowered when its samples must be made by Python."""
    index_maps = []
    root = dataset
    while type(root) is Subset:
        index_maps.append(root.indices)
        root = root.dataset
    prefix = "Subset of " * len(index_maps)
    if type(root) is IndexedWebDataset:
        transform, make_files = recognise_indexed(root)
        return Source(f"{prefix}indexed WebDataset", root, transform, tuple(index_maps), False, make_files)
    if isinstance(root, ImageFolder):
        base: type = ImageFolder
    else:
        base = _torchvision_base(root)
    _check_overrides(type(root), base)
    if root.target_transform is not None:
        raise NotLowered(
            f"{type(root).__name__} has a target_transform; change the labels in `samples`, or map the"
            " batch's labels"
        )
    if base is ImageFolder:
        if not root.has_default_loader():
            raise NotLowered("the folder has its own loader function; leave `loader` out to decode natively")
    else:
        _check_torchvision_loader(root.loader)
    name = f"{prefix}{'millrace' if base is ImageFolder else 'torchvision'} {type(root).__name__}"
    return Source(name, root, root.transform, tuple(index_maps), base is ImageFolder and root.exif)


def _torchvision_base(root: Any) -> type:
    base = loaded(_TORCHVISION_FOLDER, "DatasetFolder")
    if base is not None and isinstance(root, base):
        return base
    raise NotLowered(
        f"{type(root).__name__} is Python code; the engine reads millrace.datasets.ImageFolder, torchvision's"
        " ImageFolder and DatasetFolder, tensors and numpy arrays, torch's TensorDataset, StackDataset,"
        " ConcatDataset, Hugging Face's Dataset, and Subset of these"
    )


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
    "loader",
)


def _check_overrides(cls: type, base: type) -> None:
    for name in _DECISIVE:
        if getattr(cls, name, None) is not getattr(base, name, None):
            raise NotLowered(
                f"{cls.__name__} overrides {name} of {base.__name__}; use {base.__name__} itself"
            )


def _check_torchvision_loader(loader: Any) -> None:
    pillow = loaded(_TORCHVISION_FOLDER, "pil_loader")
    if loader is pillow:
        return
    if loader is not loaded(_TORCHVISION_FOLDER, "default_loader"):
        raise NotLowered("the folder has its own loader function; leave `loader` out to decode natively")
    if loaded("torchvision", "get_image_backend")() != "PIL":
        raise NotLowered("torchvision's image backend is not PIL; call torchvision.set_image_backend('PIL')")


# The compact form of a torchvision folder's samples, and the tuples it was made from: a tuple that is still
# the same object says the same, so samples assigned or exchanged between epochs count, and a million
# unchanged ones cost some milliseconds.
_known_files: weakref.WeakKeyDictionary[Any, tuple[Sequence[tuple], Files]] = weakref.WeakKeyDictionary()


def _torchvision_files(dataset: Any) -> Files:
    samples = dataset.samples
    known, files = _known_files.get(dataset, ([], None))
    cannot_change = isinstance(samples, FrozenList)
    if files is not None and (known is samples if cannot_change else _same_objects(known, samples)):
        return files
    refusal = NotLowered(
        "`samples` are not all (str, int) tuples, so labels would not collate to one int64 tensor"
    )
    if not set(map(type, samples)) <= {tuple} or not set(map(len, samples)) <= {2}:
        raise refusal
    paths, targets = [path for path, _ in samples], [target for _, target in samples]
    if not set(map(type, paths)) <= {str} or not set(map(type, targets)) <= {int}:
        raise refusal
    files = Files(
        _core.PathFiles(_core.PathTable(paths)), np.fromiter(targets, dtype=np.int64, count=len(targets))
    )
    _known_files[dataset] = (samples if cannot_change else list(samples), files)
    return files


def _same_objects(known: Sequence[Any], samples: Sequence[Any]) -> bool:
    return len(known) == len(samples) and all(map(operator.is_, known, samples))
