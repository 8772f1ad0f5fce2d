"""Fetching one batch in a worker: torch's fetchers, but samples are written into the batch as they come.

A fetcher returns either `Rows` (the writer holds the collated batch) or whatever collate_fn returned. Without batching, with a
collate_fn of the user's, or with samples that are not plain, it does what torch's fetcher does.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from typing import Any

from torch.utils.data import _utils
from torch.utils.data.dataloader import _DatasetKind

from .. import _core
from .batches import samples_again

_AS_SHIPPED = dict(_utils.collate.default_collate_fn_map)  # in a forked worker: as it was when millrace was imported


class Rows:
    """The batch is in the slot, collated."""


ROWS = Rows()


class Sink:
    """The slot that this worker's present batch goes to."""

    def __init__(self, ring: _core.SharedRing) -> None:
        self.ring = ring
        self.writer = _core.RowWriter(ring)
        self.slot = -1
        self.reserved = 0
        self.samples = 0  # in the batch that was fetched last

    def open(self, slot: int, reserved: int) -> None:
        self.slot, self.reserved = slot, reserved


class _Fetcher:
    def __init__(self, dataset: Any, auto_collation: bool, collate_fn: Any, drop_last: bool, sink: Sink) -> None:
        self.dataset = dataset
        self.auto_collation = auto_collation
        self.collate_fn = collate_fn
        self.drop_last = drop_last
        self.sink = sink

    def collate(self, samples: Iterator[Any], capacity: int, least: int = 0) -> Any:
        """collate_fn of all samples; `capacity` is the most there can be. With fewer than `least`: StopIteration."""
        sink = self.sink
        rest: list[Any] = []
        if self.collate_fn is _utils.collate.default_collate and _utils.collate.default_collate_fn_map == _AS_SHIPPED:
            writer = sink.writer
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
        return self.collate_fn(rest)


class MapFetcher(_Fetcher):
    """Samples by index."""

    def fetch(self, index: Any) -> Any:
        self.sink.samples = 1
        if not self.auto_collation:
            return self.collate_fn(self.dataset[index])
        getitems = getattr(self.dataset, "__getitems__", None)
        if getitems:
            samples = getitems(index)
            if type(samples) is not list:
                self.sink.samples = operator.length_hint(samples, 1)
                return self.collate_fn(samples)
            return self.collate(iter(samples), len(samples))
        if not isinstance(index, (list, tuple)):
            index = list(index)
        return self.collate(self._samples(index), len(index))

    def _samples(self, indices: Iterable[Any]) -> Iterator[Any]:
        dataset = self.dataset
        for index in indices:
            try:
                sample = dataset[index]
            except Exception as error:
                error.__millrace_index__ = index  # type: ignore[attr-defined]
                if isinstance(error, StopIteration):  # a generator may not let it through
                    raise _Stopped(error) from None
                raise
            yield sample


class IterableFetcher(_Fetcher):
    """Samples in the order of the dataset's iterator; StopIteration when it has ended."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.iterator = iter(self.dataset)
        self.ended = False

    def fetch(self, index: Any) -> Any:
        self.sink.samples = 1
        if self.ended:
            raise StopIteration
        if not self.auto_collation:
            return self.collate_fn(next(self.iterator))
        wanted = operator.length_hint(index)
        return self.collate(self._samples(wanted), wanted, wanted if self.drop_last else 1)

    def _samples(self, wanted: int) -> Iterator[Any]:
        for _ in range(wanted):
            try:
                sample = next(self.iterator)
            except StopIteration:
                self.ended = True
                return
            yield sample


class _Stopped(Exception):
    """A map-style dataset raised StopIteration."""


def make_fetcher(kind: int, dataset: Any, auto_collation: bool, collate_fn: Any, drop_last: bool, sink: Sink) -> Any:
    cls = MapFetcher if kind == _DatasetKind.Map else IterableFetcher
    return cls(dataset, auto_collation, collate_fn, drop_last, sink)


def stop_iteration_of(error: BaseException) -> BaseException:
    """The StopIteration behind a `_Stopped`, else the error itself."""
    return error.args[0] if isinstance(error, _Stopped) else error

