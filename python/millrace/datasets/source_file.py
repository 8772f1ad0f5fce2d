"""SourceFile: what millrace.stores opens, as a Python file."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any


class SourceFile(io.RawIOBase):
    """A ByteSource as a file object, `pieces` of it at hand. One thread."""

    def __init__(self, source: Any, pieces: Sequence[tuple[int, bytes]] = ()) -> None:
        self._source, self._at = source, 0
        self._pieces = [(begin, memoryview(data)) for begin, data in pieces]

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + (0, self._at, self._source.size)[whence]
        return self._at

    def read(self, size: int | None = -1) -> Any:
        left = max(0, self._source.size - self._at)
        size = left if size is None or size < 0 else min(size, left)
        begin, self._at = self._at, self._at + size
        for first, data in self._pieces:
            if first <= begin and begin + size <= first + len(data):
                return data[begin - first : begin - first + size]
        return self._source.read_at(begin, size)

    read_buffer = read

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)
