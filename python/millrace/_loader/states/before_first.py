"""The position of a loader that has no iterator yet."""

from __future__ import annotations

from typing import Any

import torch

from ..._common.states import draw_base_seed, generator_states, global_generator_at, packed, state_of
from .index_cursor import IndexCursor
from .progress import Progress
from .saved import CursorStart


def before_first_epoch(loader: Any) -> Progress:
    """What an iterator made now would begin with. Nothing is started, and no generator moves."""
    progress = Progress(loader)
    generators = progress._generators
    start = CursorStart()
    if progress._draws_unknown:  # before the base seed or after it
        states = generator_states(generators, pythons=True)
        start.generators = {name: packed(state) for name, state in states.items()}
        start.drew_when_made = True
    elif loader.generator is None:
        with global_generator_at(torch.get_rng_state()):
            progress._base_seed = draw_base_seed()
            start.generators["global"] = packed(torch.get_rng_state())
    else:
        twin = torch.Generator().set_state(loader.generator.get_state())
        progress._base_seed = draw_base_seed(twin)
        start.generators["loader"] = packed(twin.get_state())
        start.generators["global"] = packed(torch.get_rng_state())
    if "sampler" in generators and not start.drew_when_made:
        start.generators["sampler"] = packed(generators["sampler"].get_state())
    progress._dataset_epoch = loader.dataset.epoch if hasattr(loader.dataset, "_notify_workers") else None
    progress._cursor = IndexCursor(loader._index_sampler, None, generators, start)
    progress._snapshot = progress._now() if progress._every != 1 else None
    unread = {"dataset_iter_state": None, "fetcher_ended": False} if progress.streams else None
    progress._parts = (state_of(loader.dataset), unread)
    return progress
