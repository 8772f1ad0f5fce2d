"""What stands in the place of an iterator's index sampler, of which torch asks for each epoch's lists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .index_cursor import IndexCursor


class CursorSampler:
    """In place of an iterator's index sampler: each iter() is a new epoch's cursor, and iterates over the
    sampler at that moment.
    """

    def __init__(self, index_sampler: Any, cursor: Callable[[Any, None], IndexCursor]) -> None:
        self._index_sampler = index_sampler
        self._cursor = cursor

    def __len__(self) -> int:
        return len(self._index_sampler)

    def __iter__(self) -> IndexCursor:
        cursor = self._cursor(self._index_sampler, None)
        cursor.open()
        return cursor
