"""Iterators over a native engine, as torch's users and frameworks expect iterators of a DataLoader to be.

They derive from torch's two iterator classes, because frameworks test for these, and take from them what
happens around a batch: the sampler, the draws, the profiler's range, the counts. Batches come from the job's
engine instead of worker processes.

Who may touch an iterator: one consumer thread at a time, in the process that made it. The sampler is advanced
in it only.
How it ends: the last batch, `_shutdown_workers()`, garbage collection or the interpreter's exit, whichever
comes first, closes the engine and joins its threads. Each may come twice, on a half-built iterator, or in a
forked child, where the engine's threads do not exist and nothing is done. `_shutdown_workers()` may come from
another thread beside next(): the engine's close() wakes the consumer and waits until it is out of the engine
(endings.py); `_shutdown` is set before, so the consumer then knows why.
"""

from __future__ import annotations

import os
from collections import deque
from typing import Any, NoReturn

from torch.utils.data import _utils
from torch.utils.data.dataloader import (
    _BaseDataLoaderIter,
    _MultiProcessingDataLoaderIter,
    _SingleProcessDataLoaderIter,
)

from .._common.data_parallel import rank_of
from .._common.devices import batch_memory
from .._profiling.counters import thread_rows
from .._profiling.stages import COPY, HANDOVER, during, recorded, recording
from .._tools.history.draws import DrawWatch
from .endings import close_at_exit, closed_error, leave_if_ending
from .engines.backfill import drop_last
from .engines.torchs_next import TorchsNext
from .plan import Engine, Job
from .run_record import RunRecord
from .states import CursorSampler, Progress

_MOST_AT_ONCE = 64  # further index lists drawn between two batches, for engines that read ahead


class _NativeIter(TorchsNext):
    """Mixin before one of torch's iterators: an engine, opened once and closed once.

    Order of `_begin`: torch's `iter(index sampler)`, then the base seed's draw.
    """

    def _begin(self, loader: Any, job: Job, record: RunRecord, progress: Progress, torch_class: type) -> None:
        # First of all: __del__ runs even when the rest raises.
        self._shutdown = False
        self._engine: Engine | None = None
        self._record = record
        self._owner_pid = os.getpid()
        self._workers: list[Any] = []
        self._progress = progress
        progress.as_arrays = True
        progress.prepare()
        _BaseDataLoaderIter.__init__(self, loader)  # type: ignore[arg-type]
        progress.begun(self)
        self._profile_name = f"enumerate(DataLoader)#{torch_class.__name__}.__next__"
        self._job = job
        self._rank = rank_of(loader)
        self.millrace_on_device = job.on_device
        self._batch_size = loader.batch_size or getattr(loader.batch_sampler, "batch_size", None)
        self._on_error = loader.on_error if job.leaves_out else "raise"
        self._memory = batch_memory(loader)
        record.seed, record.epoch = self._base_seed, progress.epoch
        if self._on_error == "skip":
            progress.left_out = record.left_out

    def _open(self, threads: int) -> Engine:
        engine = self._job.open(threads, self._batch_size, self._on_error, self._drop_last, self._memory)
        engine.start_epoch(self._base_seed, self._record.epoch)
        if self._job.counts_occurrences and (before := self._progress.indices_before()) is not None:
            engine.skip(self._job.rows(before))
        self._engine, self._shutdown = engine, False
        self._record.live = engine.stats
        last = "device thread" if self._job.on_device else None
        self._record.profiler.watch(lambda: thread_rows(engine.clocks(), last))
        close_at_exit(self)
        if self._record.tuning is not None:
            self._record.tuning.attach(engine.set_limits, self._record)
        return engine

    def _next_of(self, engine: Engine, timeout: float) -> Any:
        """engine.next(timeout), which tells the profile itself what it does; torch's profiler is told
        here.
        """
        if not recording():
            return engine.next(timeout)
        with recorded("wait" if self._num_workers else "make"):  # type: ignore[attr-defined]
            return engine.next(timeout)

    def _submit_all(self) -> None:
        """on_error="skip" fills holes from the epoch's end, which must therefore be known at its start."""
        for index in drop_last(list(self._sampler_iter), self._progress.left_out_before):
            self._engine.submit(self._job.rows(index))
        self._engine.end_epoch()

    def _check_owner(self) -> None:
        if os.getpid() != self._owner_pid:
            raise RuntimeError(
                f"this iterator belongs to process {self._owner_pid}; its threads did not follow the fork"
                f" into process {os.getpid()}. Make a new iterator here: iter(loader)"
            )

    def __next__(self) -> Any:
        profiler, tuning = self._record.profiler, self._record.tuning
        before = profiler.begin(HANDOVER)
        try:
            batch = self._torchs_next() if tuning is None else tuning.next(self._torchs_next)
            if self._progress.log is not None:
                self._progress.log.hash(batch)
            return batch
        except StopIteration:
            self._progress.finish()
            profiler.finish(before)
            raise
        except Exception:
            if self._shutdown:
                leave_if_ending()
            raise
        finally:
            profiler.leave(before)

    def _keys(self) -> Any:
        """Which samples the batch came to be made of, for the history recorder; None where the index list
        says
        it.
        """
        engine = self._engine
        return (
            engine.keys
            if engine is not None and self._job.leaves_out and self._progress.log is not None
            else None
        )

    def _batch(self, made: Any, step: int = -1) -> Any:
        """`step`: of the epoch, where a collate_fn in Python draws as in a worker; -1: from the global
        generators.
        """
        batch = self._job.collated(made)
        if (collate := self._job.python_collate) is not None:
            place = (self._base_seed, self._record.epoch, step, self._rank)
            batch = collate(batch) if step < 0 else collate.seeded(batch, *place)
        if not self._pin_memory or self._job.on_device:
            return batch
        with during(COPY):
            return _utils.pin_memory.pin_memory(batch, self._pin_memory_device)

    def _shutdown_workers(self) -> None:
        if self._shutdown or os.getpid() != self._owner_pid:
            return
        self._shutdown = True
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.close()
            self._record.freeze()

    def __del__(self) -> None:
        self._shutdown_workers()


