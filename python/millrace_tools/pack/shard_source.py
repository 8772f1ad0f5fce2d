"""Tar shards as a source: by number where they are plain and local, in one pass where they are packed or
remote.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from millrace import _core
from millrace._common.regular_files import FileVersion
from millrace.datasets.webdataset.indexed import index_of
from millrace.datasets.webdataset.open_shards import is_local, opened_shards
from millrace.datasets.webdataset.urls import expand_urls
from millrace.errors import UnavailableError

from .sources import Source, digest


def shard_source(names: list[str]) -> Source:
    """Of paths and URLs; braces are expanded."""
    urls = [url for name in names for url in expand_urls(name)]
    if all(is_local(url) and not url.startswith("file:") for url in urls):
        try:
            return TarSource(urls)
        except UnavailableError:
            pass  # packed
    return StreamSource(urls)


def label_of(files: dict[str, bytes]) -> int | None:
    """The number in a sample's "cls" file; None: there is none."""
    text = files.get("cls", b"").strip()
    return int(text) if text.isdigit() or text[:1] == b"-" and text[1:].isdigit() else None


class TarSource(Source):
    """Plain local shards."""

    def __init__(self, paths: list[str]) -> None:
        versions = [FileVersion.now(path) for path in paths]
        sources = [_core.open_local_file(path, keep_open=False) for path in paths]
        self._shards = [
            (source, index_of(path, source, path, None, version))
            for path, source, version in zip(paths, sources, versions)
        ]
        self._places = [
            (shard, sample) for shard, (_, index) in enumerate(self._shards) for sample in range(len(index))
        ]
        self._labels: list[int | None] | None = None

    def describe(self) -> str:
        return f"shards {digest([(source.name, source.size, len(index)) for source, index in self._shards])}"

    def __len__(self) -> int:
        return len(self._places)

    def key(self, number: int) -> str:
        shard, sample = self._places[number]
        return self._shards[shard][1].key(sample)

    def label(self, number: int) -> int | None:
        if self._labels is None:
            self._labels = []
            for _, index in self._shards:
                numbers = index.numbers(["cls"]) if "cls" in index.suffixes else None
                self._labels += [None] * len(index) if numbers is None else numbers.tolist()
        return self._labels[number]

    def read(self, number: int) -> dict[str, bytes]:
        shard, sample = self._places[number]
        source, index = self._shards[shard]
        return {
            suffix: source.read_at(offset, size) for suffix, (offset, size) in index.files(sample).items()
        }


class StreamSource(Source):
    """Shards that are read from first to last."""

    by_number = False

    def __init__(self, urls: list[str]) -> None:
        self._urls = urls

    def describe(self) -> str:
        return f"stream {digest(self._urls)}"

    def stream(self) -> Iterator[Any]:
        for _, shard in opened_shards(self._urls):
            yield from samples_of(shard)


def samples_of(shard: Any) -> Iterator[Any]:
    """(key, files) of each sample of an opened shard, or the exception in its place: of a sample, or of the
    shard.
    """
    try:
        if isinstance(shard, Exception):
            raise shard
        reader = _core.ShardReader(shard)
    except Exception as error:
        yield error
        return
    while True:
        try:
            sample = next(reader, None)
        except Exception as error:
            yield error
            continue
        if sample is None:
            return
        key = sample["__key__"]
        yield key, {name: content for name, content in sample.items() if not name.startswith("__")}
