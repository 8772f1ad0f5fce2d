"""What a recogniser of pictures in files gives: a Source."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..engines.images import Files


@dataclass(frozen=True)
class Source:
    """A recognised dataset. `transform` takes PIL images; `index_maps` lead from indices to files, outermost
    Subset first.
    """

    name: str
    transform: Any
    make_files: Callable[[], Files]
    """May take a while on first use (millions of files); NotLowered when the samples are not plain pairs of a
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
    """The functions behind make_files().targets."""
    on_error: str | None = None
    """The engine's policy where the dataset has one of its own; None: the loader's."""
    parts: tuple[Source, ...] = ()
    """Of a ConcatDataset; `transform` is that of the first, which is to be the same as all others'."""
