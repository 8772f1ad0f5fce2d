"""Tables: samples and batches hold pyarrow's own values, for every type in Parquet's docstring."""

from __future__ import annotations

import pickle
import sys
import tempfile
import types
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.utils.data import default_collate

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install pyarrow")
import millrace  # noqa: E402
import pyarrow.compute as pc  # noqa: E402
import pyarrow.dataset  # noqa: E402, F401
import pyarrow.parquet as pq  # noqa: E402
from millrace import DataLoader  # noqa: E402
from millrace.datasets import ArrowFile, Parquet, Table  # noqa: E402
from table_cases import DTYPES, ONLY_ARROW, RAGGED, SOURCES, TYPES, array_of, expected, same  # noqa: E402

_checks = {"deadline": None, "suppress_health_check": list(HealthCheck), "derandomize": True}


def equal(batch, wanted) -> bool:
    """Whether two collated batches are the same, types included."""
    if isinstance(wanted, dict):
        return batch.keys() == wanted.keys() and all(equal(batch[key], wanted[key]) for key in wanted)
    if isinstance(wanted, torch.Tensor):
        return type(batch) is torch.Tensor and batch.dtype == wanted.dtype and torch.equal(batch, wanted)
    if isinstance(wanted, (list, tuple)) and wanted and not isinstance(wanted[0], (str, bytes)):
        return len(batch) == len(wanted) and all(map(equal, batch, wanted))
    return type(batch) is type(wanted) and batch == wanted


@pytest.mark.parametrize("source", SOURCES)
@settings(max_examples=12, **_checks)
@given(data=st.data())
def test_values_are_arrows(source: str, data: st.DataObject) -> None:
    types = TYPES if source == "parquet" else TYPES | ONLY_ARROW
    names = data.draw(st.lists(st.sampled_from(sorted(types)), min_size=1, max_size=6, unique=True))
    rows, offset = data.draw(st.integers(1, 30)), data.draw(st.integers(0, 9))
    columns = {
        n: data.draw(st.lists(types[n][1], min_size=rows + offset, max_size=rows + offset)) for n in names
    }
    table = pa.table({n: array_of(types[n][0], values) for n, values in columns.items()}).slice(offset)
    with tempfile.TemporaryDirectory() as folder:
        dataset = SOURCES[source](table, Path(folder), data.draw(st.integers(1, 12)))
        assert len(dataset) == rows and list(dataset[0]) == names
        stored = table
        # Parquet's dates are days: pyarrow, too, reads them as date32
        if source == "parquet" and "date64" in names:
            stored = table.set_column(
                names.index("date64"), "date64", table.column("date64").cast(pa.date32())
            )
            assert pq.read_schema(Path(folder, "t.parquet")).field("date64").type == pa.date32()
        wanted = {
            name: expected(name, stored.column(name), dataset.categories.get(name, [])) for name in names
        }
        for i in range(rows):
            sample = dataset[i - rows]
            for name in names:
                assert same(
                    sample[name],
                    wanted[name][i],
                    DTYPES.get(name, name) if np.isscalar(wanted[name][i]) else None,
                ), (name, sample)
        dense = [name for name in names if name not in RAGGED and name != "words"]
        if dense:
            dataset = SOURCES[source](table, Path(folder), 5, columns=dense)
            order = data.draw(st.permutations(range(rows)))
            for batch, at in zip(DataLoader(dataset, 7, sampler=order, native="require"), range(0, rows, 7)):
                assert equal(batch, default_collate([dataset[i] for i in order[at : at + 7]]))


