"""One object in the disk cache: a sparse data file, and a map that lists which of its blocks are there.

The map begins with a line of JSON (padded to 4096 bytes, its checksum in front; the last 16 bytes say when
the store was last asked whether this is still the object's version). Then come 8 bytes per block: a mark and
the block's CRC32C, written when the block's bytes are; then the note of verified blocks
(src/io/verified_blocks.h), if there is one. `lock_fd`, a descriptor of the map that is never duplicated,
carries the locks, which the kernel releases when the process ends:

- flock, shared, while the entry is in use: a process needs it exclusively to evict the entry;
- a record lock (OFD) on a block's 8 bytes while a process fetches the block: others wait for the block or for
  the lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import json
import os
import struct
import weakref
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from .._common.regular_files import open_descriptor
from .._core import ByteSource, CacheCounts, open_cached_file
from .settings import shown

HEADER_BYTES = 4096
ASKED_AT = HEADER_BYTES - 16
MAGIC = b"millrace block map 1\n"
MARK = b"CRIM"  # upper half of the record of a block that is there
NAMED = 300  # characters of a version that are kept
LOOKED_AT = 16384  # bytes of a map that one read takes: the records of 1.5 GiB

_open_entries: weakref.WeakSet[CacheEntry] = weakref.WeakSet()


class CacheEntry:
    """An entry in use, until it is closed or collected; a forked child closes what it inherited by itself."""

    map_offset = HEADER_BYTES

    def __init__(self, data_fd: int, map_fd: int, lock_fd: int, size: int) -> None:
        self.data_fd, self.map_fd, self.lock_fd, self.size = data_fd, map_fd, lock_fd, size
        _open_entries.add(self)

    def lock(self, first: int, count: int) -> bool:
        """Take the right to fetch these blocks, unless another process has it for one of them."""
        return self._record_lock(fcntl.F_WRLCK, first, count)

    def unlock(self, first: int, count: int) -> None:
        self._record_lock(fcntl.F_UNLCK, first, count)

    def _record_lock(self, kind: int, first: int, count: int) -> bool:
        if self.lock_fd < 0:
            return True
        request = struct.pack("hhqqi", kind, os.SEEK_SET, HEADER_BYTES + first * 8, count * 8, 0)
        try:
            fcntl.fcntl(self.lock_fd, fcntl.F_OFD_SETLK, request)
        except BlockingIOError:
            return False
        except OSError as error:
            # EACCES: held by somebody. File systems without such locks: everybody fetches.
            return error.errno != 13
        return True

    def close(self) -> None:
        if self.lock_fd >= 0:
            unlock(self.lock_fd)
        self.abandon()

    def __del__(self) -> None:
        self.close()  # of an object that was given up while it was admitted

    def abandon(self) -> None:
        """Closes the descriptors and leaves the lock to the process that this one was forked from."""
        data_fd, self.data_fd = self.data_fd, -1
        map_fd, self.map_fd = self.map_fd, -1
        lock_fd, self.lock_fd = self.lock_fd, -1
        for fd in (data_fd, map_fd, lock_fd):
            if fd >= 0:
                os.close(fd)


def _close_inherited() -> None:
    for entry in list(_open_entries):
        entry.abandon()


os.register_at_fork(after_in_child=_close_inherited)


def lock_now(fd: int, kind: int) -> bool:
    """Whether the flock of this kind was free."""
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def unlock(fd: int) -> None:
    """Ends its flock, which closing does not while a process that was forked meanwhile has the descriptor,
    too.
    """
    with contextlib.suppress(OSError):
        fcntl.flock(fd, fcntl.LOCK_UN)


def write_map(path: Path, url: str, size: int, version: str, block_bytes: int) -> None:
    """A map without blocks, at full length, so that a full disk is noticed now."""
    blocks = -(-size // block_bytes)
    header = {"url": shown(url)[:300], "size": size, "version": version[:NAMED], "block_bytes": block_bytes}
    line = json.dumps(header).encode()
    start = MAGIC + b"%08x " % zlib.crc32(line) + line
    with open(path, "xb", buffering=0) as file:
        data = start.ljust(HEADER_BYTES, b" ") + bytes(blocks * 8)
        if file.write(data) != len(data):
            raise OSError(28, "no space left for the map of a cache entry", str(path))


def is_map_of(map_fd: int, size: int, version: str, block_bytes: int) -> bool:
    """Its header is whole, of this version of the object, and its records are all there."""
    raw = os.pread(map_fd, HEADER_BYTES, 0)
    if len(raw) < HEADER_BYTES or _header(raw[:ASKED_AT].rstrip(b" ")) != (
        size,
        version[:NAMED],
        block_bytes,
    ):
        return False
    return os.fstat(map_fd).st_size >= HEADER_BYTES + 8 * -(-size // block_bytes)


@functools.lru_cache(4096)
def _header(start: bytes) -> tuple[int, str, int] | None:
    """(size, version, bytes of a block); None: it is damaged."""
    checksum, _, line = start.removeprefix(MAGIC).partition(b" ")
    try:
        if not start.startswith(MAGIC) or int(checksum, 16) != zlib.crc32(line):
            return None
        header = json.loads(line)
        return header["size"], header["version"], header["block_bytes"]
    except (ValueError, KeyError, TypeError):
        return None


def note_asked(map_fd: int, at: int) -> None:
    """The store said that this is the object's version, and was asked at this time (nanoseconds). On a disk
    that takes it not, nothing is known, and the store is asked again.
    """
    when = struct.pack("<q", at)
    with contextlib.suppress(OSError):
        os.pwrite(map_fd, when + b"ASKD" + struct.pack("<I", zlib.crc32(when)), ASKED_AT)


def _asked_at(raw: bytes) -> int:
    """0: nobody knows."""
    when, mark, checksum = struct.unpack("<8s4sI", raw)
    return struct.unpack("<q", when)[0] if mark == b"ASKD" and checksum == zlib.crc32(when) else 0


class WholeEntry(NamedTuple):
    """What find_whole() saw: enough to open the entry later, if it is still the same one."""

    stem: str  # the files' path, without .map and .data
    start: bytes  # of the map
    size: int
    version: str
    block_bytes: int
    asked_at: int

    def open(self, name: str, counts: CacheCounts, otherwise: Callable[[], ByteSource]) -> ByteSource | None:
        """In use until the source goes. None: it went meanwhile, or is another version. `otherwise()` opens
        the same version by way of the store, should a block be damaged.
        """
        return open_cached_file(
            name,
            self.stem,
            header=self.start,
            map_offset=HEADER_BYTES,
            size=self.size,
            block_bytes=self.block_bytes,
            counts=counts,
            otherwise=otherwise,
        )


def find_whole(stem: str) -> WholeEntry | None:
    """The entry with these files, if all of its blocks are there; it counts as used now. A dozen
    microseconds.
    """
    try:
        fd = open_descriptor(f"{stem}.map", os.O_RDONLY)
    except OSError:
        return None
    try:
        raw = os.pread(fd, LOOKED_AT, 0)
        header = _header(raw[:ASKED_AT].rstrip(b" "))
        if header is None:
            return None
        size, version, block_bytes = header
        blocks = -(-size // block_bytes)
        records = raw[HEADER_BYTES : HEADER_BYTES + 8 * blocks]
        if len(records) < 8 * blocks:
            records += os.pread(fd, 8 * blocks - len(records), len(raw))
        if (
            len(records) < 8 * blocks
            or len(version) == NAMED
            or any(records[4 + i :: 8] != MARK[i : i + 1] * blocks for i in range(4))
        ):
            return None
        os.utime(fd)
        return WholeEntry(
            stem, raw[:ASKED_AT], size, version, block_bytes, _asked_at(raw[ASKED_AT:HEADER_BYTES])
        )
    except OSError:
        return None
    finally:
        os.close(fd)
