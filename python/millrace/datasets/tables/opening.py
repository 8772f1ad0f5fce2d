"""Files of tables, local or in a store, as pyarrow takes them: opened when they are read, held to what they
were at first.
"""

from __future__ import annotations

import io
import os
import threading
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from millrace import stores
from millrace._common.file_version import FileVersion
from millrace.errors import corrupt_data
from millrace.stores.locations import locate, shown

_OPEN_SOURCES = 64
# bytes of each object that are kept: what was read is decoded and not asked for again
_SOURCE_MEMORY = 16 << 20
_MOST_REQUESTS = 16
_GAP = 256 << 10  # bytes between two ranges that are rather read than left out


class Files:
    """Files by number. Picklable; what is open belongs to one process."""

    def __init__(self, paths: Sequence[str], cache: Any, store_options: dict[str, Any] | None) -> None:
        self._paths, self._cache, self._store_options = list(paths), cache, store_options
        self._versions: list[FileVersion | None] = [None] * len(
            paths
        )  # of local files, as they were at first
        self._open()

    def _open(self) -> None:
        self._pid = os.getpid()
        self._sources: OrderedDict[int, Any] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._paths)

    def name(self, file: int) -> str:
        return shown(self._paths[file])

    def local(self, file: int) -> str | None:
        return locate(self._paths[file]).local

    def check(self, file: int) -> None:
        """CorruptDataError when a local file is no longer what it was when it was first looked at.
        FileNotFoundError when it is gone,
        OSError when it is no regular file.
        """
        path = self.local(file)
        if path is None:
            return
        version, first = FileVersion.now(path), self._versions[file]
        if first is None:
            self._versions[file] = version
        elif not first.is_of(version):
            raise corrupt_data(path, "the file changed since the dataset was made; make the dataset anew")

    def source(self, file: int) -> Any:
        """The file's ByteSource."""
        if self._pid != os.getpid():  # forked: sources of stores, and locks, are the parent's
            self._open()
        with self._lock:
            if file in self._sources:
                self._sources.move_to_end(file)
                return self._sources[file]
        path, kept = self._paths[file], {} if self._cache is not None else {"memory": _SOURCE_MEMORY}
        source = stores.open_source(path, cache=self._cache, store_options=self._store_options, **kept)
        with self._lock:
            self._sources[file] = source
            while len(self._sources) > _OPEN_SOURCES:
                self._sources.popitem(last=False)
        return source

    def as_file(self, file: int, ranges: Sequence[tuple[int, int]] = ()) -> str | SourceFile:
        """What pyarrow opens: a local file's path, or a file object that has these ranges (offset, size) at
        hand.
        """
        self.check(file)
        local = self.local(file)
        if local is not None:
            return local
        source = self.source(file)
        return SourceFile(source, fetch_ranges(source, ranges))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_sources": None, "_lock": None, "_pid": -1}


def fetch_ranges(source: Any, ranges: Sequence[tuple[int, int]]) -> list[tuple[int, bytes]]:
    """The bytes of ranges (offset, size), near ones together, all asked for at once: (offset, bytes),
    rising.
    """
    joined: list[list[int]] = []
    for begin, size in sorted(ranges):
        if joined and begin <= joined[-1][1] + _GAP:
            joined[-1][1] = max(joined[-1][1], begin + size)
        else:
            joined.append([begin, begin + size])
    if len(joined) <= 1:
        return [(begin, source.read_at(begin, end - begin)) for begin, end in joined]
    with ThreadPoolExecutor(min(len(joined), _MOST_REQUESTS), thread_name_prefix="millrace-ranges") as pool:
        return list(pool.map(lambda part: (part[0], source.read_at(part[0], part[1] - part[0])), joined))


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
