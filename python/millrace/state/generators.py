"""Draws from torch's global generator that leave it as it was."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Optional

import torch


@contextlib.contextmanager
def global_generator_at(state: Optional[torch.Tensor]) -> Iterator[None]:
    """torch's global CPU generator is at `state` inside, and where it was afterwards. None: nothing is done."""
    if state is None:
        yield
        return
    before = torch.get_rng_state()
    torch.set_rng_state(state)
    try:
        yield
    finally:
        torch.set_rng_state(before)


def draw_base_seed(generator: Any = None) -> int:
    """As torch's iterators draw it."""
    return int(torch.empty((), dtype=torch.int64).random_(generator=generator).item())
