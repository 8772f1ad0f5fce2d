"""JSONL and Lines: files of lines as map-style datasets, any line one read away; and their batches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

from millrace import _core
from millrace._common.per_process import PerProcess

from ..._common.torch_private import default_collate
from ..batches import BatchDataset, BatchMaker, MakerOptions
from ..kept import FirstVersions
from ..webdataset.open_shards import StoreOptions, checked_urls
from .fields import (
    FIRST_BYTES,
    FIRST_LINES,
    PLAIN,
    WHOLE_LINE,
    Column,
    Fields,
    Guessed,
    given_columns,
    infer,
    laid_out,
)
from .files import OpenFiles, Options, Progress
from .reading import LineError, object_of, values_of


class LineMaker(BatchMaker):
    """Lists of lines. Any number of threads make batches at once; what they share is the dataset's open
    files.
    """

    def __init__(self, dataset: LineDataset) -> None:
        self._dataset = dataset

    def expect(self, indices: np.ndarray) -> np.ndarray:
        self._dataset.files.lines.will_read(indices)
        return indices

    def make(self, indices: np.ndarray) -> Any:
        return self._dataset._samples(indices)


class ObjectMaker(LineMaker):
    """Of a JSONL: numbers are written into the batch's tensors natively."""

    _dataset: JSONL

    def __init__(self, dataset: JSONL, options: MakerOptions) -> None:
        super().__init__(dataset)
        self._collate = options.collate
        self._memory = _core.BatchMemory(dataset.number_fields, options.slots, options.memory)
        self._before = dataset.reader.seconds()

    def make(self, indices: np.ndarray) -> Any:
        if self._collate is not None:
            return self._collate(super().make(indices))
        columns = self._dataset.read_columns(indices, self._memory.empty(len(indices)))
        return laid_out(self._dataset.columns, list(map(_collated, columns)))

    def seconds(self) -> dict[str, float]:
        return {name: spent - self._before[name] for name, spent in self._dataset.reader.seconds().items()}


def _collated(made: Any) -> Any:
    """A column as default_collate() has it; a list of str stays one."""
    if isinstance(made, torch.Tensor) or (made and isinstance(made[0], str)):
        return made
    return default_collate(made)


class LineDataset(BatchDataset):
    """What JSONL and Lines share: the files, opened at the first question, in each process."""

    def __init__(self, paths: str | Iterable[str], options: Options) -> None:
        super().__init__()
        self.urls = checked_urls(paths)
        if options.max_line_bytes < 1:
            raise ValueError(f"max_line_bytes={options.max_line_bytes} should be at least 1")
        self._options = options
        self._opened: OpenFiles | None = None
        self._first = FirstVersions()

    def __len__(self) -> int:
        return len(self.files)

    @property
    def files(self) -> OpenFiles:
        """The files, opened and indexed."""
        if self._opened is None:
            self._opened = OpenFiles(self.urls, self._options, self._first)
        return self._opened

    @property
    def file_lengths(self) -> list[int]:
        """Lines in each file, for samplers that read files from beginning to end: ShardShuffle,
        TwoTierShuffle.
        """
        return np.diff(self.files.ends, prepend=0).tolist()

    def save_indexes(self) -> None:
        """Write each local file's index beside it, as `path.lines`, where all users of the file find it.

        Raises:
            OSError: if that cannot be.
        """
        self.files.save_indexes()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}  # another process opens the files itself

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.urls)} file{'s' if len(self.urls) != 1 else ''})"


