"""Where the user's Python code spends a worker's time, by looking at its stack now and then.

A StackSampler belongs to one worker: a process, a thread, or the consumer's thread without workers. While it
is entered, around one batch's dataset[i], next() and collate_fn, the stack is looked at about 200 times per
second at first, then 40, at jittered times; each sample counts for the time since the one before, so shares
are unbiased, whatever the batch's rhythm. The profile's clocks measure the total time: snapshot.py divides
their `sample` by these shares.

The main thread of a process looks at itself, in C, between two instructions (python/bindings/stack_looks.h).
Any other is looked at by a thread of ours that needs the GIL for it. That comes free where the user's code
waits or reads, so a sample that came late for want of the GIL and finds a read says only that Python code ran
before: it counts for the frames around. Without a GIL, other threads are not looked at.

User code sees none of it: no signal, no trace function, no thread of `threading`, no change of the
interpreter's settings. The native thread is stopped before os.fork(), and nothing outlives the process: no
lock of ours is held while user code runs.
"""

from __future__ import annotations

import _thread
import atexit
import functools
import json
import os
import random
import threading
import time
from collections import Counter
from types import CodeType
from typing import Any, NamedTuple

from .. import _core
from .._common.interpreter import has_gil
from .._common.torch_private import _utils
from .hotspots import Hotspot, Hotspots, Stack
from .stages import COLLATE, SAMPLE

_SPLIT = ("fetch", "decode", "transform", "sample")

_GAP_S = 0.025
_QUICK_GAP_S, _QUICK_SAMPLES = 0.005, 20  # after so many samples the gap grows with their number
_LATE_S = 0.0005  # a sample this late found the GIL taken
_IDLE_S = 1.0  # after which the looking thread ends
_BLOCKED = 0.1  # share of a CPU
# between two notes, which cost 0.2 ms: at first, and when there has been time to look
_NOTIFY_S, _MOST_TELL_S = 0.05, 0.5
# of short batches; of longer ones the less the longer they are, one if it is long
_PATIENCE_S, _SHORT_S, _LONG_S = 0.5, 0.002, 0.0071
_MOST_HOTSPOTS, _MOST_HOT = 200, 20  # kept, in the note


def _codes_that_call() -> frozenset[CodeType]:
    """Of the fetchers, ours and torch's: whatever they call is the user's."""
    from .._loader.engines import fetchers  # which books its stages, so it imports this package

    ours = fetchers.MapFetcher, fetchers.IterableFetcher, fetchers._Fetcher
    torchs = _utils.fetch._MapDatasetFetcher, _utils.fetch._IterableDatasetFetcher
    return frozenset(
        function.__code__
        for cls in (*ours, *torchs)
        for function in vars(cls).values()
        if hasattr(function, "__code__")
    )


@functools.cache
def prepare() -> frozenset[CodeType]:
    """Once for a process; what a parent has done, the workers that it forks need not."""
    ends = _codes_that_call()
    _core.stack_ends(list(ends))
    os.register_at_fork(before=_core.stack_pause, after_in_child=_begin_anew)
    atexit.register(_core.stack_pause)
    return ends


def _begin_anew() -> None:
    """A forked child is in no stretch, wherever its parent was."""
    global _open
    _open = None


class StackSample(NamedTuple):
    seconds: float  # since the sample before
    busy: float  # share of the wait for it in which the thread had a CPU
    stack: Stack
    ran: bool = (
        False  # it was running Python code when the sample was due, and only later came to where it was seen
    )


