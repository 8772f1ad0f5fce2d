"""Parquet: a map-style dataset over the rows of Parquet files, local or remote."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from millrace.errors import CorruptDataError

from .arrow_package import arrow, arrow_dataset, arrow_files, compute, parquet
from .filtering import Progress, for_each, is_float, known_without_floats, named_by, true_rows
from .rules import Nulls, Rules, Shape
from .table_files import Paths, SourceFile, TableFiles, list_files
from .tabular import Chunk

_ENDINGS = (".parquet", ".pq", ".parq")


@dataclass(frozen=True)
class RowGroup:
    """`rows` in the file, of which the filter leaves `kept`; `bytes` on disk, of all columns."""

    file: str
    number: int
    rows: int
    kept: int
    bytes: int


class Parquet(TableFiles):
    """Rows of Parquet files as a map-style dataset: sample i is {column: value}, a batch {column: tensor or
    list of str}.

    A chunk is a row group: it is read and decoded whole, by pyarrow, without the GIL. So shuffle with
    `ds.shuffled(...)`, which goes through row groups in random order and mixes some of them at a time, each
    decoded once in an epoch; a full shuffle decodes a row group for nearly every sample, unless `cache_bytes`
    holds them all. Making the dataset reads the footers of all files, and no row, but for `filters` and for
    categories.

    What becomes of Arrow's types:

        int8 to int64, uint8 to uint32  the same dtype
        uint64                          int64; ValueError for what that does not hold
        halffloat, float, double        float16, float32, float64
        bool                            bool
        date32, date64                  int64: days or milliseconds since 1970 (Parquet has days alone, so
                                        date64 comes back as date32)
        time, timestamp, duration       int64 in the unit of the type; timestamps in UTC since 1970, their
                                        time zone is dropped
        decimal                         float64; with decimals="scaled" int64 that counts the last digit:
                                        12.30 of scale 2 is 1230
        string, binary and their kinds  str, bytes
        dictionary                      int64 codes, numbers of ds.categories[column]; with categories=[] as
                                        its values
        fixed-size list of numbers      a tensor of that shape, nested ones of several dimensions
        list of numbers                 a tensor [elements] of any length, for millrace.Pad; with
                                        fixed_lists={column: sizes} of that shape
        struct                          a dict of its members, to any depth
        null                            float64 NaN with nulls="nan", or the number given; else ValueError
        extension types, run lengths    as their storage type
        other lists, maps               lists, as pyarrow's to_pylist() has them
        union, interval                 ValueError; leave them out

    Args:
        paths: files, URLs (http, s3, gs, az, and whatever fsspec reads), globs, folders, or a list of these;
            braces as in "part-{000..127}.parquet". Folders named key=value are columns, int64 or str
            (`hive=False`: they are not). Of a folder, files of any depth that end in .parquet, .pq or .parq,
            in letters of any case, or begin as Parquet does; names that begin with _ or . are passed over,
            and what else is there is a warning.
        columns: names, in the order samples should have them; None: all.
        filters: a pyarrow.compute.Expression, or a list of (column, operator, value), or a list of such lists
            as pyarrow has them. Row groups that their statistics exclude are not read; statistics of floats
            do not count, as they leave NaN out. Of the others the filter's columns are read once, here, to
            know which rows are left: len(ds) counts these. 8 bytes are kept for each.
        nulls: "raise": a null is a ValueError that names its row. "nan": NaN; whole numbers become float64,
            times the least int64 (NaT); text raises. "mask": 0, "" or an empty list, and a field
            `column_mask`, bool of the value's shape, False where there was a null. Or a dict {column: one of
            these, or what to put in place of nulls}; a struct's members are named "struct.member". Null lists
            of any length are empty but under "raise".
        categories: columns that become int64 codes: None, those of dictionary type; a list of columns: their
            values are collected here, which reads these columns once; or {column: values}: any other value is
            a ValueError.
        decimals: "float64" or "scaled".
        fixed_lists: {column: elements, or the sizes of nested lists} for lists that all have this shape.
        types: {column: pyarrow type or its name} to cast a column to; also where files differ in a column's
            type. "unified": each column that is read gets the type that pyarrow.unify_schemas() gives it over
            all files, with promote_options="permissive": int64 for int32 and int64.
        hive: whether folders named key=value are columns.
        progress: say on stderr how far scans are (True), or call this with (chunks done, chunks).
        checksums: verify the checksums of pages, where the writer put some.
        cache: a stores.DiskCache, or a folder, for files that come from stores.
        store_options: for obstore or fsspec.
        cache_bytes: of decoded row groups, for each iterator; None: an eighth of the memory that is left.

    Attributes:
        schema: pyarrow's, of the columns read.
        fields: the values of a sample.
        categories: {column: list of values}.
        row_groups: those that have samples.
        files: names of the files.

    Raises:
        FileNotFoundError: if there is no such file, no file in a folder, no match of a glob, or a 404.
        ValueError: if columns are not there, files differ in a column's type, or rules do not fit; while
            reading, if there is a null, a value out of range or a list of another size. It names file, row
            group, column and row.
        CorruptDataError: if a file is no Parquet file, or a row group cannot be decoded. With the loader's
            on_error="skip" the samples of such a row group are left out.
        UnavailableError: if pyarrow is missing.
    """

    unit = "row group"

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
        checksums: bool = False,
        cache: None | str | os.PathLike[str] | Any = None,
        store_options: dict[str, Any] | None = None,
        cache_bytes: int | None = None,
    ) -> None:
        rules = Rules(nulls, categories, decimals, fixed_lists or {}, types or {})
        super().__init__(
            list_files(paths, _ENDINGS, b"PAR1"),
            hive,
            cache,
            store_options,
            rules,
            filters,
            progress,
            cache_bytes,
        )
        self._checksums = checksums
        self._metadata = for_each(self._read_metadata, range(len(self._files)))
        self._prepare_files(columns)

    @property
    def row_groups(self) -> list[RowGroup]:
        """Those that have samples, in the order of `chunk_lengths`."""
        groups = []
        for chunk, kept in zip(self._chunks, self.chunk_lengths.tolist()):
            group = self._metadata[chunk.file].row_group(chunk.number)
            size = sum(group.column(i).total_compressed_size for i in range(group.num_columns))
            groups.append(RowGroup(self._file_name(chunk.file), chunk.number, chunk.rows, kept, size))
        return groups

    # -- reading
    # --------------------------------------------------------------------------------------------------------

    def _schema_of(self, file: int) -> Any:
        return self._metadata[file].schema.to_arrow_schema()

    def _says_what_the_first_says(self, file: int) -> bool:
        return self._metadata[file].schema.equals(self._metadata[0].schema)

    def _rows_of_chunks(self, file: int) -> list[int]:
        metadata = self._metadata[file]
        return [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]

    def _read_metadata(self, file: int) -> Any:
        try:
            return parquet().read_metadata(self._files.as_file(file))
        except (arrow().ArrowInvalid, arrow().ArrowException) as error:
            raise self._corrupt(file, "this is no Parquet file, or it is not whole", error) from None
        except OSError as error:
            raise self._of_arrow(error, "its footer cannot be read", file) from None

    def _of_arrow(self, error: Exception, what: str, file: int) -> Exception:
        """A CorruptDataError for what pyarrow says about bytes; errors of the system and of stores stay what
        they are.
        """
        if isinstance(error, CorruptDataError) or isinstance(error, OSError) and error.errno is not None:
            return error
        return self._corrupt(file, what, error)

    def _read_arrow(self, chunk: Chunk, columns: Sequence[str]) -> Any:
        try:
            return self._read_group(chunk, columns)
        except (OSError, arrow().ArrowInvalid, arrow().ArrowException) as error:
            what = f"row group {chunk.number}{self._damaged_column(chunk, columns)}"
            raise self._of_arrow(error, what, chunk.file) from None

    def _damaged_column(self, chunk: Chunk, columns: Sequence[str]) -> str:
        for name in columns if len(columns) > 1 else ():
            try:
                self._read_group(chunk, [name])
            except (OSError, arrow().ArrowException):
                return f", column {name!r} cannot be decoded"
        return f", column {columns[0]!r} cannot be decoded" if len(columns) == 1 else " cannot be decoded"

    def _read_group(self, chunk: Chunk, columns: Sequence[str]) -> Any:
        metadata = self._metadata[chunk.file]
        is_local = self._files.local(chunk.file) is not None
        file = self._files.as_file(
            chunk.file, () if is_local else _ranges(metadata.row_group(chunk.number), columns)
        )
        coded = [name for name in columns if name in self.categories and "." not in name]
        with parquet().ParquetFile(
            file,
            metadata=metadata,
            read_dictionary=coded or None,
            pre_buffer=is_local,
            page_checksum_verification=self._checksums,
        ) as reader:
            table = reader.read_row_group(chunk.number, columns=list(columns), use_threads=False)
        return table.select(list(columns)) if table.column_names != list(columns) else table

    def _kept(self, chunk: Chunk) -> np.ndarray:
        """Only row groups that statistics do not exclude are read, and of them what the filter speaks of."""
        fragment, schema = self._fragment(chunk.file)
        part = fragment.subset(row_group_ids=[chunk.number])
        if not part.subset(filter=self._filter, schema=schema).row_groups and self._is_excluded(chunk):
            return np.empty(0, np.int64)
        try:
            return true_rows(
                part.scanner(schema=schema, columns={"keep": self._filter}, use_threads=False).to_table()
            )
        except OSError as error:
            what = f"row group {chunk.number} cannot be decoded where the filter reads it"
            raise self._of_arrow(error, what, chunk.file) from None

    def _is_excluded(self, chunk: Chunk) -> bool:
        """Whether a row group that statistics exclude is excluded without those of floats: they leave NaN
        out, and pyarrow takes -0.0 and 0.0 for two values in some places.
        """
        metadata, names = self._metadata[chunk.file], named_by(self._filter, self._schema.names)
        leaves = [n for n in range(metadata.num_columns) if _is_of(metadata.schema.column(n).path, names)]
        if not any(is_float(metadata.schema.column(leaf)) for leaf in leaves):
            return True
        known = known_without_floats(metadata, chunk.number, leaves, self._schema)
        fragment, schema = self._fragment(chunk.file, known)
        whole = arrow_dataset().FileSystemDataset([fragment], schema, fragment.format)
        return not list(whole.get_fragments(filter=self._filter))

    def _fragment(self, file: int, known: Any = None) -> tuple[Any, Any]:
        """`known`: an expression that is true of all rows."""
        pa = arrow()
        opened = self._files.as_file(file)
        system = {} if isinstance(opened, SourceFile) else {"filesystem": arrow_files().LocalFileSystem()}
        values = self._partitions.values(file)
        fields = [field for field in self._schema if field.name not in values]
        for name, value in values.items():
            fields.append(pa.field(name, pa.string() if self._partitions.is_text(name) else pa.int64()))
            field = compute().field(name)
            equal = field.is_null() if value is None else field == pa.scalar(value, fields[-1].type)
            known = equal if known is None else known & equal
        fragment = (
            arrow_dataset().ParquetFileFormat().make_fragment(opened, partition_expression=known, **system)
        )
        return fragment, pa.schema(fields)


def _is_of(path: str, names: Collection[str]) -> bool:
    """Whether a leaf of the schema belongs to one of the columns."""
    return path in names or any(path.startswith(f"{name}.") for name in names)


def _ranges(group: Any, columns: Sequence[str]) -> list[tuple[int, int]]:
    """Where the pages of these columns lie in the file: (offset, bytes)."""
    names, ranges = set(columns), []
    for number in range(group.num_columns):
        column = group.column(number)
        path = column.path_in_schema
        if _is_of(path, names):
            begins = [
                begin
                for begin in (column.dictionary_page_offset, column.data_page_offset)
                if begin is not None
            ]
            ranges.append((min(begins), column.total_compressed_size))
    return ranges