class JSONL(LineDataset):
    """Files with one JSON object a line, as a map-style dataset of dicts: {"text": "...", "label": 3,
    "scores": tensor}.

    Any sampler fits, shuffles are exact and of all files, len() is known, resuming costs nothing.
    millrace.DataLoader makes its batches natively: lines of a batch are read together, parsed by simdjson and
    written into the batch's tensors.

    The place of every line is found by a walk over the file at memory speed, the first time. The index (4
    bytes a line) is kept beside the file, if save_indexes() put it there, or in the user's cache folder, and
    made anew when the file is another one (by size, times and inode; in a store by ETag or date). A file that
    changes under the dataset is a CorruptDataError. Blank lines are no samples. \\r\\n, a missing last
    newline and a UTF-8 byte order mark are fine. Files packed by gzip or zstd are unpacked once, into the
    cache folder (`index_dir`), as only plain files can be read anywhere; `JSONLStream` reads them as they
    are.

    In a sample, numbers are int, float or bool where these become int64, float64 and bool in a batch, else
    numpy scalars; lists are tensors. Batches are those that default_collate() makes of samples. Keys that no
    field names are passed over; where fields=None found the fields, a line with another key is a bad one. Of
    equal keys the last one counts. NaN and Infinity are read as json reads them, at json's speed, and so are
    lines with integers beyond 64 bits.

    With on_error="skip" or "replace" of the DataLoader bad lines are left out or replaced.

    Args:
        paths: "train-{000..127}.jsonl", several of them joined by "::", or any iterable of paths and URLs
            (millrace.stores).
        fields: {name: type}. Types: str; int, float, bool (int64, float64, bool), any of uint8, int8, int16,
            int32, int64, float32, float64 by torch's or numpy's names; (dtype, shape) for numbers in nested
            lists of that shape, as (float, (8,)); (dtype, (None, ...)) where the first dimension has any
            length; `json` (the module) for any value, as json.loads() makes it. A name with dots is a path:
            "user.id". JSONField(type, path=..., default=...) says more. None: looks at the first 100 lines of
            the first file. Where all are objects with the same keys, each key is a field: a text, number
            (int64, float64, bool) or list of numbers (of a fixed shape if all are of one length) where all
            lines have it so, else any value. Otherwise each line is a sample as it is, as for "objects".
            "objects": each sample is json.loads(line).
        index_dir: in place of the user's cache folder, for indexes and unpacked files.
        max_line_bytes: longer lines are bad ones, and not read.
        progress: True: says on stderr how far the making of an index is, every few seconds; or a function
            (what, bytes done, of how many).
        cache_dir, cache_size, memory, store_options: how files in stores are read, as in `WebDataset`.

    Raises:
        CorruptDataError: if a line is bad (no JSON, no UTF-8, a field that is missing, null or of another
            type), with file, line and byte; or if a file changes.
        FileNotFoundError: if there is no such file, and the like for other faults of files.
    """

    def __init__(
        self,
        paths: str | Iterable[str],
        fields: Fields = None,
        *,
        index_dir: str | None = None,
        max_line_bytes: int = 64 << 20,
        progress: Progress = None,
        cache_dir: str | None = None,
        cache_size: int = -1,
        memory: int = 256 << 20,
        store_options: dict[str, Any] | None = None,
    ) -> None:
        stores = StoreOptions(cache_dir, cache_size, memory, store_options)
        super().__init__(paths, Options(False, index_dir, max_line_bytes, progress, stores))
        self._columns = given_columns(fields)
        self._reader = PerProcess(_core.JsonLines)

    @property
    def columns(self) -> tuple[Column, ...]:
        """The fields, as they are read."""
        if self._columns is None:
            self._columns = infer(self._first_lines())
        return self._columns

    def _first_lines(self) -> list[Any]:
        files, lines, read = self.files, [], 0
        for index in range(min(FIRST_LINES, int(files.ends[0]))):
            content = files.content(index)
            try:
                lines.append(object_of(content))
            except LineError as error:
                raise files.bad_line(index, error) from None
            read += len(content or b"")
            if read > FIRST_BYTES:
                break
        return lines

    @property
    def reader(self) -> _core.JsonLines:
        """Reads lines natively; of this process, as a fork may come while a thread holds a lock of it."""
        columns = self.columns
        closed = isinstance(columns, Guessed)
        return self._reader(self.files.lines, [column.native for column in columns], closed)

    def read_columns(self, indices: np.ndarray, tensors: list[torch.Tensor] | None = None) -> list[Any]:
        """For each field the values of a batch of these lines. Any thread.

        Args:
            indices: the lines.
            tensors: to be filled, for the fields of numbers, with a row for each line.

        Returns:
            A tensor, or a list of str, tensors or objects, for each field.
        """
        if tensors is None:
            tensors = [
                torch.empty(len(indices), *shape, dtype=getattr(torch, dtype))
                for shape, dtype in self.number_fields
            ]
        columns, refused = self.reader.batch(indices, tensors)
        for row, content in refused:
            try:
                values = values_of(self.columns, content)
            except LineError as error:
                raise self.files.bad_line(indices[row], error) from None
            for column, value in zip(columns, values):
                column[row] = (
                    torch.as_tensor(value, dtype=column.dtype) if isinstance(column, torch.Tensor) else value
                )
        return columns

    @property
    def number_fields(self) -> list[tuple[tuple[int, ...], str]]:
        """(shape, dtype) of each field of numbers."""
        return [(column.shape, column.dtype) for column in self.columns if column.kind == "number"]

    @property
    def is_whole(self) -> bool:
        """Whether samples are lines as they are, not dicts of fields."""
        return self.columns == WHOLE_LINE

    def _samples(self, indices: np.ndarray) -> list[Any]:
        columns = [_values(column, made) for column, made in zip(self.columns, self.read_columns(indices))]
        if self.is_whole:
            return list(columns[0])
        names = [column.name for column in self.columns]
        return [dict(zip(names, row)) for row in zip(*columns)]

    def batch_maker(self, options: MakerOptions) -> LineMaker:
        return ObjectMaker(self, options)


