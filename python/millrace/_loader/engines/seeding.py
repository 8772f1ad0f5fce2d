"""The generators of torch's CPU, random and numpy, seeded for the user's Python, so that what it draws
depends on what it makes, and on nothing that was made before.
"""

from __future__ import annotations

import contextlib
import hashlib
import random
from collections.abc import Iterator

import numpy as np
import torch


def seed_all(key: bytes) -> None:
    """By these bytes."""
    seed = int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "little")
    random.seed(seed)
    torch.default_generator.manual_seed(seed)
    if type(np.random.mtrand._rand._bit_generator) is np.random.MT19937:  # another kind is the user's own
        np.random.seed((seed & 0xFFFFFFFF, seed >> 32))


@contextlib.contextmanager
def generators_seeded(place: tuple[int, ...], torch_alone: bool) -> Iterator[None]:
    """torch's CPU generator, random's and numpy's, or `torch_alone`: seeded from `place` inside, and where
    they were afterwards.
    """
    digest = hashlib.blake2b(repr(place).encode(), digest_size=16).digest()
    seed = int.from_bytes(digest[:8], "little") >> 1
    torchs = torch.get_rng_state()
    others = None if torch_alone else (random.getstate(), np.random.get_state(legacy=False))
    try:
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would reach for the devices' as well
        if others is not None:
            random.seed(seed)
            if others[1]["bit_generator"] == "MT19937":
                np.random.seed(np.frombuffer(digest, np.uint32))
        yield
    finally:
        torch.set_rng_state(torchs)
        if others is not None:
            random.setstate(others[0])
            np.random.set_state(others[1])
