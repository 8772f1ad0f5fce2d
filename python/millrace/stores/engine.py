"""The thread that talks to stores: one per process, an asyncio loop, there while anything is open.

Everything about requests happens on this thread, so nothing of it needs a lock; what other threads do is ask
for blocks (an eventfd wakes the loop), wait for futures, and close. The thread ends a moment after the last
owner has gone, and before the interpreter does: one that comes back from native code later aborts the
process. A forked child starts without: what it opens is its own.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

from .clients import client_for
from .settings import Location, shown

IDLE_SECONDS = 0.2
MOST_CLIENTS = 64
EXIT_SECONDS = 5.0  # what the interpreter's end waits for the thread at most
# and for obstore's own threads: one that tells the interpreter of a cancelled request when it is gone aborts
SETTLE_SECONDS = 0.25


class Engine:
    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._owners: set[Any] = set()
        self._ended = False
        self._clients: dict[Any, Any] = {}
        self._notified: set[Any] = set()
        self._thread = threading.Thread(target=self._run, name="millrace-stores", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
            self.loop.run_until_complete(_cancelled(asyncio.all_tasks(self.loop)))
            # at the interpreter's end: no new threads, but the executor's have gone already
            with contextlib.suppress(RuntimeError):
                self.loop.run_until_complete(self.loop.shutdown_default_executor())
        finally:
            self.loop.close()

    def post(self, function: Callable[..., None], *args: Any) -> None:
        """From any thread: `function(*args)` on the engine's."""
        self.loop.call_soon_threadsafe(function, *args)

    def adopt(self, owner: Any) -> None:
        self._owners.add(owner)

    def release(self, owner: Any) -> None:
        """Release `owner`; call it on the engine's thread. Without owners, the engine ends after
        IDLE_SECONDS.
        """
        self._owners.discard(owner)
        if not self._owners:
            self.loop.call_later(IDLE_SECONDS, self._end_if_idle)

    def end(self) -> None:
        """End the engine from another thread, even if it has owners: waiting reads raise, its thread ends."""
        with contextlib.suppress(RuntimeError):  # its loop has ended already
            self.post(self._end_now)
        self._thread.join(EXIT_SECONDS)

    def _end_now(self) -> None:
        for owner in list(self._owners):
            owner.close()
        self._end_if_idle()

    def _end_if_idle(self) -> None:
        global _engine
        with _lock:
            if self._owners or self._ended:
                return
            self._ended = True
            if _engine is self:
                _engine = None
        self._clients.clear()
        self.loop.stop()

    def notify(self, location: Location, what: str) -> None:
        """A RuntimeWarning about a store that does not answer as it should, one for each store."""
        store = shown(location.root).partition("?")[0]
        if store not in self._notified:
            self._notified.add(store)
            warnings.warn(f"{shown(location.url)}: {what}", RuntimeWarning, stacklevel=2)

    def client(self, location: Location, options: dict[str, Any] | None, connect_timeout: float) -> Any:
        """Connections are kept and shared per store and options; a signed URL is a store of its own. On the
        engine's thread.
        """
        key = (
            location.scheme,
            location.root,
            repr(sorted((options or {}).items(), key=lambda item: item[0])),
            connect_timeout,
        )
        client = self._clients.pop(key, None) or client_for(location, options, connect_timeout)
        self._clients[key] = client
        if len(self._clients) > MOST_CLIENTS:
            del self._clients[next(iter(self._clients))]  # the least recently used; its users keep it
        return client


async def _cancelled(tasks: set[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


_engine: Engine | None = None
_lock = threading.Lock()


def engine_with(make_owner: Callable[[Engine], Any]) -> Any:
    """`make_owner(engine)` with this process's engine, which it keeps alive until it releases itself."""
    global _engine
    with _lock:
        if _engine is None:
            _engine = Engine()
        owner = make_owner(_engine)
        _engine.adopt(owner)
        return owner


def _after_fork() -> None:
    global _engine, _lock
    _engine, _lock = None, threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


@atexit.register
def _at_exit() -> None:
    engine = _engine
    if engine is not None:
        engine.end()
        time.sleep(SETTLE_SECONDS)
