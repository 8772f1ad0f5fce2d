"""ArrowFile: a map-style dataset over the record batches of Arrow IPC files, streams and Feather, and of
Hugging Face's folders.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from millrace._common.regular_files import open_regular
from millrace.errors import corrupt_data

from .arrow_package import arrow
from .filtering import Progress, for_each
from .ipc_index import IpcIndex, read_index
from .rules import Nulls, Rules, Shape
from .table_files import Paths, TableFiles, list_files
from .tabular import Chunk

_ENDINGS = (".arrow", ".arrows", ".feather", ".ipc")


class ArrowFile(TableFiles):
    """Rows of Arrow files as a map-style dataset: sample i is {column: value}, a batch {column: tensor or
    list of str}.

    The IPC file format, IPC streams and Feather (version 2), compressed or not; a folder is its files, and
    one that Hugging Face's save_to_disk() wrote is the shards that it names. A chunk is a record batch. It is
    read as bytes, not mapped, so a file that shrinks is an error and not the end of the process; numbers that
    are not compressed are then used where they lie. Making the dataset reads the metadata of each batch: a
    request for each when a stream lies in a store, one for all in the file format's footer but for the counts
    of rows.

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
        types: Mapping[str, Any] | None = None,
        hive: bool = True,
        progress: Progress = False,
        cache: None | str | os.PathLike[str] | Any = None,
        store_options: dict[str, Any] | None = None,
        cache_bytes: int | None = None,
    ) -> None:
        rules = Rules(nulls, categories, decimals, fixed_lists or {}, types or {})
        listed = _saved_shards(paths) or list_files(paths, _ENDINGS)
        super().__init__(listed, hive, cache, store_options, rules, filters, progress, cache_bytes)
        self._indexes: list[IpcIndex] = for_each(self._read_index, range(len(listed)))
        self._prepare_files(columns)

    def _schema_of(self, file: int) -> Any:
        pa = arrow()
        try:
            return pa.ipc.read_schema(pa.py_buffer(self._indexes[file].schema))
        except (pa.ArrowException, OSError) as error:
            raise corrupt_data(
                self._file_name(file), f"{self._file_name(file)}: its schema cannot be read: {error}"
            ) from None

    def _says_what_the_first_says(self, file: int) -> bool:
        return self._indexes[file].schema == self._indexes[0].schema

    def _rows_of_chunks(self, file: int) -> list[int]:
        return [message.rows for message in self._indexes[file].records]

    def _read_index(self, file: int) -> IpcIndex:
        self._files.check(file)
        return read_index(self._files.source(file))

    def _read_arrow(self, chunk: Chunk, columns: Sequence[str]) -> Any:
        pa, index = arrow(), self._indexes[chunk.file]
        self._files.check(chunk.file)
        source, message = self._files.source(chunk.file), index.records[chunk.number]
        data = source.read_at(message.offset, message.size)
        schema, needed = self._schema_of(chunk.file), index.dictionaries[chunk.number]
        try:
            if not needed and list(columns) == schema.names:
                batch = pa.ipc.read_record_batch(pa.py_buffer(data), schema)
            else:
                parts = [index.schema, *(source.read_at(m.offset, m.size) for m in needed), data]
                options = pa.ipc.IpcReadOptions(
                    use_threads=False, included_fields=sorted(map(schema.names.index, columns))
                )
                batch = pa.ipc.open_stream(
                    pa.BufferReader(b"".join(parts)), options=options
                ).read_next_batch()
            table = pa.Table.from_batches([batch]).select(list(columns))
        except (pa.ArrowException, OSError) as error:
            where = f"{self._file_name(chunk.file)}: record batch {chunk.number} cannot be decoded"
            raise corrupt_data(self._file_name(chunk.file), f"{where}: {error}") from None
        self._check_offsets(table, chunk)
        return table

    def _check_offsets(self, table: Any, chunk: Chunk) -> None:
        """What points into other buffers must point inside: bytes of a file are not to be trusted."""
        pa = arrow()
        for name, column in zip(table.column_names, table.columns):
            try:
                column.validate(full=not pa.types.is_primitive(column.type))
            except pa.ArrowException as error:
                where = (
                    f"{self._file_name(chunk.file)}: record batch {chunk.number}, column {name!r} is damaged"
                )
                raise corrupt_data(self._file_name(chunk.file), f"{where}: {error}") from None


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
