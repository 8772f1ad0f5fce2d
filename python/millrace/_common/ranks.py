"""Which of how many training processes this one is."""

from __future__ import annotations

import os
from typing import Any

import torch.distributed as dist


def is_distributed() -> bool:
    return dist.is_available() and dist.is_initialized()


def gathered(value: Any, group: Any = None) -> list[Any]:
    """Every rank's `value`, in order of rank: a collective call of the group (None: of all), or [value] where
    nothing is distributed.
    """
    if not is_distributed():
        return [value]
    values: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(values, value, group)
    return values


def world() -> tuple[int, int]:
    """(rank, world size): torch.distributed's when it is initialised, else RANK and WORLD_SIZE of the
    environment, else (0, 1).

    ValueError when the environment's are no whole numbers with 0 <= RANK < WORLD_SIZE, or only one of them is
    set.
    """
    if is_distributed():
        return dist.get_rank(), dist.get_world_size()
    rank, size = os.environ.get("RANK"), os.environ.get("WORLD_SIZE")
    if rank is None and size is None:
        return 0, 1
    if rank is None or size is None or not (rank.isdecimal() and size.isdecimal() and int(rank) < int(size)):
        raise ValueError(
            f"the environment has RANK={rank} and WORLD_SIZE={size}; set both, with 0 <= RANK < WORLD_SIZE,"
            " or neither"
        )
    return int(rank), int(size)


def replicas(num_replicas: int | None, rank: int | None) -> tuple[int, int]:
    """(num_replicas, rank); world() replaces arguments that are None. ValueError unless
    0 <= rank < num_replicas.
    """
    if num_replicas is None or rank is None:
        own_rank, size = world()
        num_replicas = size if num_replicas is None else num_replicas
        rank = own_rank if rank is None else rank
    for name, value in (("num_replicas", num_replicas), ("rank", rank)):
        if not isinstance(value, int) or isinstance(value, bool):
            raise ValueError(f"{name} should be an integer, but got {name}={value!r}")
    if num_replicas < 1:
        raise ValueError(
            f"num_replicas should be a positive integer value, but got num_replicas={num_replicas}"
        )
    if rank >= num_replicas or rank < 0:
        raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]")
    return num_replicas, rank


def local_world_size() -> int:
    """Training processes on this node, by LOCAL_WORLD_SIZE; 1 where it is not set."""
    text = os.environ.get("LOCAL_WORLD_SIZE", "")
    return max(1, int(text)) if text.isdecimal() else 1
