"""Files of lines, opened for reading any line: their indexes, made or loaded, and plain copies of packed ones."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Optional, Union

import numpy as np

from millrace import _core
from millrace.errors import CorruptDataError

from ..kept import is_no_older, kept_path
from ..webdataset.open_shards import StoreOptions, is_local, local_path, open_shard

Progress = Union[None, bool, Callable[[str, int, int], None]]

_SUFFIX = ".lines"
_OPENERS = 8  # files that are opened at once: one that waits for a disk or a store lets others go on
_KEPT_OPEN = 256  # of more files than this none is kept open: there would be too many descriptors
_STEP = 64 << 20  # bytes between two looks at Ctrl-C and reports of progress
_REPORTED = 256 << 20  # smaller files are read before anybody asks
_COUNTED = 64 << 20  # so many bytes are read for a line's number in a message


@dataclass(frozen=True)
class Options:
    """How files are opened: JSONL's arguments of these names."""

    keep_blank: bool = False
    index_dir: Optional[str] = None
    max_line_bytes: int = 64 << 20
    progress: Progress = None
    stores: StoreOptions = StoreOptions()


class OpenFiles:
    """All files of a dataset in one process. `lines` reads them natively; FileNotFoundError, CorruptDataError, ... name the file."""

    def __init__(self, urls: Sequence[str], options: Options) -> None:
        self.urls = tuple(urls)
        self.options = options
        self._stopped = threading.Event()
        keep_open = len(urls) <= _KEPT_OPEN

        with ThreadPoolExecutor(_OPENERS) as pool:
            futures = [pool.submit(self._opened, url, keep_open) for url in urls]
            try:
                opened = [future.result() for future in futures]
            except BaseException:
                self._stopped.set()
                for future in futures:
                    future.cancel()
                raise
        self.sources = [source for source, _, _ in opened]
        self._indexes = [index for _, index, _ in opened]
        self.lines = _core.LineFiles(self.sources, self._indexes, options.max_line_bytes)
        self._stamps = [stamp for _, _, stamp in opened]
        self.ends = np.cumsum([len(index) for index in self._indexes], dtype=np.int64)

    def __len__(self) -> int:
        return len(self.lines)

    def place(self, line: int) -> tuple[str, str, int, str]:
        """(file, which of its lines, its byte, what else is known), for messages."""
        file, begin, _ = self.lines.place(line)
        number = f"line {self._number(file, begin)}"
        if begin > _COUNTED:
            number = f"sample {line - (int(self.ends[file - 1]) if file else 0)} of the file"
        stamp = self._stamps[file]
        changed = stamp is not None and _stamp(stamp[0]) != stamp
        return self.urls[file], number, begin, "; the file was changed after it was opened: open the dataset anew" if changed else ""

    def save_indexes(self) -> None:
        """Beside each local file."""
        for index, stamp in zip(self._indexes, self._stamps):
            if stamp is not None:
                index.save(stamp[0] + _SUFFIX)

    def content(self, line: int) -> Optional[bytes]:
        """The bytes of a line, without its newline; None when it is too long."""
        file, begin, end = self.lines.place(line)
        if end - begin > self.options.max_line_bytes:
            return None
        content = self.sources[file].read_at(begin, end - begin)
        line, newline, _ = content.partition(b"\n")  # blank lines may follow
        return line.removesuffix(b"\r") if newline else line

    def _number(self, file: int, begin: int) -> int:
        return self.lines.lines_before(file, begin) + 1 if begin <= _COUNTED else 0

    def _opened(self, url: str, keep_open: bool) -> tuple[Any, _core.LineIndex, Any]:
        source = open_shard(url, self.options.stores)
        path = os.fspath(source) if isinstance(source, (str, os.PathLike)) else None
        if path is None and is_local(url):
            path = local_path(url)
        if path is not None:
            source = _core.open_local_file(path, url, keep_open)
        stamp = None if path is None else _stamp(path)
        plain = self._unpacked(url, source, path)
        if plain is not None:
            path, source = plain, _core.open_local_file(plain, url, keep_open)
        return source, self._index(url, source, path), stamp

    # ---------------------------------------------------------------- packed files

    def _unpacked(self, url: str, source: Any, path: Optional[str]) -> Optional[str]:
        """The plain copy of a packed file; None when it is not packed."""
        if not _core.Unpacking(source, -1).packed:
            return None
        kept = kept_path("unpacked", ".txt", url, source.size, path, self.options.index_dir)
        if os.path.exists(kept):
            return kept
        folder = os.path.dirname(kept)
        os.makedirs(folder, exist_ok=True)
        fd, unfinished = tempfile.mkstemp(dir=folder, prefix=".unpacking-")
        try:
            try:
                unpacking = _core.Unpacking(source, fd)
                self._run(f"unpacking {url}", unpacking, 0)
            finally:
                os.close(fd)
            os.replace(unfinished, kept)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(unfinished)
            raise
        return kept

    # ---------------------------------------------------------------- indexes

    def _index(self, url: str, source: Any, path: Optional[str]) -> _core.LineIndex:
        keep_blank = self.options.keep_blank
        beside = None if path is None else path + _SUFFIX
        if beside is not None and is_no_older(beside, path):  # type: ignore[arg-type]
            index = _loaded(beside, source.size, keep_blank)
            if index is not None:
                return index
        suffix = f".all{_SUFFIX}" if keep_blank else _SUFFIX
        kept = kept_path("line-indexes", suffix, url, source.size, path, self.options.index_dir)
        index = _loaded(kept, source.size, keep_blank)
        if index is None:
            builder = _core.LineIndexBuilder(source, keep_blank)
            self._run(f"indexing {url}", builder, source.size)
            index = builder.finish()
            with contextlib.suppress(OSError):  # a full or read-only disk: it is made again next time
                os.makedirs(os.path.dirname(kept), exist_ok=True)
                index.save(kept)
        return index

    def _run(self, what: str, work: Any, total: int) -> None:
        """Steps to the end; looks in between whether somebody gave up."""
        reported = time.monotonic()
        while work.step(_STEP):
            if self._stopped.is_set():
                raise InterruptedError(f"{what} was stopped")
            if time.monotonic() - reported > 2 and self._report(what, work.position, total):
                reported = time.monotonic()
        if work.position >= _REPORTED:
            self._report(what, work.position, total)

    def _report(self, what: str, done: int, total: int) -> bool:
        progress = self.options.progress
        if callable(progress):
            progress(what, done, total)
        elif progress:
            of = f" of {total / 1e9:.1f}" if total else ""
            print(f"millrace: {what}: {done / 1e9:.1f}{of} GB", file=sys.stderr, flush=True)
        return True


def _loaded(path: str, source_bytes: int, keep_blank: bool) -> Optional[_core.LineIndex]:
    try:
        index = _core.LineIndex.load(path)
    except (CorruptDataError, OSError):
        return None
    return index if (index.source_bytes, index.keeps_blank) == (source_bytes, keep_blank) else None


def _stamp(path: str) -> tuple[Any, ...]:
    """What changes with a file."""
    try:
        status = os.stat(path)
    except OSError:
        return (path, None)
    return (path, status.st_size, status.st_mtime_ns, status.st_ino)
