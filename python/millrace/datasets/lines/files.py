"""Files of lines, opened for reading any line: their indexes, made or loaded, and plain copies of packed
ones.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from typing import Any, Union

import numpy as np

from millrace import _core

from ..._common.regular_files import FileVersion
from ...errors import CorruptDataError
from ..kept import FirstVersions, Version, changed, kept_index, kept_path
from ..webdataset.open_shards import StoreOptions, is_local, local_path, remote_object
from .reading import bad_line

Progress = Union[None, bool, Callable[[str, int, int], None]]

_SUFFIX = ".lines"
_OPENERS = 8  # files that are opened at once: one that waits for a disk or a store lets others go on
_KEPT_OPEN = 256  # of more files than this none is kept open: there would be too many descriptors
_NO_PLACE = (
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EROFS,
    errno.EACCES,
    errno.EPERM,
)  # of a disk: it is full, or not to be written to
_STEP = 64 << 20  # bytes between two looks at Ctrl-C and reports of progress
_REPORTED = 256 << 20  # smaller files are read before anybody asks
_MEMORY = 64 << 20  # bytes of each file of a store that are kept
_COUNTED = 64 << 20  # so many bytes are read for a line's number in a message


@dataclass(frozen=True)
class Options:
    """How files are opened: JSONL's arguments of these names."""

    keep_blank: bool = False
    index_dir: str | None = None
    max_line_bytes: int = 64 << 20
    progress: Progress = None
    stores: StoreOptions = StoreOptions()


