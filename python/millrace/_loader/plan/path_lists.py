"""Datasets that are lists of paths and labels: torchvision's DatasetFolder, Food101 and the like, and timm's.

Classes are looked up in the modules that the program has imported. The attributes that a class's code reads
tell what its __getitem__ does; a version of torchvision that reads others stays in Python.

timm's ImageDataset over its folder reader is such a list, too. In timm, the next sample replaces a picture
that cannot be read; this is the engine's policy "replace", whatever the loader's is. Two things differ:
stats()["errors"] names such pictures instead of a warning in timm's log, and more than ten bad ones in a row
are no error while a good one is left. Older versions of timm replace files that are no pictures, and raise
for files that are missing or cut short; the engine replaces these, too.
"""

from __future__ import annotations

import operator
import os
import sys
import types
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, NamedTuple

import numpy as np

from ... import _core
from ..._common.lowering.as_shipped import check_class, check_functions
from ..._common.lowering.recognising import NotLowered, loaded
from ...frozen_list import FrozenList
from ..engines.native import Files
from .pictures import Pictures
from .source import Source, as_numbers, labelled

_DATASETS = "torchvision.datasets"
_FOLDER = f"{_DATASETS}.folder"
_OPENS = frozenset({"PIL", "Image", "open"})
_TRANSFORMS = frozenset({"transform", "target_transform", "transforms"})

Listing = tuple[list[Any], list[Any]]
"""Paths, and targets before the target_transform."""


def pairs(samples: Sequence[Any]) -> Listing:
    if not set(map(type, samples)) <= {tuple} or not set(map(len, samples)) <= {2}:
        raise NotLowered("its samples are not all tuples of two, a path and a label")
    return [path for path, _ in samples], [target for _, target in samples]


def _two_lists(paths: Sequence[Any], labels: Sequence[Any]) -> Listing:
    return list(paths), list(labels)


@dataclass(frozen=True)
class Layout:
    """Where a class keeps its samples: `columns` are attributes, the lists that listing() is called with.
    `reads`: the names in its __getitem__'s code besides columns, transforms and functions that open files.
    """

    columns: tuple[str, ...]
    listing: Callable[..., Listing] = _two_lists
    reads: frozenset[str] = frozenset()
    special: Callable[[Any], tuple[Callable[..., Listing], Any]] | None = None
    """Makes listing() for a dataset where it depends on more than the columns, and a key of everything else;
    NotLowered: there is no native listing."""
    words: str = ""
    """The words of docs/native.md for the class, if these are more than its name."""
    opens: str = "by loader"
    """The row of that page: "by loader", "itself", or "in any mode"."""


def of_samples(name: str, words: str = "", opens: str = "by loader") -> Layout:
    return Layout((name,), pairs, words=words, opens=opens)


def _pets(root: Any) -> tuple[Callable[..., Listing], Any]:
    columns = {"category": 0, "binary-category": 1}
    kinds = list(root._target_types)
    if not kinds or not set(kinds) <= set(columns):
        raise NotLowered("OxfordIIITPet gives segmentations, or no target; use target_types of categories")

    def listing(paths: Sequence[Any], *labels: Sequence[int]) -> Listing:
        chosen = [labels[columns[kind]] for kind in kinds]
        return list(paths), list(chosen[0]) if len(chosen) == 1 else list(zip(*chosen, strict=True))

    return listing, kinds


def _caltech(root: Any, name: str, picture: str) -> tuple[Callable[..., Listing], Any]:
    """`picture`: the format of a file's name, with its category's number c and its own number i."""
    folder = os.path.join(root.root, name)

    def listing(index: Sequence[int], y: Sequence[int], categories: Sequence[str]) -> Listing:
        numbers = zip(index, y, strict=True)
        paths = [os.path.join(folder, categories[c], picture.format(c=c + 1, i=i)) for i, c in numbers]
        return paths, list(y)

    return listing, folder


def _caltech101(root: Any) -> tuple[Callable[..., Listing], Any]:
    if list(root.target_type) != ["category"]:
        raise NotLowered("Caltech101 gives annotations; use target_type='category'")
    return _caltech(root, "101_ObjectCategories", "image_{i:04d}.jpg")


