"""How iterators end when somebody else ends them: another thread, or the interpreter.

The story, for every kind of iterator with threads, processes or an engine behind it:
- one consumer is inside next(), on any thread. `_shutdown_workers()` may come from any other, at any moment;
- it marks and wakes. What the consumer uses is torn down when the consumer is outside: by whoever closes,
  where nobody is inside, else after it. What waits, comes out with closed_error();
- the interpreter's end is the same for all iterators that live: this module's atexit handler. Non-daemon
  threads have been joined by then, so whoever is inside next() or iter(), or comes for another batch or
  iterator later, is a daemon thread that has a moment left. It ends as the interpreter would have ended it:
  by SystemExit, of which `threading` says nothing. torch's workers are gone by then, too.
- threads inside native code that come for the GIL later sleep until the process is gone
  (python/bindings/gil_at_exit.h).

The main thread may still make iterators then, in atexit handlers that run later than this one.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
import weakref
from types import FrameType
from typing import Any

from ..errors import UnavailableError

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_LOOKS = 500  # a millisecond apart: counted, as a machine that starves this thread starves the others, too
_live: weakref.WeakSet[Any] = weakref.WeakSet()
_ending_in: int | None = None  # the thread that ends the interpreter


def close_at_exit(iterator: Any) -> None:
    """Its `_shutdown_workers()` is called before the interpreter goes, if the iterator is still there.

    Threads inside an engine may need the interpreter (Pillow decodes what is not JPEG): they must be gone
    before it is.
    """
    _live.add(iterator)
    if is_ending():  # the handler may have looked before
        iterator._shutdown_workers()
        raise SystemExit


def is_ending() -> bool:
    """Whether the interpreter ends, and another thread does that."""
    return _ending_in is not None and _ending_in != threading.get_ident()


def closed_error() -> UnavailableError:
    return UnavailableError(
        "the loader was closed while a batch was asked for; make a new iterator: iter(loader)"
    )


def leave_if_ending() -> None:
    """For who comes for an iterator, or has a closed iterator's error to raise: at the interpreter's end
    nobody is there to hear it.
    """
    if is_ending():
        raise SystemExit from None


def _living() -> list[Any]:
    while True:
        try:
            return list(_live)
        except RuntimeError:  # another thread has just added one
            continue


@atexit.register
def _end_all() -> None:
    global _ending_in
    _ending_in = threading.get_ident()
    for iterator in _living():
        iterator._shutdown_workers()
    _let_consumers_leave()


def _let_consumers_leave() -> None:
    """Waits a moment for threads that are inside next() or iter(): the interpreter would end one that is
    inside torch by unwinding torch's frames, which aborts the process.
    """
    for _ in range(_LOOKS):
        frames = sys._current_frames()
        frames.pop(threading.get_ident(), None)
        if not any(map(_is_consuming, frames.values())):
            return
        del frames
        time.sleep(0.001)


def _is_consuming(frame: FrameType | None) -> bool:
    while frame is not None:
        code = frame.f_code
        if code.co_name in ("__next__", "__iter__") and code.co_filename.startswith(_PACKAGE):
            return True
        frame = frame.f_back
    return False
