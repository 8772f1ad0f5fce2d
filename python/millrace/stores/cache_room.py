"""The disk cache's lock of its folder, and what was written into it: how much the entries have at most, so
that admitting another one to a
cache with room left looks at none of them.

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

from .cache_entry import unlock

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
    fd = os.open(
        folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666
    )  # to read and write: waits for nobody
    try:
        deadline = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    yield None
                    return
                time.sleep(0.005)
        yield fd
    finally:
        unlock(fd)
        os.close(fd)


def read_usage(lock_fd: int) -> Usage | None:
    """None: nobody knows."""
    raw = os.pread(lock_fd, _RECORD.size, 0)
    if len(raw) < _RECORD.size:
        return None
    used, owed, boot, checksum = _RECORD.unpack(raw)
    return Usage(used, owed) if boot == _boot() != bytes(36) and checksum == zlib.crc32(raw[:-4]) else None


def write_usage(lock_fd: int, usage: Usage | None) -> None:
    """Before what is counted grows."""
    if usage is None:
        os.ftruncate(lock_fd, 0)
        return
    raw = _RECORD.pack(usage.used, usage.owed, _boot(), 0)[:-4]
    try:
        os.pwrite(lock_fd, raw + struct.pack("<I", zlib.crc32(raw)), 0)
    except OSError:
        os.ftruncate(lock_fd, 0)  # what stands there is too low now


@functools.lru_cache(1)
def _boot() -> bytes:
    """The machine's start, the same for all its containers; zeros: it cannot be told."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_bytes()[:36].ljust(36, b"\0")
    except OSError:
        return bytes(36)
