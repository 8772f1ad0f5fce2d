"""pack(): a data set as shards. Samples are read and worked on by threads, and written in order by the
calling one.
"""

from __future__ import annotations

import itertools
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from millrace import _core
from millrace.errors import CorruptDataError

from ..texts import Progress, refuse
from .journal import Journal
from .journal import verify as verify_folder
from .keys import Downsample, check_downsample, checked_field, choose, rank, safe_key, shuffled
from .opening import open_source
from .pictures import Picture, PictureRules, decode, make_picture
from .shard_source import label_of
from .shard_writer import ShardWriter, WriteError
from .sources import Source
from .survey import Statistics, pixel_sums

_COMPARED = 100  # one of so many transcoded pictures is decoded and compared with what it was
_AHEAD = 4  # samples in work per thread


def pack(
    source: Any,
    destination: str | os.PathLike[str],
    *,
    name: str = "shard",
    shard_size: int = 256 << 20,
    samples_per_shard: int | None = None,
    jpeg: str = "lossless",
    own_tables: bool = False,
    max_side: int | None = None,
    quality: int = 92,
    shuffle: bool | None = None,
    seed: int = 0,
    downsample: Downsample = None,
    pixel_statistics: bool = False,
    workers: int | None = None,
    on_error: str = "raise",
    verify: bool = False,
    progress: bool = True,
) -> dict[str, Any]:
    """Write `source` as shards into the folder `destination` and return the contents of its dataset.json.

    Shards are plain tars for the webdataset package and millrace.datasets.WebDataset, `name`-000000.tar and
    so on, each with its index beside it. Their bytes depend on source and arguments alone, not on threads or
    time. A pack that was killed goes on after its last complete shard when it is called again with the same
    arguments; a complete one is left as it is.

    Args:
        source: a folder of class folders, Parquet files (a path, a list, a folder; needs pyarrow), tar shards
            (paths, URLs, braces), or any torch Dataset; see opening.py, dataset_source.py.
        shard_size: bytes that a shard has at most, unless one sample is larger.
        samples_per_shard: samples that a shard has at most.
        jpeg: "lossless" (the default: crops decode with 15 to 30 % less CPU, no pixel changes, files grow by
            1 to 6 %, the more the fewer bytes they have for a pixel) makes JPEGs baseline and cuts them into
            segments, see transcode_jpeg; "keep" leaves their bytes alone. A picture that cannot be transcoded
            is kept, and counted.
        own_tables: Huffman tables for each picture: 3.5 % fewer bytes, but decoding loses half of what
            segments gain.
        max_side: pixels; larger pictures are resized (Lanczos) and encoded anew with `quality` (1..100).
            Fields with a name of their own, such as mask.png, are left alone.
        shuffle: the samples in the order of a hash of seed and key. Default: yes, where the source can be
            read by number, because shards are streamed: a class after the other would give batches of one
            class. Readers need no large buffer then.
        downsample: of each label, a share (float), so many (int), as many as the rarest has ("balance"), or a
            share by label (dict). Chosen by a hash of seed and key, whatever the order.
        pixel_statistics: decode all pictures for mean and standard deviation of their channels.
        workers: threads. Default: one per CPU.
        on_error: "raise" or "skip" samples that cannot be read; dataset.json lists those skipped.
        verify: read all shards again and compare keys, lengths and checksums with those written.
        progress: a bar on stderr, when that is a terminal.

    Raises:
        FileExistsError: if `destination` holds anything else.
        FileNotFoundError, ValueError, TypeError: if arguments are wrong.
        CorruptDataError, OSError: if a sample cannot be read; they name the sample.
    """
    counts = {"shard_size": shard_size, "samples_per_shard": samples_per_shard, "workers": workers}
    refuse(
        {
            f"on_error should be 'raise' or 'skip', but is {on_error!r}": on_error not in ("raise", "skip"),
            **{
                f"{argument} should be 1 or more, but is {value}": value is not None and value < 1
                for argument, value in counts.items()
            },
            f"name={name!r} should be the beginning of the shards' file names, without '/'": (
                not name or "/" in name
            ),
        }
    )
    check_downsample(downsample)
    rules = PictureRules(jpeg, own_tables, max_side, quality)
    samples = open_source(source)
    refuse(
        {
            "shuffle and downsample need a source that can be read by number: packed or remote shards and"
            " iterable data sets cannot; unpack or copy them first, or leave both out": (
                not samples.by_number and (shuffle or downsample is not None)
            )
        }
    )
    shuffle = samples.by_number if shuffle is None else shuffle
    plan = {
        "source": samples.describe(),
        "name": name,
        "shard_size": shard_size,
        "samples_per_shard": samples_per_shard,
        **asdict(rules),
        "shuffle": shuffle,
        "seed": seed,
        "pixel_statistics": pixel_statistics,
        "on_error": on_error,
        "downsample": (
            {str(k): v for k, v in downsample.items()} if isinstance(downsample, dict) else downsample
        ),
    }
    journal = Journal(Path(destination), plan)
    if not journal.report:
        order = None
        if samples.by_number:
            order = choose(samples, downsample, seed)
            order = shuffled(samples, order, seed) if shuffle else order
        prepare = partial(_prepared, rules, pixel_statistics, seed)
        threads = workers or _core.cpu_budget()["threads"]
        skipped = _Work(journal, samples, order, prepare, threads).run(progress)
        journal.finish(_report(journal, samples, skipped))
    if verify:
        verify_folder(journal.folder, progress=progress)
    return journal.report


