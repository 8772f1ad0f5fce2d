"""Several training processes over one dataset: which part is this one's, and how many steps all of them
take.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch.distributed as dist

from .ranks import gathered, is_distributed, world

EQUAL_STEPS = ("pad", "drop", "repeat")


class Part(NamedTuple):
    """One of `size` parts of the data: all ranks with the same `rank` here (a tensor-parallel group, say)
    read the same.
    """

    rank: int
    size: int
    group: Any  # of the ranks that read different parts; None for all


def part_of(process_group: Any, mesh_dim: None | str | tuple[str, ...]) -> Part:
    """The part of this process. `process_group`: a ProcessGroup of data-parallel ranks, or a DeviceMesh with
    these ranks along its dimension `mesh_dim` (several names: along all these dimensions together, the first
    one slowest).

    ValueError if the mesh lacks the dimension, if a mesh comes without mesh_dim, or if this process is not in
    the group.
    """
    if process_group is None:
        if mesh_dim is not None:
            raise ValueError(
                f"mesh_dim={mesh_dim!r} names a dimension of a mesh; give process_group=device_mesh, too"
            )
        rank, size = world()
        return Part(rank, size, None)
    if not hasattr(process_group, "mesh_dim_names"):
        if mesh_dim is not None:
            raise ValueError(
                f"mesh_dim={mesh_dim!r} needs a DeviceMesh as process_group, not a"
                f" {type(process_group).__name__}"
            )
        rank = dist.get_rank(process_group)
        if rank < 0:
            raise ValueError(
                f"rank {dist.get_rank()} is not in the process_group; give each rank a group that it"
                " belongs to"
            )
        return Part(rank, dist.get_world_size(process_group), process_group)
    return _part_of_mesh(process_group, mesh_dim)


def rank_of(loader: Any) -> int:
    """Which part a loader that was given a process_group reads; 0 for any other."""
    return 0 if loader.process_group is None else part_of(loader.process_group, loader.mesh_dim).rank


def _part_of_mesh(mesh: Any, mesh_dim: None | str | tuple[str, ...]) -> Part:
    names = tuple(mesh.mesh_dim_names or ())
    if mesh_dim is None and mesh.ndim == 1:
        return Part(mesh.get_local_rank(), mesh.size(), mesh.get_group())
    wanted = (mesh_dim,) if isinstance(mesh_dim, str) else tuple(mesh_dim or ())
    unknown = [name for name in wanted if name not in names]
    if not wanted or unknown:
        raise ValueError(
            f"mesh_dim={mesh_dim!r} must name data-parallel dimensions of the mesh, which has"
            f" {', '.join(map(repr, names))}"
        )
    rank, size = 0, 1
    for name in wanted:
        rank = rank * mesh[name].size() + mesh.get_local_rank(name)
        size *= mesh[name].size()
    return Part(rank, size, mesh.get_group(wanted[0]) if len(wanted) == 1 else None)


def shared_seed(seed: int) -> int:
    """Rank 0's, on all ranks: a collective call."""
    if not is_distributed():
        return seed
    seeds = [seed]
    dist.broadcast_object_list(seeds, src=0)
    return seeds[0]


def agreed_steps(steps: int, equal_steps: str, group: Any) -> int:
    """How many steps every rank takes when this one has `steps` index lists: a collective call of the
    group.
    """
    counts = gathered(steps, group)
    if equal_steps == "drop":
        return min(counts)
    if min(counts) == 0 < max(counts):
        raise ValueError(
            f"rank {counts.index(0)} has no samples at all, so equal_steps={equal_steps!r} has nothing to"
            ' repeat there; use fewer ranks, or equal_steps="drop"'
        )
    return max(counts)
