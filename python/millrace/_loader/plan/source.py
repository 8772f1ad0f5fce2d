"""Source, the result of a recogniser of pictures in files; and chains of one channel for grey pictures."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import _core
from ..._common.lowering.grey import check_grey
from ..._common.lowering.recognising import NotLowered
from ...datasets.lazy_list import Targets as Labels
from ..engines.native import Files
from ..engines.targets import Targets

if TYPE_CHECKING:
    from ..._common.lowering.transforms import Lowered


@dataclass(frozen=True)
class Source:
    """A recognised dataset. `transform` takes PIL images; `index_maps` lead from indices to files, outermost
    Subset first.
    """

    name: str
    transform: Any
    make_files: Callable[[], Files]
    """May take a while on first use (millions of files); NotLowered if the samples are not plain pairs of a
    path and a target.
    """
    index_maps: tuple[Sequence[int], ...] = ()
    exif: bool = False
    """Pictures are turned upright before the transform."""
    any_mode: bool = False
    """Pictures come to the transform in the modes of their files, not in RGB."""
    grey: bool = False
    """Pictures come to the transform in grey, of one channel."""
    target_transforms: tuple[Any, ...] = ()
    """The functions that make_files().targets calls; None: that part has no function."""
    on_error: str | None = None
    """The engine's policy that matches the dataset's own; None: the loader's policy."""
    form: Callable[[Any, Any], Any] | None = None
    """Makes a sample of a picture and its target, and a batch of pictures and their targets; None: pairs."""
    parts: tuple[Source, ...] = ()
    """Of a ConcatDataset. `transform` is the first part's; the other parts' must be the same."""


def as_numbers(targets: Sequence[Any]) -> np.ndarray | Sequence[Any]:
    """`targets` as an array, if they are all ints of 64 bits; else as they are."""
    numbers = _core.int64_array(targets) if set(map(type, targets)) <= {int} else None
    return targets if numbers is None else numbers


def labelled(files: Any, targets: Any, function: Any, paths: _core.PathTable | None = None) -> Files:
    """`targets`: as_numbers(). `function`: transforms one for the consumer; None: none is transformed."""
    numbers = isinstance(targets, np.ndarray)
    if numbers and function is None:
        return Files(files, targets, paths)
    looks_up = Targets([(Labels(targets) if numbers else targets, function)])
    return Files(files, np.arange(len(files)), paths, looks_up)


def grey_chains(made: Lowered) -> list[list[dict[str, Any]]]:
    """`made.chains` for pictures in mode L. The engine's pictures have three equal channels, and its steps
    keep them equal; the tensor has the first channel, or all three if the transforms make the picture RGB.
    """
    if made.makes_rgb is None:
        raise NotLowered("RandomApply of Grayscale makes three channels of some grey pictures only")
    if made.makes_rgb:
        return made.chains
    check_grey(itertools.chain.from_iterable(made.chains))
    return [
        [{**op, "channels": 1} if op["op"] == "to_tensor" else op for op in chain] for chain in made.chains
    ]