def _report(journal: Journal, source: Source, skipped: list[dict[str, str]]) -> dict[str, Any]:
    total = Statistics()
    for shard in journal.shards:
        total.add(shard["statistics"])
    shards = [
        {name: shard[name] for name in ("name", "samples", "bytes", "crc32")} for shard in journal.shards
    ]
    lost = [entry for shard in journal.shards for entry in shard["skipped"]] + skipped
    return {
        "format": "millrace shards",
        "version": 1,
        **total.report(source.classes),
        "bytes": sum(shard["bytes"] for shard in shards),
        "skipped": lost,
        "shards": shards,
        "plan": journal.plan,
    }


@dataclass
class _Sample:
    key: str
    fields: dict[str, bytes]
    label: int | None
    pictures: list[Picture] = field(default_factory=list)
    pixels: dict[str, int] | None = None


def _prepared(
    rules: PictureRules, pixel_statistics: bool, seed: int, key: str, files: dict[str, bytes]
) -> _Sample:
    """Prepares a sample between reading and writing; any thread."""
    keep_size = PictureRules(rules.jpeg, rules.own_tables)
    sample = _Sample(safe_key(key), {}, label_of(files))
    for suffix, content in files.items():
        field_name = checked_field(suffix)
        own_name = field_name.rpartition(".")[0] not in ("", "image", "img")
        picture = make_picture(content, keep_size if own_name else rules)
        if picture is not None:
            compared = picture.notes == ["transcoded"] and rank(key, seed, "compare") % _COMPARED == 0
            if compared and decode(content).tobytes() != decode(picture.content).tobytes():
                raise _OtherPixels(
                    "the transcoded picture has other pixels than its file: pack with jpeg='keep', and"
                    " report this file"
                )
            if pixel_statistics and not sample.pictures:
                sample.pixels = pixel_sums(picture.content)
            sample.pictures.append(picture)
        sample.fields[field_name] = content if picture is None else picture.content
    return sample


class _OtherPixels(RuntimeError):
    """The error for a picture with transcoded bytes that decode to other pixels."""


