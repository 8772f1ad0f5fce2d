"""How a recogniser says no."""

from __future__ import annotations

import sys
from typing import Any


class NotLowered(Exception):
    """A stage stays in Python; the text says why and what to change. Caught by the planner, never seen by
    users.
    """


def loaded(module: str, name: str) -> Any:
    """`module.name` if that module was imported already, else None: recognisers must not import optional
    libraries.
    """
    return getattr(sys.modules.get(module), name, None)