class NativeInlineIter(_NativeIter, _SingleProcessDataLoaderIter):
    """num_workers=0: every batch is asked for and made inside next(), in the calling thread."""

    def __init__(self, loader: Any, job: Job, record: RunRecord, progress: Progress) -> None:
        self._begin(loader, job, record, progress, _SingleProcessDataLoaderIter)
        if self._timeout != 0:
            raise AssertionError("_SingleProcessDataLoaderIter requires timeout == 0")
        if self._num_workers != 0:
            raise AssertionError("_SingleProcessDataLoaderIter requires num_workers == 0")
        self._sampler_iter = progress.cursor(self._index_sampler, self._sampler_iter)
        self._num_yielded = progress.yielded
        self._outstanding = False  # submitted but not handed out: next() was interrupted
        self._watch: DrawWatch | None = None
        if job.python_collate is not None and progress.log is not None:
            self._watch = progress.log.recorder.watch = DrawWatch(progress.log.recorder.watch)

    def _next_data(self) -> Any:
        self._check_owner()
        engine = self._engine
        if self._on_error == "skip":
            if engine is None:
                engine = self._open(threads=0)
                self._submit_all()
        elif not self._outstanding:
            self._progress.drawing()
            index = self._next_index()
        try:
            if self._on_error != "skip" and not self._outstanding:
                rows = self._job.rows(index)
                engine = engine or self._open(threads=0)
                engine.submit(rows)
                self._outstanding = True
            batch = self._next_of(engine, 0.0)
            if batch is None and self._shutdown:
                raise closed_error()
        except Exception:
            self._outstanding = False
            # closed: the batch was not given
            if self._shutdown and engine is not None and self._engine is None:
                raise
            self._progress.turn()
            raise
        self._outstanding = False
        if batch is None:
            raise StopIteration
        return self._collated(batch)

    def _collated(self, made: Any) -> Any:
        rows, watch, draws = self._keys(), self._watch, None
        try:
            if watch is not None:
                draws = watch.before()
            batch = self._batch(made)
            if watch is not None:
                draws = watch.after(draws)
            return batch
        finally:
            self._progress.turn(rows=rows, draws=draws)


