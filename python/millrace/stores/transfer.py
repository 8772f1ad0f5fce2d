"""One object on its way: opened by its first range, filled by runs of blocks that are retried, resumed and
hedged.

Everything here runs on the engine's thread. A run asks for consecutive blocks in one request. What breaks off
goes on at the first missing byte; failures in a row without a byte between wait longer each time (full
jitter: any time up to 0.1 s, 0.2 s, 0.4 s, ..., 20 s; the store's Retry-After when it is visible).
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import random
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from .._common.signed_urls import is_signed, unsigned
from .._core import BlockFile
from ..errors import corrupt_data
from .clients import CHUNK_BYTES, MOST_CHUNK_BYTES, Meta, RangesUnsupported
from .failures import (
    BrokenTransfer,
    GaveUp,
    Throttled,
    as_block_failure,
    changed,
    classify,
    retry_after,
    status_of,
)
from .settings import BLOCK_BYTES, SMALL_BLOCK_BYTES, Location, shown

if TYPE_CHECKING:
    from .scheduler import Scheduler

MAX_BACKOFF = 20.0
LEAST_CHUNK_BYTES = 4 << 10
# go to the disk cache at once: the kernel keeps them in one piece, and reading costs what a local file does
ALIGNED_BYTES = 256 << 10
MOST_BYTES = 1 << 46  # of an object, 64 TiB; 40 bytes per block are kept in memory
# of asking for the version of what the disk cache has: the other answer is that it has the present one
RETRIES_OF_WHOLE = 3
# failures in a row, half a second after the first, of which the user is told while others are to come
NOTIFIED_AT = 3
FOREIGN_SECONDS = 60.0  # how long another process may hold a block without bringing one


class Patience:
    """Failures of one run since it last brought a byte."""

    failures = 0


class Transfer:
    """`meta`, `whole`: what an earlier transfer of the object found out, so that the store is not asked
    again.
    """

    def __init__(
        self, owner: Scheduler, location: Location, meta: Meta | None = None, whole: bool = False
    ) -> None:
        self.owner, self.location, self.settings = owner, location, owner.settings
        self.ready: concurrent.futures.Future | None = concurrent.futures.Future()
        self.file: BlockFile | None = None
        self.entry: Any = None  # of the disk cache
        self.meta = meta
        self.busy: set[int] = set()  # blocks that a run is bringing
        self.cursor = 0  # blocks before were asked for ahead of the reader
        self.urgent = False  # the consumer waits for it
        self.handed_out = False
        self.known = False  # the cache has an entry of it
        self.whole = whole  # the server sends whole objects only
        self.tasks: set[asyncio.Task] = set()
        self._use_blocks(BLOCK_BYTES if owner.sequential or owner.cache is not None else SMALL_BLOCK_BYTES)

    @property
    def opened(self) -> BlockFile:
        """`file`, for what happens after open()."""
        assert self.file is not None
        return self.file

    def _use_blocks(self, block_bytes: int) -> None:
        self.block_bytes, self.request_blocks = block_bytes, self.settings.request_blocks(block_bytes)

    async def open(self) -> None:
        try:
            self._client = self.owner.engine.client(
                self.location, self.settings.store_options, self.settings.connect_timeout
            )
            response = None
            cache, asked_at = self.owner.cache, time.time_ns()
            if self.meta is not None:
                asked_at = 0
            elif self.known:
                self.meta, asked_at = await self._looked_up(cache, asked_at)
            else:
                response = await self._retrying(self._first_range)
                self.meta = response[0]
            meta = self.meta
            if meta.size > MOST_BYTES:
                what = (
                    f"the store says that it has {meta.size} bytes, and what has more than {MOST_BYTES}"
                    " (64 TiB) is not read"
                )
                raise GaveUp(corrupt_data(shown(self.location.url), what))
            if cache is not None:
                self.entry = await asyncio.to_thread(
                    cache.admit, self.location.url, meta.size, meta.version, asked_at
                )
            file = self._make_file(meta)
        except Exception as error:
            self._close_entry()
            self.fail(error)
            return
        if response is not None and file.next_missing(0) == 0:
            count = file.blocks if self.whole else min(file.blocks, self._first_blocks())
            if count and (self.entry is None or self.entry.lock(0, count)):
                self.owner.start_run(self, 0, count, response)
        if self.ready is not None:
            self.ready.set_result(file.reader())

    def _make_file(self, meta: Meta) -> BlockFile:
        settings, entry, cache = self.settings, self.entry, self.owner.cache
        fds = (
            {}
            if entry is None
            else {"cache_fd": entry.data_fd, "map_fd": entry.map_fd, "map_offset": entry.map_offset}
        )
        self.file = file = BlockFile(
            unsigned(self.location.url),
            meta.size,
            block_bytes=self.block_bytes,
            wake_fd=self.owner.wake_fd,
            sequential=self.owner.sequential,
            max_held_bytes=0 if self.owner.sequential or self.whole else settings.memory,
            **fds,
        )
        if cache is not None and entry is not None:
            cache.watch(file)
        return file

    def _first_blocks(self) -> int:
        return 1 if self.block_bytes == SMALL_BLOCK_BYTES else self.request_blocks

    async def _look(self) -> Meta:
        """Size and version. What was signed for GET forbids HEAD: there a byte is asked for."""
        if is_signed(self.location.url):
            return (await self._get_front(1))[0]
        return await self._client.head(self.location.path)

    async def _get_front(self, end: int) -> Any:
        """The response with the first `end` bytes, or with all of a server that sends whole objects only."""
        self.owner.counts.requests += 1
        try:
            return await self._within_stall(self._client.get(self.location.path, 0, end, None))
        except RangesUnsupported:
            self.whole = True
            return await self._within_stall(self._client.get(self.location.path, 0, None, None))

    async def _looked_up(self, cache: Any, asked_at: int) -> tuple[Meta, int]:
        """(the object's size and version, when the store was asked for them). Those of a whole entry, where
        it cannot be reached.
        """
        entry = await asyncio.to_thread(cache.find_any, self.location.url)
        try:
            retries = None if entry is None else min(RETRIES_OF_WHOLE, self.settings.retries)
            return await self._retrying(self._look, retries=retries), asked_at
        except GaveUp as error:
            if entry is None or not error.unreachable:
                raise
            cache.trust(error.args[0])
            return Meta.known(entry.size, entry.version), 0

    async def _first_range(self) -> Any:
        """The first range says how large the object is, too: one round trip to the first byte."""
        try:
            return await self._get_front(self._first_blocks() * self.block_bytes)
        except Exception as error:
            if status_of(error) != 416:
                raise
            meta = await self._client.head(self.location.path)  # an empty object has no ranges
            if meta.size:
                raise
            return meta, 0, _nothing()

    async def run(self, first: int, count: int, response: Any) -> None:
        """Brings the blocks [first, first + count), or fails the file."""
        locked = response is not None
        try:
            if self.entry is not None and not locked:
                locked = await self._claim(first, count)
                if not locked:
                    return
            # A second request begins without the response that is here.
            await self.owner.hedging.run(
                count == self.request_blocks,
                lambda: self._bring(first, count, response),
                lambda: self._bring(first, count, None),
            )
            failed = self.opened.stats()["cache_errno"]
            if failed and self.owner.cache is not None:
                self.owner.cache.give_up(failed)
        except Exception as error:
            self.fail(error)
        finally:
            if self.entry is not None and locked:
                self.entry.unlock(first, count)

    def fail(self, error: BaseException) -> None:
        """Give this error to readers, or to the code that waits for the object to be opened."""
        final, ready = classify(error, self.location.url)[1], self.ready
        if ready is not None and not ready.done():
            ready.set_exception(final)
        if self.file is not None:
            self.file.fail(*as_block_failure(final))

    async def _claim(self, first: int, count: int) -> bool:
        """Claim the blocks. True: this process has to bring them. False: another process brought them. The
        kernel releases the locks of killed processes.
        """
        waited, pause, missing = time.monotonic(), 0.005, -1
        while True:
            if self.entry.lock(first, count):
                self.opened.refresh()
                if self._first_missing(first, count) is None:
                    self.entry.unlock(first, count)
                    return False
                return True
            self.opened.refresh()
            now_missing = sum(self.opened.filled(b) == 0 for b in range(first, first + count))
            if now_missing == 0:
                return False
            if now_missing != missing:
                missing, waited = now_missing, time.monotonic()
            elif time.monotonic() - waited > FOREIGN_SECONDS:
                return True  # their holder is idle; the same bytes twice do no harm
            await asyncio.sleep(pause)
            pause = min(0.05, pause * 1.5)

    async def _bring(self, first: int, count: int, response: Any) -> None:
        patience = Patience()

        async def attempt() -> None:
            nonlocal response
            this, response = response, None
            await self._request(first, count, this, patience)

        await self._retrying(attempt, patience)

    async def _request(self, first: int, count: int, response: Any, patience: Patience) -> None:
        file, known, counts = self.opened, self.meta, self.owner.counts
        assert known is not None
        start = self._first_missing(first, count)
        if start is None:
            return
        end = min(file.size, (first + count) * self.block_bytes)
        if response is None:
            counts.requests += 1
            if self.whole:
                start = 0
            # A connection that breaks early may break early again; one that gives less than that in
            # stall_timeout never ends.
            chunk = max(LEAST_CHUNK_BYTES, self.owner.chunk_bytes >> 3 * patience.failures)
            get = self._client.get(self.location.path, start, None if self.whole else end, known.etag, chunk)
            response = await self._within_stall(get)
        meta, at, chunks = response
        if meta.size != known.size or meta.version != known.version:
            raise changed(
                self.location.url,
                f"{known.size} bytes with ETag {known.version}, then {meta.size} with {meta.version}",
            )
        if at != start:
            raise BrokenTransfer(
                f"{self.location.url}: bytes from {start} on were asked for, the store sent those from"
                f" {at} on"
            )
        begun, first_byte = time.monotonic(), start
        rest = bytearray()  # what lies before `start` and is not written yet
        try:
            while start < end:
                try:
                    chunk = await self._within_stall(anext(chunks))
                except StopAsyncIteration:
                    raise BrokenTransfer(
                        f"{self.location.url}: the store sent {start} of {end} bytes and called that all"
                    ) from None
                if len(chunk) > end - start:
                    raise BrokenTransfer(
                        f"{self.location.url}: the store sent more bytes than were asked for"
                    )
                counts.bytes += len(chunk)
                if self._write(start, rest, chunk, end):
                    patience.failures = 0
                start += len(chunk)
                self.owner.control.received(len(chunk))
                while self.whole and self.owner.too_far_ahead(self, start):
                    if self._reader_went_back():
                        raise BrokenTransfer(
                            f"{self.location.url}: the reader went back, and the server sends whole objects"
                            " only"
                        )
                    await asyncio.sleep(0.01)
        finally:
            if rest and file.write(start - len(rest), rest):
                patience.failures = 0
        rate = (start - first_byte) / max(1e-3, time.monotonic() - begun)
        # twenty a second are enough
        self.owner.chunk_bytes = int(min(MOST_CHUNK_BYTES, max(CHUNK_BYTES, rate / 20)))

    def _write(self, start: int, rest: bytearray, chunk: Any, end: int) -> int:
        """Write `rest`, kept from the last call, and the chunk at `start`; return how many bytes were new.
        With a cache entry, bytes past the last aligned place are kept in `rest`.
        """
        if self.entry is None:
            return self.opened.write(start, chunk)
        begin = start - len(rest)
        rest += chunk
        until = begin + len(rest)
        ready = until - begin if until == end else max(0, until // ALIGNED_BYTES * ALIGNED_BYTES - begin)
        if not ready:
            return 0
        with memoryview(rest) as whole, whole[:ready] as part:
            new = self.opened.write(begin, part)
        del rest[:ready]
        return new

    def _reader_went_back(self) -> bool:
        """Whether the reader went back to a dropped block: it waits for bytes that this request does not
        bring, and this request waits for the reader.
        """
        file = self.opened
        return file.filled(file.stats()["position"] // self.block_bytes) == 0

    def _first_missing(self, first: int, count: int) -> int | None:
        """The offset of the first byte of these blocks that is not here."""
        file, block = self.opened, self.opened.next_missing(first)
        if block >= min(first + count, file.blocks):
            return None
        return block * self.block_bytes + file.filled(block)

    async def _within_stall(self, awaitable: Awaitable[Any]) -> Any:
        return await asyncio.wait_for(awaitable, self.settings.stall_timeout)

    async def _retrying(
        self,
        attempt: Callable[[], Awaitable[Any]],
        patience: Patience | None = None,
        retries: int | None = None,
    ) -> Any:
        """`retries`: fewer than usual, where there is another answer: then the user is not told."""
        patience, notifies = patience or Patience(), retries is None
        retries = self.settings.retries if retries is None else retries
        while True:
            try:
                return await attempt()
            except Exception as error:
                again, final = classify(error, self.location.url)
                if not again:
                    raise GaveUp(final) from error
                patience.failures += 1
                if isinstance(final, Throttled):
                    self.owner.control.throttled()
                if patience.failures > retries:
                    gave_up = GaveUp(final)
                    gave_up.unreachable = True
                    raise gave_up from error
                if patience.failures == NOTIFIED_AT and notifies:
                    left = retries + 1 - NOTIFIED_AT
                    self.owner.engine.notify(
                        self.location,
                        f"failed {NOTIFIED_AT} times in a row, and is tried {left} times more: "
                        f"{getattr(final, 'strerror', None) or final}",
                    )
                self.owner.counts.retries += 1
                pause = random.uniform(0, min(MAX_BACKOFF, 0.1 * 2 ** (patience.failures - 1)))
                await asyncio.sleep(max(pause, retry_after(error)))

    def close(self) -> None:
        for task in self.tasks:
            task.cancel()
        if self.file is not None:
            self.file.close()
            if self.owner.cache is not None:
                self.owner.cache.unwatch(self.file)
        if self.ready is not None and not self.ready.done():
            self.ready.cancel()
        self._close_entry()

    def _close_entry(self) -> None:
        entry, self.entry = self.entry, None
        if entry is not None:
            with contextlib.suppress(OSError):
                entry.close()


async def _nothing() -> Any:
    return
    yield
