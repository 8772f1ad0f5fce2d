"""Arrow columns of every type that tables map, and what samples should hold, said by pyarrow's own
to_pylist().
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from hypothesis import strategies as st
from millrace.datasets import ArrowFile, Parquet, Table

INTS = {f"{sign}int{bits}": bits - (sign == "") for sign in ("", "u") for bits in (8, 16, 32, 64)}
HALF = st.floats(width=16, allow_nan=False)
DECIMALS = st.decimals(-(10**9), 10**9, places=2, allow_nan=False)
TEXT = st.text(max_size=8)
DATES = st.dates(datetime.date(1900, 1, 1), datetime.date(2200, 1, 1))
STAMPS = st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2200, 1, 1))
CODES = st.sampled_from(["red", "green", "blue", ""])


def ints(name: str) -> st.SearchStrategy[int]:
    bits = min(INTS[name], 63)
    return st.integers(0 if name.startswith("u") else -(2**bits), 2**bits - 1)


# name: (Arrow type, values). Fixed-size and nested ones are built of these below.
TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    **{name: (getattr(pa, name)(), ints(name)) for name in INTS},
    "float16": (pa.float16(), HALF.map(np.float16)),
    "float32": (pa.float32(), st.floats(width=32, allow_nan=False)),
    "float64": (pa.float64(), st.floats(allow_nan=False)),
    "bool": (pa.bool_(), st.booleans()),
    "date32": (pa.date32(), DATES),
    "date64": (pa.date64(), DATES),
    "time32": (
        pa.time32("ms"),
        st.times().map(lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000)),
    ),
    "time64": (pa.time64("us"), st.times()),
    "timestamp": (pa.timestamp("us"), STAMPS),
    "zoned": (
        pa.timestamp("ms", "Europe/Berlin"),
        STAMPS.map(lambda t: int(t.replace(tzinfo=datetime.timezone.utc).timestamp() * 1000)),
    ),
    "duration": (pa.duration("us"), st.timedeltas(datetime.timedelta(-1000), datetime.timedelta(1000))),
    "decimal128": (pa.decimal128(20, 2), DECIMALS),
    "decimal256": (pa.decimal256(50, 2), DECIMALS),
    "string": (pa.string(), TEXT),
    "large_string": (pa.large_string(), TEXT),
    "binary": (pa.binary(), st.binary(max_size=5)),
    "fixed_binary": (pa.binary(3), st.binary(min_size=3, max_size=3)),
    "codes": (pa.dictionary(pa.int8(), pa.string()), CODES),
    "list": (pa.list_(pa.int32()), st.lists(ints("int32"), max_size=4)),
    "large_list": (pa.large_list(pa.float32()), st.lists(st.floats(width=32, allow_nan=False), max_size=4)),
    "pairs": (pa.list_(pa.float64(), 2), st.lists(st.floats(allow_nan=False), min_size=2, max_size=2)),
    "flags": (pa.list_(pa.bool_(), 3), st.lists(st.booleans(), min_size=3, max_size=3)),
    "matrix": (
        pa.list_(pa.list_(pa.int16(), 2), 2),
        st.lists(st.lists(ints("int16"), min_size=2, max_size=2), min_size=2, max_size=2),
    ),
    "list_of_pairs": (
        pa.list_(pa.list_(pa.int64(), 2)),
        st.lists(st.lists(ints("int64"), min_size=2, max_size=2), max_size=3),
    ),
    "words": (pa.list_(pa.string()), st.lists(TEXT, max_size=3)),
    "struct": (
        pa.struct([("x", pa.int32()), ("in", pa.struct([("y", pa.string())]))]),
        st.fixed_dictionaries({"x": ints("int32"), "in": st.fixed_dictionaries({"y": TEXT})}),
    ),
}
ONLY_ARROW = {"string_view": (pa.string_view(), TEXT)}
DTYPES = {
    "uint64": "int64",
    "date32": "int64",
    "date64": "int64",
    "time32": "int64",
    "time64": "int64",
    "timestamp": "int64",
}
DTYPES |= {
    "zoned": "int64",
    "duration": "int64",
    "decimal128": "float64",
    "decimal256": "float64",
    "codes": "int64",
}
RAGGED = {"list": "int32", "large_list": "float32", "list_of_pairs": "int64"}
FIXED = {"pairs": "float64", "flags": "bool", "matrix": "int16"}


def expected(name: str, column: pa.ChunkedArray, categories: list[Any]) -> list[Any]:
    """What the samples hold, as Python values and arrays."""
    kind = column.type
    if name == "codes":
        return [categories.index(value) for value in column.to_pylist()]
    if pa.types.is_temporal(kind):
        narrow = pa.int32() if kind.bit_width == 32 else pa.int64()
        return pa.chunked_array([c.view(narrow) for c in column.chunks], narrow).to_pylist()
    values = column.to_pylist()
    if pa.types.is_decimal(kind):
        return [float(value) for value in values]
    if name in RAGGED or name in FIXED:
        dtype = (RAGGED | FIXED)[name]
        shape = (
            (-1, 2)
            if name == "list_of_pairs"
            else (-1,)
            if name in RAGGED
            else (2, 2)
            if name == "matrix"
            else (kind.list_size,)
        )
        return [np.array(value, dtype).reshape(shape) for value in values]
    return values


def same(value: Any, wanted: Any, dtype: Any = None) -> bool:
    """Whether a sample's value is the one, and of the type that the table says."""
    if isinstance(wanted, np.ndarray):
        return (
            isinstance(value, torch.Tensor)
            and value.numpy().dtype == wanted.dtype
            and np.array_equal(value.numpy(), wanted)
        )
    if isinstance(wanted, dict):
        return wanted.keys() == value.keys() and all(same(value[key], wanted[key]) for key in wanted)
    if isinstance(wanted, (str, bytes, list)):
        return type(value) is type(wanted) and value == wanted
    return isinstance(value, np.generic) and (dtype is None or value.dtype == dtype) and value == wanted


def write_parquet(table: pa.Table, folder: Path, rows: int, **options: Any) -> Parquet:
    pq.write_table(table, folder / "t.parquet", row_group_size=rows)
    return Parquet(folder / "t.parquet", **options)


def write_ipc(make: Callable[..., Any], compression: str | None) -> Callable[..., ArrowFile]:
    def write(table: pa.Table, folder: Path, rows: int, **options: Any) -> ArrowFile:
        choices = pa.ipc.IpcWriteOptions(
            compression=compression, emit_dictionary_deltas=make is pa.ipc.new_stream
        )
        with (
            pa.OSFile(str(folder / "t.arrow"), "wb") as file,
            make(file, table.schema, options=choices) as writer,
        ):
            writer.write_table(table, max_chunksize=rows)
        return ArrowFile(folder / "t.arrow", **options)

    return write


SOURCES = {
    "parquet": write_parquet,
    "ipc file": write_ipc(pa.ipc.new_file, None),
    "ipc stream": write_ipc(pa.ipc.new_stream, None),
    "compressed ipc": write_ipc(pa.ipc.new_file, "zstd"),
    "memory": lambda table, folder, rows, **options: Table(table, chunk_rows=rows, **options),
}


def array_of(kind: pa.DataType, values: list[Any]) -> pa.Array:
    if pa.types.is_dictionary(kind):
        return pa.array(values, kind.value_type).dictionary_encode().cast(kind)
    if kind == pa.decimal128(20, 2) or kind == pa.decimal256(50, 2):
        values = [None if value is None else decimal.Decimal(value) for value in values]
    return pa.array(values, kind)
