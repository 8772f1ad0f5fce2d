"""Python stacks of worker processes, also of those that are stuck in C: written by a signal's handler into
memory that the parent reads.

The handler is faulthandler's, which runs without the interpreter. A real-time signal, because the others have
a meaning to somebody.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .._loader.engines.channel import Descriptor

SIGNAL = signal.SIGRTMIN + 9
_READY = b"ready\n"
_SETTLED_S = 0.02
_asking = threading.Lock()


def _after_fork() -> None:
    global _asking
    _asking = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def write_stacks_to(stacks: Descriptor | None) -> None:
    """In the worker: from here on, SIGNAL has its stacks written there."""
    if stacks is None:
        return
    with contextlib.suppress(OSError, ValueError, RuntimeError):
        faulthandler.register(SIGNAL, file=stacks.fd, all_threads=True, chain=False)
        os.write(stacks.fd, _READY)


def stacks_of(ends: Sequence[Any], patience: float = 0.5) -> list[list[str] | None]:
    """Of workers as WorkerEnd knows them: lines of text, innermost call first; None of one that has not
    answered within `patience` seconds.
    Any thread of the parent; one waits for another.
    """
    with _asking:
        asked = [_ask(end) for end in ends]
        texts: list[bytes] = [b""] * len(asked)
        deadline = time.monotonic() + patience
        waiting = {number for number, fd in enumerate(asked) if fd is not None}
        while waiting and time.monotonic() < deadline:
            time.sleep(_SETTLED_S)
            for number in list(waiting):
                text = _read(asked[number])
                if text and text == texts[number]:  # nothing was added meanwhile
                    waiting.discard(number)
                texts[number] = text
    return [_own_part(text.decode("utf-8", "replace").splitlines()) if text else None for text in texts]


def _own_part(lines: list[str]) -> list[str]:
    """Without what a forked worker has from its parent."""
    end = next((number for number, line in enumerate(lines) if line.endswith(" in run_worker")), len(lines))
    others = [number for number, line in enumerate(lines) if number > end and not line.startswith(" ")]
    return lines[: end + 1] + (lines[others[0] :] if others else [])


def _ask(end: Any) -> int | None:
    fd = -1 if end.stacks is None else end.stacks.fd
    if fd < 0 or not end.process.is_alive():
        return None
    # Before it has said so a worker has no handler, and the signal would end it.
    end.writes_stacks = getattr(end, "writes_stacks", False) or _read(fd).startswith(_READY)
    if not end.writes_stacks:
        return None
    with contextlib.suppress(OSError):
        os.ftruncate(fd, 0)
        os.lseek(fd, 0, os.SEEK_SET)  # the worker's place, too
        os.kill(end.process.pid, SIGNAL)
        return fd
    return None


def _read(fd: int | None) -> bytes:
    with contextlib.suppress(OSError):
        return os.pread(fd, 1 << 20, 0)  # type: ignore[arg-type]
    return b""