@pytest.mark.parametrize("source", SOURCES)
@settings(max_examples=8, **_checks)
@given(data=st.data())
def test_nulls_by_policy(source: str, data: st.DataObject) -> None:
    kinds = {
        "i": "int16",
        "f": "float32",
        "b": "bool",
        "t": "timestamp",
        "s": "string",
        "c": "codes",
        "p": "pairs",
        "l": "list",
    }
    rows = data.draw(st.integers(1, 20))
    columns = {
        n: data.draw(st.lists(st.none() | TYPES[k][1], min_size=rows, max_size=rows))
        for n, k in kinds.items()
    }
    table = pa.table({n: array_of(TYPES[kinds[n]][0], values) for n, values in columns.items()})
    size = data.draw(st.integers(1, 9))
    with tempfile.TemporaryDirectory() as folder:

        def made(
            name: str, **options
        ):  # each in a file of its own: a dataset refuses a file that changed under it
            (Path(folder) / name).mkdir()
            return SOURCES[source](table, Path(folder) / name, size, **options)

        masked = made("masked", nulls="mask", categories={"c": ["red", "green", "blue", ""]})
        for i in range(rows):
            sample = masked[i]
            for name in "ifbtsc":
                there = columns[name][i] is not None
                assert sample[f"{name}_mask"] == there and sample[f"{name}_mask"].dtype == bool
                assert there or sample[name] == ("" if name == "s" else 0)
            assert sample["p_mask"].tolist() == [columns["p"][i] is not None] * 2
            assert len(sample["l"]) == len(sample["l_mask"]) == len(columns["l"][i] or [])
        fills = {"i": -1, "f": 0.5, "b": True, "t": 7, "s": "none", "c": -100, "p": 9.0, "l": 0}
        filled = made("filled", nulls=fills)
        nan = made("nan", columns=["i", "f", "t", "p", "c"], nulls="nan")
        for i in range(rows):
            for name in "ifbtsc":
                if columns[name][i] is None:
                    assert filled[i][name] == fills[name]
            if columns["p"][i] is None:
                assert filled[i]["p"].tolist() == [9.0, 9.0] and nan[i]["p"].isnan().all()
            assert nan[i]["i"].dtype == np.float64 and np.isnan(nan[i]["i"]) == (columns["i"][i] is None)
            assert np.isnan(nan[i]["f"]) == (columns["f"][i] is None)
            assert np.isnan(nan[i]["c"]) == (columns["c"][i] is None)
            assert nan[i]["t"].dtype == np.int64
            assert (nan[i]["t"] == np.iinfo(np.int64).min) == (columns["t"][i] is None)
        strict = made("strict")
        for i in range(rows):  # a null spoils its own sample, and no other of its chunk
            bad = [name for name in kinds if columns[name][i] is None]
            if bad:
                with pytest.raises(ValueError, match=rf"column '{bad[0]}', row {i}: a null"):
                    strict[i]
            else:
                strict[i]


def table_of(rows: int = 100) -> pa.Table:
    return pa.table({"i": range(rows), "x": np.arange(rows) / 4, "s": [f"row {i}" for i in range(rows)]})


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(
    "filters",
    [
        [("i", ">=", 40), ("i", "<", 73)],
        [[("i", "<", 5)], [("s", "==", "row 77")]],
        "expression",
        [("i", "<", 0)],
    ],
)
def test_filters_leave_what_pyarrow_leaves(source: str, filters, tmp_path: Path) -> None:
    if filters == "expression":
        filters = (pc.field("x") * 4 > 90) & pc.field("s").isin(["row 3", "row 95", "row 96"])
    dataset = SOURCES[source](table_of(), tmp_path, 9, filters=filters, columns=["i"])
    expression = pq.filters_to_expression(filters) if isinstance(filters, list) else filters
    left = table_of().filter(expression).column("i").to_pylist()
    assert [int(dataset[i]["i"]) for i in range(len(dataset))] == left
    assert dataset.chunk_lengths.sum() == len(left) and (dataset.chunk_lengths > 0).all()
    if not left:
        assert len(dataset) == 0 and list(DataLoader(dataset, 4, num_workers=2)) == []
        return
    shuffled = [
        int(i)
        for batch in DataLoader(dataset, 4, sampler=dataset.shuffled(2), num_workers=2)
        for i in batch["i"]
    ]
    assert sorted(shuffled) == left


