"""What a word on the command line means: a dataset or loader of somebody's code, or files that a dataset can
be made of.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable
from typing import Any

import torch

from ..named import is_name, named

_SHARDS = re.compile(r"\.tar(\.gz|\.zst)?$")


def batches_of(
    text: str, batch_size: int, workers: Any, picture_size: int, ragged: bool
) -> tuple[Iterable[Any], Any, str]:
    """(batches, how many samples there are or None, what it is). ValueError and FileNotFoundError say what
    can be given.
    """
    thing, what = found(text, picture_size)
    if not _is_dataset(thing):
        return thing, _length(getattr(thing, "dataset", None)), what
    from millrace.dataloader import DataLoader

    streams = isinstance(thing, torch.utils.data.IterableDataset)
    # In a drawn order, so that the parts of sorted data do not look like drift to each other.
    options: dict[str, Any] = (
        {} if streams else {"shuffle": True, "generator": torch.Generator().manual_seed(0)}
    )
    ragged = ragged or what == "shards"
    loader = DataLoader(
        thing,
        batch_size,
        num_workers=0 if streams else workers,
        collate_fn=list if ragged else None,
        **options,
    )
    return loader, None if streams else _length(thing), what


def found(text: str, picture_size: int) -> tuple[Any, str]:
    """A dataset or loader, and "object", "pictures", "shards" or "tables"."""
    if is_name(text):
        thing = named(text)
        if not hasattr(thing, "__getitem__") and not hasattr(thing, "__iter__"):
            raise ValueError(f"{text} is a {type(thing).__name__}, neither a dataset nor a loader")
        return thing, "object"
    from millrace import datasets, transforms
    from millrace.datasets.webdataset.urls import expand_urls

    files = (
        sorted(glob.glob(os.path.join(glob.escape(text), "*"))) if os.path.isdir(text) else expand_urls(text)
    )
    if shards := [name for name in files if _SHARDS.search(name)]:
        return datasets.WebDataset(shards).decode("torchrgb8").to_dict(), "shards"
    if tables := [name for name in files if name.endswith(".parquet")]:
        return datasets.Parquet(tables), "tables"
    if os.path.isdir(text) and any(os.path.isdir(name) for name in files):
        steps = [
            transforms.Resize(picture_size * 8 // 7),
            transforms.CenterCrop(picture_size),
            transforms.PILToTensor(),
        ]
        return datasets.ImageFolder(text, transforms.Compose(steps)), "pictures"
    if not os.path.exists(text) and "://" not in text:
        raise FileNotFoundError(
            f"{text}: there is no such file or folder; a dataset of your code is module:name or"
            " script.py:name"
        )
    raise ValueError(
        f"{text}: neither class folders of pictures, nor tar shards, nor Parquet files; name a dataset as"
        " module:name or script.py:name"
    )


def _is_dataset(thing: Any) -> bool:
    return isinstance(thing, torch.utils.data.Dataset) or (
        hasattr(thing, "__getitem__") and hasattr(thing, "__len__")
    )


def _length(thing: Any) -> Any:
    try:
        return len(thing)
    except TypeError:
        return None