def _caltech256(root: Any) -> tuple[Callable[..., Listing], Any]:
    return _caltech(root, "256_ObjectCategories", "{c:03d}_{i:04d}.jpg")


def _inaturalist(root: Any) -> tuple[Callable[..., Listing], Any]:
    folder, kinds = root.root, list(root.target_type)

    def listing(index: Sequence[Any], names: Sequence[str], numbers: Sequence[dict[str, int]]) -> Listing:
        def target(category: int) -> Any:
            found = tuple(category if kind == "full" else numbers[category][kind] for kind in kinds)
            return found if len(found) > 1 else found[0]

        paths = [os.path.join(folder, names[category], name) for category, name in index]
        return paths, [target(category) for category, _ in index]

    return listing, (folder, kinds)


_FILES = ("_image_files", "_labels")
_BY_CATEGORY = frozenset({"os", "path", "join", "root"})
LAYOUTS: dict[tuple[str, str], Layout] = {
    (f"{_DATASETS}.folder", "DatasetFolder"): of_samples(
        "samples", "DatasetFolder, ImageFolder (also with `is_valid_file`), ImageNet, Country211"
    ),
    (f"{_DATASETS}.eurosat", "EuroSAT"): of_samples("samples"),
    (f"{_DATASETS}.imagenette", "Imagenette"): of_samples("_samples"),
    (f"{_DATASETS}.stanford_cars", "StanfordCars"): of_samples("_samples"),
    (f"{_DATASETS}.rendered_sst2", "RenderedSST2"): of_samples("_samples"),
    (f"{_DATASETS}.gtsrb", "GTSRB"): of_samples("_samples", opens="itself"),
    (f"{_DATASETS}.places365", "Places365"): of_samples("imgs"),
    (f"{_DATASETS}.flowers102", "Flowers102"): Layout(_FILES),
    (f"{_DATASETS}.food101", "Food101"): Layout(_FILES),
    (f"{_DATASETS}.fgvc_aircraft", "FGVCAircraft"): Layout(_FILES),
    (f"{_DATASETS}.sun397", "SUN397"): Layout(_FILES),
    (f"{_DATASETS}.dtd", "DTD"): Layout(_FILES),
    (f"{_DATASETS}.clevr", "CLEVRClassification"): Layout(_FILES),
    (f"{_DATASETS}.lfw", "LFWPeople"): Layout(("data", "targets")),
    (f"{_DATASETS}.oxford_iiit_pet", "OxfordIIITPet"): Layout(
        ("_images", "_labels", "_bin_labels"),
        reads=frozenset({"_target_types", "append", "_segs", "len", "tuple"}),
        special=_pets,
        words="OxfordIIITPet with `target_types` of categories",
        opens="itself",
    ),
    (f"{_DATASETS}.caltech", "Caltech101"): Layout(
        ("index", "y", "categories"),
        reads=_BY_CATEGORY
        | {
            "scipy",
            "scipy.io",
            "io",
            "target_type",
            "append",
            "loadmat",
            "annotation_categories",
            "tuple",
            "len",
        },
        special=_caltech101,
        words='Caltech101 with `target_type="category"`',
        opens="in any mode",
    ),
    (f"{_DATASETS}.caltech", "Caltech256"): Layout(
        ("index", "y", "categories"), reads=_BY_CATEGORY, special=_caltech256, opens="in any mode"
    ),
    (f"{_DATASETS}.inaturalist", "INaturalist"): Layout(
        ("index", "all_categories", "categories_map"),
        reads=_BY_CATEGORY | {"loader", "target_type", "append", "tuple", "len"},
        special=_inaturalist,
        opens="in any mode",
    ),
}