class StackSampler:
    """`with sampler:` around one batch's user code, by the worker's own thread; or begin() and end().

    patient: of a worker process, which may be gone soon: the first sample costs it some milliseconds, for a
        thread and for pages that it shared with its parent. So sampling begins after 0.5 s of batches that
        take 2 ms or less, two of 5 ms, or the first of 7 ms; one that only lost its CPU for a moment is not
        taken for a long one.

    The results are written beside the worker's row of the profile, as JSON: "split", the samples' seconds by
    stage, as parts of the clock's `sample`; "cpu", the part of these seconds with a CPU; "hot", [stage,
    where, seconds] of the hottest lines.
    """

    def __init__(self, dataset: Any, clock: _core.StageClock, patient: bool = False) -> None:
        self.clock = clock
        self._on = _core.StageClock.enabled
        if not self._on:
            return
        self._patience = _PATIENCE_S if patient else 0.0
        self._ends = prepare()
        self._dataset = dataset
        self._hotspots: Hotspots | None = None  # made when there is something to say
        self._ident = _thread.get_ident()
        # asked for by the thread itself, while it is sure to live
        self._cpu_clock = time.pthread_getcpuclockid(self._ident)
        self._itself = self._ident == threading.main_thread().ident
        self._on = self._itself or has_gil()  # another thread's frames are fixed only while the GIL is held
        self._samples: list[StackSample] = []  # the looking thread appends
        self._entered = False
        self._notified, self._notify_s = 0.0, _NOTIFY_S
        self._hot: Counter[Hotspot] = Counter()
        self.wall = dict.fromkeys(_SPLIT, 0.0)
        self.cpu = dict.fromkeys(_SPLIT, 0.0)

    def __enter__(self) -> None:
        self.begin()

    def __exit__(self, *_: Any) -> None:
        self.end()

    def begin(self) -> None:
        if not self._on:
            return
        global _open
        if self._patience > 0:
            self._began = time.perf_counter()
        elif not self._itself:
            _sampling_thread().watch(self)
        elif _open is None:  # else a loader inside a dataset: it is part of the outer stretch
            _open = self
            _core.stack_enter()

    def end(self) -> None:
        if not self._on:
            return
        global _open
        if self._patience > 0:
            took = time.perf_counter() - self._began
            self._patience -= took if took <= _SHORT_S else _PATIENCE_S * (took / _LONG_S) ** 2
            return
        if not self._itself:
            _sampling_thread().forget(self)
        elif _open is self:
            _core.stack_leave()
            _open = None
            if taken := _core.stack_take():
                self._samples.extend(StackSample(*sample) for sample in taken)
        if self._samples and time.perf_counter() - self._notified > self._notify_s:
            self.notify()
            self._notify_s = min(_MOST_TELL_S, 1.3 * self._notify_s)

    def tells_in(self) -> float | None:
        """For a worker that has nothing else to do: in how many seconds it should tell(); None: there is
        nothing to tell.
        """
        return (
            max(0.0, self._notified + self._notify_s - time.perf_counter())
            if self._on and self._samples
            else None
        )

    def notify(self) -> None:
        """Counts the samples that were taken, and writes the note."""
        if not self._on or not self._samples:
            return
        try:
            self._count()
            self.clock.write_note(self.note())
        except Exception:  # of code objects that are like none we know: rather no split than no batch
            self._on = False
        self._notified = time.perf_counter()

    def _count(self) -> None:
        samples, self._samples = self._samples, []
        if self._hotspots is None:
            self._hotspots = Hotspots(self._dataset, self._ends)
        for sample in samples:
            if not sample.stack:  # the stretch had ended
                continue
            hotspot = self._hotspots.of(sample.stack, sample.ran, sample.busy < _BLOCKED)
            if hotspot.stage in self.wall:  # else the clock has it
                self.wall[hotspot.stage] += sample.seconds
                self.cpu[hotspot.stage] += sample.seconds * sample.busy
            self._hot[hotspot] += sample.seconds  # type: ignore[assignment]
        if len(self._hot) > _MOST_HOTSPOTS:
            self._hot = Counter(dict(self._hot.most_common(_MOST_HOTSPOTS // 2)))

    def note(self) -> str:
        hot = [
            (hotspot.stage, hotspot.where, round(seconds, 4))
            for hotspot, seconds in self._hot.most_common(_MOST_HOT)
            if hotspot.where
        ]
        while True:
            text = json.dumps({"split": self.wall, "cpu": self.cpu, "hot": hot})
            if len(text) <= _core.NOTE_BYTES or not hot:
                return text
            hot.pop()


_open: StackSampler | None = None  # the one that the main thread has entered


# -------------------------------------------------------------------- threads


class _SamplingThread:
    """Looks at other threads, from a thread that `threading` does not list, so that user code that counts
    threads does not see it.

    Ends when nobody has been watched for a second, and is started again. `_watched` is only replaced or
    changed by atomic operations of a dict; nothing waits for the thread, which the interpreter's end may
    leave where it is.
    """

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._watched: dict[int, StackSampler] = {}
        self._running = False
        self._lock = _thread.allocate_lock()

    def watch(self, sampler: StackSampler) -> None:
        sampler._entered = True
        self._watched[sampler._ident] = sampler
        if not self._running:
            with self._lock:
                if self._running:
                    return
                self._running = True
            try:
                _thread.start_new_thread(self._run, ())
            except RuntimeError:  # no more threads, or the interpreter ends: then nothing is looked at
                self._running = False

    def forget(self, sampler: StackSampler) -> None:
        sampler._entered = False
        self._watched.pop(sampler._ident, None)

    def _run(self) -> None:
        chance = random.Random(time.monotonic_ns())
        clock, count, idle_since, last = time.perf_counter, 0, None, time.perf_counter()
        cpu_before: dict[int, float] = {}
        while True:
            gap = min(_GAP_S, _QUICK_GAP_S * max(1.0, count / _QUICK_SAMPLES)) * (0.5 + chance.random())
            time.sleep(gap)
            now = clock()
            if self._watched:
                idle_since, count = None, count + 1
                cpu_before = self._look(now - last, gap, cpu_before)
            else:
                idle_since = now if idle_since is None else idle_since
                if now - idle_since > _IDLE_S:
                    with self._lock:
                        if not self._watched:
                            self._running = False
                            return
            last = now

    def _look(self, passed: float, gap: float, cpu_before: dict[int, float]) -> dict[int, float]:
        """At each that is watched; CPU seconds by thread. Its variables do not outlive it: a sampler holds a
        dataset.
        """
        watched = list(self._watched.values())
        cpu = {sampler._ident: _cpu_of(sampler) for sampler in watched}
        spent = {ident: used - cpu_before.get(ident, used) for ident, used in cpu.items()}
        late = passed - gap
        # by one of these threads; else the CPUs were
        taken = late > _LATE_S and sum(spent.values()) > 0.5 * late
        for sampler in watched:
            self._sample(sampler, passed, spent[sampler._ident], taken)
        return cpu

    @staticmethod
    def _sample(sampler: StackSampler, seconds: float, cpu: float, taken: bool) -> None:
        if sampler.clock.stage not in (SAMPLE, COLLATE):  # what native code books itself needs no samples
            return
        stack = _core.stack_of_thread(sampler._ident)
        if stack and sampler._entered:
            sampler._samples.append(StackSample(seconds, min(1.0, max(0.0, cpu / seconds)), stack, taken))


def _cpu_of(sampler: StackSampler) -> float:
    try:
        return time.clock_gettime(sampler._cpu_clock)
    except OSError:  # it has ended
        return 0.0


_the_thread: _SamplingThread | None = None


def _sampling_thread() -> _SamplingThread:
    global _the_thread
    if _the_thread is None or _the_thread.pid != os.getpid():
        _the_thread = _SamplingThread()
    return _the_thread