def test_statistics_spare_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pq.write_table(table_of(), tmp_path / "t.parquet", row_group_size=10)
    scans = []
    real = Parquet._kept
    monkeypatch.setattr(Parquet, "_kept", lambda self, chunk: scans.append(chunk.number) or real(self, chunk))
    said = []
    dataset = Parquet(
        tmp_path / "t.parquet",
        filters=[("i", ">", 85)],
        progress=lambda done, total: said.append((done, total)),
    )
    assert [group.number for group in dataset.row_groups] == [8, 9]
    assert [group.kept for group in dataset.row_groups] == [4, 10]
    assert said[-1] == (10, 10) and dataset.row_groups[0].rows == 10 and dataset.row_groups[0].bytes > 0


def test_folders_are_columns(tmp_path: Path) -> None:
    for year in 2020, 2021:
        for city in "Bonn", "New%20York", "__HIVE_DEFAULT_PARTITION__":
            folder = tmp_path / f"year={year}" / f"city={city}"
            folder.mkdir(parents=True)
            pq.write_table(pa.table({"i": [1, 2]}), folder / "part.parquet")
            (folder / "_SUCCESS").touch()
    fills = {"city": "nowhere"}
    dataset = Parquet(tmp_path, nulls=fills)
    assert len(dataset) == 12 and [f.name for f in dataset.fields] == ["i", "year", "city"]
    assert dataset[0]["city"] == "Bonn"
    assert dataset[2]["city"] == "New York"
    assert dataset[11] == {"i": 2, "year": 2021, "city": "nowhere"}
    batch = next(iter(DataLoader(dataset, 12, native="require")))
    assert batch["year"].tolist() == [2020] * 6 + [2021] * 6 and batch["year"].dtype == torch.int64
    assert len(Parquet(tmp_path, filters=[("year", "=", 2021), ("city", "=", "Bonn")], nulls=fills)) == 2
    assert [f.name for f in Parquet(tmp_path, hive=False).fields] == ["i"]
    assert list(Parquet(tmp_path, columns=["year", "i"])[0]) == ["year", "i"]
    assert Parquet(tmp_path, columns=["year"])[0] == {"year": 2020}
    with pytest.raises(ValueError, match="column 'city', row .*: a null"):
        Parquet(tmp_path)[4]
    masked = Parquet(tmp_path, nulls="mask")[4]
    assert masked["city"] == "" and not masked["city_mask"]
    assert len(Parquet(str(tmp_path / "year=2020" / "*" / "*.parquet"), nulls=fills)) == 6
    assert len(Parquet(f"{tmp_path}/year={{2020..2021}}/city=Bonn/part.parquet")) == 4


def test_categories(tmp_path: Path) -> None:
    table = pa.table(
        {
            "s": ["b", "a", "c", "a"],
            "d": pa.array(["u", "v", "u", "v"]).dictionary_encode(),
            "n": [30, 10, 20, 10],
        }
    )
    for source, write in SOURCES.items():
        dataset = write(table, tmp_path, 2, categories=["s", "n"])
        assert dataset.categories == {"s": ["a", "b", "c"], "n": [10, 20, 30]} and dataset[0] == {
            "s": 1,
            "d": "u",
            "n": 2,
        }, source
        dataset = write(table, tmp_path, 3, categories={"s": ["c", "b", "a"]})
        assert [int(dataset[i]["s"]) for i in range(4)] == [1, 2, 0, 2]
        assert write(table, tmp_path, 3, categories=[])[1]["d"] == "v"
        with pytest.raises(ValueError, match="column 's', row 2: 'c' is none of its 2 categories"):
            write(table, tmp_path, 3, categories={"s": ["a", "b"]})[2]


def test_lists_of_one_length(tmp_path: Path) -> None:
    table = pa.table({"l": [[1, 2], [3, 4], None], "m": [[[1.0], [2.0]], [[3.0], [4.0]], [[5.0], [6.0]]]})
    for write in SOURCES.values():
        dataset = write(table, tmp_path, 2, fixed_lists={"l": 2, "m": (2, 1)}, nulls={"l": -1})
        batch = next(iter(DataLoader(dataset, 3, native="require")))
        assert batch["l"].tolist() == [[1, 2], [3, 4], [-1, -1]] and batch["m"].shape == (3, 2, 1)
    ragged = pa.table({"l": [[1, 2], [3]]})
    with pytest.raises(ValueError, match="column 'l', row 1: a list has 1 elements, and fixed_lists says 2"):
        Table(ragged, fixed_lists={"l": 2})[1]
    with pytest.raises(RuntimeError, match="field 'l': its values cannot be put together.*Pad"):
        next(iter(DataLoader(Table(ragged), 2)))


