"""open_source: one object, read in any order. open_shards: many, read one after the other, the next ones on
their way.
"""

from __future__ import annotations

import concurrent.futures
import itertools
import os
import weakref
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from .._core import ByteSource, open_local_file
from ..errors import UnavailableError
from .cache_entry import WholeEntry
from .clients import Meta
from .disk_cache import DiskCache
from .engine import engine_with
from .scheduler import STATS, Scheduler
from .settings import Location, Settings, locate
from .transfer import Transfer

LOOK_AHEAD = 64  # URLs drawn before their turn
# Work for many shards in a row finds its code and tables in the CPU's caches; reading a shard evicts them.
DRAWN_AT_ONCE = 16
OPENED_AT_ONCE = 8  # of cached shards


def open_source(
    url: str | os.PathLike[str],
    *,
    cache: DiskCache | str | os.PathLike[str] | None = None,
    store_options: dict[str, Any] | None = None,
    memory: int = 64 << 20,
    **settings: Any,
) -> ByteSource:
    """Open `url`, a file or an object of a store, for reads at any offset by any thread.

    Consecutive reads start a read-ahead (16 MiB at most). The source needs no close(): its requests end with
    the last reference to it.

    Args:
        cache: a `DiskCache` or its folder, which keeps the bytes in place of memory.
        memory: bytes of this object that are kept in memory, least recently used ones dropped first.
        store_options: for obstore or fsspec.
        settings: see `Settings`.

    Raises:
        FileNotFoundError: if there is no such file or object.
        PermissionError: if credentials are refused or expired.
        CorruptDataError: if the object changed.
        OSError: if the source fails otherwise.
        UnavailableError: if a package is missing, or in a process forked after the opening.
    """
    location = locate(url)
    if location.local is not None:
        return open_local_file(location.local, "" if location.url == location.local else location.url)
    chosen = Settings(memory=memory, store_options=store_options or {}, **settings)
    return RemoteObject(location, chosen, DiskCache.of(cache)).open()


class RemoteObject:
    """An object that can be opened again and again, on any thread and in forked processes, always the same
    version of it.

    The store is asked for size and version when it is opened first, unless the cache knows. `meta` has them
    from then on.
    """

    def __init__(
        self, location: Location, settings: Settings, cache: DiskCache | None, meta: Meta | None = None
    ) -> None:
        self.location, self.settings, self.cache = location, settings, cache
        self.meta = meta
        self._whole = False

    def open(self) -> ByteSource:
        entry = self.cache.find_whole(self.location.url, self.meta) if self.cache is not None else None
        source = self.open_entry(entry) if entry is not None else None
        return source or self._fetched()

    def open_entry(self, entry: WholeEntry) -> ByteSource | None:
        """What the cache found; None: it has gone."""
        meta = Meta.known(entry.size, entry.version)
        otherwise = RemoteObject(self.location, self.settings, self.cache, meta)._fetched
        assert self.cache is not None  # it found the entry
        source = self.cache.open_whole(self.location.url, entry, otherwise)
        if source is not None:
            self.meta = meta
        return source

    def _fetched(self) -> ByteSource:
        owner = engine_with(lambda engine: Scheduler(engine, self.settings, self.cache, sequential=False))
        transfer = Transfer(owner, self.location, self.meta, self._whole)
        ready = transfer.ready
        assert ready is not None
        owner.queue.append(transfer)
        owner.engine.post(owner.start)
        try:
            source = ready.result()
        except BaseException:
            owner.engine.post(owner.close)
            raise
        self.meta, self._whole = transfer.meta, transfer.whole
        transfer.ready, transfer.handed_out = None, True
        return source


class _Cached:
    """An object that nothing has to be asked about at its turn, if its entry is still there."""

    def __init__(
        self, location: Location, settings: Settings, cache: DiskCache | None, entry: WholeEntry
    ) -> None:
        self._object, self._entry = RemoteObject(location, settings, cache), entry
        self._source: ByteSource | None = None

    def open(self) -> None:
        """Keeps the entry from being evicted."""
        if self._source is None:
            self._source = self._object.open_entry(self._entry)

    def take(self) -> ByteSource | None:
        """None: the entry has gone."""
        source, self._source = self._source, None
        return source


