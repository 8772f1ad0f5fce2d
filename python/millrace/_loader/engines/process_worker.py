"""A worker process: runs the user's dataset, places batches in the ring's slots, answers task by task.

User code sees the same as in torch's workers: seeds of torch, random and numpy, get_worker_info(), one torch
thread, the thread's name, signal handlers, worker_init_fn after all that. Two settings of the process differ,
and can be left alone (docs/python_datasets.md): the memory that malloc keeps, and the score by which the
system chooses a process to kill for want of memory.

A worker ends by a STOP message, the end of the task pipe, or the parent's death: at once between two tasks;
during a task after _GRACE_MS, by SIGKILL from a thread that does not need the interpreter.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pickle
import random
import select
from collections import deque
from dataclasses import dataclass
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy.random  # here, not in each worker: its import takes 11 ms
import torch
from torch.utils.data import IterDataPipe

from ... import _core
from ..._common.batch_place import put_place
from ..._common.torch_private import ExceptionWrapper, _DatasetKind, _utils
from ..._history.draws import DrawWatch, put_back
from ..._history.stacks import write_stacks_to
from ..._pictures.asking import everywhere, look_around
from ..._pictures.counts import PictureCounts
from ..._profiling.stacks import StackSampler
from ..._profiling.stages import IDLE, SAMPLE, SEND, START, clock_on, enter
from . import channel
from .channel import MESSAGE, Descriptor, Parcel, RingHandle, pack_value, write_pickle
from .fetchers import ROWS, Sink, begin_at, make_fetcher, worker_state, wrapped_error
from .prefix import Standing

_GRACE_MS = 2000  # to end by itself when the parent has ended
_PARENT_CHECK_MS = 5000  # without a descriptor of the parent process to wait on
_STOP = (channel.STOP, 0, 0, 0, 0, 0, 0)
_END = object()
_TURN_CHECK_S = 1.0  # a worker that waits for its turn looks for the parent's end so often


@dataclass
class WorkerSetup:
    """All that a worker starts with; pickled unless the worker is forked. Dataset, collate_fn and
    worker_init_fn travel together, so a worker_init_fn that is a method of the dataset acts on the worker's
    copy.
    """

    dataset_kind: int
    dataset: Any
    auto_collation: bool
    collate_fn: Any
    drop_last: bool
    base_seed: int
    began_in: int
    worker_init_fn: Any
    worker_id: int
    num_workers: int
    shared_seed: int | None
    on_error: str
    ring: RingHandle
    tasks: Descriptor
    answers: Descriptor
    parent_pid: int
    state: dict[str, Any] | None = None  # to begin with
    between_epochs: bool = False  # and a new epoch begins there
    watches: bool = False  # the dataset's draws are sent along with each batch
    stacks: Descriptor | None = None  # the worker writes its Python stacks here on request
    draws: Any = None  # the generators' positions at the first batch, if these are not their seeds
    pictures: bool = True  # pictures that the dataset opens wait until it looks at them
    turns: int = -1  # the ring's slot with the tasks' turns
    # the ring's slot with a row for each worker, the number of rows, this worker's row
    board: tuple[int, int, int] = (-1, 0, 0)
    prefix: Standing | None = None  # replaces the dataset


def run_worker(parcel: Parcel) -> None:
    """The process's target."""
    setup: WorkerSetup = parcel.content
    try:
        for fd in channel.parents_ends:
            os.close(fd)
        channel.parents_ends.clear()
        _core.end_with_process(setup.parent_pid, _GRACE_MS)
        _keep_freed_memory()
        _be_killed_first()
        _utils.signal_handling._set_worker_signal_handlers()
        write_stacks_to(setup.stacks)
        torch.multiprocessing._set_thread_name("pt_data_worker")
        torch.set_num_threads(1)
        clock = clock_on(setup.ring.ring, *setup.board)
        clock.attach(START)
        try:
            _Worker(setup, clock).run()
        finally:
            clock.end()
            clock.detach()
    except (KeyboardInterrupt, BrokenPipeError):
        pass  # the parent raises KeyboardInterrupt itself; a broken pipe means that it has gone


def _keep_freed_memory() -> None:
    """Let malloc keep freed memory: samples and batches of one size come and go, and fresh pages cost more
    than the copies.

    Measured with 64 samples of 602 kB: pages that were returned and touched anew took most of a batch's time.
    """
    if os.environ.get("MILLRACE_WORKER_MALLOC") == "0":
        return
    try:
        libc = ctypes.CDLL(None)
        libc.mallopt(-4, 0)  # M_MMAP_MAX: large blocks come from the heap, too
        libc.mallopt(-1, 1 << 29)  # M_TRIM_THRESHOLD: this much may be free at the heap's end
    except (OSError, AttributeError):  # not glibc
        pass


def _be_killed_first() -> None:
    """Make the system kill a worker instead of the training process when memory is short: a worker's death
    has a message.
    """
    if os.environ.get("MILLRACE_WORKER_OOM_SCORE") == "0":
        return
    with contextlib.suppress(OSError):
        with open("/proc/self/oom_score_adj", "r+") as file:
            score = int(file.read())
            file.seek(0)
            file.write(str(min(1000, score + 300)))


