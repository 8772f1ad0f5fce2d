"""Fetching one batch in a worker: torch's fetchers, but samples are written into the batch as they come.

A fetcher returns either `Rows` (the writer holds the collated batch), whatever collate_fn returned, or
`Skipped`. Without batching, with a collate_fn of the user's, or with samples that are not plain, it does what
torch's fetcher does.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterator
from typing import Any

from ... import _core
from ..._common.torch_private import ExceptionWrapper, _DatasetKind
from ..._profiling.stages import collating
from ...collate import as_shipped, runs_natively
from ..states import dataset_parts, put_back
from ..states.kept_states import begin_epoch, load_dataset_state
from .backfill import Skipped, failure, is_of_sample
from .channel import samples_again


class Rows:
    """The batch is in the slot, collated."""


ROWS = Rows()


class Sink:
    """The destination of a worker's present batch, and facts about the batch.

    `writer` is None where batches are handed on as objects: in threads, and without workers.
    """

    def __init__(self, ring: _core.SharedRing | None = None) -> None:
        self.ring: Any = ring
        self.writer = None if ring is None else _core.RowWriter(ring)
        self.slot = -1
        self.reserved = 0
        self.samples = 0  # in the batch that was fetched last
        self.errors: list[dict[str, Any]] = []  # of samples replaced in it, as stats() lists them

    def open(self, slot: int = -1, reserved: int = 0) -> None:
        self.slot, self.reserved, self.errors = slot, reserved, []


class _Fetcher:
    def __init__(
        self,
        dataset: Any,
        auto_collation: bool,
        collate_fn: Any,
        drop_last: bool,
        sink: Sink,
        on_error: str,
    ) -> None:
        self.dataset = dataset
        self.auto_collation = auto_collation
        self.collate_fn = collate_fn
        self.collated = collating(collate_fn)
        self._into_rows = runs_natively(collate_fn)
        self.drop_last = drop_last
        self.sink = sink
        self.replace = on_error == "replace"
        self.skip = on_error == "skip"

    def collate(self, samples: Iterator[Any], capacity: int, least: int = 0) -> Any:
        """collate_fn of all samples; `capacity` is the most there can be. With fewer than `least`:
        StopIteration.
        """
        sink, writer = self.sink, self.sink.writer
        rest: list[Any] = []
        if writer is not None and self._into_rows and as_shipped():
            writer.begin(sink.slot, sink.reserved, capacity)
            add = writer.add
            for sample in samples:
                if not add(sample):
                    sink.reserved = max(sink.reserved, writer.reserved_bytes)
                    rest = [*samples_again(writer, sink.ring, sink.slot), sample]
                    break
            else:
                sink.reserved = writer.reserved_bytes
                sink.samples = writer.rows
                if sink.samples > 0:
                    if sink.samples < least:
                        raise StopIteration
                    return ROWS
        rest.extend(samples)
        sink.samples = len(rest)
        if len(rest) < least:
            raise StopIteration
        return self.collated(rest)


class MapFetcher(_Fetcher):
    """Samples by index."""

    def fetch(self, index: Any) -> Any:
        self.sink.samples = 1
        if not self.auto_collation:
            return self.collated(self._sample(index))
        getitems = getattr(self.dataset, "__getitems__", None)
        if getitems and not self.replace and not self.skip:
            samples = getitems(index)
            if type(samples) is not list:
                self.sink.samples = operator.length_hint(samples, 1)
                return self.collated(samples)
            return self.collate(iter(samples), len(samples))
        if not isinstance(index, (list, tuple)):
            index = list(index)
        if not self.skip:
            return self.collate(map(self._sample, index), len(index))
        try:
            return self.collate(self._readable(index), len(index))
        except _Incomplete as incomplete:
            self.sink.samples = 0
            return Skipped(incomplete.failures)

    def _readable(self, indices: Any) -> Iterator[Any]:
        """on_error="skip": all samples; _Incomplete after the last one when some cannot be had."""
        failures: dict[int, dict[str, Any]] = {}
        for row, index in enumerate(indices):
            try:
                sample = self.dataset[index]
            except Exception as error:
                if not is_of_sample(error):
                    raise
                failures[row] = failure(index, error)
            else:
                if not failures:
                    yield sample
        if failures:
            raise _Incomplete(failures)

    def _sample(self, index: Any) -> Any:
        try:
            return self.dataset[index]
        except Exception as error:
            if self.replace and is_of_sample(error):
                return self._next_readable(index, error)
            setattr(error, "__millrace_index__", index)  # noqa: B010  (exceptions declare no such thing)
            if isinstance(error, StopIteration):  # what iterates over samples may not take it for their end
                raise _Stopped(error) from None
            raise

    def _next_readable(self, index: int, error: Exception) -> Any:
        """on_error="replace": the next sample in the dataset's order that can be had. Each failure is
        recorded.
        """
        length = len(self.dataset)
        first = operator.index(index) % length
        for step in range(1, length):
            self.sink.errors.append(failure((first + step - 1) % length, error))
            try:
                return self.dataset[(first + step) % length]
            except Exception as next_error:
                if not is_of_sample(next_error):
                    raise
                error = next_error
        raise error


class IterableFetcher(_Fetcher):
    """Samples in the order of the dataset's iterator; StopIteration when it has ended."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.dataset_iter = iter(self.dataset)
        self.ended = False

    def fetch(self, index: Any) -> Any:
        self.sink.samples = 1
        if self.ended:
            raise StopIteration
        if not self.auto_collation:
            return self.collated(next(self.dataset_iter))
        wanted = operator.length_hint(index)
        return self.collate(self._samples(wanted), wanted, wanted if self.drop_last else 1)

    def _samples(self, wanted: int) -> Iterator[Any]:
        for _ in range(wanted):
            try:
                sample = next(self.dataset_iter)
            except StopIteration:
                self.ended = True
                return
            yield sample


