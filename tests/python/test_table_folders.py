"""Folders of tables as other programs leave them: the files that pyarrow.dataset reads are read, or a message
says what was not; files whose types differ.
"""

from __future__ import annotations

import os
import warnings

import pytest
from millrace import DataLoader
from millrace.datasets import ArrowFile, Parquet

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pads = pytest.importorskip("pyarrow.dataset")


def write(path, *values, **kinds):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"x": pa.array(values, kinds.get("kind", pa.int64()))}), path)


def rows(dataset):
    return sorted(row["x"] for row in map(dataset.__getitem__, range(len(dataset))))


NAMES = {
    "upper case": ["a.PARQUET", "b.Parquet", "c.PQ", "sub/d.PARQ"],
    "no ending": ["part-r-00000", "part-r-00001", "sub/part-m-00002"],
    "other endings": ["a.parquet.snappy", "b.parq.bak", "c.parquet~", "d.dat"],
    "hidden ones": (
        "a.parquet _b.parquet .c.parquet _temporary/0/d.parquet .ipynb_checkpoints/e.parquet"
    ).split(),
    "mixed": ["x.PaRqUeT", "y=1/z.parquet", "y=1/part-0", "_metadata.parquet"],
    "deep": ["a/b/c/d.parquet", "a/b/e.PARQUET", "a/f", "a/_g/h.parquet"],
}


@pytest.mark.parametrize("kind", NAMES)
def test_pyarrows_files_are_ours(tmp_path, kind):
    for number, name in enumerate(NAMES[kind]):
        write(tmp_path / name, number, number + 100)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours = Parquet(tmp_path, hive=False)
    right = pads.dataset(str(tmp_path), format="parquet")
    assert sorted(ours.files) == sorted(right.files)
    assert rows(ours) == sorted(right.to_table()["x"].to_pylist())


def test_links_are_followed(tmp_path):
    write(tmp_path / "elsewhere" / "a.parquet", 1, 2)
    write(tmp_path / "here" / "b.parquet", 3)
    os.symlink(tmp_path / "elsewhere", tmp_path / "here" / "link")
    os.symlink(tmp_path / "elsewhere" / "a.parquet", tmp_path / "here" / "c.parquet")
    right = pads.dataset(str(tmp_path / "here"), format="parquet").to_table()["x"].to_pylist()
    assert rows(Parquet(tmp_path / "here")) == sorted(right) == [1, 1, 2, 2, 3]


@pytest.mark.parametrize("other", ["README.md", "x.csv", "sub/x.json", "x.parquet.crc", "empty", "x.orc"])
def test_what_is_left_out_is_said(tmp_path, other):
    write(tmp_path / "a.parquet", 1)
    (tmp_path / other).parent.mkdir(exist_ok=True)
    (tmp_path / other).write_bytes(b"" if other == "empty" else b"no table")
    with pytest.warns(UserWarning, match=f"{other}' left out"):
        assert rows(Parquet(tmp_path)) == [1]


@pytest.mark.parametrize(
    "pattern, right",
    [
        ("*", [1, 2, 3]),
        ("*.parquet", [1, 2]),
        ("t-?.parquet", [2]),
        ("**/*.parquet", [1, 2]),
        ("*/p*", [2, 3]),
    ],
)
def test_globs_take_tables_that_are_folders(tmp_path, pattern, right):
    """As Spark leaves them: each a folder of parts."""
    write(tmp_path / "a.parquet", 1)
    write(tmp_path / "t-0.parquet" / "part-0.parquet", 2)
    write(tmp_path / "u" / "part-0", 3)
    (tmp_path / "empty").mkdir()
    (tmp_path / "_temporary").mkdir()
    assert rows(Parquet(str(tmp_path / pattern))) == right


def test_arrow_files_too(tmp_path):
    for name in ("a.ARROW", "b.Feather", "part-0"):
        with pa.ipc.new_file(tmp_path / name, pa.schema([("x", pa.int64())])) as writer:
            writer.write_table(pa.table({"x": [len(name)]}))
    assert rows(ArrowFile(tmp_path)) == [6, 7, 9]


KINDS = {
    "int32, int64": (pa.int32(), pa.int64(), 2**40),
    "int64, int32": (pa.int64(), pa.int32(), 5),
    "int8, uint8": (pa.int8(), pa.uint8(), 200),
    "float, double": (pa.float32(), pa.float64(), 1e300),
    "int64, double": (pa.int64(), pa.float64(), 0.5),
    "text": (pa.string(), pa.large_string(), "long"),
    "null, double": (pa.null(), pa.float64(), 2.5),
}


@pytest.mark.parametrize("kind", KINDS)
def test_types_that_differ(tmp_path, kind):
    first, second, value = KINDS[kind]
    write(
        tmp_path / "0.parquet",
        *((None,) if first == pa.null() else ("a",) if kind == "text" else (1,)),
        kind=first,
    )
    write(tmp_path / "1.parquet", value, kind=second)
    schemas = [pa.schema([("x", first)]), pa.schema([("x", second)])]
    schema = pa.unify_schemas(schemas, promote_options="permissive")
    right = pads.dataset(str(tmp_path), schema=schema, format="parquet").to_table()["x"].to_pylist()
    if kind != "text":  # which is read alike
        with pytest.raises(
            ValueError, match=r"1.parquet: column 'x' is .* types=\"unified\" reads both as"
        ) as caught:
            Parquet(tmp_path)
        assert f"both as {schema.field('x').type}," in str(caught.value)
    dataset = Parquet(tmp_path, types="unified", nulls="nan" if kind == "null, double" else "raise")
    (batch,) = DataLoader(dataset, 2)
    got = batch["x"] if kind == "text" else batch["x"].tolist()
    assert [None if one != one else one for one in got] == right


@pytest.mark.parametrize(
    "first, second", [(pa.int64(), pa.string()), (pa.bool_(), pa.int8()), (pa.date32(), pa.timestamp("us"))]
)
def test_types_that_have_nothing_in_common(tmp_path, first, second):
    for number, kind in enumerate((first, second)):
        write(tmp_path / f"{number}.parquet", None, kind=kind)
    for types in (None, "unified"):
        with pytest.raises(ValueError, match=r"1.parquet: column 'x' is \S+, and \S+ in \S+; types={'x'"):
            Parquet(tmp_path, types=types)
    with pytest.raises(ValueError, match="types='wide' should be \"unified\""):
        Parquet(tmp_path / "0.parquet", types="wide")


def test_filters_see_the_unified_type(tmp_path):
    write(tmp_path / "0.parquet", 1, 2, kind=pa.int32())
    write(tmp_path / "1.parquet", 2**40, 1)
    assert rows(Parquet(tmp_path, types="unified", filters=[("x", ">", 1)])) == [2, 2**40]