class Lines(LineDataset):
    """Text files as a map-style dataset of str: sample i is line i, without its newline (\\n or \\r\\n).

    Args:
        paths, index_dir, progress, max_line_bytes, cache_dir, cache_size, memory, store_options: as in
            `JSONL`.
        keep_blank: whether empty lines, and those of blanks only, are samples.
        errors: the treatment of bytes that are no UTF-8, by bytes.decode()'s names.

    Raises:
        CorruptDataError: if a line is too long, or no UTF-8.
    """

    def __init__(
        self,
        paths: str | Iterable[str],
        *,
        keep_blank: bool = True,
        errors: str = "strict",
        index_dir: str | None = None,
        max_line_bytes: int = 64 << 20,
        progress: Progress = None,
        cache_dir: str | None = None,
        cache_size: int = -1,
        memory: int = 256 << 20,
        store_options: dict[str, Any] | None = None,
    ) -> None:
        stores = StoreOptions(cache_dir, cache_size, memory, store_options)
        super().__init__(paths, Options(keep_blank, index_dir, max_line_bytes, progress, stores))
        self._errors = errors

    def _samples(self, indices: np.ndarray) -> list[str]:
        texts, refused = self.files.lines.texts(indices)
        for row in refused:
            content = self.files.content(int(indices[row]))
            try:
                if content is None:
                    raise self.files.bad_line(indices[row], "it is longer than max_line_bytes")
                texts[row] = content.decode("utf-8", self._errors)
            except UnicodeDecodeError as error:
                raise self.files.bad_line(
                    indices[row], f"{error}; errors='replace' reads it all the same"
                ) from None
        return texts  # type: ignore[return-value]  # None nowhere any more

    def batch_maker(self, options: MakerOptions) -> LineMaker:
        return LineMaker(self)


def _values(column: Column, made: Any) -> list[Any]:
    """A field of a batch as the samples have it."""
    if column.kind != "number":
        return made
    if column.shape:
        return list(made)
    return made.tolist() if column.dtype in PLAIN else list(made.numpy())
