"""The iterator: index lists go to an engine, batches come back, in torch's order and with torch's draws.

    sampler ─▶ cursor ─▶ engine.submit() ... engine.next() ─▶ progress.delivered() ─▶ the training loop

One body, and two shells that derive from torch's two iterator classes, because frameworks test for these.
Listeners of a run get four events (src/README.md). Calls in each step cost time, so there are few.

One consumer thread at a time may use an iterator, in the process that made it. Only that thread advances the
sampler. The last batch, `_shutdown_workers()`, garbage collection or the interpreter's exit, whichever comes
first, closes the engine. Each may come twice, on a half-built iterator, or in a forked child (which does
nothing). Another thread may call `_shutdown_workers()` during next(): the engine wakes the consumer
(engine.py); `_shutdown` is set before, so the consumer then knows why.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from time import perf_counter
from typing import Any, NoReturn

from torch import is_inference_mode_enabled

from .. import _core
from .._common.moment import as_taken, bare
from .._common.torch_private import (
    _BaseDataLoaderIter,
    _is_any_autocast_enabled,
    _len_torch_function_stack,
    _MultiProcessingDataLoaderIter,
    _SingleProcessDataLoaderIter,
    _utils,
)
from .._profiling.stages import COPY, HANDOVER, during
from .engine import (
    Delivered,
    Engine,
    EngineSpec,
    NeedsIndex,
    RunRecord,
    Setup,
    batch_memory,
    close_at_exit,
    closed_error,
    leave_if_ending,
)
from .states import CursorSampler, Progress, put_ended_back

_MOST_AT_ONCE = 64  # further index lists drawn between two batches, for engines that read ahead


def _has_contexts() -> bool:
    """Whether one of the contexts of moment.py is active now."""
    return is_inference_mode_enabled() or _len_torch_function_stack() > 0 or _is_any_autocast_enabled()


class LoaderIterator(_BaseDataLoaderIter):
    """The body. Order at the start: the sampler's iter(), the base seed's draw, the engine."""

    torchs_class: type
    _before_draws: Callable[[Any], None]
    _check_arguments: Callable[[Any], None]
    _with_work: Callable[[], Engine | None]
    """Returns the engine, open, with an index list to make a batch of; None: no index list is left."""
    _draws_late = False  # whether each index list is drawn when its batch is requested

    def __init__(self, loader: Any, spec: EngineSpec, record: RunRecord, progress: Progress) -> None:
        self._shutdown = False  # first of all: __del__ runs even when the rest raises
        self._engine: Engine | None = None
        self._owner_pid = os.getpid()
        self._workers: list[Any] = []
        self._spec, self._record, self._progress = spec, record, progress
        self._ended = False
        self._ahead = record.engine != "inline"  # whether batches are made before they are taken
        self._apart = False  # whether a context is active now that such batches do not belong to
        self._follows_forks = not (self._ahead or spec.native)  # whether a forked child may go on
        # Called with each batch and the time of its request; with (None, None) after an error.
        self._heard: list[Callable[[Any, float | None], None]] = []
        self._enter, self._leave = record.profiler.begin, record.profiler.leave
        self._lazy = spec.native and not progress.streams
        progress.prepare(spec)
        self._before_draws(loader)
        _BaseDataLoaderIter.__init__(self, loader)
        self._check_arguments(loader)
        progress.begun(self)
        self._persistent_workers = progress.keeps_workers
        record.seed, record.epoch = int(self._base_seed), progress.epoch
        # The profiler's range is named after the class that torch's users know.
        self._profile_name = f"enumerate(DataLoader)#{self.torchs_class.__name__}.__next__"
        self.millrace_on_device = spec.place is not None
        self._on_error = loader.on_error if spec.leaves_out else "raise"
        if self._on_error == "skip":
            progress.left_out = record.left_out
        self._draws_ahead = self._num_workers > 0 and self._on_error != "skip"

    def _setup(self, loader: Any) -> Setup:
        return Setup(
            loader=loader,
            dataset=self._dataset,
            threads=int(self._num_workers),
            on_error=self._on_error,
            base_seed=int(self._base_seed),
            shared_seed=self._shared_seed,
            world=(self._world_size, self._rank),
            progress=self._progress,
            record=self._record,
            memory=batch_memory(loader),
            pin_device=self._pin_memory_device if self._pin_memory else None,
        )

    def _open(self, setup: Setup) -> Engine:
        record = self._record
        # Forked processes inherit the consumer's contexts, like torch's workers; without workers, the dataset
        # runs in these contexts.
        apart = self._spec.native or record.engine == "threads"
        opens = self._spec.open
        engine = self._engine = bare(opens, setup) if apart and _has_contexts() else opens(setup)
        self._workers, self._shutdown = engine.workers, False
        record.opened(engine)
        close_at_exit(self)
        return engine

    def _listen(self) -> None:
        """List the functions to call with each batch of the epoch."""
        tuning, log = self._record.tuning, self._progress.log
        self._heard = [] if tuning is None else [tuning.delivered]
        if log is not None and log.recorder.hashes:
            self._heard.append(log.hash)

    # ---------------------------------------------------------------- index lists

    def _submit_all(self, engine: Engine) -> None:
        """Submit the whole epoch: on_error="skip" takes samples from its end, so all lists must be known."""
        lists, rows = [*self._sampler_iter], self._progress.left_out_before
        while rows > 0 and lists:
            last = lists.pop()
            if len(last) > rows:
                lists.append(last[: len(last) - rows])
            rows -= len(last)
        for index in lists:
            bare(engine.submit, index) if self._apart else engine.submit(index)
        engine.end_epoch()

    def _check_owner(self) -> None:
        if os.getpid() != self._owner_pid:
            raise RuntimeError(
                f"this iterator belongs to process {self._owner_pid}; its threads did not follow the"
                f" fork into process {os.getpid()}. Make a new iterator here: iter(loader)"
            )

    # ---------------------------------------------------------------- batches

    def __next__(self) -> Any:
        heard, before = self._heard, self._enter(HANDOVER)
        asked = perf_counter() if heard else None
        try:
            # torch's __next__ puts the profiler's range around it, which is half of its cost.
            torchs = self._sampler_iter is None or self._IterableDataset_len_called is not None
            if torchs or _core.ranges_are_heard():
                batch = super().__next__()
            else:
                batch = self._next_data()
                self._num_yielded += 1
            for delivered in heard:
                delivered(batch, asked)
            return batch
        except BaseException as error:
            for delivered in heard:
                delivered(None, None)
            if isinstance(error, StopIteration):
                self._progress.finish()
                self._record.profiler.finish(before)
            elif isinstance(error, Exception):
                leave_if_ending()
            elif isinstance(error, (KeyboardInterrupt, SystemExit)) and self._spec.native:
                # Threads end with Ctrl-C, like torch's workers: the traceback may keep the iterator for long.
                if self._num_workers > 0 or self._progress.streams:
                    self._shutdown_workers()
            raise
        finally:
            self._leave(before)

    def _next_data(self) -> Any:
        if not self._follows_forks and os.getpid() != self._owner_pid:
            self._check_owner()
        if self._ended:
            raise StopIteration
        apart = self._apart = self._ahead and (  # _has_contexts(), without its call in each step
            is_inference_mode_enabled() or _len_torch_function_stack() > 0 or _is_any_autocast_enabled()
        )
        engine = self._engine
        if engine is None or self._shutdown or self._draws_late:
            if (engine := self._with_work()) is None:
                self._end()
        while isinstance(
            delivered := bare(engine.next, self._timeout) if apart else engine.next(self._timeout), NeedsIndex
        ):
            self._put_index()
        if delivered is None:
            if self._shutdown:
                raise closed_error()
            self._end()
        self._progress.delivered(delivered)
        if self._draws_ahead and self._put_index() and engine.lists_ahead:
            self._draw_further(engine)
        if delivered.error is None and delivered.finish is None:
            batch = delivered.batch
        else:
            batch = bare(delivered.value) if apart else delivered.value()
        if self._pin_memory and self._engine is not None and not self._engine.pins:
            with during(COPY):
                batch = _utils.pin_memory.pin_memory(batch, self._pin_memory_device)
        if apart and is_inference_mode_enabled():  # torch pins in a thread, which is not in it
            return as_taken(batch, not self._pin_memory)
        return batch

    def _draw_further(self, engine: Engine) -> None:
        """Draw further lists, a few in each step: drawing them all at once would delay the first batch."""
        out = engine.outstanding
        for _ in range(min(engine.lists_ahead - out, out, _MOST_AT_ONCE)):
            if not self._put_index():
                break

    def _put_index(self) -> bool:
        """Draw and submit one index list. Returns whether there was one."""
        try:
            index = next(self._sampler_iter)
        except StopIteration:
            return False
        if (engine := self._engine) is not None:  # else another thread has closed it
            bare(engine.submit, index) if self._apart else engine.submit(index)
        return engine is not None

    def _end(self) -> NoReturn:
        self._ended = True
        if not self._persistent_workers or self._num_workers == 0:
            self._shutdown_workers()
        raise StopIteration

    def _drop_steps(self) -> None:
        """Make and drop the batches between the state's snapshot and the step it names."""
        count = self._progress.steps_to_drop()
        for _ in range(count):
            try:
                next(self)
            except StopIteration:
                break
            except Exception:  # the consumer had it the first time
                continue
        if count and self._engine is not None:
            self._engine.uncount()

    # ---------------------------------------------------------------- the end

    def _shutdown_workers(self) -> None:
        engine = self._engine
        if self._shutdown or engine is None or os.getpid() != self._owner_pid:
            return
        self._shutdown = True
        self._record.ended(engine)
        if engine.fetcher is None:
            self._engine = None

    def __del__(self) -> None:
        fetcher = None if self._engine is None else self._engine.fetcher
        if fetcher is not None:
            try:  # without this module's variables, which may be gone when the interpreter ends
                self._progress.ends_inline(fetcher)
            except Exception:
                pass  # a dataset that cannot tell its position raises in state_dict()
        self._shutdown_workers()


