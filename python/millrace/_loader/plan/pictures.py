"""Loaders of datasets with pictures that the engine reads from files or memory, and millrace's such datasets.

Those of other libraries are in path_lists.py, pixel_arrays.py and arrow.py, torch's ConcatDataset in
joined.py; Subset of any.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils.data import ConcatDataset, Subset

from ... import _core
from ..._common.lowering.as_shipped import check_getitems, recognise_collate
from ..._common.lowering.recognising import NotLowered, holder_name, loaded
from ..._common.shipped import is_default_collate
from ..._common.states import is_stateful
from ...datasets import ImageFolder
from ..engines.native import Files, ImageSpec
from ..engines.python_collate import PythonCollate, with_targets
from .collates import is_fast_collate, recognise_any_collate, takes_samples
from .joined import recognise_joined
from .plan import Recogniser, is_python, recogniser_of
from .source import Source, grey_chains, labelled
from .stages import Stages

if TYPE_CHECKING:
    from ..._common.lowering.transforms import Lowered
    from .prefix import KnownPart

# What docs/native.md says of it (scripts/native_table.py).
DATASET_WORDS = (
    "`ImageFolder` of millrace, [lists of paths of torchvision and"
    " timm](#data-sets-of-torchvision-and-timm), also under `Subset` and `ConcatDataset`; torchvision's"
    " pictures in memory; [Hugging Face's datasets](#pictures-of-hugging-faces-datasets) with a column of"
    " pictures and a transform; [WebDataset](shards.md); [your own that open"
    " pictures](#a-__getitem__-that-is-read). JPEG, PNG and WebP are decoded in C++, and only the"
    " part that the crop needs; other formats, and what is out of the ordinary (damage, odd metadata or"
    " animations, progressive JPEGs that lack scans, a PNG or WebP of more than 89 million pixels), by"
    " Pillow in the same threads: the pixels are Pillow's either way"
)


@dataclass(frozen=True)
class Pictures(Recogniser):
    """`find`: returns the Source of a dataset that is no Subset. `joined`: ConcatDataset may hold it."""

    finds = Source
    joined: bool = True

    def spec(self, loader: Any, stages: Stages) -> ImageSpec | None:
        source: Source | None = stages.ask(
            "dataset", lambda: ((found := recognise_source(loader.dataset)).name, found)
        )
        if source is None:
            stages.ask_the_others(loader)
            return None
        transform = stages.ask("transform", lambda: _transform(loader, source))
        if functions := [f for f in source.target_transforms if f is not None]:
            names = ", ".join(dict.fromkeys(map(holder_name, functions)))
            called = f"{names}, called in next() for each sample of the batch, in order"
            stages.ask("target_transform", lambda: (called, None))
            stages.beside.add("target_transform")
        stages.ask_sampler(loader)
        collate = stages.ask_collate(lambda: _collate(loader, source, transform))
        stages.ask_worker_init(loader)
        if stages.refusing():
            return None
        # Last, because the table of a big folder takes a while when it is first made.
        files: Files | None = stages.ask(
            "dataset", lambda: (counted(source, found := source.make_files()), found)
        )
        if files is None:
            return None
        pipelines, made = transform
        arrangement: type[list] | type[tuple] = list
        if files.targets is not None:
            collate = with_targets(collate, files.targets, source.form)
        elif collate is not None and made.views is None and is_fast_collate(loader, made.dtype):
            stages.ask("collate_fn", lambda: ("fast_collate; rows are written straight into the batch", None))
            stages.beside.discard("collate_fn")
            collate, arrangement = None, tuple
        return ImageSpec(
            files,
            tuple(pipelines),
            made.views,
            source.index_maps,
            collate,
            source.on_error,
            arrangement,
            made.drawn_size,
        )

    def part(self, dataset: Any, refusing: list[str]) -> KnownPart | None:
        if refusing != ["transform"] or is_stateful(dataset):
            return None
        # most loaders have no use for these
        from ..._common.lowering.prefix import prefix_of
        from .prefix import KnownPart

        source = recognise_source(dataset)
        if source.form is not None or source.on_error is not None:
            raise NotLowered("samples are dicts, or errors are the dataset's own affair")
        if any(part.transform is not source.transform for part in source.parts):
            raise NotLowered("the parts have transforms of their own")
        prefix = prefix_of(source.transform)
        chains, names = chains_of(source, prefix.lowered)
        pipelines = prefix.lowered.pipelines(chains)
        files = source.make_files()
        if files.paths is None and not isinstance(files.files, _core.PixelFiles):
            raise NotLowered("shards are read by their dataset, in each worker")
        return KnownPart(source, prefix, pipelines[0], names, files, counted(source, files))


def unwrapped(dataset: Any) -> tuple[tuple[Sequence[int], ...], Any]:
    """(the indices of the Subsets around a dataset, outermost first; the dataset inside them)"""
    index_maps: list[Sequence[int]] = []
    while type(dataset) is Subset:
        index_maps.append(dataset.indices)
        dataset = dataset.dataset
    return tuple(index_maps), dataset


def recognise_source(dataset: Any) -> Source:
    """Return the Source of `dataset`; NotLowered if Python must make its samples."""
    index_maps, root = unwrapped(dataset)
    check_getitems(root)
    found = JOINED if type(root) is ConcatDataset else recogniser_of(root, Source)
    source: Source = found.find(root)
    if not index_maps:
        return source
    name = "Subset of " * len(index_maps) + source.name
    return replace(source, name=name, index_maps=(*index_maps, *source.index_maps))


def _joins_pictures(dataset: ConcatDataset) -> bool:
    """Whether a part of the dataset is of this kind; else its rows may lie in memory."""
    return any(recogniser_of(part, Source).joined for part in dataset.datasets)


def _indexed(root: Any) -> Source:
    if type(root) is not loaded("millrace.datasets.webdataset.indexed", "IndexedWebDataset"):
        raise is_python(root)
    from .shard_stages import recognise_indexed

    transform, make_files = recognise_indexed(root)
    return Source("indexed WebDataset", transform, lambda: Files(*make_files()))


# The attributes that decide which sample an index gives. A subclass that only finds its files in another way
# (its __init__) stays native.
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
    """The words of explain() for a source and its `files`."""
    kinds = {_core.PixelFiles: "pictures in memory", _core.ArrowPictures: "pictures"}
    return f"{source.name} of {len(files.files)} {kinds.get(type(files.files), 'files')}"


def chains_of(source: Source, made: Lowered) -> tuple[list[list[dict[str, Any]]], list[str]]:
    """(the chain of each view of `made`, as the engine applies it to the source's pictures; the names of the
    steps)
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


