"""The beginning of every pipeline: shards in the epoch's order, divided among the readers, and the samples in
them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np

from millrace import _core
from millrace._common.signed_urls import unsigned

from ...samplers.readers import SEED_BITS
from .chain import Chain
from .flow import Context, Draws, Flow, Position
from .handlers import Handler, reraise_exception
from .open_shards import StoreOptions, cached_path, is_command, is_local, opened, opened_shards
from .split import Share, Splitter, share_of
from .tar_streams import group_by_keys, tar_file_expander

_LOCATED_BYTES = 4096  # smaller files are read with their headers, which costs nothing more


@dataclass(frozen=True)
class Shards:
    """WebDataset's arguments, as data."""

    urls: tuple[str, ...]
    shuffled: bool = False
    resampled: bool = False
    nodesplitter: Splitter = "auto"
    workersplitter: Splitter = "auto"
    select_files: Callable[[str], bool] | None = None
    rename_files: Callable[[str], str] | None = None
    handler: Handler = reraise_exception
    empty_check: bool = True
    verbose: bool = False
    stores: StoreOptions = StoreOptions()

    def run(self, context: Context, own: Any = None) -> Flow:
        return ShardFlow(self, context, own)

    @cached_property
    def all_local(self) -> bool:
        return all(map(is_local, self.urls))

    def order(self, seed: int, shared_key: int) -> list[int]:
        """The numbers of the shards in the order of an epoch: the same for all readers."""
        count = len(self.urls)
        if not self.shuffled:
            return list(range(count))
        permutation = _core.KeyedPermutation(count, seed & SEED_BITS, shared_key)
        return permutation.at(np.arange(count, dtype=np.int64)).tolist()

    def share(self, context: Context) -> Share:
        """The reader's share of the shards; not for a resampled dataset."""
        order = self.order(context.seed, context.shared_key)
        return share_of(context.reader, order, list(self.urls), self.nodesplitter, self.workersplitter)

    def resampled_urls(self, context: Context, first: int) -> Iterator[str]:
        """The reader's draws with replacement from all shards, from draw `first` on, without end."""
        draws = Draws(context.seed, context.epoch, context.repetition, "resampled")
        reader, position = context.reader, first
        while True:
            yield self.urls[draws.below(reader.number + position * reader.readers, len(self.urls))]
            position += 1


class ShardChain(Chain):
    """A pipeline over shards, or over other files that are divided like shards; `kind`: their name in
    messages.
    """

    shards: Shards
    kind = "shards"

    @property
    def urls(self) -> tuple[str, ...]:
        """The URLs of all shards."""
        return self.shards.urls

    @property
    def _shuffles(self) -> bool:
        return self.shards.shuffled or self.shards.resampled or super()._shuffles

    def _facts(self) -> list[str]:
        shards = self.shards
        order = "resampled" if shards.resampled else "shuffled" if shards.shuffled else "in order"
        return [f"{len(shards.urls)} {self.kind} {order}, seed {self.seed}"]

    def __repr__(self) -> str:
        stages = "".join(f".{stage}" for stage in self._stages)
        kind = self.kind.partition(" ")[0]
        return f"{type(self).__name__}({len(self.urls)} {kind}, seed={self.seed}){stages}"


class ShardFlow:
    """The samples of one reader. Its position: [[shards passed, samples passed in the present shard]].

    Samples that other readers take count too, so the count is where the shard's reader starts.
    """

    def __init__(self, shards: Shards, context: Context, own: tuple[int, int] | None) -> None:
        self._shards, self._context = shards, context
        self._shard, self._sample = own or (0, 0)
        self._stride, self._offset, self._url = 1, 0, ""
        self._read_ahead = _core.ReadAhead()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        shards, found = self._shards, self._shard + self._sample > 0
        urls, stride, offset, why = self._part()
        self._stride, self._offset = stride, offset
        for url, source in self._opened(urls):
            self._url = url
            if shards.verbose:
                line = f"millrace: {self._context.reader} reads {unsigned(url)} from sample {self._sample}"
                print(line.encode(errors="backslashreplace").decode(), flush=True)  # names are any bytes
            reader: Any = None
            while True:
                try:
                    if reader is None:
                        reader = self._reader(source)
                    for sample in reader:
                        number = self._sample
                        self._sample = number + 1
                        found = True
                        if stride == 1:
                            yield sample
                        elif (number + self._shard) % stride == offset:
                            yield self._own(sample)
                    break
                except Exception as error:
                    self._sample = self._passed(reader)
                    if not shards.handler(error):
                        return
                    if reader is None:
                        break
            self._shard, self._sample = self._shard + 1, 0
        if not found and shards.empty_check:
            raise ValueError(
                f"{self._context.reader} found no samples: {why}. Look whether the shards are empty or all"
                " were skipped by the handler; if that is as it should be: WebDataset(...,"
                " empty_check=False)"
            )

    def position(self) -> Position:
        return [[self._shard, self._sample]]

    def _opened(self, urls: Iterator[str]) -> Iterator[tuple[str, Any]]:
        return opened_shards(urls, self._shards.all_local, self._shards.stores, commands=True)

    def _part(self) -> tuple[Iterator[str], int, int, str]:
        """(URLs from the present shard on, n: the reader takes every n-th sample, from which on, the rule)"""
        shards = self._shards
        if shards.resampled:
            return shards.resampled_urls(self._context, self._shard), 1, 0, "resampled"
        share = shards.share(self._context)
        return (
            (shards.urls[number] for number in share.shards[self._shard :]),
            share.stride,
            share.offset,
            share.why,
        )

    def _reader(self, source: Any) -> Any:
        if isinstance(source, Exception):
            raise source
        shards = self._shards
        if isinstance(source, str) and is_command(source):  # read by Python, front to back, once
            archive = {"url": source, "stream": opened(source)}
            files = tar_file_expander(
                [archive], select_files=shards.select_files, rename_files=shards.rename_files
            )
            return islice(group_by_keys(files), self._sample, None)
        # Memory drops a store's shard once it is passed, so its files are read at once.
        is_here = isinstance(source, str) or source.is_here
        located = _LOCATED_BYTES if is_here and self._reads_later() else None
        reader = _core.ShardReader(
            source,
            select=shards.select_files,
            rename=shards.rename_files,
            start=self._sample,
            locate_from=located,
            read_ahead=self._read_ahead,
        )
        return (
            reader
            if shards.stores.cache_dir is None
            else _WithPath(reader, cached_path(self._url, shards.stores))
        )

    def _own(self, sample: Any) -> Any:
        """The sample with its located files read: other readers do not take it."""
        return {
            name: value.read() if isinstance(value, _core.LocatedFile) else value
            for name, value in sample.items()
        }

    def _passed(self, reader: Any) -> int:
        """The number of samples passed, after an error; `reader` is None if it could not be made."""
        return self._sample

    def _reads_later(self) -> bool:
        """Whether large files are only located. When other readers take most samples, the files of those
        samples are not read.
        """
        return self._stride != 1


class _WithPath:
    """A shard's reader that gives samples `__local_path__`. After an error it goes on as `reader` does."""

    def __init__(self, reader: Any, path: str) -> None:
        self._reader, self._path = reader, path

    def __iter__(self) -> _WithPath:
        return self

    def __next__(self) -> dict[str, Any]:
        sample = next(self._reader)
        sample["__local_path__"] = self._path
        return sample
