"""rank_report(): which rank reads what, before a long run finds out."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from millrace._common.ranks import gathered, world
from millrace._common.states import global_generator_at
from millrace._loader.states.index_cursor import own_generators
from torch.utils.data import IterableDataset

_SHOWN = 5


def rank_report(loader: Any) -> str:
    """Return a table of all ranks: how many samples and steps the next epoch of `loader` has on each, and the
    first indices.

    It also gives how many samples of the dataset nobody reads, and how many are read more than once. A
    collective call where torch.distributed is initialised. Walks through the whole sampler of this rank;
    nothing is drawn from torch's global generator or the loader's. For map-style datasets, with a bit per
    sample sent by each rank.

    Raises:
        TypeError: if the dataset is not map-style.
    """
    if not hasattr(loader.dataset, "__len__") or isinstance(loader.dataset, IterableDataset):
        raise TypeError(
            f"rank_report() is for map-style datasets; a {type(loader.dataset).__name__} alone knows which"
            " rank reads what"
        )
    length = len(loader.dataset)
    indices = _indices(loader)
    seen = np.zeros(length, dtype=bool)
    seen[indices] = True
    rank, _ = world()
    first = ", ".join(map(str, indices[:_SHOWN].tolist()))
    own = (
        rank,
        len(indices),
        len(loader),
        first + (", ..." if len(indices) > _SHOWN else ""),
        np.packbits(seen).tobytes(),
        length,
    )
    rows = gathered(own)
    lengths = {row[5] for row in rows}
    if len(lengths) > 1:
        raise ValueError(
            f"the ranks' datasets differ in length: {sorted(lengths)} samples; give all ranks the same"
            " dataset"
        )
    read = sum(int(row[1]) for row in rows)
    covered = np.bitwise_or.reduce([np.frombuffer(row[4], dtype=np.uint8) for row in rows])
    lines = [f"{'rank':>4} {'samples':>9} {'steps':>7}  first indices"]
    lines += [f"{row[0]:>4} {row[1]:>9} {row[2]:>7}  {row[3]}" for row in rows]
    distinct = int(np.unpackbits(covered).sum())
    lines.append(
        f"{distinct} of {length} samples are read, {read - distinct} more than once, {length - distinct} by"
        " nobody"
    )
    return "\n".join(lines)


def _indices(loader: Any) -> np.ndarray:
    """int64 (samples,): what the sampler would give."""
    generators = own_generators(loader)
    before = {name: generator.get_state() for name, generator in generators.items()}
    try:
        with global_generator_at(torch.get_rng_state()):
            lists = [np.atleast_1d(np.asarray(item, dtype=np.int64)) for item in loader._index_sampler]
    finally:
        for name, generator in generators.items():
            generator.set_state(before[name])
    indices = np.concatenate([np.empty(0, dtype=np.int64), *lists])
    return np.where(indices < 0, indices + len(loader.dataset), indices)