class _Worker:
    def __init__(self, setup: WorkerSetup, clock: _core.StageClock) -> None:
        self._setup = setup
        self._clock = clock
        self._dataset = setup.dataset
        self._ring = setup.ring.ring
        self._turns = None if setup.turns < 0 else _core.TurnGate.on(self._ring, setup.turns)
        self._sink = Sink(self._ring)
        self._inbox: deque[tuple] = deque()
        self._layout_sent = -1
        self._state: bytes | None = None  # to send with the present batch
        self._ended = False
        self._watch = DrawWatch() if setup.watches else None
        self._draws: Any = None  # before the present batch
        self._pictures = PictureCounts() if setup.pictures else None
        self._fetcher: Any = None
        # an error at the start of the worker or its epoch, reported instead of batches
        self._failure: ExceptionWrapper | None = None
        self._initialised = False  # worker_init_fn has returned
        self._where = f"in DataLoader worker process {setup.worker_id}"
        os.set_blocking(setup.tasks.fd, False)
        self._poll = select.poll()
        self._poll.register(setup.tasks.fd, select.POLLIN)
        self._parent: int | None = None
        self._starter = os.getppid()  # the parent, or its fork server
        try:
            self._parent = os.pidfd_open(setup.parent_pid)
            self._poll.register(self._parent, select.POLLIN)
        except (AttributeError, OSError):  # an old kernel, or a sandbox
            pass

    # ---------------------------------------------------------------- life

    def run(self) -> None:
        self._seed()
        everywhere(self._pictures)
        self._start_user_code()
        put_back(self._setup.draws)
        self._stacks = StackSampler(self._dataset, self._clock, patient=True)
        while True:
            enter(IDLE)
            kind, slot, task, length, reserved, with_state, turn = self._next_message()[:7]
            if kind == channel.STOP or (turn and not self._turn_comes(turn - 1)):
                return
            enter(SEND)
            self._sink.open(slot, reserved)
            if kind == channel.RESUME:
                self._resume(pickle.loads(self._ring.get(slot, 0, length)))
                self._answer_with_state(channel.RESUMED, slot)
                continue
            if self._ended:
                self._answer(channel.DROPPED, slot, task)
                continue
            self._do(slot, task, length, bool(with_state), bool(turn))

    def _seed(self) -> None:
        setup = self._setup
        seed = setup.base_seed + setup.worker_id
        # as in torch's workers, but an epoch that begins with new workers has draws of its own
        further = setup.began_in * setup.num_workers
        random.seed(seed + further)
        torch.manual_seed(seed + further)
        numpy.random.seed(_utils.worker._generate_state(setup.base_seed + further, setup.worker_id))
        self._shared_rng = torch.Generator()
        self._reseed_pipe(setup.shared_seed)
        _utils.worker._worker_info = _utils.worker.WorkerInfo(
            id=setup.worker_id, num_workers=setup.num_workers, seed=seed, dataset=self._dataset
        )

    def _reseed_pipe(self, shared_seed: int | None) -> None:
        if isinstance(self._dataset, IterDataPipe):
            self._shared_rng.manual_seed(shared_seed or 0)
            self._dataset = torch.utils.data.graph_settings.apply_random_seed(self._dataset, self._shared_rng)

    def _start_user_code(self) -> None:
        try:
            if self._setup.worker_init_fn is not None:
                self._setup.worker_init_fn(self._setup.worker_id)
        except Exception:
            self._failure = self._wrapped()
        else:
            self._initialised = True
            self._make_fetcher()

    def _make_fetcher(self) -> None:
        setup, self._failure = self._setup, None
        try:
            self._fetcher = begin_at(setup.state, setup.between_epochs, self._dataset, self._new_fetcher)
            setup.state = None
        except Exception:  # of the dataset's __iter__
            self._failure = self._wrapped()

    def _new_fetcher(self) -> Any:
        setup, dataset = self._setup, self._dataset
        if setup.prefix is not None:
            dataset = setup.prefix.in_place_of(dataset)
        return make_fetcher(
            setup.dataset_kind,
            dataset,
            setup.auto_collation,
            setup.collate_fn,
            setup.drop_last,
            self._sink,
            setup.on_error,
        )

    def _resume(self, shared_seed: int | None) -> None:
        self._ended = False
        if self._setup.prefix is not None:
            self._setup.prefix.next_epoch()
        self._reseed_pipe(shared_seed)
        if self._initialised:  # else worker_init_fn's error stays; iter() may succeed this time
            self._make_fetcher()

    def _next_message(self) -> tuple:
        while not self._inbox:
            try:
                data = os.read(self._setup.tasks.fd, 64 * MESSAGE.size)
            except BlockingIOError:
                tells_in = self._stacks.tells_in()
                if tells_in is not None and not self._poll.poll(1000 * tells_in):
                    self._stacks.notify()
                if self._parent_is_gone(None if self._parent is not None else _PARENT_CHECK_MS):
                    return _STOP
                continue
            if not data:
                return _STOP
            self._inbox.extend(MESSAGE.iter_unpack(data))
        if self._inbox[-1][0] == channel.STOP:  # nobody waits for the messages before it
            return self._inbox[-1]
        return self._inbox.popleft()

    def _parent_is_gone(self, wait_ms: int | None) -> bool:
        """Whether the parent has ended. Waits up to `wait_ms` for that, or for a message."""
        return any(fd == self._parent for fd, _ in self._poll.poll(wait_ms)) or os.getppid() != self._starter

    def _turn_comes(self, turn: int) -> bool:
        """Wait for a turn; False if the loader or the parent ends."""
        assert self._turns is not None
        while not self._turns.wait(turn % 2**32, _TURN_CHECK_S):
            if self._turns.closed or self._parent_is_gone(0):
                return False
        return True

    # ---------------------------------------------------------------- one task

    def _do(self, slot: int, task: int, length: int, with_state: bool, in_turn: bool) -> None:
        self._state = self._draws = None
        try:
            value = self._fetched(slot, length, with_state)
        finally:
            if in_turn:
                self._turns.end()  # type: ignore[union-attr]
        if value is _END:
            self._ended = True
            self._answer_with_state(channel.ENDED, slot, task)
            return
        try:
            self._send(slot, task, value)
        except BrokenPipeError:
            raise
        except (
            Exception
        ):  # of pickling, or for want of memory: an error like any other, and the batch is lost
            self._sink.samples = 0
            self._send(slot, task, self._wrapped())

    def _fetched(self, slot: int, length: int, with_state: bool) -> Any:
        """The batch, or an error instead of it; _END if the dataset's iterator has ended."""
        if self._failure is not None:
            self._sink.samples = 0
            return self._failure
        index, place = pickle.loads(self._ring.get(slot, 0, length))
        put_place(place)
        watch = self._watch
        try:
            enter(SAMPLE)
            if self._pictures is not None:
                look_around()
            self._draws = None if watch is None else watch.before()
            with self._stacks:
                value = self._fetcher.fetch(index)
            if watch is not None:
                self._draws = watch.after(self._draws)
            enter(SEND)
        except Exception as error:
            enter(SEND)
            if isinstance(error, StopIteration) and self._setup.dataset_kind == _DatasetKind.Iterable:
                return _END
            self._sink.samples = 0
            return self._wrapped()
        if with_state:
            self._state = self._worker_state()
        return value

    def _answer_with_state(self, kind: int, slot: int, task: int = 0) -> None:
        state, length = None if self._failure is not None else self._worker_state(), 0
        if state is not None:
            length, self._sink.reserved = len(state), self._ring.put(slot, 0, state, self._sink.reserved)
        self._answer(kind, slot, task, 0, length)

    def _worker_state(self) -> bytes | None:
        """Return the dataset's state in this worker; None if it has none. An error in getting the state is an
        error of state_dict(), not of a batch.

        Pickled as for a file: torch's pickler for processes would make a shared file of every tensor, and
        keep it open here.
        """
        try:
            state = worker_state(self._setup.worker_id, self._fetcher)
            return None if state is None else pickle.dumps(state, 5)
        except Exception:
            return pickle.dumps(self._wrapped(), 5)

    def _wrapped(self) -> ExceptionWrapper:
        wrapper = wrapped_error(self._where)
        try:
            ForkingPickler.dumps(wrapper)
        except Exception:  # a class that the other side could not find
            wrapper.exc_type = RuntimeError
        return wrapper

    def _send(self, slot: int, task: int, value: Any) -> None:
        sink, ring = self._sink, self._ring
        draws = None if self._draws is None else pickle.dumps(self._draws, 5)
        pictures = None if self._pictures is None else self._pictures.news()
        notes = sink.errors, self._state, draws, pictures
        if value is ROWS:
            writer: Any = sink.writer
            begin, length = writer.used_bytes, 0
            objects = writer.objects() or None
            if writer.layout_number != self._layout_sent or objects is not None or any(notes):
                layout = None if writer.layout_number == self._layout_sent else writer.layout()
                end, _ = write_pickle(sink, begin, (layout, objects, *notes))
                if end > ring.stride:
                    raise OverflowError(f"a batch of {end} bytes is longer than a slot of the shared ring")
                length = end - begin
                self._layout_sent = writer.layout_number
            self._answer(channel.ROWS, slot, task, begin, length)
            return
        packed = pack_value(sink, (value, *notes))
        if packed is not None:
            self._answer(channel.TREE, slot, task, *packed)
            return
        data = ForkingPickler.dumps((value, *notes))  # torch's own way: tensors in files of their own
        sink.reserved = ring.put(slot, 0, data, sink.reserved)
        self._answer(channel.INLINE, slot, task, 0, len(data))

    def _answer(self, kind: int, slot: int, task: int = 0, begin: int = 0, length: int = 0) -> None:
        sink = self._sink
        if kind in (channel.ROWS, channel.TREE, channel.INLINE):
            self._clock.count_made()
        os.write(
            self._setup.answers.fd,
            MESSAGE.pack(kind, slot, task, begin, length, sink.reserved, sink.samples, 0, 0),
        )