class InlineIterator(LoaderIterator, _SingleProcessDataLoaderIter):
    """num_workers=0, and streams: each list is drawn when its batch is requested."""

    torchs_class = _SingleProcessDataLoaderIter
    _draws_late = True

    def __init__(self, loader: Any, spec: EngineSpec, record: RunRecord, progress: Progress) -> None:
        super().__init__(loader, spec, record, progress)
        self._sampler_iter = progress.cursor(self._index_sampler, self._sampler_iter)
        self._listen()
        self._num_yielded = progress.yielded
        self._submitted = False
        self._first: Setup | None = self._setup(loader)
        if not self._lazy:
            engine = self._begin()
            if engine.fetcher is not None:
                progress.runs_inline(engine)
            self._drop_steps()

    def _before_draws(self, loader: Any) -> None:
        if not self._lazy:
            put_ended_back(loader.dataset, self._progress.saved)

    def _check_arguments(self, loader: Any) -> None:
        if self._timeout != 0:
            raise AssertionError("_SingleProcessDataLoaderIter requires timeout == 0")
        if self._num_workers != 0:
            raise AssertionError("_SingleProcessDataLoaderIter requires num_workers == 0")

    def _begin(self) -> Engine:
        if self._first is None:  # another thread has closed the engine
            raise closed_error()
        engine, self._first = self._open(self._first), None
        engine.start_epoch(int(self._base_seed), self._record.epoch)
        return engine

    def _with_work(self) -> Engine | None:
        engine = self._engine
        if self._on_error == "skip":
            engine = engine or self._begin()
            if not self._submitted:
                self._submitted = True
                self._submit_all(engine)
        elif engine is None or engine.outstanding == 0:
            if engine is None and self._first is None:
                raise closed_error()
            if self._sampler_iter.ahead and self._progress.lost_one():
                self._progress.delivered(Delivered(None))
            try:
                index = next(self._sampler_iter)
            except StopIteration:
                return None
            engine = self._engine or self._begin()  # another thread may have closed it meanwhile
            engine.submit(index)
        return engine


