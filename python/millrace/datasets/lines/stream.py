"""JSONLStream: lines of JSON in the order of their files, plain or packed, as a stream with an exact
place.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

from millrace import _core

from ..webdataset.chain import seed_of
from ..webdataset.flow import Context, Flow
from ..webdataset.handlers import Handler, reraise_exception
from ..webdataset.open_shards import StoreOptions, checked_urls, open_shard
from ..webdataset.shards import ShardChain, ShardFlow, Shards
from ..webdataset.split import Splitter, check_splitters
from .fields import FIRST_LINES, WHOLE_LINE, Column, Fields, Guessed, given_columns, infer, laid_out
from .reading import LineError, bad_line, values_of


class JSONLStream(ShardChain):
    """Files with one JSON object a line, from first to last: an IterableDataset of dicts, as JSONL's samples.

    Plain files and those packed by gzip or zstd (told by their first bytes), here or in stores. A file is
    treated as a shard of a `WebDataset`, and a line as a sample: ranks and workers divide the files, or the
    lines where there are too few files; the fluent methods (.shuffle(), .map(), .select(), .batched(),
    .with_epoch(), ...) append stages; the same seed gives the same order, and state_dict() is a place in it,
    exact to the line.

    >>> lines = JSONLStream("part-{00..31}.jsonl.zst", {"text": str, "label": int}, shuffle_files=True)
    >>> lines = lines.shuffle(10_000)

    Args:
        paths, fields, max_line_bytes, cache_dir, cache_size, memory, store_options: as in `JSONL`.
        shuffle_files: the files in random order, another one in each epoch, the same on all ranks.
        handler: decides about bad lines and files that cannot be read (webdataset's handlers:
            `warn_and_continue`, ...); the default raises. After a bad line the stream goes on with the next
            one.
        nodesplitter, workersplitter: as in `WebDataset`.
        empty_check: a reader that finds no line in its files raises ValueError.
        seed: of all shuffles; the same on all ranks. None: WDS_SEED of the environment, or 0.

    Raises:
        CorruptDataError: if a line is bad or a file damaged, with file, line and byte (of the unpacked file).
        ValueError: if a reader finds no line, unless `empty_check` is False.
    """

    kind = "files of lines"

    def __init__(
        self,
        paths: str | Iterable[str],
        fields: Fields = None,
        *,
        shuffle_files: bool = False,
        handler: Handler = reraise_exception,
        nodesplitter: Splitter = "auto",
        workersplitter: Splitter = "auto",
        empty_check: bool = True,
        seed: int | None = None,
        max_line_bytes: int = 64 << 20,
        cache_dir: str | None = None,
        cache_size: int = -1,
        memory: int = 256 << 20,
        store_options: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(seed_of(seed))
        check_splitters(nodesplitter=nodesplitter, workersplitter=workersplitter)
        if max_line_bytes < 1:
            raise ValueError(f"max_line_bytes={max_line_bytes} should be at least 1")
        self._columns = given_columns(fields)
        self._max_line_bytes = max_line_bytes
        self.shards = Shards(
            checked_urls(paths),
            bool(shuffle_files),
            nodesplitter=nodesplitter,
            workersplitter=workersplitter,
            handler=handler,
            empty_check=empty_check,
            stores=StoreOptions(cache_dir, cache_size, memory, store_options),
        )

    @property
    def columns(self) -> tuple[Column, ...]:
        """The fields, as they are read.

        If none were named, they come from a look at the first lines of the first file.
        """
        if self._columns is None:
            source = open_shard(self.urls[0], self.shards.stores)
            self._columns = infer(
                list(islice(line_reader(source, WHOLE_LINE, self.urls[0], self._max_line_bytes), FIRST_LINES))
            )
        return self._columns

    def _source(self, context: Context, own: Any) -> Flow:
        return LineFlow(self.shards, context, own, self.columns, self._max_line_bytes)


class LineFlow(ShardFlow):
    """The lines of one reader. Bad ones are counted in its place, too."""

    def __init__(
        self, shards: Shards, context: Context, own: Any, columns: tuple[Column, ...], max_line_bytes: int
    ) -> None:
        super().__init__(shards, context, own)
        self._columns, self._max_line_bytes = columns, max_line_bytes

    def _reader(self, source: Any) -> Any:
        if isinstance(source, Exception):
            raise source
        name = source if isinstance(source, str) else source.name
        offset = (self._offset - self._shard) % self._stride
        return line_reader(
            source, self._columns, name, self._max_line_bytes, self._sample, self._stride, offset
        )

    def _own(self, sample: Any) -> Any:
        return sample

    def _passed(self, reader: Any) -> int:
        return self._sample if reader is None else reader.passed


def line_reader(
    source: Any,
    columns: tuple[Column, ...],
    name: str,
    max_line_bytes: int,
    start: int = 0,
    stride: int = 1,
    offset: int = 0,
) -> _core.JsonLineReader:
    """The samples of a file from line `start` on; None for lines that are not number `offset` of `stride`."""

    def read_again(content: bytes | None, number: int, at: int) -> Any:
        try:
            return laid_out(columns, values_of(columns, content))
        except LineError as error:
            raise bad_line(name, f"line {number + 1}", at, error) from None

    return _core.JsonLineReader(
        source,
        [column.native for column in columns],
        None if columns == WHOLE_LINE else [column.name for column in columns],
        read_again,
        start=start,
        stride=stride,
        offset=offset,
        max_line_bytes=max_line_bytes,
        closed=isinstance(columns, Guessed),
    )
