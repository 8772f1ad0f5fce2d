"""How fast a folder's files, or a file of our own, come from the disk, without the page cache where that can
be had.

Reads are O_DIRECT, which leaves the cache as it is. Where the file system has no such reads, the files' pages
are dropped before (posix_fadvise), and it is looked up (mincore) whether they went: `bypass` says "O_DIRECT",
"dropped" or "no".
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import random
import shutil
import stat
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..._common.regular_files import open_descriptor, open_regular
from .timing import explained, until

PAGE = 4096
_PIECE, _SMALL_FILE = 4 << 20, 1 << 20
_MOST_FILES, _LIST_SECONDS, _DEPTH = 50_000, 1.0, 16
_OWN_BYTES, _LEAST_BYTES = 256 << 20, 16 << 20
_WRITE_SECONDS = 2.0


@dataclass
class Found:
    """Files of a folder, as (path, bytes), empty ones left out; `complete`: all there are. errors: what could
    not be listed.
    """

    files: list[tuple[str, int]]
    complete: bool
    errors: list[str]

    @property
    def total(self) -> int:
        return sum(size for _, size in self.files)


def find_files(path: str, seconds: float = _LIST_SECONDS, most: int = _MOST_FILES) -> Found:
    """What lies at `path`, a file or a folder; bounded in time and number."""
    found = Found([], True, [])
    if os.path.isfile(path):
        found.files = [(path, size)] if (size := os.path.getsize(path)) else []
        return found
    end = time.monotonic() + seconds
    todo = [path]
    while todo:
        folder = todo.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if time.monotonic() > end or len(found.files) >= most:
                        found.complete = False
                        return found
                    with contextlib.suppress(OSError):
                        if entry.is_dir(follow_symlinks=False):
                            todo.append(entry.path)
                        elif stat.S_ISREG((status := entry.stat()).st_mode) and status.st_size:
                            found.files.append((entry.path, status.st_size))
        except OSError as error:
            found.errors.append(explained(error))
    return found


class Reader:
    """One open file, read past the page cache if possible. `bypass` says how."""

    def __init__(self, path: str, size: int) -> None:
        self.size, self.fd, self.bypass = size, -1, "no"
        direct = getattr(os, "O_DIRECT", 0)
        with contextlib.suppress(OSError):
            if direct:
                self.fd = open_descriptor(path, os.O_RDONLY | direct)
                with mmap.mmap(-1, PAGE) as probe:
                    os.preadv(self.fd, [probe], 0)
                self.bypass = "O_DIRECT"
                return
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = open_descriptor(path, os.O_RDONLY)
        with contextlib.suppress(OSError):
            os.posix_fadvise(self.fd, 0, 0, os.POSIX_FADV_DONTNEED)
        resident = resident_share(self.fd, size)
        self.bypass = "dropped" if resident is not None and resident < 0.1 else "no"

    def read(self, buffer: Any, offset: int) -> int:
        return os.preadv(self.fd, [buffer], offset)

    def close(self) -> None:
        os.close(self.fd)


_buffers = threading.local()


def _buffer(size: int) -> memoryview:
    """Memory at a page's border, of this thread's; of `size` bytes, rounded up to pages."""
    size = -(-size // PAGE) * PAGE
    held: mmap.mmap | None = getattr(_buffers, "memory", None)
    if held is None or len(held) < size:
        held = _buffers.memory = mmap.mmap(-1, size)
    return memoryview(held)[:size]


def resident_share(fd: int, size: int) -> float | None:
    """The share of a file's pages that are in memory; None when the system does not say."""
    try:
        with mmap.mmap(fd, size, access=mmap.ACCESS_COPY) as memory:
            pages = (ctypes.c_ubyte * (-(-size // PAGE)))()
            window = (ctypes.c_char * size).from_buffer(memory)
            failed = ctypes.CDLL(None).mincore(
                ctypes.c_void_p(ctypes.addressof(window)), ctypes.c_size_t(size), pages
            )
            del window
            return None if failed else sum(page & 1 for page in pages) / len(pages)
    except (OSError, ValueError, AttributeError, BufferError):
        return None


def time_files(
    found: Found, sample_bytes: int, seconds: float, rng: random.Random, threads: int = 1
) -> dict[str, Any]:
    """Rates of reading these files; `seconds` for each of five measurements.

    sequential and sequential_one: bytes a second of four readers, and of one; random and random_one: reads a
    second of 16 readers, and of
    one, each of random_bytes: a piece of a large file, or a whole small one, opened for it. cached: bytes a
    second of `threads` from the page cache. bypass: of the worst file. OSError when they cannot be read.
    """
    large = sorted((f for f in found.files if f[1] > _SMALL_FILE), key=lambda f: -f[1])[:8]
    small = [f for f in found.files if f[1] <= _SMALL_FILE]
    as_files = found.total and sum(size for _, size in small) > 0.5 * found.total or not large
    result: dict[str, Any] = {
        "files": len(found.files),
        "bytes": found.total,
        "complete": found.complete,
        "as_files": as_files,
    }
    if not found.files:
        return {**result, "error": "there is nothing to read"}
    with contextlib.ExitStack() as stack:
        bypass: list[str] = []
        if as_files:
            rng.shuffle(small)
            pieces = _whole_files(small, bypass)
            result["random_bytes"] = round(sum(size for _, size in small) / len(small))
            sequential = pieces
        else:
            readers = [Reader(*file) for file in large]
            for reader in readers:
                stack.callback(reader.close)
            bypass += [reader.bypass for reader in readers]
            pieces = _random_pieces(readers, sample_bytes, rng)
            result["random_bytes"] = min(max(sample_bytes, PAGE), _SMALL_FILE, min(size for _, size in large))
            sequential = _stretches(readers)
        for name, work, threads in (("sequential_one", sequential, 1), ("sequential", sequential, 4)):
            _, size, spent = until(seconds, work.__next__, threads)
            result[name] = size / spent
        for name, threads in (("random_one", 1), ("random", _DEPTH)):
            calls, _, spent = until(seconds, pieces.__next__, threads)
            result[name] = calls / spent
        result["latency_seconds"] = 1 / result["random_one"]
        result["bypass"] = next((how for how in ("no", "dropped") if how in bypass), "O_DIRECT")
    result["cached"] = _cached(small if as_files else large, seconds, threads)
    return result


class _Locked(Iterator[int]):
    """Calls a function of a buffer's owner; what it draws is drawn under a lock, what it reads is not."""

    def __init__(self, draw: Any, read: Any) -> None:
        self._draw, self._read, self._lock = draw, read, threading.Lock()

    def __next__(self) -> int:
        with self._lock:
            what = self._draw()
        return self._read(what)


def _whole_files(files: list[tuple[str, int]], bypass: list[str]) -> Iterator[int]:
    """Each call reads one file, opened for it; all of them in turn, then again."""
    place = iter(range(1 << 62))

    def read(number: int) -> int:
        path, size = files[number % len(files)]
        reader = Reader(path, size)
        try:
            bypass.append(reader.bypass)
            return reader.read(_buffer(size), 0)
        finally:
            reader.close()

    return _Locked(lambda: next(place), read)


def _random_pieces(readers: list[Reader], sample_bytes: int, rng: random.Random) -> Iterator[int]:
    size = min(max(sample_bytes, PAGE), _SMALL_FILE)

    def draw() -> tuple[Reader, int]:
        reader = rng.choice(readers)
        return reader, rng.randrange(max(1, (reader.size - size) // PAGE + 1)) * PAGE

    return _Locked(draw, lambda what: what[0].read(_buffer(size), what[1]))


def _stretches(readers: list[Reader]) -> Iterator[int]:
    """Each call reads the next 4 MiB; behind the last file, from the beginning."""
    places = [(reader, offset) for reader in readers for offset in range(0, reader.size, _PIECE)][: 1 << 16]
    place = iter(range(1 << 62))

    def read(number: int) -> int:
        reader, offset = places[number % len(places)]
        return reader.read(_buffer(_PIECE), offset)

    return _Locked(lambda: next(place), read)


def _cached(files: list[tuple[str, int]], seconds: float, threads: int) -> float:
    """Bytes a second of what was read a moment ago: 64 MiB at most, opened beforehand."""
    with contextlib.ExitStack() as stack:
        opened, held = [], 0
        for path, size in files[:512]:
            if held and held + size > 64 << 20:
                break
            opened.append(stack.enter_context(open_regular(path, "rb", buffering=0)))
            held += min(size, 64 << 20)
        places = [
            (f.fileno(), offset)
            for f, (_, size) in zip(opened, files)
            for offset in range(0, min(size, 64 << 20), _PIECE)
        ]
        for fd, offset in places:
            os.preadv(fd, [_buffer(_PIECE)], offset)
        place = iter(range(1 << 62))

        def read(number: int) -> int:
            fd, offset = places[number % len(places)]
            return os.preadv(fd, [_buffer(_PIECE)], offset)

        _, size, spent = until(seconds, _Locked(lambda: next(place), read).__next__, threads)
        return size / spent


def time_own_file(
    folder: str,
    sample_bytes: int,
    seconds: float,
    rng: random.Random,
    threads: int = 1,
    most: int = _OWN_BYTES,
) -> dict[str, Any]:
    """time_files() of a file without a name, written to `folder`: a quarter of the free space at most.

    write: bytes a second, to the disk. {"error": why} where there is no room or no permission.
    """
    result: dict[str, Any] = {}
    try:
        size = min(most, shutil.disk_usage(folder).free // 4) & -_PIECE
        if size < _LEAST_BYTES:
            return {
                **result,
                "error": f"{folder} has room for {size >> 20} MiB, and {_LEAST_BYTES >> 20} are needed",
            }
        with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            block = rng.randbytes(_PIECE)
            begin, written = time.perf_counter(), 0
            while written < size and (written < _LEAST_BYTES or time.perf_counter() - begin < _WRITE_SECONDS):
                written += file.write(block)
            os.fsync(file.fileno())
            result["write"] = written / (time.perf_counter() - begin)
            path = f"/proc/self/fd/{file.fileno()}"
            return {
                **result,
                **time_files(Found([(path, written)], True, []), sample_bytes, seconds, rng, threads),
            }
    except OSError as error:
        return {**result, "error": explained(error)}
