"""A cache of objects on a local disk, shared by all processes of the node that name the same folder. No
server, no named memory.

An entry is one version of an object, a sparse file that fills block by block. Its name is the URL without
signatures (millrace/_common/signed_urls.py). Its map tells the version: size, and ETag or date; another
version replaces the entry, and objects with neither ETag nor date are not cached. A block counts once its
checksum is in the map, so a process may be killed at any instruction: its finished blocks stay, and the next
reader of the object continues from there. Each process that opens the entry verifies blocks from the disk
before reading them, and all blocks written before the machine's last start; a block that does not match is
fetched again. Nothing is flushed: after a crash of the machine the verification finds bytes that did not
reach the disk. Blocks that stayed in memory since a process verified or wrote them are not verified again, as
long as no process wrote to the file (src/io/verified_blocks.h has the reasons).

A complete entry is read like a local file (src/io/cached_file.h). It needs no request if the store has
confirmed the version to any process of the node within `fresh_seconds`, and since this cache object was made.
So every run asks once for each object, whatever was cached before, and again only after that time. If the
store cannot be reached then, a complete entry is read, with one warning.

Room. A process that is going to fetch an object makes room for it under the folder's lock: least recently
used entries go, those in use never. An entry in use counts as large as the object, one not in use as what it
has on disk. With different `max_bytes` every process trims to its own when it fetches something, so the
smallest wins while it is at work. When everything is in use, or the disk is full or read-only, the object is
read without the cache; a disk that failed is left alone for a minute. One warning per cache object.

Local disks only: network file systems do not keep these locks apart.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import hashlib
import os
import threading
import time
import warnings
import weakref
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._common.regular_files import open_descriptor, open_regular
from .._common.signed_urls import unsigned
from .._core import ByteSource, CacheCounts
from .cache_entry import CacheEntry, WholeEntry, find_whole, is_map_of, note_asked, unlock, write_map
from .cache_room import Room, folder_lock, remove
from .settings import BLOCK_BYTES

if TYPE_CHECKING:
    from .clients import Meta

REST_SECONDS = 60.0
_BLOCKS = ("hit_blocks", "miss_blocks", "verified_blocks", "repaired_blocks")

_caches: weakref.WeakSet[DiskCache] = weakref.WeakSet()


class DiskCache:
    """A cache of objects on a local disk, shared by all processes of the node that name the same folder.

    Picklable; a copy counts for itself, and so does a forked child, but both are of the same run. Errors of
    the disk never end a run: it goes on without the cache, with one RuntimeWarning.

    Args:
        folder: made when missing.
        max_bytes: the bytes that all entries may have on disk; None (or -1): as much as leaves a tenth of the
            disk free.
        fresh_seconds: how long an object that is here whole is read without asking the store whether it has
            changed; 0: it is asked at every opening.
        since: nanoseconds of time.time_ns(); None: now. What the store said before then never counts, so a
            new run asks for each object once.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        max_bytes: int | None = None,
        fresh_seconds: float = 3600.0,
        since: int | None = None,
    ) -> None:
        if max_bytes == -1:
            max_bytes = None
        if max_bytes is not None and max_bytes < 1:
            raise ValueError(
                f"max_bytes={max_bytes} should be 1 or more, or None for all but a tenth of the disk"
            )
        if not fresh_seconds >= 0:
            raise ValueError(
                f"fresh_seconds={fresh_seconds} should be 0 (ask the store at every opening) or more"
            )
        self.folder = Path(folder)
        self.max_bytes = max_bytes
        self.room = Room(self.folder, max_bytes)
        self.fresh_seconds = fresh_seconds
        self.since = time.time_ns() if since is None else since
        self._reset()
        _caches.add(self)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._files: list[Any] = []  # BlockFiles with numbers that are not added up yet
        self._counts = CacheCounts()  # of reads without BlockFiles
        self._blocks: Counter[str] = Counter()  # of the files that are gone
        self._bypassed = self.room.evicted = 0
        self._rest_until = self._trusted_until = 0.0
        self._warned = self._notified = False

    def __reduce__(self) -> tuple[Any, ...]:
        return DiskCache, (str(self.folder), self.max_bytes, self.fresh_seconds, self.since)

    def __repr__(self) -> str:
        return f"DiskCache({str(self.folder)!r}, max_bytes={self.max_bytes})"

    @staticmethod
    def of(cache: DiskCache | str | os.PathLike[str] | None) -> DiskCache | None:
        return cache if cache is None or isinstance(cache, DiskCache) else DiskCache(cache)

    # ------------------------------------------------------------------ opening

    def knows(self, url: str) -> bool:
        """Whether some version of the object has an entry. This is a hint: the entry may be gone when it is
        opened.
        """
        if time.monotonic() < self._rest_until:
            return False
        return os.path.exists(self.folder / f"{_stem(url)}.map")

    def find_whole(self, url: str, meta: Meta | None = None) -> WholeEntry | None:
        """The object's entry, if nothing has to be asked of the store. Any thread.

        That is so if all of it is there, and it is of the version in `meta`, or, without one, of one that is
        fresh.
        """
        if time.monotonic() < self._rest_until:
            return None
        entry = find_whole(f"{self.folder}/{_stem(url)}")
        if entry is None:
            return None
        if meta is not None:
            return entry if (entry.size, entry.version) == (meta.size, meta.version) else None
        if time.monotonic() < self._trusted_until:
            return entry
        now = time.time_ns()
        oldest = max(self.since, now - int(self.fresh_seconds * 1e9))
        return entry if self.fresh_seconds > 0 and oldest <= entry.asked_at <= now else None

    def find_any(self, url: str) -> WholeEntry | None:
        """The object's entry, if all of it is there, of whatever version. Any thread."""
        return None if time.monotonic() < self._rest_until else find_whole(f"{self.folder}/{_stem(url)}")

    def trust(self, error: BaseException) -> None:
        """Take whole entries to be the present versions for the next `fresh_seconds`, since the store cannot
        be reached.
        """
        self._trusted_until = time.monotonic() + self.fresh_seconds
        with self._lock:
            notified, self._notified = self._notified, True
        if not notified:
            warnings.warn(
                f"the store cannot be reached ({error}): what the disk cache {str(self.folder)!r} has whole"
                " is read from there, and may have changed in the store",
                RuntimeWarning,
                stacklevel=2,
            )

    def open_whole(
        self, url: str, entry: WholeEntry, otherwise: Callable[[], ByteSource]
    ) -> ByteSource | None:
        """Open the entry that find_whole() saw, to be read; None: it went meanwhile."""
        return entry.open(unsigned(url), self._counts, otherwise)

    def admit(self, url: str, size: int, version: str, asked_at: int = 0) -> CacheEntry | None:
        """The entry of this version of the object, in use until it is closed; None: go without.

        Older versions go. Any thread.

        Args:
            asked_at: when the store was asked which version it has, in nanoseconds of time.time_ns(); 0: not
                now.
        """
        if size == 0 or time.monotonic() < self._rest_until:
            return None
        if not version:
            self._bypass(
                "the store gives neither an ETag nor a date, by which a changed object would be noticed"
            )
            return None
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with folder_lock(self.folder) as locked:
                if locked is None:
                    self._rest_until = time.monotonic() + REST_SECONDS
                    self._bypass("another process holds the folder's lock and does not move")
                    return None
                entry = self._admit(url, size, version, locked)
            if entry is not None and asked_at:
                note_asked(entry.map_fd, asked_at)
            return entry
        except OSError as error:
            self.give_up(error.errno or errno.EIO)
            return None

    def _admit(self, url: str, size: int, version: str, lock_fd: int) -> CacheEntry | None:
        name = _stem(url)
        entry = self._open(name, size, version)
        need = size if entry is None else max(0, size - _on_disk(entry.data_fd))
        if need > 0 and not self.room.make(need, name, lock_fd):
            if entry is not None:
                entry.close()
            self._bypass(None)
            return None
        if entry is not None:
            return entry
        data, temporary = self.folder / f"{name}.data", self.folder / f"{name}.map.tmp"
        try:
            with open_regular(data, "wb") as file:
                file.truncate(size)
            write_map(temporary, url, size, version, BLOCK_BYTES)
            os.rename(temporary, self.folder / f"{name}.map")
        except OSError:
            remove(data, temporary)
            raise
        return self._open(name, size, version)

    def _open(self, name: str, size: int, version: str) -> CacheEntry | None:
        data, map_path = self.folder / f"{name}.data", self.folder / f"{name}.map"
        fds: list[int] = []  # map, the map again for its locks, data
        try:
            for path in (map_path, map_path, data):
                fds.append(open_descriptor(path, os.O_RDWR))
            map_fd, lock_fd, data_fd = fds
            # evictions happen under the folder's lock, which we hold
            fcntl.flock(lock_fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            if is_map_of(map_fd, size, version, BLOCK_BYTES) and os.fstat(data_fd).st_size == size:
                os.utime(map_path)
                entry, fds = CacheEntry(data_fd, map_fd, lock_fd, size), []
                return entry
        except (FileNotFoundError, BlockingIOError):
            pass
        except OSError as error:
            if error.errno != errno.EINVAL:  # EINVAL, as for a FIFO: removed like a damaged entry
                raise
        finally:
            for fd in fds:
                unlock(fd)
                os.close(fd)
        # No entry, another version, or a damaged one: processes that have it open keep their descriptors, the
        # next ones get a new entry.
        remove(data, map_path)
        return None

    # ------------------------------------------------------------------ going without, and numbers

    def _bypass(self, reason: str | None) -> None:
        with self._lock:
            self._bypassed += 1
        if reason is not None:
            self._warn(reason)

    def give_up(self, code: int) -> None:
        """Do without the cache for a minute, because the disk failed."""
        self._rest_until = time.monotonic() + REST_SECONDS
        self._bypass(os.strerror(code))

    def _warn(self, reason: str) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"the disk cache {str(self.folder)!r} is not used: {reason}; data is read from the store",
                RuntimeWarning,
                stacklevel=2,
            )

    def watch(self, file: Any) -> None:
        """Count the hits and misses of this BlockFile's reads, until unwatch()."""
        with self._lock:
            self._files.append(file)

    def unwatch(self, file: Any) -> None:
        with self._lock:
            if file in self._files:
                self._files.remove(file)
                self._blocks += _blocks_of(file)

    def stats(self) -> dict[str, Any]:
        """Counts of this process, and the size of the folder.

        Returns:
            hits, misses: blocks of 1 MiB, counted when a reader first comes to them.
            hit_rate: None before the first.
            verified: blocks that were compared with their checksum.
            repaired: those that did not match.
            evicted: entries.
            bypassed: objects read without the cache.
            entries, bytes: of the folder; bytes on disk.
        """
        with self._lock:
            blocks = sum(map(_blocks_of, self._files), self._blocks)
        hits, misses = blocks["hit_blocks"] + self._counts.hit_blocks, blocks["miss_blocks"]
        entries = size = 0
        with contextlib.suppress(OSError):
            for item in os.scandir(self.folder):
                with contextlib.suppress(FileNotFoundError):
                    entries += item.name.endswith(".map")
                    size += item.stat().st_blocks * 512
        return {
            "hits": hits,
            "misses": misses,
            "hit_rate": hits / (hits + misses) if hits + misses else None,
            "verified": blocks["verified_blocks"] + self._counts.verified_blocks,
            "repaired": blocks["repaired_blocks"],
            "evicted": self.room.evicted,
            "bypassed": self._bypassed,
            "entries": entries,
            "bytes": size,
        }


def _after_fork() -> None:
    for cache in list(_caches):  # its lock may have been held, and the files are the parent's
        cache._reset()


os.register_at_fork(after_in_child=_after_fork)


@functools.lru_cache(8192)
def _stem(url: str) -> str:
    return hashlib.sha256(unsigned(url).encode("utf-8", "surrogateescape")).hexdigest()[:32]


def data_path(folder: str, url: str) -> str:
    """The file of an object's bytes in a cache's folder, sparse where they were not fetched; it is there
    while the object has an entry.
    """
    return os.path.join(folder, f"{_stem(url)}.data")


def _on_disk(fd: int) -> int:
    return os.fstat(fd).st_blocks * 512


def _blocks_of(file: Any) -> Counter[str]:
    stats = file.stats()
    return Counter({name: stats[name] for name in _BLOCKS})
