"""Samplers: any of ints feeds the engine from the consumer's thread; torch's own and ours are made as
arrays.
"""

from __future__ import annotations

from typing import Any

from ...samplers import BatchSampler, RandomSampler, native
from ...samplers.global_order import GlobalOrderSampler

# What docs/native.md says of it (scripts/native_table.py).
WORDS = "torch's, [millrace's](samplers.md), and any other of integers"


def is_plain(index_sampler: Any) -> bool:
    """Whether its index lists are made natively, as arrays."""
    batches = native(index_sampler)
    return type(batches) is BatchSampler and native(batches.sampler) is not None


def has_torchs_order(index_sampler: Any) -> bool:
    """Of one that is plain: whether torch would give the same order."""
    sampler = native(index_sampler.sampler)
    return not isinstance(sampler, GlobalOrderSampler) and not (
        isinstance(sampler, RandomSampler) and sampler.is_computed()
    )


def sampler_name(index_sampler: Any) -> str:
    name = type(index_sampler).__name__
    return (
        f"{type(index_sampler.sampler).__name__} in batches of {index_sampler.batch_size}"
        if type(native(index_sampler)) is BatchSampler
        else name
    )
