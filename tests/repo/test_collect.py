"""gc.collect() in tests: what is garbage is gone behind it, whatever other threads do."""

from __future__ import annotations

import gc
import threading
import time
import weakref


class Slow:
    """Freed by the collector alone, which waits for it."""

    def __init__(self, entered: threading.Event) -> None:
        self.itself, self.entered = self, entered

    def __del__(self) -> None:
        self.entered.set()
        time.sleep(0.2)


def test_another_thread_that_collects_is_waited_for():
    entered = threading.Event()
    Slow(entered)
    thread = threading.Thread(target=gc.collect)
    thread.start()
    entered.wait()
    knot = Slow(threading.Event())
    alive = weakref.ref(knot)
    del knot
    gc.collect()
    thread.join()
    assert alive() is None