class ShardStream(Iterator[tuple[str, ByteSource]]):
    """The result of `open_shards`: an iterator over (url, source), and a context manager that ends its
    requests.

    Its arguments are those of `open_shards`, `settings` as one `Settings`.
    """

    def __init__(self, urls: Iterable[str], settings: Settings, cache: DiskCache | None) -> None:
        self._urls = iter(urls)
        self._settings, self._cache = settings, cache
        self._ahead: deque[tuple[str, Any]] = deque()
        self._exhausted = self._closed = False
        self._owner: Scheduler | None = None
        self._pid = os.getpid()
        self._finalizer: Any = None

    def __iter__(self) -> ShardStream:
        return self

    def __next__(self) -> tuple[str, ByteSource]:
        """The next shard's URL and bytes.

        Raises the error of the shard's opening when it is the shard's turn; the next call returns the shard
        after it.
        """
        if self._closed:
            raise UnavailableError("this stream of shards was closed; call open_shards() again")
        if os.getpid() != self._pid:
            raise UnavailableError(
                "this stream of shards was opened before the process was forked; open it in the process that"
                " reads"
            )
        self._draw_ahead()
        if not self._ahead:
            raise StopIteration
        url, item = self._ahead.popleft()
        if isinstance(item, str):
            return url, open_local_file(item, "" if item == url else url)
        if isinstance(item, _Cached):
            source = self._opened(item)
            if source is not None:
                return url, source
            item = Transfer(self._scheduler(), locate(url))
            item.owner.queue.appendleft(item)
        item.urgent = True
        owner, ready = item.owner, item.ready
        if not ready.done():
            owner.engine.post(owner.pump)
        try:
            source = ready.result()
        except concurrent.futures.CancelledError:
            raise UnavailableError("this stream of shards was closed while it waited") from None
        except BaseException:
            if not ready.done():  # Ctrl-C: the shard is still to come
                self._ahead.appendleft((url, item))
            raise
        item.handed_out, item.ready = True, None
        owner.engine.post(owner.pump)
        return url, source

    def _opened(self, item: _Cached) -> ByteSource | None:
        source = item.take()
        if source is None:
            item.open()
            for _, later in itertools.islice(self._ahead, OPENED_AT_ONCE - 1):
                if isinstance(later, _Cached):
                    later.open()
            source = item.take()
        return source

    def _draw_ahead(self) -> None:
        if len(self._ahead) > LOOK_AHEAD - DRAWN_AT_ONCE:
            return
        added: Scheduler | None = None
        while not self._exhausted and len(self._ahead) < LOOK_AHEAD:
            try:
                url = os.fspath(next(self._urls))
            except StopIteration:
                self._exhausted = True
                break
            location = locate(url)
            if location.local is not None:
                self._ahead.append((url, location.local))
                continue
            entry = self._cache.find_whole(url) if self._cache is not None else None
            if entry is not None:
                self._ahead.append((url, _Cached(location, self._settings, self._cache, entry)))
                continue
            transfer = Transfer(self._scheduler(), location)
            self._ahead.append((url, transfer))
            transfer.owner.queue.append(transfer)
            added = transfer.owner
        if added is not None:
            added.engine.post(added.pump)

    def _scheduler(self) -> Scheduler:
        if self._owner is None:
            settings, cache = self._settings, self._cache
            self._owner = owner = engine_with(
                lambda engine: Scheduler(engine, settings, cache, sequential=True)
            )
            owner.engine.post(owner.start)
            self._finalizer = weakref.finalize(self, _end, owner, self._pid)
            self._finalizer.atexit = False
        return self._owner

    def stats(self) -> dict[str, Any]:
        """Counts of the requests so far. Local files are not counted.

        Returns:
            bytes: received.
            requests, retries, hedges: how many there were.
            requests_in_flight, concurrency: how many there are now, and their limit now.
            waited_seconds: the readers' waiting time.
            held_bytes: in memory now.
            ahead_bytes_peak: the most bytes in memory or on their way.
            repaired_blocks: of the cache.
            seconds, bytes_per_second: the time, and the rate in it.
            cache: the counts of the `DiskCache`, if there is one.
        """
        stats: dict[str, Any] = self._owner.stats() if self._owner is not None else dict.fromkeys(STATS, 0)
        if self._cache is not None:
            stats["cache"] = self._cache.stats()
        return stats

    def close(self) -> None:
        """End all requests. Reads that wait raise UnavailableError; sources that were handed out and are here
        whole stay readable.
        """
        self._closed = True
        self._ahead.clear()
        if self._finalizer is not None:
            self._finalizer()

    def finish(self) -> None:
        """Ask for no more shards. Those handed out can be read as before, until their sources go."""
        self._closed = True
        if self._ahead:
            self.close()
        elif self._owner is not None and self._finalizer.detach() is not None:
            self._owner.engine.post(self._owner.finish)

    def __enter__(self) -> ShardStream:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _end(owner: Scheduler, pid: int) -> None:
    if os.getpid() == pid and not owner.closed and not owner.engine.loop.is_closed():
        owner.engine.post(owner.close)


def open_shards(
    urls: Iterable[str],
    *,
    cache: DiskCache | str | os.PathLike[str] | None = None,
    memory: int = 256 << 20,
    store_options: dict[str, Any] | None = None,
    **settings: Any,
) -> ShardStream:
    """Open shards one after the other, as (url, ByteSource), each to be read from front to back.

    While one shard is read, requests for the next bytes are in flight, also for the next shards: as many as
    bandwidth and latency need (stores/control.py), with at most `memory` bytes in memory or in flight. Bytes
    before the reader's position are dropped; a reader that goes back works, and they are requested again.
    Nothing is opened before the first next(), which raises as open_source() does.

    Args:
        urls: up to 64 are drawn before their turn, so there may be endlessly many. Local paths and file://
            are opened as local files.
        cache: a `DiskCache` or its folder.
        memory: bytes in memory or in flight at most.
        store_options: for obstore or fsspec.
        settings: see `Settings` (max_requests, request_bytes, stall_timeout, connect_timeout, retries,
            hedge).

    Raises:
        ValueError: if a setting is impossible.
    """
    return ShardStream(
        urls, Settings(memory=memory, store_options=store_options or {}, **settings), DiskCache.of(cache)
    )
