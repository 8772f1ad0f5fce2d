"""The disk cache's lock of its folder, and what was written into it: how much the entries have at most, so
that admitting another one to a cache with room left looks at none of them.

`used`: bytes that all entries have or may come to have. `owed`: of these, bytes that are not on the disk yet.
Both are upper bounds: each admission adds what it needs before its entry grows, and only a look at all
entries takes away what went. So nobody trusts them across a start of the machine, which may have lost what
was added last.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import struct
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from .._common.regular_files import open_descriptor
from .cache_entry import lock_now, unlock

FREE_SHARE = 0.1
MANY, SPARE = 1000, 64  # with more entries, one 64th of the room is made at a time
LOCK_SECONDS = 10.0  # a process that holds the folder's lock longer is stopped or its disk hangs
_RECORD = struct.Struct("<qq36sI")


class Usage(NamedTuple):
    used: int
    owed: int

    def and_(self, need: int) -> Usage:
        return Usage(self.used + need, self.owed + need)


@contextlib.contextmanager
def folder_lock(folder: Path) -> Iterator[int | None]:
    """A descriptor of the lock's file, while this process has the lock; None: it did not get it in time."""
    # to read and write: waits for nobody
    fd = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        deadline = time.monotonic() + LOCK_SECONDS
        while not (locked := lock_now(fd, fcntl.LOCK_EX)) and time.monotonic() <= deadline:
            time.sleep(0.005)
        yield fd if locked else None
    finally:
        unlock(fd)
        os.close(fd)


def read_usage(lock_fd: int) -> Usage | None:
    """The recorded usage; None if the record is missing, damaged, or from before the machine's last start."""
    raw = os.pread(lock_fd, _RECORD.size, 0)
    if len(raw) < _RECORD.size:
        return None
    used, owed, boot, checksum = _RECORD.unpack(raw)
    return Usage(used, owed) if boot == _boot() != bytes(36) and checksum == zlib.crc32(raw[:-4]) else None


def write_usage(lock_fd: int, usage: Usage) -> None:
    """Record the usage; call it before the counted entries grow."""
    raw = _RECORD.pack(usage.used, usage.owed, _boot(), 0)[:-4]
    try:
        os.pwrite(lock_fd, raw + struct.pack("<I", zlib.crc32(raw)), 0)
    except OSError:
        os.ftruncate(lock_fd, 0)  # the old record is too low now


@functools.lru_cache(1)
def _boot() -> bytes:
    """The id of the machine's last start, the same for all its containers; zeros if it is not known."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_bytes()[:36].ljust(36, b"\0")
    except OSError:
        return bytes(36)


def remove(*paths: Path) -> None:
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


class Room:
    """The disk room for the entries of a folder: `max_bytes`, or so much that a tenth of the disk stays free.
    Call all methods under the folder's lock.
    """

    def __init__(self, folder: Path, max_bytes: int | None) -> None:
        self._folder, self._max_bytes, self.evicted = folder, max_bytes, 0

    def make(self, need: int, keep: str, lock_fd: int) -> bool:
        """Count `need` more bytes, and evict entries if necessary; returns whether the bytes fit. Looks at
        the entries only if the recorded usage leaves too little room.
        """
        usage, fits = read_usage(lock_fd), True
        if usage is None or usage.used + need > self._limit(usage):
            usage, fits = self._make_room(need, keep)
        write_usage(lock_fd, usage.and_(need) if fits else usage)
        return fits

    def _make_room(self, need: int, keep: str) -> tuple[Usage, bool]:
        """Evict until `need` more bytes fit. Returns (the usage then, whether the bytes fit). This runs under
        the folder's lock, so half-made files have no owner, and are removed.

        Looks at every file of the folder, a few microseconds each, and at locks only where they matter. In a
        folder with many entries, more room is made than is needed, so that the next calls need not look.
        """
        entries, files = [], {}
        for item in list(os.scandir(self._folder)):
            stem, _, kind = item.name.partition(".")
            with contextlib.suppress(FileNotFoundError):
                if kind == "map.tmp":
                    remove(Path(item.path))
                elif kind == "map":
                    entries.append((item.stat().st_mtime_ns, stem))
                elif kind == "data":
                    status = item.stat()
                    files[stem] = status.st_size, status.st_blocks * 512
        entries.sort()
        for stem in files.keys() - {stem for _, stem in entries}:
            remove(self._folder / f"{stem}.data")
        used, stored = {}, 0  # what each may come to have, and what all have now
        for _, stem in entries:
            size, on_disk = files.get(stem, (0, 0))
            stored += on_disk
            grows = on_disk < size and stem != keep and self.in_use(stem)
            used[stem] = size if grows else on_disk
        usage = Usage(sum(used.values()), sum(used.values()) - stored)
        limit = self._limit(usage)
        goal = limit - (max(0, limit) // SPARE if len(entries) > MANY and usage.used + need > limit else 0)
        for _, stem in entries:
            if usage.used + need <= goal:
                break
            if stem != keep and self._evict(stem):
                on_disk = files.get(stem, (0, 0))[1]
                usage = Usage(usage.used - used[stem], usage.owed - used[stem] + on_disk)
        return usage, usage.used + need <= limit

    def _limit(self, usage: Usage) -> int:
        """For `used`."""
        if self._max_bytes is not None:
            return self._max_bytes
        disk = os.statvfs(self._folder)
        return (
            usage.used
            - usage.owed
            + disk.f_bavail * disk.f_frsize
            - int(FREE_SHARE * disk.f_blocks * disk.f_frsize)
        )

    def in_use(self, stem: str) -> bool:
        with self._alone(stem) as alone:
            return not alone

    def _evict(self, stem: str) -> bool:
        """Remove the entry unless it is in use. A process that opens it meanwhile finds it locked or
        removed.
        """
        with self._alone(stem) as alone:
            if alone:
                remove(self._folder / f"{stem}.map", self._folder / f"{stem}.data")
                self.evicted += 1
            return alone

    @contextlib.contextmanager
    def _alone(self, stem: str) -> Iterator[bool]:
        """Context: whether this entry is not in use; if so, no process can begin to use it inside."""
        try:
            fd = open_descriptor(self._folder / f"{stem}.map", os.O_RDONLY)
        except FileNotFoundError:
            yield True
            return
        try:
            yield lock_now(fd, fcntl.LOCK_EX)
        finally:
            unlock(fd)
            os.close(fd)