class _Incomplete(Exception):
    """A batch has holes: `failures` as in Skipped."""

    def __init__(self, failures: dict[int, dict[str, Any]]) -> None:
        super().__init__()
        self.failures = failures


class _Stopped(Exception):
    """A map-style dataset raised StopIteration."""


def make_fetcher(kind: int, *how: Any) -> Any:
    """`kind`: torch's; `how`: the arguments of both classes."""
    return (MapFetcher if kind == _DatasetKind.Map else IterableFetcher)(*how)


def begin_at(
    state: dict[str, Any] | None, between_epochs: bool, dataset: Any, new_fetcher: Callable[[], Any]
) -> Any:
    """Return a fetcher at the position of `state`: restore the dataset's state, then call iter() once, then
    restore the iterator's state.
    """
    if state is None:
        return begin_epoch(dataset, new_fetcher)
    parts = state["fetcher_state"] or {}
    load_dataset_state(dataset, state["dataset_state"], between_epochs or bool(parts.get("fetcher_ended")))
    if between_epochs and parts.get("dataset_iter_state") is None:
        return begin_epoch(dataset, new_fetcher)  # its iter() is the epoch's only one
    fetcher = new_fetcher()
    if state["fetcher_state"] is not None:
        put_back(fetcher.dataset_iter, state["fetcher_state"]["dataset_iter_state"])
        fetcher.ended = state["fetcher_state"]["fetcher_ended"]
    return new_fetcher() if between_epochs else fetcher


def worker_state(worker_id: int, fetcher: Any) -> dict[str, Any] | None:
    """The state of a worker's dataset as torchdata nests it; None when neither it nor its iterator is
    Stateful.
    """
    streams = isinstance(fetcher, IterableFetcher)
    dataset_state, fetcher_state = dataset_parts(fetcher, streams)
    if dataset_state is None and (not streams or fetcher_state["dataset_iter_state"] is None):
        return None
    return {"worker_id": worker_id, "fetcher_state": fetcher_state, "dataset_state": dataset_state}


def stop_iteration_of(error: BaseException) -> BaseException:
    """Return the StopIteration that a `_Stopped` carries, else the error itself."""
    return error.args[0] if isinstance(error, _Stopped) else error


def wrapped_error(where: str) -> ExceptionWrapper:
    """The exception being handled, as torch carries it to the consumer, and which sample it came from."""
    exc_type, error, trace = sys.exc_info()
    true = stop_iteration_of(error)  # type: ignore[arg-type]
    if true is not error:
        exc_type, trace = type(true), true.__traceback__
    wrapper = ExceptionWrapper((exc_type, true, trace), where)
    index = getattr(true, "__millrace_index__", None)
    if index is not None:
        wrapper.exc_msg += f"(raised by dataset[{index!r}])\n"
    del exc_type, error, true, trace
    return wrapper