class OpenFiles:
    """All files of a dataset in one process. `lines` reads them natively; FileNotFoundError,
    CorruptDataError, ... name the file.
    """

    def __init__(self, urls: Sequence[str], options: Options, first: FirstVersions) -> None:
        self.urls = tuple(urls)
        self.options = options
        self._first = first
        self._stopped = threading.Event()
        keep_open = len(urls) <= _KEPT_OPEN

        with ThreadPoolExecutor(_OPENERS) as pool:
            try:
                opened = list(pool.map(self._opened, urls, repeat(keep_open)))
            except BaseException:
                self._stopped.set()
                raise
        self.sources = [source for source, _, _ in opened]
        self._indexes = [index for _, index, _ in opened]
        self._local = [local for _, _, local in opened]  # (path, version), or None
        self.lines = _core.LineFiles(self.sources, self._indexes, options.max_line_bytes)
        self.ends = np.cumsum([len(index) for index in self._indexes], dtype=np.int64)

    def __len__(self) -> int:
        return len(self.lines)

    def bad_line(self, line: int, reason: object) -> CorruptDataError:
        """The error for a line, which names its file, line and byte."""
        file, begin, _ = self.lines.place(int(line))
        if begin <= _COUNTED:
            number = f"line {self.lines.lines_before(file, begin) + 1}"
        else:
            number = f"sample {line - (int(self.ends[file - 1]) if file else 0)} of the file"
        more = (
            "" if self._is_same(file) else "; the file was changed after it was opened: open the dataset anew"
        )
        return bad_line(self.urls[file], number, begin, f"{reason}{more}")

    def save_indexes(self) -> None:
        """Beside each local file."""
        for file, (index, local) in enumerate(zip(self._indexes, self._local)):
            if local is not None:
                if not self._is_same(file):
                    raise changed(self.urls[file])
                index.save(local[0] + _SUFFIX, _core.content_mark(self.sources[file]))

    def content(self, line: int) -> bytes | None:
        """The bytes of a line, without its newline; None when it is too long."""
        file, begin, end = self.lines.place(line)
        if end - begin > self.options.max_line_bytes:
            return None
        content = self.sources[file].read_at(begin, end - begin)
        text, newline, _ = content.partition(b"\n")  # blank lines may follow
        return text.removesuffix(b"\r") if newline else text

    def _is_same(self, file: int) -> bool:
        """False when a local file is another one now; one that was deleted is whole as long as it is open."""
        local = self._local[file]
        try:
            return local is None or local[1].is_of(FileVersion.now(local[0]))
        except OSError:
            return True

    def _opened(
        self, url: str, keep_open: bool
    ) -> tuple[Any, _core.LineIndex, tuple[str, FileVersion] | None]:
        if not is_local(url):
            remote = remote_object(url, self.options.stores, _MEMORY)
            source = remote.open()
            self._first.check(url, source.size, remote.meta.version)
            return *self._indexed(url, source, None, remote.meta.version, keep_open), None
        path = local_path(url)
        version = FileVersion.now(path)  # before opening: never later than the data kept under it
        source = _core.open_local_file(path, url, keep_open)
        self._first.check(url, source.size, version)
        opened = self._indexed(url, source, path, version, keep_open)
        if not version.is_of(FileVersion.now(path)):
            raise changed(url)
        return *opened, (path, version)

    def _indexed(
        self, url: str, source: Any, path: str | None, version: Version, keep_open: bool
    ) -> tuple[Any, _core.LineIndex]:
        if not _core.Unpacking(source, -1).packed:
            return source, self._index(url, source, path, version)
        plain, stays = self._unpacked(url, source, path, version)
        copy = _core.open_local_file(plain, url, keep_open or not stays)
        if not stays:
            os.unlink(plain)
            return copy, self._index(url, copy, None, "")
        return copy, self._index(url, copy, plain, FileVersion.now(plain))

    # ---------------------------------------------------------------- packed files

    def _unpacked(self, url: str, source: Any, path: str | None, version: Version) -> tuple[str, bool]:
        """(the plain copy of a packed file, whether it is one to keep)"""
        kept = kept_path("unpacked", ".txt", url, source.size, path, self.options.index_dir, version)
        if kept is not None and os.path.exists(kept):
            return kept, True
        named = kept or kept_path(
            "unpacked", ".txt", url, source.size, None, self.options.index_dir, "unknown"
        )
        assert named is not None  # a version is given
        folder = os.path.dirname(named)
        unfinished = ""
        try:
            os.makedirs(folder, exist_ok=True)
            fd, unfinished = tempfile.mkstemp(dir=folder, prefix=".unpacking-")
            try:
                self._run(f"unpacking {url}", _core.Unpacking(source, fd, folder), 0)
            finally:
                os.close(fd)
            if kept is not None:
                os.replace(unfinished, kept)
        except BaseException as error:
            with contextlib.suppress(OSError):
                os.unlink(unfinished)
            if isinstance(error, OSError) and error.errno in _NO_PLACE and "index_dir" not in str(error):
                what = (
                    f"cannot keep what {url} unpacks to ({error.strerror}); make room there, or name another"
                    " folder for it: index_dir="
                )
                raise OSError(error.errno, what, folder) from None
            raise
        return (unfinished, False) if kept is None else (kept, True)

    # ---------------------------------------------------------------- indexes

    def _index(self, url: str, source: Any, path: str | None, version: Version) -> _core.LineIndex:
        keep_blank = self.options.keep_blank

        def build() -> _core.LineIndex:
            builder = _core.LineIndexBuilder(source, keep_blank)
            self._run(f"indexing {url}", builder, source.size)
            return builder.finish()

        return kept_index(
            "line-indexes",
            f".all{_SUFFIX}" if keep_blank else _SUFFIX,
            url,
            source,
            path,
            self.options.index_dir,
            version,
            beside=_SUFFIX,
            load=_core.LineIndex.load,
            fits=lambda index: (index.source_bytes, index.keeps_blank) == (source.size, keep_blank),
            build=build,
        )

    def _run(self, what: str, work: Any, total: int) -> None:
        """Steps to the end; looks in between whether somebody gave up."""
        reported = time.monotonic()
        while work.step(_STEP):
            if self._stopped.is_set():
                raise InterruptedError(f"{what} was stopped")
            if time.monotonic() - reported > 2:
                self._report(what, work.position, total)
                reported = time.monotonic()
        if work.position >= _REPORTED:
            self._report(what, work.position, total)

    def _report(self, what: str, done: int, total: int) -> None:
        progress = self.options.progress
        if callable(progress):
            progress(what, done, total)
        elif progress:
            of = f" of {total / 1e9:.1f}" if total else ""
            print(f"millrace: {what}: {done / 1e9:.1f}{of} GB", file=sys.stderr, flush=True)
