"""States of torch's random generators as short text."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import torch

from ..errors import StateError


def packed(state: torch.Tensor | None) -> str | None:
    """A generator's state (uint8) as text of about 3.4 kB: half of its 5 kB are zero bytes."""
    return (
        None if state is None else base64.b64encode(zlib.compress(state.numpy().tobytes(), 1)).decode("ascii")
    )


def unpacked(text: str | None) -> Any:
    """The reverse, a tensor or None; StateError for what packed() did not make."""
    if text is None:
        return None
    try:
        return torch.frombuffer(
            bytearray(zlib.decompress(base64.b64decode(text, validate=True))), dtype=torch.uint8
        )
    except Exception as error:
        raise StateError(
            f"the state of a random generator cannot be read ({error}); the saved state is damaged"
        ) from error
