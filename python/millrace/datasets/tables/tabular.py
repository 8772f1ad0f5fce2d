"""Tabular: what Parquet, ArrowFile and Table have in common: chunks of an Arrow schema become samples, dicts
of their columns.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from millrace.errors import CorruptDataError, corrupt_data

from ..batches import ChunkedDataset, sample_values
from .arrow_package import arrow, arrow_dataset, compute
from .filtering import Progress, as_expression, for_each, true_rows
from .hugging_face import array_shapes, class_names
from .mapping import ColumnReader, FixedNumbers, Struct, Values, column_reader, laid_out, plain, plain_type
from .numbers import BadValue
from .rules import Rules, shown, unified

_TEXT_BYTES = 32  # of a value without a dtype, until a chunk has been read


@dataclass(frozen=True)
class Chunk:
    """A row group or record batch. `rows` it holds, from row `first` of file `file` on, as that file's
    `number`-th.
    """

    file: int
    number: int
    rows: int
    first: int


class Tabular(ChunkedDataset):
    """The base. A class derived from it lists its chunks and schema, calls _prepare(), and says how a chunk
    is read (_read_arrow).

    `constants`: values of columns that are the same in all of a file, by file.
    """

    layout = "dict"
    unit = "chunk"  # what messages call a chunk

    def __init__(self, rules: Rules, filters: Any, progress: Progress, cache_bytes: int | None) -> None:
        super().__init__(cache_bytes)
        arrow()
        self._rules, self._filter, self._progress = rules, as_expression(filters), progress
        self._broken: dict[int, Exception] = {}
        self._arrow_kept: tuple[int, Any] | None = None
        self.categories: dict[str, list[Any]] = {}

    # -- what a derived class gives
    # ----------------------------------------------------------------------------------------------

    def _read_arrow(self, chunk: Chunk, columns: Sequence[str]) -> Any:
        """These columns of a chunk, as a pyarrow.Table in this order. Any thread. CorruptDataError names
        file, chunk and column.
        """
        raise NotImplementedError

    def _file_name(self, file: int) -> str:
        raise NotImplementedError

    def _corrupt(self, file: int, what: str, error: Exception) -> CorruptDataError:
        """The error with the file's name, `what` as its description, and pyarrow's message."""
        name = self._file_name(file)
        return corrupt_data(name, f"{name}: {what}: {error}")

    def _kept(self, chunk: Chunk) -> np.ndarray:
        """The rows that the filter leaves, int64."""
        table = self._read_arrow(chunk, self._schema.names)
        scanner = arrow_dataset().dataset(table).scanner(columns={"keep": self._filter}, use_threads=False)
        return true_rows(scanner.to_table())

    def _constants_of(self, file: int) -> Mapping[str, Any]:
        return {}

    # -- made of it
    # --------------------------------------------------------------------------------------------------------

    def _prepare(
        self,
        schema: Any,
        chunks: Sequence[Chunk],
        columns: Sequence[str] | None,
        constants: Mapping[str, bool] = {},
    ) -> None:
        """`schema`: of the files, as a pyarrow.Schema. `constants`: {name: whether it is text}."""
        self._schema = schema
        every = [*(n for n in schema.names if n not in constants), *constants]
        self._check_columns(every, columns)
        wanted = every if columns is None else list(columns)
        self._rules.check_names(wanted)
        self.categories = class_names(schema, wanted)
        self._columns = tuple(name for name in wanted if name not in constants)
        shapes = {name: shape for name, shape in array_shapes(schema).items() if name in self._columns}
        self._rules = replace(self._rules, fixed_lists={**shapes, **self._rules.fixed_lists})
        self._constants = {name: is_text for name, is_text in constants.items() if name in wanted}
        self._select(chunks)
        self._readers = {name: self._reader(name) for name in wanted}
        self.fields = tuple(field for reader in self._readers.values() for field in reader.fields)
        self._row_bytes = sum(
            np.dtype(f.dtype).itemsize * math.prod(f.shape or ()) if f.is_array else _TEXT_BYTES
            for f in self.fields
        )
        names = [field.name for field in self.fields]
        self._is_nested = any(type(reader) is Struct for reader in self._readers.values())
        if twice := {name for name in names if names.count(name) > 1}:
            raise ValueError(
                f"two fields would be called {shown(sorted(twice))}; rename the column, or use another policy"
                ' than "mask"'
            )

    def _check_columns(self, there: Sequence[str], columns: Sequence[str] | None) -> None:
        if isinstance(columns, str):
            raise ValueError(f"columns={columns!r} should be a list of names")
        if twice := {name for name in there if there.count(name) > 1}:
            raise ValueError(
                f"{self._file_name(0)}: two columns are called {shown(sorted(twice))}; choose others with"
                " columns="
            )
        missing = [name for name in columns or () if name not in there]
        if missing:
            raise ValueError(
                f"{self._file_name(0)}: there is no column {shown(missing)}; there are {shown(there)}"
            )
        if not there or columns is not None and len(columns) == 0:
            raise ValueError(f"{self._file_name(0)}: no columns are left to read")

    def _select(self, chunks: Sequence[Chunk]) -> None:
        """Chunks that have rows, and which of their rows the filter leaves."""
        chunks = [chunk for chunk in chunks if chunk.rows]
        self._rows: list[np.ndarray | None] = [None] * len(chunks)
        if self._filter is not None:
            try:
                kept = for_each(self._kept, chunks, "looking which rows the filter leaves", self._progress)
            except (arrow().ArrowInvalid, arrow().ArrowNotImplementedError, arrow().ArrowKeyError) as error:
                raise ValueError(f"filters= cannot be applied: {error}") from None
            chosen = [(chunk, rows) for chunk, rows in zip(chunks, kept) if len(rows)]
            chunks = [chunk for chunk, _ in chosen]
            self._rows = [None if len(rows) == chunk.rows else rows for chunk, rows in chosen]
        self._chunks = list(chunks)
        lengths = [chunk.rows if rows is None else len(rows) for chunk, rows in zip(chunks, self._rows)]
        self.chunk_lengths = np.array(lengths, dtype=np.int64)

    def _reader(self, name: str) -> ColumnReader:
        if name in self._constants:  # of folders: text or whole numbers
            if self._constants[name]:
                return Values(name, arrow().string(), self._rules)
            return FixedNumbers(name, arrow().int64(), self._rules, "int64", ())
        kind = self._rules.type_of(name, self._schema.field(name).type)
        return column_reader(name, kind, self._rules, self._collect_categories)

    def _collect_categories(self, name: str) -> Any:
        """The values that a column's codes count: as given, or all of all chunks."""
        pa, given = arrow(), self._rules.categories
        kind = self._schema
        for part in name.split("."):
            kind = kind.field(part).type
        kind = plain_type(kind)
        if isinstance(given, Mapping) and given.get(name) is not None:
            try:
                values = pa.array(list(given[name]), kind)
            except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
                raise ValueError(
                    f"categories={{{name!r}: ...}}: these are no values of {kind} ({error})"
                ) from None
            if values.null_count or len(values.unique()) != len(values):
                raise ValueError(f"categories={{{name!r}: ...}}: values come twice, or are null")
        else:
            values = self._all_values(name, kind)
        self.categories[name] = values.to_pylist()
        return values

    def _all_values(self, name: str, kind: Any) -> Any:
        """Of dictionaries in their order when they are the same in all chunks, else sorted."""
        if "." in name:
            raise ValueError(
                f"column {name!r} is in a struct: give categories={{{name!r}: [values, ...]}}, or"
                " categories=[] to decode it"
            )

        def values_of(chunk: Chunk) -> list[Any]:
            found = self._read_arrow(chunk, [name]).column(0).chunks
            values = [
                plain(a.dictionary if hasattr(a, "dictionary") else plain(a).unique()).drop_null().cast(kind)
                for a in found
            ]
            try:
                for value in values:
                    value.validate(full=True)  # text that is no UTF-8, say
            except arrow().ArrowException as error:
                what = f"{self.unit} {chunk.number}, column {name!r} is damaged"
                raise self._corrupt(chunk.file, what, error) from None
            return values

        parts = [
            part
            for found in for_each(values_of, self._chunks, f"collecting categories of {name}", self._progress)
            for part in found
        ]
        if (
            all(part.equals(parts[0]) for part in parts[1:])
            and parts
            and arrow().types.is_dictionary(self._schema.field(name).type)
        ):
            return parts[0]
        together = arrow().chunked_array(parts, kind).unique().drop_null()
        return together.take(compute().sort_indices(together))

    # -- chunks
    # --------------------------------------------------------------------------------------------------------

    def read_chunk(self, number: int) -> list[Any]:
        """One column for each of `fields`.

        Raises:
            CorruptDataError, ValueError: with the file, the chunk and the column.
        """
        if number in self._broken:  # a damaged chunk is not decoded again for each of its samples
            raise self._broken[number].with_traceback(None)
        try:
            return self._columns_of(
                number, self._read_arrow(self._chunks[number], self._columns), self._rows[number]
            )
        except (CorruptDataError, ValueError) as error:
            self._broken[number] = error
            raise

    def _columns_of(self, number: int, table: Any, rows: np.ndarray | None) -> list[Any]:
        """One column for each field, of these rows of the chunk; None: all."""
        chunk = self._chunks[number]
        if rows is not None:
            table = table.take(arrow().array(rows))
        count, constants = chunk.rows if rows is None else len(rows), self._constants_of(chunk.file)
        made: list[Any] = []
        for name, reader in self._readers.items():
            if name in self._constants:
                column = arrow().repeat(arrow().scalar(constants[name], reader.kind), count)
            else:
                parts = table.column(name)
                column = parts.chunk(0) if parts.num_chunks == 1 else parts.combine_chunks()
            made += self._read_column(reader, column, chunk, rows)
        return made

    def _read_column(
        self, reader: ColumnReader, array: Any, chunk: Chunk, rows: np.ndarray | None
    ) -> list[Any]:
        pa, types = arrow(), self._rules.types
        where = f"{self.unit} {chunk.number}, column {reader.name!r}"
        try:
            if not isinstance(types, str) and types.get(reader.name) is not None:
                array = array.cast(reader.kind)
            return reader.read(array, (self._file_name(chunk.file), where))
        except BadValue as error:
            row = chunk.first + (error.row if rows is None else int(rows[min(error.row, len(rows) - 1)]))
            where = f"{self.unit} {chunk.number}, column {error.column or reader.name!r}, row {row}"
            raise ValueError(f"{self._file_name(chunk.file)}: {where}: {error.what}") from None
        except (
            UnicodeDecodeError,
            IndexError,
        ) as error:  # text or dictionary codes, as they lie there
            raise self._corrupt(chunk.file, f"{where} is damaged", error) from None
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            where = f"{self._file_name(chunk.file)}: {where}"
            raise ValueError(f"{where} cannot be read as {reader.kind}: {error}") from None

    def chunk_bytes(self, number: int) -> int:
        """The bytes that a chunk's columns will occupy: exact for numbers, a guess for text and lists."""
        return int(self.chunk_lengths[number]) * self._row_bytes

    def laid_out(self, values: Sequence[Any], sequence: type) -> dict[str, Any]:
        if not self._is_nested:
            return {field.name: value for field, value in zip(self.fields, values)}
        return laid_out(self._readers.items(), iter(values))

    def _samples(self, indices: np.ndarray) -> list[Any]:
        try:
            return super()._samples(indices)
        except ValueError:  # of one row perhaps, and the others of its chunk are sound
            return [self._sample_alone(int(index)) for index in indices]

    def _sample_alone(self, index: int) -> Any:
        number = int(np.searchsorted(self.chunk_starts, index, side="right")) - 1
        at = index - int(self.chunk_starts[number])
        rows = self._rows[number]
        row = np.array([at if rows is None else rows[at]])
        if self._arrow_kept is None or self._arrow_kept[0] != number:
            self._arrow_kept = number, self._read_arrow(self._chunks[number], self._columns)
        columns, only = self._columns_of(number, self._arrow_kept[1], row), np.zeros(1, np.int64)
        values = [sample_values(column, field, only)[0] for field, column in zip(self.fields, columns)]
        return self.laid_out(values, tuple)

    @property
    def schema(self) -> Any:
        """The pyarrow.Schema of the columns that are read, without those made from folder names."""
        return arrow().schema([self._schema.field(name) for name in self._columns])

    def __getstate__(self) -> dict[str, Any]:
        progress = self._progress if isinstance(self._progress, bool) else False
        return {**self.__dict__, "_progress": progress, "_broken": {}, "_arrow_kept": None}


def check_same(
    schema: Any, first: Any, file: str, first_file: str, rules: Rules, names: Sequence[str]
) -> None:
    """ValueError where a file lacks one of the columns that are read, or has it in another type than the
    first file.
    """
    for name in names:
        if name not in schema.names:
            raise ValueError(
                f"{file}: there is no column {name!r}, which {first_file} has; leave it out with columns="
            )
        here, there = schema.field(name).type, first.field(name).type
        if name not in rules.types and _alike(here, name, rules) != _alike(there, name, rules):
            wider = unified([there, here])
            casts = f'types="unified" reads both as {wider}, ' if wider is not None else ""
            raise ValueError(
                f"{file}: column {name!r} is {here}, and {there} in {first_file}; {casts}"
                f"types={{{name!r}: ...}} casts it, columns= leaves it out"
            )


def _alike(kind: Any, name: str, rules: Rules) -> str:
    """The same for types that are read alike."""
    coded = rules.has_codes(name, kind) and rules.categories is None
    text = str(plain_type(kind)).replace("large_", "").replace(" not null", "")
    return ("codes of " if coded else "") + text
