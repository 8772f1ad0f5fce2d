"""Calls of Ray by threads of ours, and Ray's end.

Ray ends the whole process when a thread is inside of it while it is shut down, and begins anew when a thread
calls it afterwards. So `ray.shutdown` is one of ours, from the first pool on: no call begins any more, those
that have begun come back, and then Ray's own does its work.
"""

from __future__ import annotations

import atexit
import functools
import threading
import weakref
from typing import Any

from .courier import Gone

_all: weakref.WeakSet[RayCalls] = weakref.WeakSet()
_PATIENCE_S = 10.0


class RayCalls:
    """`with calls:` around each call. Raises Gone once Ray has ended."""

    def __init__(self, ray: Any) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self.ended = False
        _all.add(self)
        _replace_shutdown(ray)

    def __enter__(self) -> None:
        with self._changed:
            if self.ended:
                raise Gone("Ray was shut down")
            self._inside += 1

    def __exit__(self, *error: Any) -> None:
        with self._changed:
            self._inside -= 1
            self._changed.notify_all()

    def end(self) -> None:
        with self._changed:
            self.ended = True
            self._changed.wait_for(lambda: self._inside == 0, _PATIENCE_S)


def _end_all() -> None:
    for calls in list(_all):
        calls.end()


def _replace_shutdown(ray: Any) -> None:
    rays = ray.shutdown
    if getattr(rays, "waits_for_calls", False):
        return

    @functools.wraps(rays)
    def shutdown(*arguments: Any, **options: Any) -> Any:
        _end_all()
        return rays(*arguments, **options)

    atexit.register(_end_all)  # in front of Ray's own, which its import has registered
    shutdown.waits_for_calls = True  # type: ignore[attr-defined]
    ray.shutdown = shutdown
