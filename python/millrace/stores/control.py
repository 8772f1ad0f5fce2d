"""How many requests are in flight, and when one is slow: two small controllers that only see what the
transfers measure.

Concurrency. A round is `limit` finished requests (and a quarter of a second). While rounds bring at least 5 %
more bytes per second than the best before, `limit` doubles; the first that does not brings it back to the
best and ends the growth. Every ten seconds a round is tried with a quarter more. Two answers of 429 or 503
among twenty requests halve it, once a second at most. Rounds in which the consumer or the memory budget held
requests back say nothing and are not counted. So requests in flight settle at bandwidth x latency, whatever
the number of shards.

Hedging. If a request for a full range takes longer than three times the 95th percentile of the last 64, a
second request for the missing bytes runs beside it. Both fill the same blocks; the first to finish ends the
other. At most one request in twenty is a second one.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable

FIRST_LIMIT = 4
ROUND_SECONDS = 0.25
PROBE_SECONDS = 10.0
GAIN = 1.05


class Concurrency:
    def __init__(self, most: int, first: int = FIRST_LIMIT) -> None:
        self.most = max(1, most)
        self.limit = min(first, self.most)
        self._best_limit, self._best_rate = self.limit, 0.0
        self._growing = True
        self._halved = 0.0
        self._total = 0  # requests finished
        self._throttles: deque[int] = deque([-1000, -1000], maxlen=2)  # _total at the last two
        self._probe_at = 0.0
        self._begin()

    def _begin(self) -> None:
        self._start, self._bytes, self._finished, self._held_back = time.monotonic(), 0, 0, False

    def hold_back(self) -> None:
        """Fewer than `limit` are in flight, and not for want of speed."""
        self._held_back = True

    def received(self, count: int) -> None:
        self._bytes += count

    def finished(self) -> None:
        self._finished += 1
        self._total += 1
        now = time.monotonic()
        if self._finished < self.limit or now - self._start < ROUND_SECONDS:
            return
        rate = self._bytes / (now - self._start)
        if self._held_back:
            self._begin()
            return
        if rate > self._best_rate * GAIN:
            self._best_rate, self._best_limit = rate, self.limit
            if self._growing:
                self.limit = min(self.most, self.limit * 2)
        elif self.limit == self._best_limit:
            self._growing = False
            self._best_rate = 0.7 * self._best_rate + 0.3 * rate
            if now >= self._probe_at:
                self._probe_at = now + PROBE_SECONDS
                self.limit = min(self.most, self.limit + max(1, self.limit // 4))
        else:
            self._growing = False
            self.limit = self._best_limit
            self._probe_at = now + PROBE_SECONDS
        self._begin()

    def throttled(self) -> None:
        now = time.monotonic()
        self._throttles.append(self._total)
        if now - self._halved < 1.0 or self._total - self._throttles[0] > 20:
            return
        self._halved = now
        self.limit = max(1, self.limit // 2)
        self._best_limit, self._best_rate, self._growing = self.limit, 0.0, False
        self._probe_at = now + PROBE_SECONDS
        self._begin()


class Hedging:
    def __init__(self, factor: float = 3.0, share: float = 0.05, least_seconds: float = 0.2) -> None:
        self._factor, self._share, self._least = factor, share, least_seconds
        self._seconds: deque[float] = deque(maxlen=64)
        self.requests = self.hedges = 0

    async def run(
        self, full: bool, first: Callable[[], Awaitable[None]], second: Callable[[], Awaitable[None]]
    ) -> None:
        """Await `first()`, and `second()` beside it if that takes long; the first to finish ends the other.
        `full`: the request is for a full range, so its time is compared with others'.
        """
        self.requests += 1
        started = time.monotonic()
        tasks = {asyncio.ensure_future(first())}
        try:
            done, _ = await asyncio.wait(tasks, timeout=self.patience() if full else None)
            if not done and self.allow():
                tasks.add(asyncio.ensure_future(second()))
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            next(iter(done)).result()
            if full:
                self._seconds.append(time.monotonic() - started)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def patience(self) -> float | None:
        """Seconds to wait before a second request; None while too little is known."""
        if self._factor <= 0 or len(self._seconds) < 16:
            return None
        return max(self._least, self._factor * sorted(self._seconds)[int(0.95 * (len(self._seconds) - 1))])

    def allow(self) -> bool:
        if self.hedges >= 1 + self._share * self.requests:
            return False
        self.hedges += 1
        return True
