"""Around: an iterator of batches around another one, which frameworks may ask for what they ask that one
for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


class Around(Iterator[Any]):
    """A class derived from it says `__next__`, from `_batches`."""

    def __init__(self, batches: Iterator[Any]) -> None:
        self._batches = batches

    def __len__(self) -> int:
        return len(self._batches)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_batches":
            raise AttributeError(name)
        return getattr(self._batches, name)
