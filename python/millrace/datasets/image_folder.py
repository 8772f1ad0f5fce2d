"""ImageFolder: pictures in class folders, as torchvision's, that the engine can read without Python."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from millrace import _core
from millrace.errors import UnavailableError

from .._common.indices import checked_index
from .._common.lowering.recognising import NotLowered
from . import folder_listing, pillow_decode
from .folder_listing import IMG_EXTENSIONS, Folder
from .lazy_list import Samples, Targets, pack_samples, pack_targets

if TYPE_CHECKING:
    from millrace._common.lowering.transforms import Lowered

_DEFAULT_LOADERS = {
    ("torchvision.datasets.folder", "default_loader"),
    ("torchvision.datasets.folder", "pil_loader"),
}


class ImageFolder(torch.utils.data.Dataset):
    """A map-style dataset of root/class/.../picture files; item i is (transform(picture),
    target_transform(class index)).

    Listing, reading, decoding and the transforms that millrace knows run natively, in `ds[i]` as in a
    millrace.DataLoader; everything else runs in Python as torchvision's ImageFolder would run it. Millions of
    files take tens of MB.

    An assignment to an attribute counts from the next iterator.

    Args:
        root: folder that holds one folder per class.
        transform: takes the picture (a PIL image in mode RGB). None: items are PIL images.
        target_transform: takes the class index.
        loader: takes a path, returns the picture. None: Pillow's, or the engine's equal one. Any other runs
            in Python.
        is_valid_file: takes a path, says whether it belongs to the dataset; in place of `extensions`.
        allow_empty: classes without a valid file are allowed.
        extensions: endings that make a file a picture, upper or lower case.
        exif: turn pictures upright as their EXIF orientation asks, before the transform. torchvision never
            does.

    Attributes:
        root, loader, extensions, transform, target_transform: from the arguments of these names.
        classes: names of the classes, sorted.
        class_to_idx: {class name: class index}.
        samples, imgs: (path, class index) pairs. They read like lists but are not written into: assign a new
            list, which is copied.
        targets: class indices; read and assigned like `samples`.

    Raises:
        FileNotFoundError: if there is no such root, no class folder in it, or a class without a valid file.
        ValueError: if `is_valid_file` is given together with other than the default `extensions`, or
            `exif=True` with a `loader`.
    """

    def __init__(
        self,
        root: Folder,
        transform: Callable | None = None,
        target_transform: Callable | None = None,
        loader: Callable[[str], Any] | None = None,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
        extensions: str | Sequence[str] = IMG_EXTENSIONS,
        exif: bool = False,
    ) -> None:
        self.root = os.path.expanduser(root) if isinstance(root, str) else root
        self.transform = transform
        self.target_transform = target_transform
        self.loader = pillow_decode.pil_loader if loader is None else loader
        self.exif = exif
        if exif and not self.has_default_loader():
            raise ValueError(
                "exif=True needs the default loader; turn pictures upright in your own loader, or pass"
                " loader=None"
            )
        self.extensions: tuple[str, ...] | None
        if is_valid_file is None:
            self.extensions = (extensions,) if isinstance(extensions, str) else tuple(extensions)
        elif tuple(extensions) == IMG_EXTENSIONS:
            self.extensions = None
        else:
            raise ValueError("Both extensions and is_valid_file cannot be None or not None at the same time")
        self._list_files(is_valid_file, allow_empty)

    def _list_files(self, is_valid_file: Callable[[str], bool] | None, allow_empty: bool) -> None:
        kind = type(self)
        overridden = (
            kind.find_classes is not ImageFolder.find_classes
            or kind.make_dataset is not ImageFolder.make_dataset
        )
        if is_valid_file is None and not overridden:
            folder = os.path.expanduser(self.root)
            endings = [ending.lower() for ending in self.extensions or ()]
            self.classes, paths, labels = _core.list_image_folder(folder, endings, allow_empty)
            self.class_to_idx = {name: number for number, name in enumerate(self.classes)}
            self.samples = Samples(paths, labels)
        else:
            self.classes, self.class_to_idx = self.find_classes(self.root)
            self.samples = self.make_dataset(
                self.root, self.class_to_idx, self.extensions, is_valid_file, allow_empty
            )

    def find_classes(self, directory: Folder) -> tuple[list[str], dict[str, int]]:
        """The class names and their numbers.

        Override to choose other classes; listing then runs in Python.
        """
        return folder_listing.find_classes(directory)

    @staticmethod
    def make_dataset(
        directory: Folder,
        class_to_idx: dict[str, int],
        extensions: Sequence[str] | None = None,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
    ) -> list[tuple[str, int]]:
        """The (path, class index) of every valid file. Override to list differently."""
        if class_to_idx is None:
            raise ValueError("The class_to_idx parameter cannot be None.")
        return folder_listing.make_dataset(directory, class_to_idx, extensions, is_valid_file, allow_empty)

    # -- the files: packed (a table of paths, an array of labels), or the given list if it cannot be packed
    # --------

    _packed: tuple[_core.PathTable, np.ndarray] | None = None
    _listed: Any = None  # a list, if nothing is packed
    _odd_targets: Sequence | None = None  # assigned targets, if there are not as many as samples
    _engine: tuple[Any, tuple[Lowered, _core.ImageDataset]] | None = None  # with its key

    @property
    def samples(self) -> Sequence[tuple[str, int]]:
        """(path, class index) of every file."""
        return self._listed if self._packed is None else Samples(*self._packed)

    @samples.setter
    def samples(self, samples: Sequence[tuple[str, int]]) -> None:
        self._packed = pack_samples(samples)
        self._listed = list(samples) if self._packed is None else None
        self._odd_targets = None
        self._engine = None

    imgs = samples

    @property
    def targets(self) -> Sequence[int]:
        """The class index of every file."""
        if self._odd_targets is not None:
            return self._odd_targets
        return [target for _, target in self._listed] if self._packed is None else Targets(self._packed[1])

    @targets.setter
    def targets(self, targets: Sequence[int]) -> None:
        targets = targets.tolist() if isinstance(targets, (np.ndarray, torch.Tensor)) else targets
        if len(targets) != len(self):
            # Legal as the first of two assignments, `samples` being the other.
            self._odd_targets, self._engine = list(targets), None
            return
        labels = pack_targets(targets)
        if self._packed is not None and labels is not None:
            self._packed = self._packed[0], labels
            self._odd_targets = self._engine = None
        else:
            self.samples = [(path, target) for (path, _), target in zip(self.samples, targets)]

    def __len__(self) -> int:
        return len(self._listed if self._packed is None else self._packed[0])

    # -- items
    # --------------------------------------------------------------------------------------------------------

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """(picture, target) of sample `index`.

        A native random transform takes one int64 from torch's global generator: `torch.manual_seed(s); ds[i]`
        is `ds.at(i, seed, 0)` with `seed = torch.empty((), dtype=torch.int64).random_()` drawn after the same
        manual_seed. Runs inline, without threads, so it is safe in forked and spawned workers. A
        transforms.RandomBatchSize is that of the batch which a millrace.DataLoader makes here, elsewhere its
        first.
        """
        position = checked_index(index, len(self))
        path, target = self._sample(position)
        try:
            made, engine = self._lower()
        except NotLowered:
            picture = (
                pillow_decode.open_picture(path, self.exif)
                if self.has_default_loader()
                else self.loader(path)
            )
            if self.transform is not None:
                picture = self.transform(picture)
        else:
            seed = int(torch.empty((), dtype=torch.int64).random_()) if made.is_random else 0
            form = 0 if made.drawn_size is None else made.drawn_size.current_place()
            picture = _sample(made, engine.row(position, seed, 0, form=form))
        return picture, target if self.target_transform is None else self.target_transform(target)

    def at(
        self,
        index: int,
        seed: int,
        epoch: int,
        occurrence: int = 0,
        size: int | tuple[int, int] | None = None,
    ) -> tuple[torch.Tensor, Any]:
        """The sample exactly as a millrace.DataLoader with that `loader.seed` gives it in that
        `loader.epoch`.

        Args:
            index: the sample's.
            seed, epoch: the loader's.
            occurrence: how often the sampler chose `index` earlier in the epoch.
            size: of the batch, where the transform has a transforms.RandomBatchSize: one of its sizes.

        Returns:
            (tensor (C, H, W), target). The tensor is an array where the transform ends with timm's ToNumpy.

        Raises:
            UnavailableError: if the transform is not native; says why.
            ValueError: if `size` is none of the sizes.
        """
        position = checked_index(index, len(self))
        made, engine = self._require_engine()
        picture = _sample(made, engine.row(position, seed, epoch, occurrence, form=_form(made, size)))
        target = self._sample(position)[1]
        return picture, target if self.target_transform is None else self.target_transform(target)

    def draw(
        self,
        index: int,
        seed: int,
        epoch: int,
        occurrence: int = 0,
        size: int | tuple[int, int] | None = None,
    ) -> list[dict]:
        """The random decisions that `at(...)` makes, one dict per transform that decided something, in order.

        The arguments are those of `at`.

        Returns:
            {"op": "random_resized_crop" or "random_crop", "top", "left", "height", "width"} in pixels of the
            picture at that point, the former with its "interpolation"; {"op": "horizontal_flip" or
            "vertical_flip", "flip": bool}; {"op": "exif_transpose", "orientation": 1..8}; {"op":
            "color_jitter", "order": names of properties, and each of them with its factor (hue: turns)};
            {"op": "random_grayscale", "applied": bool}; {"op": "random_rotation", "angle", "inverse"}; {"op":
            "random_affine", "angle", "translate": (x, y) in pixels, "scale", "shear": (x, y), "inverse"},
            angles in degrees as torchvision.transforms.functional takes them, "inverse" the six numbers for
            PIL.Image.transform; {"op": "gaussian_blur", "sigma"} in pixels; {"op": "augment_policy", "ops":
            those applied, each {"kind", "value"} and of maps "inverse" and "interpolation"}; {"op":
            "random_erasing", "applied", "top", "left", "height", "width"}.
        """
        made, engine = self._require_engine()
        return engine.draw(checked_index(index, len(self)), seed, epoch, occurrence, _form(made, size))

    def native(self) -> _core.ImageDataset:
        """This dataset as the engine reads it.

        Raises:
            UnavailableError: if the engine cannot read it; says why.
        """
        if self.target_transform is not None:
            raise UnavailableError("target_transform is a Python function, which the engine does not call")
        return self._require_engine()[1]

    def file_table(self) -> tuple[_core.PathTable, np.ndarray]:
        """The paths, and the labels, int64 of shape (samples,), for the planner.

        Raises:
            NotLowered: if the samples are others.
        """
        if self._odd_targets is not None:
            raise NotLowered(_odd_targets_message(len(self._odd_targets), len(self)))
        if self._packed is None:
            raise NotLowered("the dataset's `samples` are not all (str, int) pairs")
        return self._packed

    def has_default_loader(self) -> bool:
        """Whether pictures are opened by Pillow in the usual way, which the engine can do instead."""
        loader = self.loader
        name = (getattr(loader, "__module__", None), getattr(loader, "__qualname__", None))
        return loader is pillow_decode.pil_loader or name in _DEFAULT_LOADERS

    def _sample(self, position: int) -> tuple[str, Any]:
        if self._odd_targets is not None:
            raise ValueError(_odd_targets_message(len(self._odd_targets), len(self)))
        if self._packed is None:
            return self._listed[position]
        paths, labels = self._packed
        return paths[position], int(labels[position])

    def _require_engine(self) -> tuple[Lowered, _core.ImageDataset]:
        try:
            return self._lower()
        except NotLowered as refusal:
            raise UnavailableError(str(refusal)) from None

    def _lower(self) -> tuple[Lowered, _core.ImageDataset]:
        """The transform as chains, and the native dataset. Looks at the transform each time, as it may have
        been changed in place.
        """
        if not self.has_default_loader():
            raise NotLowered("loader is a Python function")
        # imported here: looking at rows alone does not need them
        from millrace._common.lowering.batch_sizes import BatchSizes
        from millrace._common.lowering.transforms import lowered

        made = lowered(self.transform, BatchSizes())
        pillow = pillow_decode.PillowDecoder()
        key = made, self.exif, pillow.limits
        if self._engine is None or self._engine[0] != key:
            paths, labels = self.file_table()
            turn = [{"op": "exif_transpose"}] if self.exif else []
            pipelines = made.pipelines([[*turn, *chain] for chain in made.chains])
            forms = made.drawn_size is not None
            stacked = made.views is not None and made.views.stacked
            native = _core.ImageDataset(
                _core.PathFiles(paths), labels, pipelines, pillow, stacked=stacked, forms=forms
            )
            self._engine = key, (made, native)
        return self._engine[1]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_engine"}

    def __repr__(self) -> str:
        lines = [f"Number of datapoints: {len(self)}"]
        if self.root is not None:
            lines.append(f"Root location: {self.root}")
        steps = [("Transform: ", self.transform), ("Target transform: ", self.target_transform)]
        if any(step is not None for _, step in steps):
            lines.append("StandardTransform")
        text = "\n".join([f"Dataset {type(self).__name__}", *(f"    {line}" for line in lines)])
        for head, step in steps:
            if step is not None:
                text += "\n" + head + repr(step).replace("\n", "\n" + " " * len(head))
        return text


def _sample(made: Lowered, row: Any) -> Any:
    """What the transform returns: the picture, or its views."""
    rows = row if isinstance(row, list) else [row]
    if made.row_type is np.ndarray:
        rows = [view.numpy() for view in rows]
    return rows[0] if made.views is None else made.views.sample(rows)


def _form(made: Lowered, size: int | tuple[int, int] | None) -> int:
    """Which of `made.chains` that is, of a transform with a size per batch."""
    if made.drawn_size is None:
        if size is not None:
            raise ValueError(f"size={size!r}: the transform has no RandomBatchSize, so its size is its own")
        return 0
    sizes = made.drawn_size.sizes
    if size not in sizes:
        raise ValueError(
            f"size={size!r}: name the batch's, one of {list(sizes)}; RandomBatchSize.at(epoch, batch) says"
            " which that was"
        )
    return sizes.index(size)


def _odd_targets_message(targets: int, samples: int) -> str:
    return f"targets has {targets} entries but samples has {samples}; assign both, samples last"
