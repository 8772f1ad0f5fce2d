"""Which call of the script led here."""

from __future__ import annotations

import sys
from typing import Any


def level_of_the_loop() -> int:
    """The stacklevel of whoever iterates over the loader, counted from the caller's warning."""
    frame: Any = sys._getframe(1)
    level = 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(
        ("millrace.", "millrace_tools.", "torch.utils.data.")
    ):
        frame, level = frame.f_back, level + 1
    return level