def test_decimals_and_types(tmp_path: Path) -> None:
    from decimal import Decimal

    table = pa.table(
        {
            "d": pa.array([Decimal("12.30"), Decimal("-0.01")], pa.decimal128(9, 2)),
            "i": pa.array([1, 2], pa.int8()),
        }
    )
    for write in SOURCES.values():
        dataset = write(table, tmp_path, 2, decimals="scaled", types={"i": "float32"})
        assert [int(dataset[i]["d"]) for i in range(2)] == [1230, -1] and dataset[0]["i"].dtype == np.float32
    narrow = pa.table(
        {
            "d": pa.array([Decimal("1.5")], pa.decimal32(5, 1)),
            "e": pa.array([Decimal("1.5")], pa.decimal64(12, 1)),
        }
    )
    assert Table(narrow, decimals="scaled")[0] == {"d": 15, "e": 15} and Table(narrow)[0] == {
        "d": 1.5,
        "e": 1.5,
    }
    big = pa.table({"d": pa.array([Decimal(10) ** 20], pa.decimal128(30, 0))})
    with pytest.raises(ValueError, match="row 0: a scaled decimal is more than an int64 holds"):
        Table(big, decimals="scaled")[0]
    with pytest.raises(ValueError, match="18446744073709551615 is more than an int64 holds"):
        Table(pa.table({"u": pa.array([2**64 - 1], pa.uint64())}))[0]


def test_other_kinds_of_columns() -> None:
    ends = pa.table({"r": pa.RunEndEncodedArray.from_arrays([2, 3], pa.array([5, 6]))})
    assert [int(Table(ends)[i]["r"]) for i in range(3)] == [5, 5, 6]
    tensors = pa.FixedShapeTensorArray.from_numpy_ndarray(np.arange(12, dtype=np.float32).reshape(2, 3, 2))
    assert torch.equal(Table(pa.table({"t": tensors}))[1]["t"], torch.arange(6.0, 12.0).reshape(3, 2))
    assert Table(pa.table({"m": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int8()))}))[0]["m"] == [
        ("a", 1)
    ]
    nothing = pa.table({"n": pa.nulls(3), "i": [1, 2, 3]})
    assert np.isnan(Table(nothing, nulls="nan")[1]["n"]) and Table(nothing, nulls={"n": 5})[1]["n"] == 5
    structs = pa.table({"s": pa.array([{"x": 1}, None], pa.struct([("x", pa.int8())]))})
    assert Table(structs, nulls={"s": -1})[1] == {"s": {"x": -1}}
    assert Table(structs, nulls="mask")[1] == {"s": {"x": 0, "x_mask": False}}
    with pytest.raises(ValueError, match=r"column 's.x', row 1: a null"):
        Table(structs)[1]


def test_pickled_and_in_worker_processes(tmp_path: Path) -> None:
    for source, write in SOURCES.items():
        dataset = write(table_of(), tmp_path, 9, filters=[("i", ">", 10)])
        dataset[0]
        copy = pickle.loads(pickle.dumps(dataset))
        assert [copy[i] for i in range(89)] == [dataset[i] for i in range(89)], source
        batches = list(torch.utils.data.DataLoader(dataset, 10, num_workers=2))
        ours = list(DataLoader(dataset, 10, num_workers=2))
        assert all(map(equal, ours, batches)) and len(ours) == 9
        processes = list(DataLoader(dataset, 10, num_workers=2, native="never"))
        assert all(map(equal, processes, batches))


@pytest.mark.parametrize("name, attribute", [("datasets", "Dataset"), ("pandas", "DataFrame")])
def test_a_module_of_the_users_that_is_called_alike(name, attribute, monkeypatch) -> None:
    own = types.ModuleType(name)
    setattr(own, attribute, lambda *arguments: None)
    monkeypatch.setitem(sys.modules, name, own)
    assert Table({"a": [1, 2]})[1] == {"a": 2}
    batch = next(iter(DataLoader([1, 2], 2)))
    assert batch.tolist() == [1, 2]


