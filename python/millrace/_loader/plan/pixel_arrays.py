"""torchvision's datasets that keep their pictures in memory, as arrays of bytes: CIFAR, MNIST and its kin,
SVHN, STL10, USPS.

The engine reads the arrays in place, so a program's writes into them count from the next batch. For grey
pictures, the engine's array has the same memory as all three channels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from ... import _core
from ..._common.lowering.recognising import NotLowered
from ..engines.native import Files
from .path_lists import check_overrides, layout_of, library_code, recognise_torchvision
from .pictures import Pictures
from .source import Source, as_numbers, labelled

_MAKES = {"Image", "fromarray", "_Image_fromarray"}
_TRANSFORMS = {"transform", "target_transform"}


@dataclass(frozen=True)
class Layout:
    """`axes`: of `data`: samples, height, width and channels; `labels`: the attribute; `reads`: the names in
    its __getitem__'s code besides these, transforms, and functions that make a picture.
    """

    axes: str
    labels: str
    reads: frozenset[str]
    as_int: bool = True
    """Whether a target is int(label)."""
    words: str = ""
    """The words of docs/native.md for the class, if these are more than its name."""


_GREY = Layout("nhw", "targets", frozenset({"int", "numpy"}))
_TRANSPOSED = Layout("nchw", "labels", frozenset({"int", "np", "transpose"}))
LAYOUTS: dict[tuple[str, str], Layout] = {
    ("torchvision.datasets.cifar", "CIFAR10"): Layout(
        "nhwc", "targets", frozenset(), as_int=False, words="CIFAR10 and CIFAR100"
    ),
    ("torchvision.datasets.mnist", "MNIST"): replace(
        _GREY, words="MNIST and its kin (EMNIST, FashionMNIST, KMNIST)"
    ),
    ("torchvision.datasets.mnist", "QMNIST"): Layout("nhw", "targets", frozenset({"int", "numpy", "compat"})),
    ("torchvision.datasets.svhn", "SVHN"): _TRANSPOSED,
    ("torchvision.datasets.stl10", "STL10"): _TRANSPOSED,
    ("torchvision.datasets.usps", "USPS"): Layout("nhw", "targets", frozenset({"int"})),
}


def recogniser_of_arrays(root: Any) -> Callable[[Any], Source] | None:
    """The recogniser of `root`, if it derives from one of these classes; else None."""
    found = layout_of(type(root), LAYOUTS)
    return None if found is None else partial(recognise_arrays, base=found[0], layout=found[1])


def recognise_arrays(root: Any, base: type, layout: Layout) -> Source:
    """The Source of one of these datasets; NotLowered if Python must make its samples."""
    name = f"torchvision {type(root).__name__}"
    check_overrides(type(root), base, ("data", layout.labels, "transform", "target_transform", "compat"))
    names = set(library_code(base, "__getitem__").co_names) - _MAKES - _TRANSFORMS
    if names != {"data", layout.labels} | layout.reads:
        raise NotLowered(f"{base.__name__} of this torchvision makes samples in a way that is not known here")
    pixels, function = _pixels(root.data, layout.axes), root.target_transform

    def files() -> Files:
        targets = _targets(root, layout)
        if len(targets) != len(pixels):
            raise NotLowered(f"there are {len(targets)} labels for {len(pixels)} pictures")
        return labelled(_core.PixelFiles(pixels), as_numbers(targets), function)

    grey = layout.axes == "nhw"
    return Source(name, root.transform, files, grey=grey, target_transforms=(function,))


def _pixels(data: Any, axes: str) -> np.ndarray:
    """uint8 of shape (samples, height, width, 3), in the memory of `data`: grey pictures have one channel
    three times.
    """
    if type(data) is torch.Tensor and data.device.type == "cpu" and data.dtype is torch.uint8:
        data = data.detach().numpy()
    if type(data) is not np.ndarray or data.dtype != np.uint8 or data.ndim != len(axes):
        raise NotLowered(f"its `data` is no array of bytes with {len(axes)} dimensions")
    if axes == "nhw":
        return np.broadcast_to(data[..., None], (*data.shape, 3))
    data = data.transpose([axes.index(axis) for axis in "nhwc"])
    if data.shape[3] != 3:
        raise NotLowered(f"its pictures have {data.shape[3]} channels; the engine knows three")
    return data


def _targets(root: Any, layout: Layout) -> list[Any]:
    labels = getattr(root, layout.labels)
    if labels is None:
        return [None] * len(root.data)
    if "compat" in layout.reads:
        if not root.compat:
            return list(labels)
        labels = labels[:, 0] if type(labels) is torch.Tensor else [row[0] for row in labels]
    if not layout.as_int:
        return list(labels)
    return list(map(int, labels.tolist() if type(labels) in (torch.Tensor, np.ndarray) else labels))


VISION = Pictures(lambda root: (recogniser_of_arrays(root) or recognise_torchvision)(root))
