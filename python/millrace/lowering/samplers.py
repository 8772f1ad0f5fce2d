"""Samplers: any of ints feeds the engine from the consumer's thread; torch's own and ours are made as arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ..samplers import BatchSampler, native
from ..samplers.global_order import GlobalOrderSampler


class PlainBatches:
    """The index lists of a BatchSampler over a sampler that `millrace.samplers.native` knows, as int64 arrays of shape (rows,),
    without n Python ints. (Of a SubsetRandomSampler as lists: its indices may be anything.)

    The same order and the same draws at the same moments. `batches` is the resumable sampler they come from.
    """

    def __init__(self, batches: BatchSampler) -> None:
        self.batches = batches

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[Any]:
        return self.batches.arrays()


def is_plain(index_sampler: Any) -> bool:
    """Whether PlainBatches gives what `index_sampler` gives."""
    batches = native(index_sampler)
    return type(batches) is BatchSampler and native(batches.sampler) is not None


def has_torchs_order(index_sampler: Any) -> bool:
    """Of one that is plain: whether torch has the sampler, too."""
    return not isinstance(index_sampler.sampler, GlobalOrderSampler)


def lowered_index_sampler(index_sampler: Iterable[Any]) -> Iterable[Any]:
    """What to iterate instead of `index_sampler`; itself when Python must run it."""
    return PlainBatches(native(index_sampler)) if is_plain(index_sampler) else index_sampler


def sampler_name(index_sampler: Any) -> str:
    name = type(index_sampler).__name__
    return (
        f"{type(index_sampler.sampler).__name__} in batches of {index_sampler.batch_size}"
        if type(native(index_sampler)) is BatchSampler
        else name
    )
