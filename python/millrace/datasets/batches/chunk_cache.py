"""ChunkCache: decoded chunks within a budget of bytes, for readers that announce the chunks they will
need.
"""

from __future__ import annotations

import contextlib
import heapq
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..._profiling.stages import FETCH, during
from ...errors import note

_NEVER = 1 << 62
_NOW = -1


class ChunkCache:
    """Chunks by number, read by `read(number)` in whichever thread needs one first, or has time.

    Every use of a chunk has a number, rising in the order in which the uses were announced. Under one lock:
    - a chunk is absent, being read by exactly one thread, or present;
    - `_uses[c]` has the numbers of the announced uses of chunk c that are still to come, rising;
    - every absent chunk with such a use is in the heap `_to_read` by its next one. Entries that are no longer
    true are passed over. With the future known, the chunk with the farthest next use goes first (Belady
    1966), and no chunk goes for another one that is needed later. Chunks without announced uses go before all
    others, the least recently used first.

    Bound: `budget` bytes of chunks present or being read, by `cost(number)` and by their size once read. A
    chunk that is needed at once is read all the same, so there may be one more for each thread. The chunks
    that get() returned to a reader are not counted.

    An error of `read`, `cost` or `size` goes to the caller of get(); while reading ahead it is dropped, the
    chunk is not read ahead any more, and get() of that chunk meets the error again.
    """

    def __init__(
        self, read: Callable[[int], Any], cost: Callable[[int], int], budget: int, size: Callable[[Any], int]
    ) -> None:
        self._read, self._cost_of, self._size = read, cost, size
        self.budget = budget
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._present: dict[int, tuple[Any, int]] = {}  # in the order of their last use: the chunk, its bytes
        self._reading: dict[int, int] = {}  # bytes set aside
        self._held = 0  # bytes of both
        self._uses: dict[int, deque[int]] = {}
        self._to_read: list[tuple[int, int]] = []
        self._number = 0
        self.read_seconds = 0.0
        self.reads = 0

    def announce(self, chunks: Iterable[int]) -> int:
        """Announces one use of each of these chunks, after all announced before; returns the number of this
        use.
        """
        with self._lock:
            number = self._number
            self._number += 1
            for chunk in chunks:
                uses = self._uses.get(chunk)
                if uses is not None:
                    uses.append(number)
                    continue
                self._uses[chunk] = deque((number,))
                if chunk not in self._present and chunk not in self._reading:
                    heapq.heappush(self._to_read, (number, chunk))
            return number

    def forget(self) -> None:
        """No announced use will come."""
        with self._lock:
            self._uses.clear()
            self._to_read.clear()

    def empty(self) -> None:
        """No use of any chunk will come: lets all of them go."""
        self.forget()
        with self._lock:
            gone, self._present = self._present, {}
            self._held -= sum(size for _, size in gone.values())

    def get(self, chunk: int, numbers: Sequence[int] = ()) -> tuple[Any, int]:
        """The chunk, for the announced uses `numbers`, and its bytes. While another thread reads it, this one
        reads ahead.
        """
        while True:
            with self._lock:
                if chunk in self._present:
                    entry = self._present.pop(chunk)
                    self._present[chunk] = entry
                    self._used(chunk, numbers)
                    return entry
                if chunk not in self._reading:
                    cost = self._cost(chunk)
                    self._make_room(cost, _NOW)
                    self._begin(chunk, cost)
                    self._used(chunk, numbers)
                    break
            if not self.read_ahead():
                with self._lock:
                    if chunk in self._reading:
                        with during(FETCH):  # as another thread does for this one
                            self._changed.wait()
        return self._fill(chunk, _NOW)

    def get_all(
        self, chunks: Sequence[int], numbers: Sequence[Sequence[int]]
    ) -> list[tuple[Any, int]] | None:
        """get(chunks[i], numbers[i]) of each, if all are there; else None, and nothing was done."""
        with self._lock:
            present = self._present
            for chunk in chunks:
                if chunk not in present:
                    return None
            found = []
            for chunk, own in zip(chunks, numbers):
                found.append(present[chunk])
                self._used(chunk, own)
                # of chunks that are expected again, it does not matter when they were used
                if chunk not in self._uses:
                    present[chunk] = present.pop(chunk)
            return found

    def read_ahead(self) -> bool:
        """Reads the chunk that is needed next of those that are absent, if the budget allows; whether it
        did.
        """
        with self._lock:
            while self._to_read:
                use, chunk = self._to_read[0]
                uses = self._uses.get(chunk)
                if uses is None or chunk in self._present or chunk in self._reading:
                    heapq.heappop(self._to_read)
                elif uses[0] != use:
                    heapq.heapreplace(self._to_read, (uses[0], chunk))
                else:
                    break
            else:
                return False
            try:
                cost = self._cost(chunk)
            except Exception:  # get() of this chunk will meet it
                heapq.heappop(self._to_read)
                return True
            if not self._make_room(cost, use):
                return False
            heapq.heappop(self._to_read)
            self._begin(chunk, cost)
        with contextlib.suppress(Exception):  # get() of this chunk will meet it
            self._fill(chunk, use)
        return True

    def _cost(self, chunk: int) -> int:
        try:
            return int(self._cost_of(chunk))
        except Exception as error:
            note(error, f"raised by chunk_bytes({chunk})")
            raise

    def _begin(self, chunk: int, cost: int) -> None:
        self._reading[chunk] = cost
        self._held += cost

    def _used(self, chunk: int, numbers: Sequence[int]) -> None:
        """These uses are over, or will not come."""
        uses = self._uses.get(chunk)
        if uses is None:
            return
        for number in numbers:
            if uses and uses[0] == number:  # nearly always
                uses.popleft()
            elif number in uses:  # batches are made side by side
                uses.remove(number)
        if not uses:
            del self._uses[chunk]

    def _fill(self, chunk: int, use: int) -> tuple[Any, int]:
        started = time.perf_counter()
        try:
            with during(FETCH):
                data = self._read(chunk)
            size = self._size(data)
        except BaseException:
            with self._lock:
                self._held -= self._reading.pop(chunk)
                self._changed.notify_all()
            raise  # nobody reads ahead for it again: it would fail as often
        with self._lock:
            self._held += size - self._reading.pop(chunk)
            self._present[chunk] = data, size
            self.reads += 1
            self.read_seconds += time.perf_counter() - started
            self._make_room(0, use, keep=chunk)
            self._changed.notify_all()
        return data, size

    def _next_use(self, chunk: int) -> int:
        uses = self._uses.get(chunk)
        return uses[0] if uses else _NEVER

    def _make_room(self, cost: int, use: int, keep: int = -1) -> bool:
        """Lets chunks go that are needed later than `use`, until `cost` more bytes fit; whether they do."""
        while self._held + cost > self.budget:
            last = max((c for c in self._present if c != keep), key=self._next_use, default=None)
            if last is None or (self._next_use(last) <= use and self._next_use(last) != _NEVER):
                return self._held == 0  # one that is larger than the whole budget
            self._held -= self._present.pop(last)[1]
            if last in self._uses:  # and may be read for them ahead
                heapq.heappush(self._to_read, (self._next_use(last), last))
        return True

    @property
    def held_bytes(self) -> int:
        return self._held