def recognise_torchvision(root: Any) -> Source:
    """The Source of a VisionDataset; NotLowered when its samples must be made by Python."""
    cls = type(root)
    if (found := layout_of(cls, LAYOUTS)) is None:
        raise NotLowered(
            f"{cls.__name__} is Python code; the engine reads torchvision's ImageFolder,"
            f" {', '.join(name for _, name in LAYOUTS)}"
        )
    base, layout = found
    check_overrides(
        cls, base, (*layout.columns, "root", "transform", "target_transform", "transforms", "loader")
    )
    code = library_code(base, "__getitem__").co_names
    any_mode = _opening(root, base, set(code) - set(layout.columns) - _TRANSFORMS - layout.reads)
    if any_mode and getattr(root, "loader", None) is not None:
        check_loader(root.loader)
        any_mode = False
    transform, target_transform = root.transform, root.target_transform
    if "transforms" in code:
        transform, target_transform = _standard(root)
    listing, key = (layout.listing, None) if layout.special is None else layout.special(root)

    def files() -> Files:
        columns = [getattr(root, name) for name in layout.columns]
        return known_files(root, columns, listing, target_transform, key)

    functions = (target_transform,)
    return Source(
        f"torchvision {cls.__name__}", transform, files, any_mode=any_mode, target_transforms=functions
    )


def layout_of(cls: type, layouts: Mapping[tuple[str, str], Any]) -> tuple[type, Any] | None:
    """The first base of `cls` that `layouts` has, by module and name, and its layout."""
    for base in cls.__mro__:
        name = base.__module__, base.__name__
        if name in layouts and loaded(*name) is base:
            return base, layouts[name]
    return None


# The attributes that decide which sample an index gives. A subclass that only finds its files in another way
# (its __init__) stays native.
_DECISIVE = ("__getitem__", "__getitems__", "__getattribute__", "__getattr__", "__len__")


def check_overrides(cls: type, base: type, attributes: Sequence[str]) -> None:
    """NotLowered if `cls` may give other samples than `base` with the same attributes."""
    # Functions that __getitem__ calls decide, too; functions that find files do not.
    code = getattr(getattr(base, "__getitem__", None), "__code__", None)
    check_class(base, *_DECISIVE, *attributes, *getattr(code, "co_names", ()))
    for name in (*_DECISIVE, *attributes):
        if getattr(cls, name, None) is not getattr(base, name, None):
            raise NotLowered(
                f"{cls.__name__} overrides {name} of {base.__name__}; use {base.__name__} itself"
            )


def library_code(base: type, name: str) -> types.CodeType:
    """The code of a method of a library's class; NotLowered if the method was replaced."""
    method = getattr(base, name, None)
    module = sys.modules.get(getattr(method, "__module__", ""))
    if (
        not isinstance(method, types.FunctionType)
        or module is None
        or method.__globals__ is not vars(module)
        or method.__module__.partition(".")[0] != base.__module__.partition(".")[0]
    ):
        raise NotLowered(f"{base.__name__}.{name} was replaced; restore it")
    return method.__code__


def _opening(root: Any, base: type, names: set[str]) -> bool:
    """Whether pictures keep their files' modes; NotLowered if Pillow does not open them in one of the usual
    ways. `names`: the names in the code that tell the way.
    """
    constants = library_code(base, "__getitem__").co_consts
    if names in ({"loader"}, {"_loader"}):
        check_loader(getattr(root, names.pop()))
        return False
    if (
        names
        and names - {"convert"} <= _OPENS
        and "open" in names
        and ("convert" not in names or "RGB" in constants)
    ):
        return "convert" not in names
    raise NotLowered(f"{base.__name__} of this torchvision opens pictures in a way that is not known here")


def check_loader(loader: Any) -> None:
    """NotLowered if `loader` is not torchvision's own, with Pillow."""
    check_functions(_FOLDER, "pil_loader", "default_loader")
    pillow = loaded(_FOLDER, "pil_loader")
    if loader is pillow:
        return
    if loader is not loaded(_FOLDER, "default_loader"):
        raise NotLowered("the folder has its own loader function; leave `loader` out to decode natively")
    if loaded("torchvision", "get_image_backend")() != "PIL":
        raise NotLowered("torchvision's image backend is not PIL; call torchvision.set_image_backend('PIL')")


def _standard(root: Any) -> tuple[Any, Any]:
    """(transform, target_transform) of a dataset that calls `transforms` with both."""
    transforms = root.transforms
    if transforms is None:
        return None, None
    if type(transforms) is not loaded(f"{_DATASETS}.vision", "StandardTransform"):
        raise NotLowered(
            "`transforms` takes picture and label together; give transform= and target_transform= instead"
        )
    return transforms.transform, transforms.target_transform


# ---------------------------------------------------------------- the compact form of a listing