class NativeThreadIter(_NativeIter, _MultiProcessingDataLoaderIter):
    """num_workers > 0: that many native threads work ahead, on the index lists torch's loader would have sent
    by then.

    `prefetch_factor * num_workers` lists are drawn from the sampler when the iterator is made, then one more
    before each batch is returned or each error raised. A list that cannot be submitted is an error when its
    turn comes.
    """

    def __init__(self, loader: Any, job: Job, record: RunRecord, progress: Progress) -> None:
        self._begin(loader, job, record, progress, _MultiProcessingDataLoaderIter)
        self._prefetch_factor = loader.prefetch_factor
        self._in_order = loader.in_order
        self._worker_pids_set = False
        if self._num_workers <= 0:
            raise AssertionError("num_workers must be greater than 0 for MultiProcessingDataLoaderIter")
        if self._prefetch_factor <= 0:
            raise AssertionError("prefetch_factor must be greater than 0 for MultiProcessingDataLoaderIter")
        self._index_sampler = CursorSampler(self._index_sampler, progress.cursor)
        self._reset(loader, first_iter=True)

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        stays = not first_iter and self._engine is not None and os.getpid() == self._owner_pid
        with self._record.profiler.starting(self._record.stats() if stays else None, first_iter):
            self._begin_epoch(loader, first_iter)

    def _begin_epoch(self, loader: Any, first_iter: bool) -> None:
        _BaseDataLoaderIter._reset(self, loader, first_iter)
        self._num_yielded = self._step = self._progress.yielded
        # One entry per index list that is out, in order: None for one in the engine, else the error it came
        # to at once.
        self._pending: deque[Exception | None] = deque()
        self._lists_ahead = self._job.lists_ahead(self._batch_size)
        if first_iter:
            self._open(threads=self._num_workers)
        else:
            self._record.epoch += 1
            self._progress.epoch = self._record.epoch
            if self._engine is not None and os.getpid() == self._owner_pid:
                self._engine.start_epoch(self._base_seed, self._record.epoch)
            else:  # after an interrupt; or in a forked child, which leaves the parent's engine alone
                self._owner_pid, self._shutdown = os.getpid(), False
                self._open(threads=self._num_workers)
        if self._on_error == "skip":
            self._submit_all()
            self._pending.append(None)  # stands for whatever the engine still has
            return
        for _ in range(self._prefetch_factor * self._num_workers):
            self._try_put_index()

    def _try_put_index(self) -> bool:
        """Whether there was one more."""
        if self._on_error == "skip":
            self._pending.append(None)
            return True
        try:
            index = self._next_index()
        except StopIteration:
            return False
        try:
            if (engine := self._engine) is None:
                raise closed_error()
            engine.submit(self._job.rows(index))
        except Exception as error:
            self._pending.append(
                error.with_traceback(None)
            )  # a traceback would hold this frame, and with it the iterator
        else:
            self._pending.append(None)
        return True

    def __next__(self) -> Any:
        try:
            return super().__next__()
        except (KeyboardInterrupt, SystemExit):
            # As torch's workers, the threads end with Ctrl-C: the traceback may keep this iterator for as
            # long as it likes.
            self._shutdown_workers()
            raise

    def _next_data(self) -> Any:
        self._check_owner()
        if not self._pending:
            self._end()
        if self._shutdown:
            raise AssertionError(
                "Invalid iterator state: shutdown or no outstanding tasks when fetching next data"
            )
        batch, error, engine = None, self._pending[0], self._engine
        if error is None:
            try:
                if engine is None:
                    raise closed_error()
                batch = self._next_of(engine, self._timeout)
                if batch is None and self._shutdown:
                    raise closed_error()
            except Exception as failure:
                if self._shutdown:  # by another thread: the batch was not given
                    raise
                # A TimeoutError with an errno is a file system's; the engine's own has none, and its batch is
                # still to come.
                if isinstance(failure, TimeoutError) and failure.errno is None:
                    raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds") from None
                error = failure
        self._pending.popleft()
        if error is None and batch is None:  # on_error="skip": no rows are left
            self._end()
        self._progress.turn(rows=self._keys() if error is None else None)
        # Step by step, because drawing them all at once would delay the first batch.
        more = self._try_put_index() and min(
            self._lists_ahead - len(self._pending), len(self._pending), _MOST_AT_ONCE
        )
        for _ in range(more):
            if not self._try_put_index():
                break
        self._step += 1
        if error is None:
            return self._batch(batch, self._step - 1)
        try:
            raise error
        finally:
            del error  # its traceback holds this frame, and this frame would hold it

    def _end(self) -> NoReturn:
        if not self._persistent_workers:
            self._shutdown_workers()
        raise StopIteration