class WorkerIterator(LoaderIterator, _MultiProcessingDataLoaderIter):
    """num_workers > 0: draws `prefetch_factor * num_workers` lists at an epoch's start, then one more before
    it returns a batch or raises an error, as torch's loader would have sent them.
    """

    torchs_class = _MultiProcessingDataLoaderIter

    def __init__(self, loader: Any, spec: EngineSpec, record: RunRecord, progress: Progress) -> None:
        super().__init__(loader, spec, record, progress)
        self._in_order, self._prefetch_factor = loader.in_order, loader.prefetch_factor
        self._worker_pids_set = False
        self._open(self._setup(loader))
        self._index_sampler = CursorSampler(self._index_sampler, progress.cursor)
        self._reset(loader, first_iter=True)

    def _before_draws(self, loader: Any) -> None:
        if not self._spec.native:
            self._progress.workers_begin(loader.dataset, resumes=True)

    def _check_arguments(self, loader: Any) -> None:
        if self._num_workers <= 0:
            raise AssertionError("num_workers must be greater than 0 for MultiProcessingDataLoaderIter")
        if loader.prefetch_factor <= 0:
            raise AssertionError("prefetch_factor must be greater than 0 for MultiProcessingDataLoaderIter")

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        record, progress = self._record, self._progress
        stays = not first_iter and self._engine is not None and os.getpid() == self._owner_pid
        if not first_iter:
            if not stays:
                record.live = None  # that engine was closed, or belongs to a parent process
            if not self._spec.native:
                self._check_owner()
                progress.workers_begin(loader.dataset, resumes=False)
            record.epoch += 1
            progress.epoch = record.epoch
        with record.profiler.starting(record.stats() if stays else None, first_iter):
            _BaseDataLoaderIter._reset(self, loader, first_iter)
            self._listen()
            self._num_yielded, self._ended = progress.yielded, False
            if not first_iter and not stays:  # after an interrupt, or in a forked child: opens its own engine
                self._owner_pid = os.getpid()
                self._open(self._setup(loader))
            if self._engine is not None:
                self._begin_epoch(self._engine)
            if first_iter:
                self._drop_steps()

    def _begin_epoch(self, engine: Engine) -> None:
        self._apart = _has_contexts()
        beginning = int(self._base_seed), self._record.epoch, self._shared_seed
        bare(engine.start_epoch, *beginning) if self._apart else engine.start_epoch(*beginning)
        if self._on_error == "skip":
            self._submit_all(engine)
            return
        for _ in range(self._prefetch_factor * self._num_workers):
            if not self._put_index():
                break

    def _with_work(self) -> NoReturn:
        if not self._shutdown:
            raise closed_error()
        raise AssertionError(
            "Invalid iterator state: shutdown or no outstanding tasks when fetching next data"
        )


def iterator_over(loader: Any, spec: EngineSpec, record: RunRecord, progress: Progress) -> LoaderIterator:
    shell = InlineIterator if loader.num_workers == 0 else WorkerIterator
    return shell(loader, spec, record, progress)
