"""One worker process as its parent sees it."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import threading
import time
import warnings
from collections import deque
from typing import Any

from torch.utils.data import _utils

from ... import _core
from . import channel
from .channel import MESSAGE, Descriptor

MOST_OUTSTANDING = 64  # messages in a pipe, whose buffer may be a single page
_PATIENCE_S = _utils.MP_STATUS_CHECK_INTERVAL
_TICK_S = 0.005


class WorkerEnd:
    """Process, pipes, and the tasks that wait for a slot or for room in its pipe."""

    def __init__(
        self,
        ring: _core.SharedRing,
        process: Any,
        tasks: Descriptor,
        answers: Descriptor,
        number: int,
        stacks: Descriptor | None = None,
    ) -> None:
        self._ring = ring
        self.number = number
        self.process = process
        self.tasks = tasks
        self.answers = answers
        self.layout: Any = None  # the Layout of the batches it collates row by row
        self.outstanding = 0  # messages sent and not answered
        self._waiting: deque[tuple[int, int, Any, bool, int]] = deque()
        # (task, index list) of those messages; (-1, None): an epoch's beginning
        self.sent: deque[tuple[int, Any]] = deque()
        self.since = time.monotonic()  # when it began with the first of them, if not later
        self.stacks = stacks  # where it writes its Python stacks when it gets history.stacks.SIGNAL
        os.set_blocking(answers.fd, False)
        self.pidfd = -1
        # an old kernel, or a sandbox: then the engine ticks
        with contextlib.suppress(AttributeError, OSError):
            self.pidfd = os.pidfd_open(process.pid)

    def stop(self) -> None:
        """Tells it to end."""
        with contextlib.suppress(BrokenPipeError, BlockingIOError):  # it has, or is terminated later
            os.set_blocking(self.tasks.fd, False)
            os.write(self.tasks.fd, MESSAGE.pack(channel.STOP, 0, 0, 0, 0, 0, 0, 0, 0))

    def put(self, kind: int, task: int, payload: Any, with_state: bool = False, turn: int = -1) -> None:
        """`payload`: an index list, or the shared seed of a new epoch. `turn`: what the worker waits for."""
        self._waiting.append((kind, task, payload, with_state, turn))
        self.pump()

    def pump(self) -> None:
        """Sends what waits, as far as there are slots and room in the pipe."""
        ring = self._ring
        while self._waiting and self.outstanding < MOST_OUTSTANDING:
            slot = ring.take()
            if slot < 0:
                return
            kind, task, payload, with_state, turn = self._waiting.popleft()
            try:
                data = pickle.dumps(payload, 5)
                reserved = ring.put(slot, 0, data, ring.reserved(slot))
            except BaseException:
                ring.give_back(slot)
                raise
            ring.set_reserved(slot, reserved)
            if not self.outstanding:
                self.since = time.monotonic()
            self.outstanding += 1
            self.sent.append((task, payload) if kind == channel.TASK else (-1, None))
            message = MESSAGE.pack(kind, slot, task, len(data), reserved, with_state, turn + 1, 0, 0)
            with contextlib.suppress(BrokenPipeError):  # dead: the consumer is told so when it waits
                os.write(self.tasks.fd, message)

    def snapshot(self) -> dict[str, Any]:
        """What it is doing, for dump_state()."""
        sent, process = list(self.sent), self.process
        alive, seconds = process.is_alive(), time.monotonic() - self.since
        entry: dict[str, Any] = {"name": f"process {process.pid}", "pid": process.pid, "alive": alive}
        entry["waiting_tasks"] = max(0, len(sent) - 1)
        if not alive:
            entry["exitcode"] = process.exitcode
        elif sent:
            task, indices = sent[0]
            entry |= {"doing": "sample", "task": task, "indices": indices, "seconds": seconds}
        else:
            entry |= {"doing": "idle", "seconds": seconds}
        return entry

    def answered(self) -> None:
        """One message less is outstanding."""
        self.outstanding -= 1
        self.since = time.monotonic()
        if self.sent:
            self.sent.popleft()

    def close(self) -> None:
        for end in filter(None, (self.tasks, self.answers, self.stacks)):
            channel.parents_ends.discard(end.fd)
            end.close()
        if self.pidfd >= 0:
            channel.parents_ends.discard(self.pidfd)
            os.close(self.pidfd)
            self.pidfd = -1


class Wake:
    """Ends another thread's wait in poll(). Any thread, also beside close()."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.fd = os.eventfd(0)

    def ring(self) -> None:
        with self._lock:
            if self.fd >= 0:
                os.eventfd_write(self.fd, 1)

    def close(self) -> None:
        with self._lock:
            if self.fd >= 0:
                os.close(self.fd)
            self.fd = -1

    def __del__(self) -> None:
        self.close()


class WantOfMemory:
    """Whether the system has killed for want of memory since this was made."""

    def __init__(self) -> None:
        self._before = _core.memory_kills()[0]

    def sentence(self, dead: list[Any]) -> str:
        """What to add to the report of dead workers; empty when it was something else."""
        count, limit = _core.memory_kills()
        if count <= self._before or all(process.exitcode != -signal.SIGKILL for process in dead):
            return ""
        return (
            f". The system killed it for want of memory: {limit}. Use fewer workers, a smaller batch_size or"
            " prefetch_factor, or raise the limit; millrace.frozen() keeps lists of the dataset from being"
            " copied by every worker"
        )


def end_workers(key: int, processes: list[Any]) -> None:
    """Ends processes, all within 10 seconds: they have had their time to end by themselves. Also called when
    the interpreter ends.

    First SIGTERM, which a stopped process (SIGSTOP, a debugger) gets only when it goes on, then SIGKILL.
    multiprocessing sends only the first at the interpreter's end, and then waits for ever. `key`: what
    torch's handler of SIGCHLD knows the processes by; from here on how they end is no error.
    """
    with contextlib.suppress(ValueError):  # it was never told
        _utils.signal_handling._remove_worker_pids(key)
    for number in (signal.SIGTERM, signal.SIGKILL):
        left = [process for process in processes if process.is_alive()]
        if not left:
            return
        for process in left:
            with contextlib.suppress(OSError):
                os.kill(process.pid, number)
                os.kill(process.pid, signal.SIGCONT)
        deadline = time.monotonic() + _PATIENCE_S
        # Not join(): that also waits for what the worker has forked.
        while any(process.is_alive() for process in left) and time.monotonic() < deadline:
            time.sleep(_TICK_S)


def is_stopped(process: Any) -> bool:
    """By a signal or a debugger: it will do nothing that it is told."""
    try:
        with open(f"/proc/{process.pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] in "Tt"
    except OSError:
        return False


def start(process: Any) -> None:
    """process.start(), with torch's advice where its arguments cannot be pickled."""
    try:
        process.start()
    except (TypeError, AttributeError, pickle.PicklingError):
        warnings.warn(
            "Got pickle error when attempting to start a worker Process. "
            "This might be because the worker Process arguments are not picklable. "
            "Python 3.14+ changed the multiprocessing start method in non-Mac POSIX platforms "
            "to 'forkserver', which requires the worker Process arguments to be picklable. "
            "You can also try multiprocessing.set_start_method('fork').",
            stacklevel=2,
        )
        raise
