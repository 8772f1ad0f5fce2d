"""Datasets of ours that make whole batches (`datasets.batches`), and torch's Subset of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from torch.utils.data import Subset

from ..._common.lowering.as_shipped import recognise_collate
from ..._common.lowering.recognising import NotLowered
from ..._common.shipped import is_default_collate
from ...collate import as_shipped
from ...datasets.batches import BatchDataset
from ...samplers import ChunkShuffle
from ...samplers.resumable import inner_sampler
from ..engines.batches import BatchSource, BatchSpec
from .plan import Recogniser
from .stages import Stages

_DECISIVE = ("__getitem__", "__getitems__", "__getattribute__")


# What docs/native.md says of it (scripts/native_table.py).
WORDS = (
    "[tokens, arrays, texts](tokens.md), [lines](lines.md), [tables](tables.md),"
    " [HDF5 and Zarr](array_files.md)"
)


def recognise_batches(loader: Any) -> tuple[str, BatchSource]:
    dataset: Any = loader.dataset
    maps: list[np.ndarray] = []
    length = len(dataset)
    while type(dataset) is Subset:
        inner_dataset: Any = dataset.dataset
        indices = np.asarray(dataset.indices)
        if indices.ndim != 1 or (len(indices) and indices.dtype.kind not in "iu"):
            raise NotLowered(
                f"Subset.indices are {indices.dtype} of {indices.ndim} dimensions; use a list of ints"
            )
        indices = indices.astype(np.int64)
        inner = len(inner_dataset)
        if len(indices) and (indices.min() < -inner or indices.max() >= inner):
            raise NotLowered(
                f"Subset.indices reach from {indices.min()} to {indices.max()} in a dataset of {inner}; leave"
                " them out"
            )
        maps.append(np.where(indices < 0, indices + inner, indices))
        dataset = inner_dataset
    cls = type(dataset)
    for name in _DECISIVE:
        if getattr(cls, name, None) is not getattr(BatchDataset, name, None):
            raise NotLowered(
                f"{cls.__name__} overrides {name}; leave that to its base, and change the finished batch"
            )
    if (reason := dataset.refusal()) is not None:
        raise NotLowered(reason)
    if loader.on_error != "raise":
        raise NotLowered(f'on_error="{loader.on_error}" looks at samples one by one, in Python')
    source = BatchSource(dataset, tuple(maps), length)
    return f"{source.name} of {length} samples, whole batches made in threads", source


def recognise_batch_collate(
    loader: Any, source: BatchSource | None
) -> tuple[str, Callable[[list], Any] | None]:
    """(what explain() says, the collate function that the maker is to be told of)"""
    function = loader.collate_fn
    if source is not None and not is_default_collate(function) and source.dataset.knows_collate(function):
        return f"{getattr(function, '__qualname__', type(function).__name__)}, into the batch", function
    reason = recognise_collate(function)
    if not as_shipped():
        raise NotLowered("default_collate_fn_map was changed; restore it to collate natively")
    return reason, None


class Batches(Recogniser):
    def spec(self, loader: Any, stages: Stages) -> BatchSpec | None:
        source: BatchSource | None = stages.ask("dataset", lambda: recognise_batches(loader))
        stages.ask_sampler(loader)
        collate = stages.ask("collate_fn", lambda: recognise_batch_collate(loader, source))
        stages.ask_worker_init(loader)
        if source is None or stages.refusing():
            return None
        sampler = inner_sampler(loader.batch_sampler)
        window = sampler.window if isinstance(sampler, ChunkShuffle) else 0
        # A window's first batch needs most of its chunks: they are known that much earlier than the last
        # batch of the one before.
        return BatchSpec(source, collate, source.dataset.rows_ahead and source.dataset.rows_ahead + window)


BATCHES = Batches()