@dataclass
class _Work:
    """One call's work. Only the calling thread writes."""

    journal: Journal
    source: Source
    order: Sequence[int] | None  # None: all, as they come
    prepare: Callable[[str, dict[str, bytes]], _Sample]
    workers: int
    writer: ShardWriter | None = None
    statistics: Statistics = field(default_factory=Statistics)
    skipped: list[dict[str, str]] = field(default_factory=list)
    count: int = 0  # jobs handed out

    def run(self, progress: bool) -> list[dict[str, str]]:
        """Packs the rest. Returns the samples that were skipped after the last shard."""
        begin = self.journal.shards[-1]["next"] if self.journal.shards else 0
        on_error = self.journal.plan["on_error"]
        bar = Progress("packing", None if self.order is None else len(self.order), begin, quiet=not progress)
        try:
            for position, (where, result) in enumerate(_in_order(self._jobs(begin), self.workers), begin):
                size = 0
                try:
                    sample = result()
                    writer = self._writer_for(sample, position)
                    before = writer.bytes
                    writer.write(sample.key, sample.fields)
                    self.statistics.count(sample.fields, sample.label, sample.pictures, sample.pixels)
                    size = writer.bytes - before
                except Exception as error:
                    if on_error == "raise" or isinstance(error, (WriteError, MemoryError, _OtherPixels)):
                        named = _named(error, where)
                        raise named from (None if named is error else error)
                    self.skipped.append({"sample": where, "error": str(error)})
                bar.add(1, size)
            if self.writer:
                self._close(begin + self.count if self.order is None else len(self.order))
            return self.skipped
        finally:
            bar.close()
            if self.writer:
                self.writer.abandon()

    def _jobs(self, begin: int) -> Iterator[tuple[str, Callable[[], _Sample]]]:
        if self.order is None:
            for number, item in itertools.islice(enumerate(self.source.stream()), begin, None):
                self.count += 1
                failed = isinstance(item, Exception)
                yield (
                    (f"sample {number}", _raising(item))
                    if failed
                    else (item[0], partial(self.prepare, *item))
                )
            return
        for number in self.order[begin:]:
            self.count += 1
            key = self.source.key(number)
            if self.source.threads:
                yield key, lambda key=key, number=number: self.prepare(key, self.source.read(number))  # type: ignore[misc]
                continue
            try:
                files = self.source.read(number)
            except Exception as error:
                yield key, _raising(error)
            else:
                yield key, partial(self.prepare, key, files)

    def _writer_for(self, sample: _Sample, position: int) -> ShardWriter:
        """Of the shard that has room for it."""
        plan = self.journal.plan
        if self.writer and (
            self.writer.samples == plan["samples_per_shard"]
            or self.writer.size_with(sample.fields) > plan["shard_size"]
        ):
            self._close(position)
        if self.writer is None:
            shard = f"{plan['name']}-{len(self.journal.shards):06d}.tar"
            self.writer = ShardWriter(self.journal.folder / shard)
        return self.writer

    def _close(self, position: int) -> None:
        writer, self.writer = self.writer, None
        assert writer is not None
        try:
            writer.finish()
            self.journal.append(
                {
                    "name": writer.path.name,
                    "samples": writer.samples,
                    "bytes": writer.bytes,
                    "crc32": writer.crc32,
                    "next": position,
                    "skipped": self.skipped,
                    "statistics": self.statistics.counts,
                }
            )
        except BaseException as error:
            writer.abandon()
            if isinstance(error, Exception) and not isinstance(error, WriteError):
                raise WriteError(
                    f"{writer.path} could not be completed: {error}"
                ) from error  # no sample's fault: never skipped
            raise
        self.statistics, self.skipped = Statistics(), []


def _in_order(
    jobs: Iterable[tuple[str, Callable[[], _Sample]]], workers: int
) -> Iterator[tuple[str, Callable[[], _Sample]]]:
    """Each job's name and a function that gives its result or raises its exception; at most workers * _AHEAD
    are in work.
    """
    with ThreadPoolExecutor(workers, thread_name_prefix="millrace-pack") as pool:
        waiting: deque[tuple[str, Future[_Sample]]] = deque()
        try:
            for where, job in jobs:
                waiting.append((where, pool.submit(job)))
                if len(waiting) >= workers * _AHEAD:
                    name, future = waiting.popleft()
                    yield name, future.result
            for name, future in waiting:
                yield name, future.result
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _raising(error: Exception) -> Callable[[], _Sample]:
    def raise_it() -> _Sample:
        raise error

    return raise_it


def _named(error: Exception, where: str) -> Exception:
    if where in str(error):
        return error
    if isinstance(error, CorruptDataError):
        named = CorruptDataError(f"{where}: {error}")
        named.path, named.offset = getattr(error, "path", ""), getattr(error, "offset", -1)
        return named
    if isinstance(error, OSError) and error.errno:
        return error  # names its file itself
    if type(error) in (OSError, ValueError, TypeError, _OtherPixels):
        return type(error)(f"{where}: {error}")
    return OSError(f"{where}: {error}") if isinstance(error, OSError) else error
