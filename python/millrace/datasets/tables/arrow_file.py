"""ArrowFile: a map-style dataset over the record batches of Arrow IPC files, streams and Feather, and of
Hugging Face's folders.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from errno import EINVAL
from pathlib import Path
from typing import Any

from millrace._common.regular_files import open_regular
from millrace.errors import CorruptDataError, corrupt_data

from .arrow_package import arrow
from .filtering import Progress, for_each
from .rules import Nulls, Rules, Shape
from .table_files import Paths, TableFiles, list_files
from .tabular import Chunk

_ENDINGS = (".arrow", ".arrows", ".feather", ".ipc")
_MAGIC = b"ARROW1"
_MAGIC_BYTES = 8  # padded; after it a file is a stream, and its footer


@dataclass(frozen=True)
class Batches:
    """Where the record batches of a file lie: ranges[i] are batch i's bytes, with the dictionaries before it;
    rows[i] its rows. `schema`: the schema's bytes. `dictionaries`: the batches that have some before them.
    """

    schema: bytes
    ranges: list[tuple[int, int]]
    rows: list[int]
    dictionaries: list[int]


def _batches_of(source: Any) -> Batches:
    """`source`: a pyarrow.NativeFile. Of mapped ones hardly more than the metadata is touched."""
    pa, start = arrow(), 0
    if source.read(len(_MAGIC)) == _MAGIC:
        pa.ipc.open_file(source)  # its footer says that it is whole
        start = _MAGIC_BYTES
    source.seek(start)
    options = pa.ipc.IpcReadOptions(use_threads=False, included_fields=[0])  # the rows of one tell
    reader = pa.ipc.open_stream(source, options=options)
    places, found, known = [source.tell()], Batches(b"", [], [], []), 0
    for number, batch in enumerate(reader):
        places.append(source.tell())
        found.rows.append(batch.num_rows)
        if reader.stats.num_dictionary_batches > known:
            known = reader.stats.num_dictionary_batches
            found.dictionaries.append(number)
    source.seek(start)
    return replace(found, schema=source.read(places[0] - start), ranges=list(zip(places, places[1:])))


class ArrowFile(TableFiles):
    """Rows of Arrow files as a map-style dataset: sample i is {column: value}, a batch {column: tensor or
    list of str}.

    The IPC file format, IPC streams and Feather (version 2), compressed or not; a folder is its files, and
    one that Hugging Face's save_to_disk() wrote is the shards that it names. A chunk is a record batch. It is
    read as bytes, not mapped, so a file that shrinks is an error and not the end of the process; numbers that
    are not compressed are then used where they lie. Making the dataset looks at each batch: local files are
    mapped for that moment; what lies in a store is read once.

    Arguments, types, attributes and errors are those of `Parquet`, where they apply; `filters` reads every
    batch once.
    """

    unit = "record batch"

    def __init__(
        self,
        paths: Paths,
        columns: Sequence[str] | None = None,
        filters: Any = None,
        *,
        nulls: Nulls = "raise",
        categories: None | Sequence[str] | Mapping[str, Any] = None,
        decimals: str = "float64",
        fixed_lists: Mapping[str, Shape] | None = None,
        types: None | str | Mapping[str, Any] = None,
        hive: bool = True,
        progress: Progress = False,
        cache: None | str | os.PathLike[str] | Any = None,
        store_options: dict[str, Any] | None = None,
        cache_bytes: int | None = None,
    ) -> None:
        rules = Rules(nulls, categories, decimals, fixed_lists or {}, types or {})
        listed = _saved_shards(paths) or list_files(paths, _ENDINGS, _MAGIC)
        super().__init__(listed, hive, cache, store_options, rules, filters, progress, cache_bytes)
        self._batches: list[Batches] = for_each(self._read_batches, range(len(listed)))
        self._prepare_files(columns)

    def _schema_of(self, file: int) -> Any:
        pa = arrow()
        try:
            return pa.ipc.read_schema(pa.py_buffer(self._batches[file].schema))
        except (pa.ArrowException, OSError) as error:
            raise self._corrupt(file, "its schema cannot be read", error) from None

    def _says_what_the_first_says(self, file: int) -> bool:
        return self._batches[file].schema == self._batches[0].schema

    def _rows_of_chunks(self, file: int) -> list[int]:
        return self._batches[file].rows

    def _read_batches(self, file: int) -> Batches:
        """Looks at all messages. Local files are mapped for that; what lies in a store is read."""
        pa, opened = arrow(), self._files.as_file(file)
        try:
            with pa.memory_map(opened) if isinstance(opened, str) else pa.PythonFile(opened, "r") as source:
                return _batches_of(source)
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, CorruptDataError) or getattr(error, "errno", None) not in (None, EINVAL):
                raise  # EINVAL: an empty file cannot be mapped
            what = "this is neither an Arrow IPC file nor a stream, or it is not whole"
            raise self._corrupt(file, what, error) from None

    def _read_arrow(self, chunk: Chunk, columns: Sequence[str]) -> Any:
        pa, batches = arrow(), self._batches[chunk.file]
        self._files.check(chunk.file)
        source, schema = self._files.source(chunk.file), self._schema_of(chunk.file)
        needed = [*(before for before in batches.dictionaries if before < chunk.number), chunk.number]
        ranges = [batches.ranges[number] for number in needed]
        parts = [source.read_at(begin, end - begin) for begin, end in ranges]
        try:
            if not batches.dictionaries and list(columns) == schema.names:
                batch = pa.ipc.read_record_batch(pa.py_buffer(parts[0]), schema)
            else:
                fields = sorted(map(schema.names.index, columns))
                options = pa.ipc.IpcReadOptions(use_threads=False, included_fields=fields)
                stream = pa.BufferReader(b"".join([batches.schema, *parts]))
                *_, batch = pa.ipc.open_stream(stream, options=options)
            table = pa.Table.from_batches([batch]).select(list(columns))
        except (pa.ArrowException, OSError) as error:
            what = f"record batch {chunk.number} cannot be decoded"
            raise self._corrupt(chunk.file, what, error) from None
        self._check_offsets(table, chunk)
        return table

    def _check_offsets(self, table: Any, chunk: Chunk) -> None:
        """What points into other buffers must point inside: bytes of a file are not to be trusted."""
        pa = arrow()
        for name, column in zip(table.column_names, table.columns):
            try:
                column.validate(full=not pa.types.is_primitive(column.type))
            except pa.ArrowException as error:
                what = f"record batch {chunk.number}, column {name!r} is damaged"
                raise self._corrupt(chunk.file, what, error) from None


def _saved_shards(paths: Any) -> list[str] | None:
    """The shards of a folder that datasets' save_to_disk() wrote, in its order; None for anything else."""
    folder = Path(paths).expanduser() if isinstance(paths, (str, os.PathLike)) else None
    if folder is None or not folder.is_dir():
        return None
    splits = folder / "dataset_dict.json"
    if splits.is_file():
        names = _json(splits).get("splits", [])
        example = folder / next(iter(names), "train")
        raise ValueError(
            f"{folder} holds several splits ({', '.join(names)}); give one of their folders, {example}"
        )
    state = folder / "state.json"
    if not (folder / "dataset_info.json").is_file() or not state.is_file():
        return None
    try:
        names = [entry["filename"] for entry in _json(state)["_data_files"]]
    except (ValueError, KeyError, TypeError):
        raise corrupt_data(
            str(state), "it does not name the shards, as datasets' save_to_disk() writes them"
        ) from None
    if any(os.path.basename(name) != name for name in names):
        raise corrupt_data(str(state), "it names shards outside its folder")
    return [str(folder / name) for name in names]


def _json(path: Path) -> Any:
    with open_regular(path, encoding="utf-8") as file:
        return json.load(file)
