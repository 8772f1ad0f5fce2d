"""Which blocks are asked for next: what readers wait for first, then what comes after, within the budget. On
the engine's thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .clients import CHUNK_BYTES
from .control import Concurrency, Hedging
from .settings import BLOCK_BYTES, Settings
from .transfer import Transfer

if TYPE_CHECKING:
    from .disk_cache import DiskCache
    from .engine import Engine


KNOWN_AHEAD = (
    16  # cached objects opened before their turn: a round trip each, to see that they are the same still
)
STATS = (
    "bytes",
    "requests",
    "retries",
    "hedges",
    "requests_in_flight",
    "concurrency",
    "waited_seconds",
    "repaired_blocks",
    "held_bytes",
    "ahead_bytes_peak",
    "seconds",
    "bytes_per_second",
)


@dataclass
class Counts:
    bytes: int = 0
    requests: int = 0
    retries: int = 0
    held_bytes_peak: int = 0
    waited_seconds: float = 0.0  # of transfers that are gone
    repaired_blocks: int = 0


class Scheduler:
    """`sequential`: blocks are read once, from front to back, shard after shard; else in any order, each
    object by itself.
    """

    def __init__(self, engine: Engine, settings: Settings, cache: DiskCache | None, sequential: bool) -> None:
        self.engine, self.settings, self.cache, self.sequential = engine, settings, cache, sequential
        self.control = Concurrency(settings.max_requests)
        self.hedging = Hedging(settings.hedge)
        self.counts = Counts()
        self.chunk_bytes = CHUNK_BYTES
        self.started = time.monotonic()
        self.wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.transfers: list[Transfer] = []  # opened, in the order of their URLs
        self.queue: deque[Transfer] = deque()  # to be opened
        self.in_flight = 0
        self.closed = False
        self.finishing = not sequential  # closes when nothing is read any more

    def start(self) -> None:
        self.engine.loop.add_reader(self.wake_fd, self.pump)
        self.pump()

    def pump(self) -> None:
        """Starts what can be started. Called when a reader waits or moved on, a run ended, an object was
        added.
        """
        if self.closed:
            return
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self.wake_fd)
        used = 0
        for transfer in list(self.transfers):
            used += self._look_at(transfer)
        if not self.sequential:
            while self.queue:
                self._open(self.queue.popleft())
            return
        if self.finishing and not self.transfers and not self.queue:
            self.close()
            return
        counts = self.counts
        counts.held_bytes_peak = max(counts.held_bytes_peak, used)
        run_bytes = self.settings.request_blocks(BLOCK_BYTES) * BLOCK_BYTES
        while self.queue and self.queue[0].urgent:
            self._open(self.queue.popleft())
            used += run_bytes
        while self.queue and len(self.transfers) < KNOWN_AHEAD and self._knows(self.queue[0]):
            self._open(self.queue.popleft())  # asks for metadata only
        while self.in_flight < self.control.limit:
            if used + 2 * run_bytes > self.settings.memory:  # room for one that a reader waits for
                break
            if not self._start_ahead():
                if not self.queue:
                    break
                self._open(self.queue.popleft())
            used += run_bytes
        if self.in_flight < self.control.limit:
            self.control.hold_back()

    def _look_at(self, transfer: Transfer) -> int:
        """Starts what readers of it wait for; lets it go when nobody reads it any more. Bytes of the budget
        that it uses.
        """
        file = transfer.file
        if file is None:
            return 0 if transfer.known else transfer.request_blocks * transfer.block_bytes
        stats = file.stats()
        if transfer.handed_out and stats["readers"] == 0:
            self.drop(transfer)
            return 0
        wanted = file.take_wanted()
        for block in wanted:
            if block not in transfer.busy and file.next_missing(block) == block:
                length = self._run_length(transfer, block, wanted)
                self.start_run(transfer, block, length)
                if self.sequential and block >= transfer.cursor:
                    transfer.cursor = block + length
        if transfer.cursor == file.blocks and stats["complete"] and not stats["held_bytes"]:
            return 0
        return max(0, transfer.cursor - stats["passed_block"]) * transfer.block_bytes

    def _run_length(self, transfer: Transfer, block: int, wanted: list[int] | None = None) -> int:
        """Blocks from `block` on that one request may bring: all that are missing, but small ones only as far
        as they are wanted.
        """
        file = transfer.opened
        if transfer.whole:
            return file.blocks - block
        only = set(wanted or ()) if transfer.block_bytes != BLOCK_BYTES else None
        end = block + 1
        while end < min(block + transfer.request_blocks, file.blocks):
            if (
                end in transfer.busy
                or file.next_missing(end) != end
                or (only is not None and end not in only)
            ):
                break
            end += 1
        return end - block

    def _start_ahead(self) -> bool:
        """The next run in reading order; False when everything opened is here or on its way."""
        for transfer in self.transfers:
            file = transfer.file
            if file is None or transfer.whole:
                continue
            block = file.next_missing(max(transfer.cursor, file.stats()["passed_block"]))
            while block in transfer.busy:
                block = file.next_missing(block + 1)
            transfer.cursor = block
            if block < file.blocks:
                length = self._run_length(transfer, block)
                transfer.cursor = block + length
                self.start_run(transfer, block, length)
                return True
        return False

    def too_far_ahead(self, transfer: Transfer, offset: int) -> bool:
        """Of a server that sends whole objects only: it has to wait for its reader."""
        return (
            self.sequential
            and transfer.entry is None
            and offset - transfer.opened.stats()["position"] > self.settings.memory // 2
        )

    def start_run(self, transfer: Transfer, first: int, count: int, response: Any = None) -> None:
        blocks = range(first, first + count)
        transfer.busy.update(blocks)

        def done() -> None:
            transfer.busy.difference_update(blocks)
            self.control.finished()

        self._start(transfer, transfer.run(first, count, response), done)
        if response is not None:
            transfer.cursor = max(transfer.cursor, first + count)

    def _knows(self, transfer: Transfer) -> bool:
        return self.cache is not None and self.cache.knows(transfer.location.url)

    def _open(self, transfer: Transfer) -> None:
        transfer.known = self._knows(transfer)
        self.transfers.append(transfer)
        self._start(transfer, transfer.open(), lambda: None)

    def _start(self, transfer: Transfer, work: Any, done: Any) -> None:
        self.in_flight += 1
        task = self.engine.loop.create_task(work)
        transfer.tasks.add(task)

        def ended(_: asyncio.Task) -> None:
            self.in_flight -= 1
            transfer.tasks.discard(task)
            done()
            # What no handler expected, such as a panic of a client's library. After a close() this changes
            # nothing.
            error = ConnectionError("the request was given up") if task.cancelled() else task.exception()
            if error is not None:
                transfer.fail(error)
            if transfer.file is None and transfer in self.transfers:
                self.transfers.remove(transfer)  # it could not be opened
            self.pump()

        task.add_done_callback(ended)

    def drop(self, transfer: Transfer) -> None:
        if transfer in self.transfers:
            self.transfers.remove(transfer)
        if transfer.file is not None:
            stats = transfer.file.stats()
            self.counts.waited_seconds += stats["waited_seconds"]
            self.counts.repaired_blocks += stats["repaired_blocks"]
        transfer.close()
        self._close_if_done()

    def finish(self) -> None:
        """No more objects come: closes when those that were handed out are not read any more."""
        self.finishing = True
        self._close_if_done()

    def _close_if_done(self) -> None:
        if self.finishing and not self.transfers and not self.queue:
            self.close()

    def close(self) -> None:
        """Ends all transfers; reads that wait raise."""
        if self.closed:
            return
        self.closed = True
        self.engine.loop.remove_reader(self.wake_fd)
        for transfer in [*self.transfers, *self.queue]:
            transfer.close()
        self.transfers, self.queue = [], deque()
        os.close(self.wake_fd)
        self.engine.release(self)

    def stats(self) -> dict[str, Any]:
        """From any thread: a picture that may be a moment old."""
        seconds = time.monotonic() - self.started
        live = [t.file.stats() for t in list(self.transfers) if t.file is not None]
        return {
            "bytes": self.counts.bytes,
            "requests": self.counts.requests,
            "retries": self.counts.retries,
            "hedges": self.hedging.hedges,
            "requests_in_flight": self.in_flight,
            "concurrency": self.control.limit,
            "waited_seconds": self.counts.waited_seconds + sum(s["waited_seconds"] for s in live),
            "repaired_blocks": self.counts.repaired_blocks + sum(s["repaired_blocks"] for s in live),
            "held_bytes": sum(s["held_bytes"] for s in live),
            "ahead_bytes_peak": self.counts.held_bytes_peak,
            "seconds": seconds,
            "bytes_per_second": self.counts.bytes / seconds if seconds > 0 else 0.0,
        }
