"""The sampler of a loader that was given a process_group."""

from __future__ import annotations

from typing import Any

from torch.utils.data import IterableDataset

from .._common.data_parallel import Part
from ..samplers import DistributedSampler


def sampler_of_part(
    dataset: Any, sampler: Any, batch_sampler: Any, shuffle: bool | None, part: Part
) -> tuple[Any, bool | None]:
    """(sampler, shuffle) of a loader that was given a process_group: its part of the dataset, unless a
    sampler says which that is.
    """
    if isinstance(dataset, IterableDataset):
        raise ValueError(
            "process_group= divides a map-style dataset; an IterableDataset divides itself, in its __iter__"
        )
    given = getattr(batch_sampler, "sampler", batch_sampler) if sampler is None else sampler
    if given is None:
        return (
            DistributedSampler(dataset, num_replicas=part.size, rank=part.rank, shuffle=bool(shuffle)),
            None,
        )
    place = getattr(given, "rank", part.rank), getattr(given, "num_replicas", part.size)
    if place != (part.rank, part.size):
        raise ValueError(
            f"the sampler is for rank {place[0]} of {place[1]}, but the process_group makes this rank"
            f" {part.rank} of {part.size}; leave the sampler out, or give it rank and num_replicas of the"
            " group"
        )
    return sampler, shuffle
