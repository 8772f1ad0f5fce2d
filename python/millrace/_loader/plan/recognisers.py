"""Recognisers of datasets whose pictures the engine reads from files, and of collate functions.

The datasets are millrace's image folders and indexed shards, those of other libraries that this program has
imported (path_lists.py, pixel_arrays.py), and torch's Subset and ConcatDataset (joined.py) of them.

torch's default_collate, in the state torch ships it, needs no Python. Of pictures that the engine makes, any
other function and a target_transform are called in next() (engines/python_collate.py): decoding stays native.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils.data import ConcatDataset, Subset

from ... import _core
from ..._common.lowering.as_shipped import check_collation
from ..._common.lowering.recognising import NotLowered, holder_name, is_a, loaded
from ..._common.lowering.same_code import called
from ..._common.shipped import is_default_collate
from ..._common.torch_private import collate
from ...datasets import ImageFolder
from ..engines.native import Files
from ..engines.python_collate import PythonCollate
from .arrow import has_transform
from .joined import recognise_joined
from .path_lists import recognise_timm, recognise_torchvision
from .pixel_arrays import recogniser_of_arrays
from .source import Source, grey_chains, labelled

if TYPE_CHECKING:
    from ..._common.lowering.transforms import Lowered
    from ..._common.lowering.views import Views

# What docs/native.md says of it (scripts/native_table.py).
DATASET_WORDS = (
    "`ImageFolder` of millrace, [lists of paths of torchvision and"
    " timm](#data-sets-of-torchvision-and-timm), also under `Subset` and `ConcatDataset`; torchvision's"
    " pictures in memory; [Hugging Face's datasets](#pictures-of-hugging-faces-datasets) with a column of"
    " pictures and a transform; [WebDataset](shards.md). JPEG, PNG and WebP are decoded in C++, and only the"
    " part that the crop needs; other formats, and what is out of the ordinary (damage, odd metadata or"
    " animations, progressive JPEGs that lack scans, a PNG or WebP of more than 89 million pixels), by"
    " Pillow in the same threads: the pixels are Pillow's either way"
)


def joins_pictures(root: Any) -> bool:
    """Whether it is a ConcatDataset for recognise_source(), not for recognise_rows()."""
    return type(root) is ConcatDataset and any(map(_may_be_pictures, root.datasets))


def _may_be_pictures(root: Any) -> bool:
    while type(root) is Subset:
        root = root.dataset
    # Who has one has imported what is behind it.
    indexed = loaded("millrace.datasets.webdataset.indexed", "IndexedWebDataset")
    return (
        joins_pictures(root)
        or isinstance(root, ImageFolder)
        or (indexed is not None and issubclass(type(root), indexed))
        or _library(root) is not None
    )


def _library(root: Any) -> Callable[[Any], Source] | None:
    return next((how for module, name, how in _LIBRARIES if is_a(root, module, name)), None)


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
    if isinstance(root, ImageFolder):
        return _folder(root)
    if type(root) is loaded("millrace.datasets.webdataset.indexed", "IndexedWebDataset"):
        from .shard_stages import recognise_indexed

        transform, make_files = recognise_indexed(root)
        return Source("indexed WebDataset", transform, lambda: Files(*make_files()))
    if type(root) is ConcatDataset:
        return recognise_joined(root, recognise_source)
    if has_transform(root):
        from .arrow_pictures import recognise_arrow_pictures

        return recognise_arrow_pictures(root)
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

    def files() -> Files:
        paths, labels = root.file_table()
        if root.target_transform is None:
            return Files(_core.PathFiles(paths), labels, paths)
        return labelled(_core.PathFiles(paths), labels, root.target_transform, paths)

    functions = (root.target_transform,)
    return Source(
        f"millrace {cls.__name__}", root.transform, files, exif=root.exif, target_transforms=functions
    )


def counted(source: Source, files: Files) -> str:
    """What explain() says of a source and its `files`."""
    kinds = {_core.PixelFiles: "pictures in memory", _core.ArrowPictures: "pictures"}
    return f"{source.name} of {len(files.files)} {kinds.get(type(files.files), 'files')}"


def chains_of(source: Source, made: Lowered) -> tuple[list[list[dict[str, Any]]], list[str]]:
    """`made`, as the engine takes each of its views of the source's pictures, and the names of what is in
    it.
    """
    if source.any_mode and not made.begins_with_rgb:
        raise NotLowered(
            f"{source.name} leaves pictures in the modes of their files; begin the transform with"
            " torchvision.transforms.v2.RGB()"
        )
    if source.grey:
        return grey_chains(made), made.names
    if source.exif:
        turned = [[{"op": "exif_transpose"}, *chain] for chain in made.chains]
        return turned, ["EXIF orientation", *made.names]
    return made.chains, made.names


# ---------------------------------------------------------------- collate functions

IMAGE_AND_LABEL = (tuple, torch.Tensor, int)

# What torch ships, in the order in which default_collate looks types up. None: containers, which it walks
# through itself.
_SHIPPED = {
    torch.Tensor: collate.collate_tensor_fn,
    np.ndarray: collate.collate_numpy_array_fn,
    np.generic: collate.collate_numpy_scalar_fn,
    float: collate.collate_float_fn,
    int: collate.collate_int_fn,
    tuple: None,
    dict: None,
}


def recognise_collate(collate_fn: Any, sample_types: Iterable[type] = IMAGE_AND_LABEL) -> str:
    """What replaces `collate_fn` natively; NotLowered for anything but default_collate, unchanged for these
    types.
    """
    if not is_default_collate(collate_fn):
        name = getattr(collate_fn, "__qualname__", type(collate_fn).__name__)
        raise NotLowered(
            f"{name} is not torch's default_collate, so it gets the samples, in Python; as a function of the"
            " batch, return f(default_collate(samples)), it would run behind the engine, and millrace.Pad"
            " fills rows up to one length"
        )
    check_collation()
    # default_collate asks this public table at call time, for the sample itself and for its parts.
    for part in sorted(sample_types, key=lambda part: list(_SHIPPED).index(_known_base(part)), reverse=True):
        if _collate_function(part) is not _SHIPPED[_known_base(part)]:
            raise NotLowered(
                f"default_collate_fn_map was changed for {part.__name__}; restore it to collate natively"
            )
    return "default_collate; rows are written straight into the batch"


def _known_base(part: type) -> type:
    return next(known for known in _SHIPPED if issubclass(part, known))


def _collate_function(part: type) -> Any:
    table = collate.default_collate_fn_map
    if part in table:
        return table[part]
    return next((function for key, function in table.items() if issubclass(part, key)), None)


# What docs/native.md says of it (scripts/native_table.py).
COLLATE_WORDS = (
    "`default_collate`, those of millrace's data sets, timm's `fast_collate`, and [yours, in Python,"
    " after native decoding](#a-collate_fn-of-your-own)"
)
_OF_BATCH = {  # template: (whether f gets the batch's fields one by one, whether the result becomes a tuple)
    "return T(*D(B))": (True, False),
    "return T(D(B))": (False, False),
    "B = D(B); return T(*B)": (True, False),
    "B = D(B); return T(B)": (False, False),
    "L = D(B); return T(*L)": (True, False),
    "L = D(B); return T(L)": (False, False),
    "B = D(B); B = T(*B); return B": (True, False),
    "B = D(B); B = T(B); return B": (False, False),
    "L, M = D(B); return T(L, M)": (True, False),
    "L, M = D(B); L, M = T(L, M); return L, M": (True, True),
    "L, M = D(B); L, M = T(L, M); return (L, M)": (True, True),
}


def recognise_any_collate(
    collate_fn: Any, row_type: type | None, views: Views | None = None, container: type = tuple
) -> tuple[str, PythonCollate | None]:
    """(what explain() says, what is called with the native batch, None for default_collate), or
    NotLowered. `row_type`: of pictures; `container`: of samples.
    """
    sample_types = container, np.ndarray if row_type is np.ndarray else torch.Tensor, int
    reason, collate = recognise_batch_function(collate_fn, sample_types)
    if reason:
        return reason, collate
    if not callable(collate_fn):
        return recognise_collate(collate_fn), None  # which refuses it
    name = holder_name(collate_fn)
    if row_type is None:
        raise NotLowered(
            f"{name} is Python code, and v1 transforms behind v2's ToImage() make samples of no certain type;"
            " use v2's for all"
        )
    reason = (
        f"native decode, collate_fn in Python: {name} gets samples, rows of the native batch, inside next()"
    )
    return reason, PythonCollate(collate_fn, False, False, False, row_type, views=views)


def recognise_batch_function(
    collate_fn: Any, sample_types: Iterable[type] = IMAGE_AND_LABEL
) -> tuple[str, PythonCollate | None]:
    """The same, of what is default_collate, or that and then a function of its batch; ("", None): it is not
    that.
    """
    while type(collate_fn) is functools.partial and not collate_fn.args and not collate_fn.keywords:
        collate_fn = collate_fn.func
    if is_default_collate(collate_fn):
        return recognise_collate(collate_fn, sample_types), None
    name = holder_name(collate_fn)
    if (found := called(collate_fn, "return D(B)")) is not None and is_default_collate(found[0]):
        return f"{name} is {recognise_collate(found[0], sample_types)}", None
    for template, (spread, as_tuple) in _OF_BATCH.items():
        if (found := called(collate_fn, template)) is None:
            continue
        function, default = found if template.index("T") < template.index("D") else reversed(found)
        if is_default_collate(default) and not is_default_collate(function) and callable(function):
            recognise_collate(default, sample_types)
            reason = (
                f"native default_collate; {holder_name(function)} of {name} in Python, inside next(), but"
                " mixing of pictures (MixUp, CutMix) in the threads"
            )
            return reason, PythonCollate(function, True, spread, as_tuple, torch.Tensor)
    return "", None


def takes_samples(collate_fn: Any) -> bool:
    """Whether it gets the samples themselves, which need not have one size, and no batch of them."""
    try:
        return callable(collate_fn) and not recognise_batch_function(collate_fn)[0]
    except NotLowered:
        return False


_TIMM = "timm.data.loader"
# The names in fast_collate's code, which say which of two generations it is.
_OLDER = frozenset(
    {
        *("isinstance", "tuple", "len", "range", "np", "ndarray", "from_numpy"),
        *("torch", "zeros", "shape", "uint8", "int64", "tensor", "Tensor", "copy_"),
    }
)
_NEWER = (_OLDER - {"int64", "tensor"}) | {"default_collate", "ndim", "long", "repeat"}


def is_fast_collate(loader: Any, dtype: str) -> bool:
    """Whether its collate_fn is timm's, and makes of samples (tensor or array of `dtype`, int) a tuple of
    what torch's default_collate makes: of bytes, the engine's batch.
    """
    collate_fn = loader.collate_fn
    if type(collate_fn) is not types.FunctionType or collate_fn is not loaded(_TIMM, "fast_collate"):
        return False
    names = frozenset(collate_fn.__code__.co_names)
    if collate_fn.__module__ != _TIMM or names not in (_OLDER, _NEWER) or dtype != "uint8":
        return False
    if names == _OLDER:
        return True
    try:
        recognise_collate(loaded(_TIMM, "default_collate"), (int,))  # which it calls for the labels
    except NotLowered:
        return False
    return True
