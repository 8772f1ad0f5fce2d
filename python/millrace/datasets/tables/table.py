"""Table: a map-style dataset over a table in memory: pyarrow's, pandas', polars', a result of duckdb or
adbc.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..._common.lowering.recognising import is_a
from .arrow_package import arrow
from .mapping import FixedNumbers, plain, plain_type
from .numbers import read_lists
from .rules import Nulls, Rules, Shape
from .tabular import Chunk, Tabular


class Table(Tabular):
    """Rows of a table in memory as a map-style dataset: sample i is {column: value}, a batch {column: tensor
    or list of str}.

    Columns of numbers without nulls are gathered where they lie, without a copy of the table, as quickly as
    tensors in a TensorDataset; other tables go through chunks of `chunk_rows` rows, converted when they are
    needed.

    Args:
        data: pyarrow.Table, RecordBatch, RecordBatchReader (which is read to its end) or list of
            RecordBatches; pandas.DataFrame, without its index, NaN in columns of floats being NaN and no
            null; Hugging Face's datasets.Dataset; a dict of arrays; or anything with __arrow_c_stream__:
            polars.DataFrame, duckdb's relations and results, adbc's cursors' fetch_record_batch().
        chunk_rows: rows of a chunk at most, for `shuffled()` and the cache.

    The other arguments, types, attributes and errors are those of `Parquet`, where they apply; messages name
    rows of the table.
    """

    unit = "chunk"

    def __init__(
        self,
        data: Any,
        columns: Sequence[str] | None = None,
        filters: Any = None,
        *,
        nulls: Nulls = "raise",
        categories: None | Sequence[str] | Mapping[str, Any] = None,
        decimals: str = "float64",
        fixed_lists: Mapping[str, Shape] | None = None,
        types: Mapping[str, Any] | None = None,
        chunk_rows: int = 65536,
        cache_bytes: int | None = None,
    ) -> None:
        super().__init__(
            Rules(nulls, categories, decimals, fixed_lists or {}, types or {}), filters, False, cache_bytes
        )
        if chunk_rows < 1:
            raise ValueError(f"chunk_rows={chunk_rows} should be 1 or more")
        self._table = as_table(data).unify_dictionaries()
        rows = len(self._table)
        chunks = [
            Chunk(0, i, min(chunk_rows, rows - at), at) for i, at in enumerate(range(0, rows, chunk_rows))
        ]
        self._prepare(self._table.schema, chunks, columns)

    def _file_name(self, file: int) -> str:
        return "the table"

    def _read_arrow(self, chunk: Chunk, columns: Sequence[str]) -> Any:
        return self._table.select(list(columns)).slice(chunk.first, chunk.rows)

    def plain_tables(self) -> list[list[np.ndarray]] | None:
        """The arrays that the rows of each field lie in.

        Returns:
            For each field the arrays, of shape (rows, *shape). None where a column is not plain numbers
            without nulls, or a filter leaves rows out.
        """
        if (
            self._filter is not None
            or self._rules.types
            or not all(type(r) is FixedNumbers and len(r.fields) == 1 for r in self._readers.values())
        ):
            return None
        tables = []
        for reader in self._readers.values():
            assert isinstance(reader, FixedNumbers)
            column = self._table.column(reader.name)
            if column.null_count or not _lies_there(column.type):
                return None
            parts = [
                read_lists(plain(chunk), reader.sizes, "float64") for chunk in column.chunks if len(chunk)
            ]
            if any(valid is not None or values.dtype != reader.dtype for values, valid in parts):
                return None
            tables.append([values.reshape(-1, *reader.shape) for values, _ in parts])
        return tables


def _lies_there(kind: Any) -> bool:
    """Whether numbers of this type are used where Arrow has them."""
    types, kind = arrow().types, plain_type(kind)
    while types.is_fixed_size_list(kind):
        kind = kind.value_type
    return types.is_floating(kind) or types.is_integer(kind) and not types.is_uint64(kind)


def as_table(data: Any) -> Any:
    """A pyarrow.Table of what Table takes, its memory shared where the other library shares it. TypeError for
    anything else.
    """
    pa = arrow()
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if isinstance(data, pa.RecordBatchReader):
        return data.read_all()
    if is_a(data, "pandas", "DataFrame"):
        return _of_pandas(data)
    if is_a(data, "datasets", "Dataset"):
        return data.with_format("arrow")[:]
    if isinstance(data, Mapping):
        return pa.table(
            {
                name: np.asarray(column) if hasattr(column, "__array__") else column
                for name, column in data.items()
            }
        )
    if isinstance(data, (list, tuple)) and data and all(isinstance(part, pa.RecordBatch) for part in data):
        return pa.Table.from_batches(data)
    if hasattr(data, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(data).read_all()
    if hasattr(data, "__arrow_c_array__"):
        return pa.Table.from_batches([pa.record_batch(data)])
    raise TypeError(
        "Table takes what Arrow knows: a pyarrow.Table, a DataFrame, or an object with __arrow_c_stream__;"
        f" {type(data).__name__} is none (a LazyFrame of polars needs collect(), files are read by Parquet"
        " and ArrowFile)"
    )


def _of_pandas(frame: Any) -> Any:
    pa, columns = arrow(), {}
    for name in frame.columns:
        series = frame[name]
        if getattr(series, "ndim", 1) != 1:
            raise ValueError(f"two columns of the DataFrame are called {name!r}; rename one")
        is_numbers = isinstance(series.dtype, np.dtype) and series.dtype.kind in "fiub"
        columns[str(name)] = (
            pa.array(series.to_numpy(), from_pandas=False) if is_numbers else pa.Array.from_pandas(series)
        )
    return pa.table(columns)
