"""States of torch's random generators as short text, and draws that leave the global one as it was."""

from __future__ import annotations

import base64
import contextlib
import zlib
from collections.abc import Iterator
from typing import Any, Optional

import torch


def packed(state: Optional[torch.Tensor]) -> Optional[str]:
    """A generator's state (uint8) as text of about 3.4 kB: half of its 5 kB are zero bytes."""
    return None if state is None else base64.b64encode(zlib.compress(state.numpy().tobytes(), 1)).decode("ascii")


def unpacked(text: Optional[str]) -> Optional[torch.Tensor]:
    """The reverse; ValueError for what packed() did not make."""
    if text is None:
        return None
    try:
        return torch.frombuffer(bytearray(zlib.decompress(base64.b64decode(text, validate=True))), dtype=torch.uint8)
    except Exception as error:
        raise ValueError(f"the state of a random generator cannot be read ({error}); the saved state is damaged") from error


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
