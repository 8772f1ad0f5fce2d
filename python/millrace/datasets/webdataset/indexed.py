"""IndexedWebDataset: plain tar shards as a map-style dataset, any sample of which is one read away; and the
indexes of shards: beside the shard, `shard.tar.index`, where `millrace pack` puts them, or in this user's
cache (kept.py).
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from torch.utils.data import Dataset

from millrace import _core

from ..._common.indices import checked_index
from ..._common.per_process import PerProcess
from ..._common.regular_files import FileVersion
from ..kept import FirstVersions, Version, kept_index
from .flow import Stage
from .handlers import LEFT_OUT, reraise_exception
from .open_shards import StoreOptions, is_local, local_path, remote_object
from .stages import Each

SUFFIX = ".index"


def index_of(
    url: str, source: _core.ByteSource, path: str | None, folder: str | None, version: Version
) -> _core.TarIndex:
    """The index of a shard: loaded, or made and kept for the next time. `path`: of a local shard. `version`:
    the shard's version before it was opened. `folder`: replaces the user's cache.

    UnavailableError: the shard is packed. CorruptDataError: it is damaged.
    """
    return kept_index(
        "tar-indexes",
        SUFFIX,
        url,
        source,
        path,
        folder,
        version,
        beside=SUFFIX,
        load=_core.TarIndex.load,
        fits=lambda index: index.shard_bytes == source.size,
        build=lambda: _core.TarIndex.build(source),
    )


_BUILDERS = 8  # indexes made at once: while one waits for a disk or a store, others go on
_MEMORY = 1 << 30  # of all remote shards that are open; at least 4 MiB of each
_MOST_OPEN = 256
_DESCRIPTORS = 10  # of a remote shard that is open, with the disk cache


_Remote = tuple[str, int, Callable[[], _core.ByteSource]]  # a name, bytes, and what opens it


class IndexedWebDataset(Dataset):
    """Samples of plain tar shards by their number, shard after shard; made by `WebDataset.indexed()`.

    Map-style: any sampler fits, shuffles are exact and of all shards, len() is known, resuming costs nothing.
    After `.decode("pil").to_tuple("jpg", "cls").map_tuple(transform)`, millrace.DataLoader runs it natively.
    Sample i is that of the shards in the order of `urls`, whatever the shards' dataset said of shuffling,
    splitting and repeating: those are the sampler's.

    The shards' indexes are made, or loaded, at the first question; a walk over the headers costs about 3 ms
    per 1,000 samples. Of shards in stores at most 256 are open at once, fewer where RLIMIT_NOFILE is low (a
    twentieth of it); those read longest ago are closed, and opened again without asking the store.

    Args:
        urls: the shards, in the order of the samples.
        stages: the chain's steps.
        index_dir: where indexes are kept that do not lie beside their shards; None: in the user's cache
            folder.
        stores: how remote shards are read.

    Raises:
        FileNotFoundError, CorruptDataError: if the shards raise it.
        UnavailableError: if shards are packed by gzip or zstd.
    """

    def __init__(
        self, urls: Sequence[str], stages: Sequence[Stage], index_dir: str | None, stores: StoreOptions
    ) -> None:
        for stage in stages:
            if not isinstance(stage, Each):
                raise ValueError(
                    f"indexed() takes samples one by one, and {stage} does not:"
                    f" {_REMEDIES.get(type(stage).__name__, _ELSE)}"
                )
            if stage.handler is not reraise_exception:
                raise ValueError(
                    f"indexed() cannot leave samples out: give {stage} no handler, and the DataLoader"
                    " on_error="
                )
        self.urls = tuple(urls)
        self.stages: tuple[Each, ...] = tuple(stages)  # type: ignore[arg-type]  # each was looked at
        self.index_dir = index_dir
        self._stores = stores
        self._opened: _Shards | None = None
        self._first = FirstVersions()

    def __len__(self) -> int:
        return int(self._shards.ends[-1]) if self.urls else 0

    def __getitem__(self, index: int) -> Any:
        sample = self._read(index)
        for stage in self.stages:
            result = stage.apply(sample)
            if result is LEFT_OUT:
                raise ValueError(f"{stage} leaves sample {index} out, and an indexed dataset has all of them")
            sample = result
        return sample

    def key(self, index: int) -> str:
        """`__key__` of a sample, without reading it."""
        shard, sample = self._shards.place(index)
        return self._shards.indexes[shard].key(sample)

    @property
    def shard_lengths(self) -> list[int]:
        """Samples in each shard, for samplers that read shards from their beginning to their end:
        ShardShuffle, TwoTierShuffle.
        """
        return [len(index) for index in self._shards.indexes]

    def files(self, suffixes: Sequence[str]) -> _core.TarSamples:
        """One file of each sample, for the engine: the first of these suffixes.

        Raises:
            CorruptDataError: if a sample has none.
        """
        return _core.TarSamples(self._shards.sources, self._shards.indexes, list(suffixes))

    def numbers(self, suffixes: Sequence[str]) -> np.ndarray | None:
        """The numbers in the first file of these suffixes, one for each sample.

        Returns:
            int64 [len]. None if a sample lacks such a file, or if one is no whole number.
        """
        parts = [index.numbers(list(suffixes)) for index in self._shards.indexes]
        there = [part for part in parts if part is not None]
        return np.concatenate(there or [np.empty(0, np.int64)]) if len(there) == len(parts) else None

    def _read(self, index: int) -> dict[str, Any]:
        shards = self._shards
        shard, sample = shards.place(index)
        source, where = shards.sources[shard], shards.indexes[shard]
        result: dict[str, Any] = {"__key__": where.key(sample), "__url__": source.name}
        for suffix, (offset, size) in where.files(sample).items():
            result[suffix] = source.read_at(offset, size)
        return result

    @property
    def _shards(self) -> _Shards:
        if self._opened is None:
            self._opened = _Shards(self.urls, self.index_dir, self._stores, self._first)
        return self._opened

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}  # another process opens the shards itself

    def __repr__(self) -> str:
        return f"IndexedWebDataset({len(self.urls)} shards){''.join(f'.{stage}' for stage in self.stages)}"


_ELSE = "leave it out"
_REMEDIES = {
    "Shuffle": "leave shuffle() out, and give the DataLoader shuffle=True or a sampler",
    "Batched": "leave batched() out, and give the DataLoader a batch_size",
    "Slice": "leave slice() out, and take a torch.utils.data.Subset of the indexed dataset",
}


def _sources_of(shards: list[_core.ByteSource | _Remote], most_open: int) -> list[_core.ByteSource]:
    pool = _core.SourcePool(most_open)
    return [pool.add(*shard) if isinstance(shard, tuple) else shard for shard in shards]


class _Shards:
    """Sources and indexes of all shards, of which only some are open at once: thousands of them would be too
    many descriptors. Local files are opened for each read.
    """

    def __init__(
        self, urls: tuple[str, ...], index_dir: str | None, stores: StoreOptions, first: FirstVersions
    ) -> None:
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        most_open = _MOST_OPEN
        if soft != resource.RLIM_INFINITY:  # a half of the descriptors is for remote shards
            most_open = max(1, min(_MOST_OPEN, soft // 2 // _DESCRIPTORS))
        memory = max(4 << 20, min(64 << 20, _MEMORY // most_open))

        def opened(url: str) -> tuple[_core.ByteSource | _Remote, _core.TarIndex]:
            if is_local(url):
                path = local_path(url)
                version = FileVersion.now(path)
                source = _core.open_local_file(path, url, keep_open=False)
                first.check(url, source.size, version)
                return source, index_of(url, source, path, index_dir, version)
            shard = remote_object(url, stores, memory)
            source = shard.open()
            first.check(url, source.size, shard.meta.version)
            index = index_of(url, source, None, index_dir, shard.meta.version)
            return (source.name, source.size, shard.open), index

        with ThreadPoolExecutor(min(_BUILDERS, most_open)) as threads:
            both = list(threads.map(opened, urls))
        self._sources = PerProcess(_sources_of, [shard for shard, _ in both], most_open)
        self.indexes = [index for _, index in both]
        self.ends = np.cumsum([len(index) for index in self.indexes], dtype=np.int64)

    @property
    def sources(self) -> list[_core.ByteSource]:
        """The sources of this process: a forked process opens its own, not the parent's."""
        return self._sources()

    def place(self, index: int) -> tuple[int, int]:
        """(shard, number in it) of sample `index`, which may count from the end."""
        index = checked_index(index, int(self.ends[-1]) if len(self.ends) else 0)
        shard = int(np.searchsorted(self.ends, index, side="right"))
        return shard, index - (int(self.ends[shard - 1]) if shard else 0)
