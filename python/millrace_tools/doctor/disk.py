"""How fast a folder's files, or a file of our own, come from the disk, without the page cache where that can
be had.

Reads are O_DIRECT, which leaves the cache as it is. Where the file system has no such reads, the files' pages
are dropped before (posix_fadvise), and it is looked up (mincore) whether they went: `bypass` says "O_DIRECT",
"dropped" or "no".
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import mmap
import os
import random
import shutil
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from millrace._common.regular_files import open_descriptor, open_regular

from .timing import explained, until

PAGE = 4096
_PIECE, _SMALL_FILE = 4 << 20, 1 << 20
_MOST_FILES, _LIST_SECONDS, _DEPTH = 50_000, 1.0, 16
_RANDOM_PIECES = 1 << 14
_CACHED_FILES, _CACHED_BYTES = 512, 64 << 20
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
    for folder, _, names in os.walk(path, onerror=lambda error: found.errors.append(explained(error))):
        for name in names:
            if time.monotonic() > end or len(found.files) >= most:
                found.complete = False
                return found
            with contextlib.suppress(OSError):
                file = os.path.join(folder, name)
                status = os.stat(file)
                if stat.S_ISREG(status.st_mode) and status.st_size:
                    found.files.append((file, status.st_size))
    return found


def open_past_cache(path: str, size: int) -> tuple[int, str]:
    """(a descriptor that reads from the disk if possible, the way it bypasses the cache: a `bypass`)."""
    with contextlib.suppress(OSError):
        fd = open_descriptor(path, os.O_RDONLY | os.O_DIRECT)
        try:
            _read(fd, 0, PAGE)
        except OSError:
            os.close(fd)
        else:
            return fd, "O_DIRECT"
    fd = open_descriptor(path, os.O_RDONLY)
    with contextlib.suppress(OSError):
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    resident = resident_share(fd, size)
    return fd, "dropped" if resident is not None and resident < 0.1 else "no"


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


_buffers = threading.local()


def _read(fd: int, offset: int, size: int) -> int:
    """Into memory at a page's border, of this thread's; O_DIRECT wants that, and whole pages."""
    size = -(-size // PAGE) * PAGE
    held: mmap.mmap | None = getattr(_buffers, "memory", None)
    if held is None or len(held) < size:
        held = _buffers.memory = mmap.mmap(-1, size)
    return os.preadv(fd, [memoryview(held)[:size]], offset)


def _in_turn(pieces: Sequence[tuple[Any, ...]], read: Callable[..., int] = _read) -> Callable[[], int]:
    """A function for any number of threads that reads the next piece, and after the last one the first."""
    turn = itertools.count()
    return lambda: read(*pieces[next(turn) % len(pieces)])


def _stretches(fds: Sequence[int], sizes: Sequence[int]) -> list[tuple[int, int, int]]:
    """Files from front to back, in large pieces."""
    return [(fd, offset, _PIECE) for fd, size in zip(fds, sizes) for offset in range(0, size, _PIECE)]


def time_files(
    found: Found, sample_bytes: int, seconds: float, rng: random.Random, threads: int = 1
) -> dict[str, Any]:
    """Rates of reading these files; `seconds` for each of five measurements.

    sequential and sequential_one: bytes a second of four readers, and of one; random and random_one: reads a
    second of 16 readers, and of one, each of random_bytes: a piece of a large file, or a whole small one,
    opened for it. cached: bytes a second of `threads` from the page cache. bypass: of the worst file. OSError
    when they cannot be read.
    """
    large = sorted((f for f in found.files if f[1] > _SMALL_FILE), key=lambda f: -f[1])[:8]
    small = [f for f in found.files if f[1] <= _SMALL_FILE]
    small_bytes = sum(size for _, size in small)
    as_files = not large or small_bytes > 0.5 * found.total
    result: dict[str, Any] = {
        "files": len(found.files),
        "bytes": found.total,
        "complete": found.complete,
        "as_files": as_files,
    }
    if not found.files:
        return {**result, "error": "there is nothing to read"}
    bypass: set[str] = set()

    def read_whole(path: str, size: int) -> int:
        fd, how = open_past_cache(path, size)
        bypass.add(how)
        try:
            return _read(fd, 0, size)
        finally:
            os.close(fd)

    with contextlib.ExitStack() as stack:
        if as_files:
            rng.shuffle(small)
            size = round(small_bytes / len(small))
            stretches = pieces = _in_turn(small, read_whole)
        else:
            size = min(max(sample_bytes, PAGE), _SMALL_FILE, large[-1][1])
            fds = []
            for file in large:
                fd, how = open_past_cache(*file)
                stack.callback(os.close, fd)
                bypass.add(how)
                fds.append(fd)
            stretches = _in_turn(_stretches(fds, [size for _, size in large]))
            pages = [(fd, (file[1] - size) // PAGE + 1) for fd, file in zip(fds, large)]
            drawn = rng.choices(pages, k=_RANDOM_PIECES)
            pieces = _in_turn([(fd, rng.randrange(count) * PAGE, size) for fd, count in drawn])
        for name, work, readers in (
            ("sequential_one", stretches, 1),
            ("sequential", stretches, 4),
            ("random_one", pieces, 1),
            ("random", pieces, _DEPTH),
        ):
            calls, read, spent = until(seconds, work, readers)
            result[name] = (calls if name.startswith("random") else read) / spent
    return {
        **result,
        "random_bytes": size,
        "latency_seconds": 1 / result["random_one"],
        "bypass": next(how for how in ("no", "dropped", "O_DIRECT") if how in bypass),
        "cached": _cached(small if as_files else large, seconds, threads),
    }


def _cached(files: list[tuple[str, int]], seconds: float, threads: int) -> float:
    """Bytes a second of what was read a moment ago, opened beforehand."""
    with contextlib.ExitStack() as stack:
        fds: list[int] = []
        sizes: list[int] = []
        for path, size in files[:_CACHED_FILES]:
            if fds and sum(sizes) + size > _CACHED_BYTES:
                break
            fds.append(stack.enter_context(open_regular(path, "rb", buffering=0)).fileno())
            sizes.append(min(size, _CACHED_BYTES))
        pieces = _stretches(fds, sizes)
        for piece in pieces:
            _read(*piece)
        _, read, spent = until(seconds, _in_turn(pieces), threads)
        return read / spent


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
            return {"error": f"{folder} has room for {size >> 20} MiB, and {_LEAST_BYTES >> 20} are needed"}
        with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            block = rng.randbytes(_PIECE)
            begin, written = time.perf_counter(), 0
            while written < size and (written < _LEAST_BYTES or time.perf_counter() - begin < _WRITE_SECONDS):
                written += file.write(block)
            os.fsync(file.fileno())
            result["write"] = written / (time.perf_counter() - begin)
            own = Found([(f"/proc/self/fd/{file.fileno()}", written)], True, [])
            return {**result, **time_files(own, sample_bytes, seconds, rng, threads)}
    except OSError as error:
        return {**result, "error": explained(error)}