def test_all_libraries_tables() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {"x": [1.5, float("nan")], "i": [1, 2], "s": ["a", "b"], "c": pandas.Categorical(["u", "v"])},
        index=[7, 8],
    )
    dataset = Table(frame)
    assert (
        np.isnan(dataset[1]["x"]) and dataset[1]["i"] == 2 and dataset[1]["s"] == "b" and dataset[1]["c"] == 1
    )
    assert Table({"x": np.arange(3), "y": [1.0, 2.0, 3.0]})[2] == {"x": 2, "y": 3.0}
    batch = pa.record_batch({"x": [1, 2]})
    for data in (batch, [batch], pa.RecordBatchReader.from_batches(batch.schema, [batch])):
        assert len(Table(data)) == 2
    with pytest.raises(TypeError, match="list is none"):
        Table([1, 2])
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"x": [1, 2], "s": ["a", None]})
    assert Table(frame, nulls={"s": ""})[1] == {"x": 2, "s": ""}
    with pytest.raises(TypeError, match="collect"):
        Table(frame.lazy())
    duckdb = pytest.importorskip("duckdb")
    result = Table(duckdb.sql("select i, i / 2 as half, 'n' || i as name from range(5) t(i)"))
    assert result[3] == {"i": 3, "half": 1.5, "name": "n3"}


def test_hugging_face(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    kinds = {
        "x": datasets.Value("int32"),
        "m": datasets.Array2D((2, 3), "float32"),
        "y": datasets.ClassLabel(names=["no", "yes"]),
    }
    features = datasets.Features(kinds)
    rows = {"x": list(range(10)), "m": np.arange(60, dtype=np.float32).reshape(10, 2, 3), "y": [0, 1] * 5}
    original = datasets.Dataset.from_dict(rows, features=features)
    original.shuffle(seed=1).save_to_disk(str(tmp_path / "saved"), num_shards=3)
    saved = ArrowFile(tmp_path / "saved")
    again = datasets.load_from_disk(str(tmp_path / "saved")).with_format("numpy")
    assert len(saved.files) == 3 and saved.categories == {"y": ["no", "yes"]}
    for i in range(10):
        assert saved[i]["x"] == again[i]["x"]
        assert np.array_equal(saved[i]["m"].numpy(), again[i]["m"])
        assert saved[i]["y"] == again[i]["y"]
    picked = original.select([7, 2])
    assert [int(Table(picked)[i]["x"]) for i in range(2)] == [7, 2]
    original.to_parquet(str(tmp_path / "t.parquet"))
    assert Parquet(tmp_path / "t.parquet")[9]["m"].shape == (2, 3)
    datasets.DatasetDict({"train": original}).save_to_disk(str(tmp_path / "dict"))
    with pytest.raises(ValueError, match=r"several splits \(train\)"):
        ArrowFile(tmp_path / "dict")


def test_plain_numbers_in_memory_are_gathered_where_they_lie() -> None:
    pairs = {n: pa.FixedSizeListArray.from_arrays(np.arange(2 * n), 2) for n in (5, 0, 7)}
    table = pa.concat_tables(
        [pa.table({"x": np.arange(n, dtype=np.float32), "p": pair}) for n, pair in pairs.items()]
    )
    dataset = Table(table)
    loader = DataLoader(dataset, 5, shuffle=True, num_workers=1)
    assert "in memory, copied row by row" in loader.explain()
    rows = sorted(x for batch in loader for x in batch["x"].tolist())
    assert rows == sorted([*range(5), *range(7)])
    addresses = [part.ctypes.data for part in dataset.plain_tables()[0]]
    assert addresses == [chunk.buffers()[1].address for chunk in table.column("x").chunks if len(chunk)]
    assert "row by row" not in DataLoader(Table(table, filters=[("x", ">", 2)]), 5).explain()
    assert millrace.datasets.Table is Table
