"""Warns of samples that take too long: BatchHistory(stuck_after=seconds).

One daemon thread in a process looks at all loaders that asked for it, four times in the shortest of their
times; it disturbs nobody, and ends when none of them is left. Warnings go to the logger "millrace", once for
each sample.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Any

_logger = logging.getLogger("millrace")
_LEAST_S, _MOST_S = 0.05, 10.0
_lock = threading.Lock()
_thread: tuple[int, threading.Thread] | None = None  # and its process


Ask = Callable[[], list[tuple[Any, dict[str, Any]]]]


def watch(ask: Ask) -> None:
    """Some loader wants to be looked at. `ask` gives all that do, each with what its workers are doing."""
    global _thread
    with _lock:
        if _thread is None or _thread[0] != os.getpid() or not _thread[1].is_alive():
            _thread = (
                os.getpid(),
                threading.Thread(target=_run, args=(ask,), name="millrace-watch", daemon=True),
            )
            _thread[1].start()


def _after_fork() -> None:
    global _lock, _thread
    _lock, _thread = threading.Lock(), None


os.register_at_fork(after_in_child=_after_fork)


def _run(ask: Ask) -> None:
    warned: set[Any] = set()
    while (pause := _look(ask, warned)) is not None:
        time.sleep(pause)


def _look(ask: Ask, warned: set[Any]) -> float | None:
    """How long to wait before the next look; None: nobody is to be looked at any more."""
    global _thread
    found = []
    for loader, moment in ask():
        found.append(loader.history.stuck_after)
        for worker in moment.get("workers", ()):
            _judge(loader, worker, loader.history.stuck_after, warned)
    with _lock:
        if not found:
            _thread = None
            return None
    return min(_MOST_S, max(_LEAST_S, min(found) / 4))


def _judge(loader: Any, worker: dict[str, Any], most: float, warned: set[Any]) -> None:
    taken = worker.get("sample_seconds", worker.get("seconds", 0.0))
    if worker["doing"] == "idle" if "doing" in worker else True:
        return
    what = worker.get("index", worker.get("task"))
    key = id(loader), worker["name"], what, round(time.monotonic() - taken, 1)
    if taken <= most or key in warned:
        return
    warned.add(key)
    which = (
        f"index {worker['index']}" if "index" in worker else f"samples {worker.get('indices', '')}".rstrip()
    )
    if worker.get("path"):
        which += f" ({worker['path']})"
    _logger.warning(
        "%s of %s works on %s for %.1f s (%s); loader.dump_state() says what everybody does", worker["name"],
        type(loader.dataset).__name__, which, taken, worker["doing"],
    )  # fmt: skip
