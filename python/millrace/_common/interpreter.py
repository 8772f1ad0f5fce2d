"""What the interpreter says: which call of the script led here, and whether it has a GIL."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

#: Whether Python has a GIL now: an import may turn it on. Versions before 3.13 always have it.
has_gil: Callable[[], bool] = getattr(sys, "_is_gil_enabled", functools.partial(bool, True))


def level_of_the_loop() -> int:
    """The stacklevel, for a warning in the calling function, of the code that iterates over the loader."""
    frame: Any = sys._getframe(1)
    level = 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(
        ("millrace.", "millrace_tools.", "torch.utils.data.")
    ):
        frame, level = frame.f_back, level + 1
    return level
