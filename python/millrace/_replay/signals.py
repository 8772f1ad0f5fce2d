"""dump_on_signal(): the state of all loaders when a signal comes, also while the main thread is stuck in C.

faulthandler's handler writes the Python stacks at once, from the signal handler. A native handler below it
(core/signal_wake.h) wakes a thread by a byte in a pipe; the thread asks all workers and writes the rest, as
soon as it gets the interpreter's lock. Below these is the signal's earlier handler, which is called as
before.
"""

from __future__ import annotations

import atexit
import faulthandler
import os
import signal
import sys
import threading
import traceback
from typing import Any

from .. import _core
from .dump import as_text, known_loaders, snapshot_of_process, written

_installed: dict[int, SignalDump] = {}


@atexit.register
def _end_all() -> None:
    """A dump that is under way is written to its end."""
    for installed in list(_installed.values()):
        installed.remove()


def dump_on_signal(signum: int = signal.SIGUSR1, file: None | str | os.PathLike[str] = None) -> SignalDump:
    """From now on, `kill -USR1 <pid of the training process>` writes what every worker of every loader is
    doing.

    The stacks come at once, whatever the process does; the rest by a thread of its own, which needs the
    interpreter's lock: a main thread that keeps it for ever, in C, leaves it at the stacks. Worker processes
    are asked by a real-time signal (SIGRTMIN + 9), which interrupts a system call of theirs. Earlier handlers
    are called as before. A later signal.signal() for the same signal removes ours, so call this function
    after it. A second call for a signal replaces the first.

    Args:
        signum: the signal's number.
        file: None: standard error, as text. A path: the whole dump is written there at each signal, in place
            of the one before, as JSON if it ends in .json, else as text; the stacks of this process' threads
            go to standard error besides.

    Raises:
        ValueError: if the signal cannot be caught.
        OSError: if the file's folder cannot be written to.
    """
    number = int(signum)
    if number in _installed:
        _installed[number].remove()
    path = None if file is None else os.path.abspath(os.fspath(file))
    if path is not None and not os.access(os.path.dirname(path), os.W_OK):
        raise FileNotFoundError(f"{path}: there is no folder that can be written to; make it first")
    _installed[number] = SignalDump(number, path)
    return _installed[number]


class SignalDump:
    """The result of dump_on_signal(): the thread for one signal, the pipe that wakes it, and the handlers.

    `remove()`, or leaving a `with` over it, ends it. Removing twice does nothing.
    """

    def __init__(self, number: int, path: str | None) -> None:
        self._number, self._path = number, path
        self._error_fd = _standard_error()
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        self._pid = os.getpid()
        try:
            _core.wake_on_signal(number, self._write)
            faulthandler.register(number, file=self._error_fd, all_threads=True, chain=True)
        except BaseException:
            self._close()
            raise
        self._thread = threading.Thread(target=self._run, name="millrace-dump", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while byte := os.read(self._read, 64):
            if b"\0" in byte:
                break
            try:
                moment = snapshot_of_process(known_loaders())
                if self._path is not None:
                    written(moment, self._path)
                    continue
                text = as_text(moment)
            except Exception:
                text = "millrace: the state could not be written\n" + traceback.format_exc()
            data = text.encode(errors="backslashreplace")
            while data:
                data = data[os.write(self._error_fd, data) :]
        self._close()

    def remove(self) -> None:
        """Give the signal its earlier meaning again, unless a handler was put on top of ours since."""
        if _installed.get(self._number) is not self:
            return
        del _installed[self._number]
        faulthandler.unregister(self._number)
        _core.unwake_on_signal(self._number)
        if os.getpid() == self._pid:
            os.write(self._write, b"\0")
            self._thread.join(5)

    def __enter__(self) -> SignalDump:
        return self

    def __exit__(self, *_: Any) -> None:
        self.remove()

    def _close(self) -> None:
        os.close(self._read)
        os.close(self._write)


def _standard_error() -> int:
    for stream in (sys.stderr, sys.__stderr__):
        try:
            return stream.fileno()  # type: ignore[union-attr]
        except (AttributeError, OSError, ValueError):
            continue
    return 2
