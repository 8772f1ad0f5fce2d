"""The arguments that may be "auto": as numbers that any framework can read, and that know what they were."""

from __future__ import annotations

import math
from typing import Any, Optional

from .. import _core

_LISTS_AHEAD = 16


class Auto(int):
    """A number that stands for "auto". Who takes it from a loader's attributes and makes another loader of it gives "auto" on."""

    def __reduce__(self) -> Any:
        return Auto, (int(self),)


def is_auto(value: Any, name: str) -> bool:
    """Whether an argument is "auto". ValueError for other strings."""
    if isinstance(value, str) and value != "auto":
        raise ValueError(f'{name}={value!r} is neither a number nor "auto"')
    return isinstance(value, (str, Auto))


def resolved_workers(value: Any) -> Any:
    return Auto(_core.cpu_budget()["threads"]) if is_auto(value, "num_workers") else value


def resolved_prefetch(value: Any, workers: Any) -> Optional[int]:
    """Index lists drawn ahead per worker: at least 16 in all, so that so many batches may be in memory. None without workers."""
    if not is_auto(value, "prefetch_factor"):
        return value
    return Auto(max(2, math.ceil(_LISTS_AHEAD / workers))) if isinstance(workers, int) and workers > 0 else None