FOLDER, INDEXED = Pictures(_folder), Pictures(_indexed)
JOINED = Pictures(partial(recognise_joined, recognise=recognise_source), claims=_joins_pictures, exact=True)


def _collate(
    loader: Any, source: Source, transform: tuple[Any, Lowered] | None
) -> tuple[str, PythonCollate | None]:
    if not loader._auto_collation:
        return recognise_collate(loader.collate_fn), None
    container = tuple if source.form is None else dict
    made = None if transform is None else transform[1]
    row_type, views = (torch.Tensor, None) if made is None else (made.row_type, made.views)
    if is_default_collate(loader.collate_fn):
        array = np.ndarray if row_type is np.ndarray else torch.Tensor
        return recognise_collate(loader.collate_fn, (container, array, int)), None
    return recognise_any_collate(loader.collate_fn, row_type, views, container)


def _transform(loader: Any, source: Source) -> tuple[str, tuple[list[_core.ImagePipeline], Lowered]]:
    # loaders of rows do without the many modules of these
    from ..._common.lowering.batch_sizes import BatchSizes
    from ..._common.lowering.transforms import lowered

    def chains(part: Source) -> tuple[Lowered, list[list[dict[str, Any]]], list[str]]:
        made = lowered(part.transform, BatchSizes())
        return (made, *chains_of(part, made))

    made, chain, names = chains(source)
    for part in source.parts[1:]:
        other, other_chain, _ = chains(part)
        alike = other.row_type == made.row_type and other.views == made.views
        if other_chain != chain or not alike or other.drawn_size != made.drawn_size:
            raise NotLowered(
                f"ConcatDataset's parts have different transforms: that of {part.name} is not that of"
                f" {source.parts[0].name}; give all of them the same"
            )
    reason = ", ".join(names)
    if made.drawn_size is not None:
        reason += f"; each batch has a size of {made.drawn_size}"
    return reason, (made.pipelines(chain, partial(takes_samples, loader.collate_fn)), made)
