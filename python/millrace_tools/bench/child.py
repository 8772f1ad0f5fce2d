"""A process that ends with the one that started it, and the pipe between them."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from typing import Any

from millrace import _core

_GRACE_MS = 2000  # between the end of the process that started this one, and its own


def end_with_parent(parent: int) -> None:
    """Ends this process after its parent's end, whatever the dataset's code is doing then. Called first in
    each process of the benchmark.
    """
    _core.end_with_process(parent, _GRACE_MS)


class Child:
    """Forked from this process, in a session of its own: `run(connection)` is called there with its end of
    the pipe. `inherited`: connections of this process that are closed there.
    """

    def __init__(self, run: Callable[[Connection], None], *inherited: Connection) -> None:
        self.connection, theirs = multiprocessing.Pipe()
        parent, closed = os.getpid(), (self.connection, *inherited)

        def begin() -> None:
            os.setsid()
            end_with_parent(parent)
            for connection in closed:
                connection.close()
            run(theirs)
            theirs.close()

        with warnings.catch_warnings():  # of forks with threads: torch's workers are made no other way
            warnings.simplefilter("ignore", DeprecationWarning)
            self._process = multiprocessing.get_context("fork").Process(target=begin)
            self._process.start()
        theirs.close()
        self.pid: int = self._process.pid or 0
        self.lost = False  # it gave no answer, or has ended

    def answer(self, limit_s: float, *unless: Connection) -> tuple[str, Any]:
        """What it sends next: ("done", what) or ("raised", {"kind", "error", "where"}). Of kind "silent" is
        that it sends nothing in time, or before one of `unless` has something; of kind "died" that it ends.
        """
        if self.connection not in wait([self.connection, *unless], limit_s):
            return self._lost("silent", f"no batch within {limit_s:.0f} s")
        try:
            return self.connection.recv()
        except (EOFError, OSError):
            return self._lost("died", f"its process ended ({self._ending()})")

    def _lost(self, kind: str, error: str) -> tuple[str, Any]:
        self.lost = True
        return "raised", {"kind": kind, "error": error, "where": ""}

    def _ending(self) -> str:
        self._process.join(2)
        code = self._process.exitcode
        if code is None:
            return "unknown"
        return f"status {code}" if code >= 0 else f"by {signal.Signals(-code).name}"

    def end(self, patience_s: float) -> None:
        """Ends it and all that it started, after so many seconds in which it may end by itself."""
        self.connection.close()
        self._process.join(patience_s)
        with contextlib.suppress(OSError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.kill()  # it may have had no time to make its session
        self._process.join()