class _Known(NamedTuple):
    columns: list[Sequence[Any]]
    key: Any
    paths: _core.PathTable
    targets: np.ndarray | Sequence[Any]  # as as_numbers() has them


# The compact form, and the objects it was made from: a tuple or path that is still the same object is
# unchanged. So samples assigned or exchanged between epochs count, and a million unchanged ones cost some
# milliseconds. Nothing here refers to the dataset, as a target_transform might.
_known: weakref.WeakKeyDictionary[Any, _Known] = weakref.WeakKeyDictionary()


def known_files(
    dataset: Any,
    columns: Sequence[Sequence[Any]],
    listing: Callable[..., Listing],
    target_transform: Any,
    key: Any = None,
) -> Files:
    """The Files of listing(*columns), kept until columns or `key` change. `key`: all else that decides it."""
    found = _known.get(dataset)
    if found is None or found.key != key or not all(map(_same_objects, found.columns, columns)):
        found = _known[dataset] = _compact(columns, listing, key)
    return labelled(_core.PathFiles(found.paths), found.targets, target_transform, found.paths)


def _compact(columns: Sequence[Sequence[Any]], listing: Callable[..., Listing], key: Any) -> _Known:
    paths, targets = listing(*columns)
    if not all(map(_is_path, set(map(type, paths)))):
        raise NotLowered("its paths are not all strings or pathlib's")
    if len(targets) != len(paths):
        raise NotLowered(f"there are {len(targets)} labels for {len(paths)} paths")
    table = _core.PathTable(list(map(os.fspath, paths)))
    kept: list[Sequence[Any]] = [
        column if isinstance(column, FrozenList) else list(column) for column in columns
    ]
    return _Known(kept, key, table, as_numbers(targets))


def _is_path(kind: type) -> bool:
    return kind is str or issubclass(kind, PurePath)


def _same_objects(known: Sequence[Any], column: Sequence[Any]) -> bool:
    if isinstance(column, FrozenList):
        return known is column
    return len(known) == len(column) and all(map(operator.is_, known, column))


_READER = "timm.data.readers.reader_image_folder"
_ATTRIBUTES = (
    "reader",
    "load_bytes",
    "input_img_mode",
    "transform",
    "target_transform",
    "additional_features",
)
# The names in the code of __getitem__, by generation: the newest, the one before, and that without features.
_COMMON = {*_ATTRIBUTES, *("read", "Image", "open", "convert", "len", "_logger", "warning")}
_COUNTING = {*("Exception", "filename", "str", "_consecutive_errors", "_ERROR_RETRY", "__getitem__")}
_READS = (
    _COMMON | {"range", "_max_retries", "IOError", "OSError", "RuntimeError"},
    _COMMON | _COUNTING,
    (_COMMON | _COUNTING) - {"additional_features"},
)
_READER_READS = ({"samples", "open"},)


def recognise_timm(root: Any) -> Source:
    """The Source of an ImageDataset; NotLowered when its samples must be made by Python."""
    cls, base, reader = type(root), loaded("timm.data.dataset", "ImageDataset"), root.reader
    folder = loaded(_READER, "ReaderImageFolder")
    check_overrides(cls, base, _ATTRIBUTES)
    if folder is None or type(reader) is not folder:
        raise NotLowered(
            f"timm's {cls.__name__} reads with {type(reader).__name__}, in Python; the engine reads what"
            " ReaderImageFolder lists"
        )
    for owner, known in ((base, _READS), (folder, _READER_READS)):
        if set(library_code(owner, "__getitem__").co_names) not in known:
            raise NotLowered(f"{owner.__name__} of this timm reads samples in a way that is not known here")
    if root.load_bytes or getattr(root, "additional_features", None) is not None:
        raise NotLowered("load_bytes and additional_features make samples of another kind; leave them out")
    if root.input_img_mode not in ("RGB", "", None):
        raise NotLowered(f"input_img_mode={root.input_img_mode!r} has no native form; the engine makes RGB")
    function = root.target_transform

    def files() -> Files:
        return known_files(root, [reader.samples], pairs, function)

    return Source(
        f"timm {cls.__name__}",
        root.transform,
        files,
        any_mode=not root.input_img_mode,
        target_transforms=(function,),
        on_error="replace",
    )


TIMM = Pictures(recognise_timm)
