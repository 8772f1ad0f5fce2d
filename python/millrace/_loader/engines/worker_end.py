"""The parent's end of one worker process: starts it, and reads its results from slots, as Answers (with
tensors over the slot where that is possible).

A process that is spawned, or forked by multiprocessing's server, reads its setup from a pipe that its parent
fills. A dataset larger than the pipe's buffer would block the parent, and the start of the next worker, until
that process has imported torch. So the dataset travels in memory of its own (Parcel, in channel.py). And the
server imports torch and millrace once, instead of each worker (preload()); it lives as long as the training
process, so later epochs and other loaders find it warm.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import signal
import threading
import time
import warnings
from collections import deque
from multiprocessing import forkserver
from typing import Any

import torch

from ... import _core
from ..._common.devices import locks_for, numa_node
from ..._common.torch_private import ExceptionWrapper, _utils
from ..._pictures.counts import add
from ..._profiling.stages import COPY, during
from ..engine import Setup
from . import channel
from .channel import MESSAGE, Descriptor, Layout, read_pickle, unpack_value
from .workers import Answer

MOST_OUTSTANDING = 64  # messages in a pipe; its buffer may be a single page
_PATIENCE_S = _utils.MP_STATUS_CHECK_INTERVAL
_TICK_S = 0.005
#: The server's imports. A module that the server cannot find is imported by each worker.
PRELOADED = ("torch", "millrace._loader.engines.process_worker")


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
        self._ended = False

    def has_ended(self) -> bool:
        """Whether the process has ended; once True, always True. Uses the pidfd if there is one: is_alive()
        notices the end of a process from multiprocessing's server later, and never notices it after another
        thread has waited for the process.
        """
        if not self._ended:
            self._ended = is_readable(self.pidfd) if self.pidfd >= 0 else not self.process.is_alive()
        return self._ended

    def stop(self) -> None:
        """Tell the worker to end."""
        with contextlib.suppress(BrokenPipeError, BlockingIOError):  # it has ended, or is terminated later
            os.set_blocking(self.tasks.fd, False)
            os.write(self.tasks.fd, MESSAGE.pack(channel.STOP, 0, 0, 0, 0, 0, 0, 0, 0))

    def put(self, kind: int, task: int, payload: Any, with_state: bool = False, turn: int = -1) -> None:
        """Send a message when possible. `payload`: an index list and the place of its batch, or the shared
        seed of a new epoch. `turn`: the worker waits for this turn.
        """
        self._waiting.append((kind, task, payload, with_state, turn))
        self.pump()

    def pump(self) -> None:
        """Send waiting messages, as long as there are slots and room in the pipe."""
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
            with contextlib.suppress(BrokenPipeError):  # a dead worker: the consumer learns it when it waits
                os.write(self.tasks.fd, message)

    def snapshot(self) -> dict[str, Any]:
        """The worker's present activity, for dump_state()."""
        sent, process = list(self.sent), self.process
        alive, seconds = process.is_alive(), time.monotonic() - self.since
        entry: dict[str, Any] = {"name": f"process {process.pid}", "pid": process.pid, "alive": alive}
        entry["waiting_tasks"] = max(0, len(sent) - 1)
        if not alive:
            entry["exitcode"] = process.exitcode
        elif sent:
            task, (indices, _) = sent[0]
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
    """Ends another thread's wait in poll(). Any thread may ring(), also during close()."""

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


def want_of_memory(kills_before: int, dead: list[Any]) -> str:
    """Text for the report of dead workers, if the system has killed for want of memory since they began;
    empty if they died of something else.
    """
    count, limit = _core.memory_kills()
    if count <= kills_before:
        return ""
    for process in dead:
        process.join(_PATIENCE_S)  # until multiprocessing's server has reported how it ended
    if all(process.exitcode != -signal.SIGKILL for process in dead):
        return ""
    return (
        f". The system killed it for want of memory: {limit}. Use fewer workers, a smaller batch_size or"
        " prefetch_factor, or raise the limit; millrace.frozen() keeps lists of the dataset from being"
        " copied by every worker"
    )


def forget_deaths(key: int) -> None:
    """Make the end of these workers no error from now on. `key`: their key in torch's handler of SIGCHLD."""
    with contextlib.suppress(ValueError):  # the handler never knew them, or has forgotten them
        _utils.signal_handling._remove_worker_pids(key)


def end_workers(key: int, processes: list[Any]) -> None:
    """End processes, all within 10 seconds: they have had their time to end by themselves. Also called when
    the interpreter ends.

    First SIGTERM, which a stopped process (SIGSTOP, a debugger) gets only when it goes on, then SIGKILL.
    multiprocessing sends only the first at the interpreter's end, and then waits for ever. `key`: as
    forget_deaths() takes it.
    """
    forget_deaths(key)
    for number in (signal.SIGTERM, signal.SIGKILL):
        left = [process for process in processes if process.is_alive()]
        if not left:
            return
        for process in left:
            with contextlib.suppress(OSError):
                os.kill(process.pid, number)
                os.kill(process.pid, signal.SIGCONT)
        deadline = time.monotonic() + _PATIENCE_S
        # Not join(): that also waits for processes that the worker has forked.
        while any(process.is_alive() for process in left) and time.monotonic() < deadline:
            time.sleep(_TICK_S)


