"""A filter leaves the same rows of Parquet files as of the table in memory, whatever statistics say."""

from __future__ import annotations

import datetime
import itertools

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from millrace.datasets import Parquet, Table

NAN, INF = float("nan"), float("inf")
VALUES = [NAN, 0.0, -0.0, INF, -INF, 1.5, 3.0, -3.0, None]
FLOATS = {"float16": pa.float16(), "float32": pa.float32(), "float64": pa.float64()}


def floats(kind: pa.DataType, seed: int, rows: int) -> pa.Array:
    """Stretches of few values, so that row groups have statistics that say much, and random ones."""
    random = np.random.default_rng(seed)
    drawn = [VALUES[i] for i in random.integers(0, len(VALUES), rows)]
    for begin in range(6, rows // 2, 3):
        few = random.choice(len(VALUES), 2, replace=False)
        drawn[begin : begin + 3] = [VALUES[i] for i in random.choice(few, 3)]
    drawn[:6] = [3.0, NAN, 3.0, -0.0, -0.0, -0.0]
    return pa.array([None if v is None else kind.to_pandas_dtype()(v) for v in drawn], kind)


def conditions(x: pc.Expression, value: pa.Scalar, others: pa.Array) -> list[pc.Expression]:
    return [
        x == value,
        x != value,
        x < value,
        x <= value,
        x > value,
        x >= value,
        ~(x == value),
        ~(x > value),
        x.isin(others),
        ~x.isin(others),
        x.is_null(),
        x.is_null(nan_is_null=True),
        x.is_valid(),
        x.is_nan(),
        ~x.is_nan(),
        (x != value) | (pc.field("row") < 9),
        (x != value) & (pc.field("row") < 9),
    ]


def rows_of(dataset: Parquet | Table) -> list[int]:
    return [int(sample["row"]) for sample in dataset.__getitems__(list(range(len(dataset))))]


def outcome(make, *arguments) -> list[int] | None:
    """None: pyarrow cannot compute it, as it cannot compare float16."""
    try:
        return rows_of(make(*arguments))
    except ValueError as error:
        assert "has no kernel" in str(error)
        return None


@pytest.mark.parametrize("form", ["plain", "dictionary", "nested", "renamed"])
@pytest.mark.parametrize("kind", FLOATS)
def test_floats_of_files_are_those_in_memory(kind, form, tmp_path):
    if (kind, form) == ("float16", "dictionary"):
        pytest.skip("pyarrow makes no dictionaries of float16")
    rows, name = 36, "a.x (y)" if form == "renamed" else "x"
    column = floats(FLOATS[kind], len(form), rows)
    field = pc.field("s", name) if form == "nested" else pc.field(name)

    def table_of(values: pa.Array) -> pa.Table:
        made = {"s": pa.StructArray.from_arrays([values], [name])} if form == "nested" else {name: values}
        return pa.table({"row": pa.array(range(rows)), **made})

    written = table_of(column.dictionary_encode() if form == "dictionary" else column)
    pq.write_table(written, tmp_path / "a.parquet", row_group_size=3)
    kept = 0
    for value, more in itertools.product((3.0, 0.0, NAN, INF), ([], [1.5, None])):
        scalar, *others = (pa.scalar(v, pa.float64()).cast(FLOATS[kind]) for v in (value, value, *more))
        for condition in conditions(field, scalar, pa.array(others, FLOATS[kind])):
            wanted = outcome(Table, table_of(column), ["row"], condition)
            assert outcome(Parquet, tmp_path / "a.parquet", ["row"], condition) == wanted, condition
            kept += len(wanted or ())
    assert kept > 400


def test_lists_of_conditions(tmp_path):
    table = pa.table({"row": range(6), "x": [3.0, NAN, 3.0, -0.0, -0.0, -0.0], "g": [0, 0, 0, 1, 1, 1]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=3)
    for (op, value), more in itertools.product(
        [("!=", 3.0), ("in", [0.0]), ("not in", [3.0]), ("==", 0.0)], [[], [("g", ">=", 0)], [("g", "=", 1)]]
    ):
        filters = [("x", op, value), *more]
        assert rows_of(Parquet(tmp_path / "a.parquet", filters=filters)) == rows_of(
            Table(table, filters=filters)
        )


DAY = datetime.date(2024, 5, 1)
# Columns whose statistics still exclude a row group beside a float, and what is true in the first one only.
KNOWN = {
    "int": (pa.array([1, 2, 3, 10, 11, 12]), lambda c: c < 5),
    "uint64": (pa.array([1, 2, 3, 2**62, 2**63 - 1, 2**62], pa.uint64()), lambda c: c < 2**61),
    "nulls": (pa.array([1, 2, 3, None, None, 12]), lambda c: c < 5),
    "text": (pa.array(["a", "b", "c", "x", "y", "z"]), lambda c: c.isin(["b", "c"])),
    "day": (
        pa.array([DAY + datetime.timedelta(i) for i in (0, 1, 2, 10, 11, 12)]),
        lambda c: c == pa.scalar(DAY),
    ),
    "time": (
        pa.array([0, 1, 2, 10, 11, 12], pa.timestamp("ns")),
        lambda c: c < pa.scalar(5, pa.timestamp("ns")),
    ),
}


@pytest.mark.parametrize("name", KNOWN)
def test_other_columns_still_exclude_row_groups(name, tmp_path):
    """What is excluded is not read: the second row group is damaged, and no one notices."""
    column, condition = KNOWN[name]
    table = pa.table({"row": range(6), "x": [3.0, NAN, 3.0] * 2, "c": column})
    path = tmp_path / "a.parquet"
    pq.write_table(table, path, row_group_size=3, compression="none", use_dictionary=False)
    wanted = rows_of(Table(table, filters=condition(pc.field("c")) & (pc.field("x") != 3.0)))
    group = pq.read_metadata(path).row_group(1)
    data = bytearray(path.read_bytes())
    for number in range(group.num_columns):
        begin = group.column(number).data_page_offset
        data[begin : begin + group.column(number).total_compressed_size] = bytes(
            group.column(number).total_compressed_size
        )
    path.write_bytes(data)
    both = condition(pc.field("c")) & (pc.field("x") != 3.0)
    if name == "nulls":  # they could be anything to pyarrow
        with pytest.raises(Exception, match="row group 1 cannot be decoded"):
            Parquet(path, filters=both)
    else:
        assert rows_of(Parquet(path, filters=both)) == wanted
