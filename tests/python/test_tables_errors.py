"""Tables that are damaged, differ, are missing or badly stored: errors say where, or samples are left out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install pyarrow")
import pyarrow.parquet as pq  # noqa: E402
from fault_proxy import FaultProxy  # noqa: E402
from millrace import CorruptDataError, DataLoader  # noqa: E402
from millrace.datasets import ArrowFile, Parquet, Table  # noqa: E402

ROWS, GROUP = 2000, 500
DATA = pa.table({f"c{i}": np.random.default_rng(i).random(ROWS) for i in range(4)})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pq.write_table(DATA, tmp_path / "t.parquet", row_group_size=GROUP)
    with pa.OSFile(str(tmp_path / "t.arrow"), "wb") as file, pa.ipc.new_file(file, DATA.schema) as writer:
        writer.write_table(DATA, max_chunksize=GROUP)
    return tmp_path


def test_a_damaged_row_group_is_named_or_left_out(folder: Path) -> None:
    data = bytearray((folder / "t.parquet").read_bytes())
    at = pq.read_metadata(folder / "t.parquet").row_group(2).column(3).data_page_offset
    data[at : at + 100] = b"\xff" * 100
    (folder / "bad.parquet").write_bytes(data)
    dataset = Parquet(folder / "bad.parquet")
    for workers in 0, 2:
        with pytest.raises(
            CorruptDataError, match=r"bad.parquet: row group 2, column 'c3' cannot be decoded"
        ):
            list(DataLoader(dataset, 100, num_workers=workers))
        left = [
            x
            for batch in DataLoader(dataset, 100, num_workers=workers, on_error="skip")
            for x in batch["c0"].tolist()
        ]
        c0 = DATA.column("c0").to_pylist()
        assert sorted(left) == sorted(c0[: 2 * GROUP] + c0[3 * GROUP :])
    assert len(Parquet(folder / "bad.parquet", columns=["c0", "c1"])) == ROWS
    assert Parquet(folder / "bad.parquet", columns=["c0"])[2 * GROUP]["c0"] == c0[2 * GROUP]


@pytest.mark.parametrize(
    "make, error, words",
    [
        (lambda f: Parquet(f / "none.parquet"), FileNotFoundError, "no such file"),
        (lambda f: Parquet(f / "*.none"), FileNotFoundError, "no file matches"),
        (lambda f: Parquet(f / "odd"), FileNotFoundError, "holds no file that ends in .parquet"),
        (lambda f: Parquet("s3://bucket/*.parquet"), ValueError, "what a store holds is not listed"),
        (lambda f: Parquet(f / "empty"), CorruptDataError, "empty: this is no Parquet file"),
        (lambda f: ArrowFile(f / "cut.arrow"), CorruptDataError, "it is not whole"),
        (lambda f: ArrowFile(f / "cut.arrows"), CorruptDataError, "it is not whole"),
        (lambda f: ArrowFile(f / "t.parquet"), CorruptDataError, "neither an Arrow IPC file nor a stream"),
        (
            lambda f: Parquet([f / "t.parquet", f / "text.parquet"]),
            ValueError,
            "text.parquet: column 'c0' is string, and double in",
        ),
        (
            lambda f: Parquet([f / "t.parquet", f / "short.parquet"]),
            ValueError,
            "short.parquet: there is no column 'c1'",
        ),
        (lambda f: Parquet(f / "t.parquet", columns=["zz"]), ValueError, "no column 'zz'; there are 'c0'"),
        (
            lambda f: Parquet(f / "t.parquet", filters=[("zz", ">", 1)]),
            ValueError,
            "filters= cannot be applied",
        ),
        (lambda f: Parquet(f / "t.parquet", filters=7), ValueError, "should be an expression"),
        (lambda f: Parquet(f / "t.parquet", nulls="drop"), ValueError, "nulls='drop'"),
        (lambda f: Parquet(f / "t.parquet", nulls={"zz": 1}), ValueError, "nulls= speaks of column 'zz'"),
        (
            lambda f: Parquet(f / "t.parquet", nulls={"c0": "x"}),
            ValueError,
            "does not fit a column of float64",
        ),
        (lambda f: Parquet(f / "t.parquet", types={"c0": "reals"}), ValueError, "no type of that name"),
        (lambda f: Parquet(f / "t.parquet", decimals="text"), ValueError, "decimals='text'"),
        (lambda f: Parquet(f / "t.parquet", fixed_lists={"c0": 3}), ValueError, "fixed_lists"),
        (lambda f: Table(pa.table({"n": pa.nulls(2)})), ValueError, "holds nulls alone"),
        (lambda f: Table(DATA, chunk_rows=0), ValueError, "chunk_rows=0"),
    ],
)
def test_what_is_wrong_is_said_when_the_dataset_is_made(folder: Path, make, error, words: str) -> None:
    (folder / "odd").mkdir()
    (folder / "empty").touch()
    whole = (folder / "t.arrow").read_bytes()
    (folder / "cut.arrow").write_bytes(whole[:20000])
    (folder / "cut.arrows").write_bytes(whole[8:20000])
    pq.write_table(pa.table({"c0": ["a"]}), folder / "text.parquet")
    pq.write_table(pa.table({"c0": [1.0]}), folder / "short.parquet")
    with pytest.raises(error, match=words):
        make(folder)


def test_text_in_place_of_numbers_can_be_cast_or_is_named(folder: Path) -> None:
    pq.write_table(pa.table({"c0": ["1.5", "2.5"]}), folder / "text.parquet")
    pq.write_table(pa.table({"c0": ["1.5", "x"]}), folder / "words.parquet")
    files = [folder / "t.parquet", folder / "text.parquet"]
    assert Parquet(files, columns=["c0"], types={"c0": "float64"})[ROWS + 1]["c0"] == 2.5
    with pytest.raises(ValueError, match=r"words.parquet: row group 0, column 'c0' cannot be read as double"):
        Parquet(folder / "words.parquet", types={"c0": "float64"})[1]


def test_a_file_that_changes_or_shrinks_is_an_error(folder: Path) -> None:
    for dataset, name in (
        (Parquet(folder / "t.parquet"), "t.parquet"),
        (ArrowFile(folder / "t.arrow"), "t.arrow"),
    ):
        dataset[0]
        (folder / name).write_bytes((folder / name).read_bytes()[:5000])
        with pytest.raises(CorruptDataError, match="changed since the dataset was opened first"):
            dataset[GROUP]


def test_remote_tables_and_their_faults(folder: Path) -> None:
    pytest.importorskip("obstore", reason="obstore is not installed: pip install obstore")
    objects = {f"/{name}": (folder / name).read_bytes() for name in ("t.parquet", "t.arrow")}
    wanted = sorted(DATA.column("c1").to_pylist())
    with FaultProxy(objects) as store:
        store.faults = lambda request: "reset" if request.number % 4 == 1 else None
        for dataset in Parquet(store.url("t.parquet"), columns=["c1", "c3"]), ArrowFile(store.url("t.arrow")):
            loader = DataLoader(dataset, 64, num_workers=2, sampler=dataset.shuffled(2))
            assert sorted(x for batch in loader for x in batch["c1"].tolist()) == wanted
        kept = Parquet(store.url("t.parquet"), filters=[("c1", ">", 0.5)], cache=folder / "cache")
        assert len(kept) == sum(x > 0.5 for x in wanted)
        with pytest.raises(FileNotFoundError, match="no such object"):
            Parquet(store.url("none.parquet"))