def is_readable(fd: int) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(0))


def is_stopped(process: Any) -> bool:
    """Whether a signal or a debugger has stopped the process: then it obeys no message."""
    try:
        with open(f"/proc/{process.pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] in "Tt"
    except OSError:
        return False


class SlotReader:
    """Reads batches from slots. A slot is free again when its batch does not use it any more: at once, or
    with the last tensor. If the ring is crowded, batches are copied out of it.
    """

    def __init__(
        self, ring: _core.SharedRing, working_set: int, setup: Setup, counters: dict[str, Any]
    ) -> None:
        self._ring, self._working_set, self._counters = ring, working_set, counters
        self._locks_for: Any = locks_for(setup.loader)
        if self._locks_for is not None:
            ring.prefer_node(numa_node(self._locks_for))
        # With `_locks_for`, the slots are page-locked instead.
        self._pin_device = setup.pin_device if self._locks_for is None else None

    def answer(self, end: WorkerEnd, kind: int, slot: int, begin: int, length: int, samples: int) -> Answer:
        """`begin`, `length`: of the pickle in the slot; see channel.py."""
        copy = self._ring.crowded(self._working_set)
        if self._locks_for is not None and not copy:
            self._lock_pages(slot)
        self._counters["overflow_slots"] += copy
        self._counters["bytes"] += begin
        errors: list[dict[str, Any]] = []
        state, draws = None, None
        try:
            batch, errors, state, draws, pictures = self._batch(
                end, kind, self._lease(end, kind, slot, begin, length), begin, length, samples, copy
            )
            if pictures is not None:
                add(self._counters["pictures"], pictures)
        except Exception:  # torch's queue would raise it from get()
            batch = ExceptionWrapper(where="while its batch was taken from a worker process")
        if self._pin_device is not None and not isinstance(batch, ExceptionWrapper):
            batch = self._pinned(batch)
        return Answer(samples, errors, batch, state_of_worker(state) if state else None, draws)

    def _lease(self, end: WorkerEnd, kind: int, slot: int, begin: int, length: int) -> _core.SlotLease:
        """Lease a slot. OSError if there is no address space for the batch: then the batch is lost, but not
        the layout, which the worker sends only once.
        """
        try:
            return self._ring.lease(slot)
        except OSError:
            try:
                if kind == channel.ROWS and length:
                    description = pickle.loads(self._ring.get(slot, begin, length))[0]
                    if description is not None:
                        end.layout = Layout(description)
            finally:
                self._ring.give_back(slot)
            raise

    def _lock_pages(self, slot: int) -> None:
        """Page-lock a slot, so that copies to the device read the slot itself."""
        if failure := self._ring.lock_pages(slot, self._locks_for):
            self._locks_for = None
            warnings.warn(
                "batches are copied once more on their way to the device, because their memory could not be"
                f" page-locked: {failure}. Raise the limit (ulimit -l), or use a smaller batch_size or"
                " prefetch_factor",
                stacklevel=5,
            )

    def _batch(
        self,
        end: WorkerEnd,
        kind: int,
        lease: _core.SlotLease,
        begin: int,
        length: int,
        samples: int,
        copy: bool,
    ) -> tuple[Any, list[dict[str, Any]], Any, Any, Any]:
        """(batch, entries of the samples replaced in it, the worker's pickled state, the draws before it,
        news of pictures)

        The slot is free again when the batch does not use it any more: at the end of this, or with the last
        tensor.
        """
        if kind != channel.ROWS:
            return (
                unpack_value(lease, begin, length, copy)
                if kind == channel.TREE
                else read_pickle(lease, begin, length)
            )
        description, objects, errors, state, draws, pictures = None, None, [], None, None, None
        if length:
            try:
                description, objects, errors, state, draws, pictures = read_pickle(lease, begin, length)
            except Exception:
                end.layout = None  # the layout that was to replace it is lost
                raise
        if description is not None:
            end.layout = Layout(description)  # until the worker sends another: it answers in order
        return end.layout.batch(lease, samples, objects, copy), errors, state, draws, pictures

    def _pinned(self, batch: Any) -> Any:
        try:
            with during(COPY):
                return _utils.pin_memory.pin_memory(batch, self._pin_device)
        except Exception:
            return ExceptionWrapper(
                where=f"in pin memory thread for device {torch.accelerator.current_device_index()}"
            )


def state_of_worker(data: bytes) -> Any:
    """A worker's state; an error in unpickling it is an error of state_dict(), not of a batch."""
    try:
        return pickle.loads(data)
    except Exception:
        return ExceptionWrapper(where="while the state of its dataset was taken from a worker process")


def preload(context: Any) -> None:
    """Let multiprocessing's server import PRELOADED when it starts, if these workers come from it.

    A server that runs already stays as it is: its workers import torch themselves, as torch's workers do.
    """
    if context.get_start_method() != "forkserver":
        return
    server = getattr(forkserver, "_forkserver", None)
    chosen = list(getattr(server, "_preload_modules", ["__main__"]) or [])
    further = [name for name in PRELOADED if name not in chosen]
    if further:
        forkserver.set_forkserver_preload(chosen + further)


def start(process: Any) -> None:
    """process.start(), with torch's advice if its arguments cannot be pickled."""
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
