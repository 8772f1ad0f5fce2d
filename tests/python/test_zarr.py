"""Zarr: values as zarr-python gives them, v2 and v3, any store, xarray and dask; errors; resuming."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest
import torch
from array_cases import cases, check_dataset, check_resuming, in_order, settings_of_all
from hypothesis import given, settings
from hypothesis import strategies as st
from millrace import CorruptDataError, DataLoader, UnavailableError
from millrace.datasets import Zarr

zarr = pytest.importorskip("zarr", minversion="3")


def with_tensorstore(dataset) -> bool:
    return set(dataset.readers.values()) == {"tensorstore"}


@pytest.mark.parametrize("zarr_format", [2, 3])
@settings(max_examples=30, **settings_of_all)
@given(
    case=cases(),
    packed=st.booleans(),
    threads=st.sampled_from([0, 2]),
    given_as=st.sampled_from(["path", "group", "array", "memory"]),
)
def test_values_are_zarrs(zarr_format, case, packed, threads, given_as, tmp_path_factory):
    path = str(tmp_path_factory.mktemp("zarr") / "group.zarr")
    group = zarr.open_group(
        zarr.storage.MemoryStore() if given_as == "memory" else path, mode="w", zarr_format=zarr_format
    )
    options = {} if packed else {"compressors": None}
    fill = 3 if case.dtype.kind in "iuf" else None
    array = group.create_array(
        "a/x", shape=case.shape, chunks=case.chunk, dtype=case.dtype, fill_value=fill, **options
    )
    if case.written:
        array[: case.written] = case.values()[: case.written]
    cut = {"window": case.window, "stride": case.stride}
    if given_as == "array":
        dataset = Zarr(array, "x", select={"x": case.select}, **cut)
    else:
        dataset = Zarr(path if given_as == "path" else group, "a/x", select={"a/x": case.select}, **cut)
    check_dataset(dataset, case.samples(array[...]), lambda d, n: in_order(d, n, num_workers=threads))


def weather(store, zarr_format=3, days=60):
    group = zarr.open_group(store, mode="w", zarr_format=zarr_format)
    names = ("time", "lat", "lon")
    for name, shape, chunk in (("t2m", (days, 8, 6), (7, 8, 3)), ("wind", (days, 8, 6), (14, 4, 6))):
        extra = {"dimension_names": names} if zarr_format == 3 else {}
        array = group.create_array(name, shape=shape, chunks=chunk, dtype="f4", **extra)
        array[:] = np.random.default_rng(len(name)).standard_normal(shape)
        if zarr_format == 2:
            array.attrs["_ARRAY_DIMENSIONS"] = list(names)
    for axis, name in enumerate(names):
        extra = {"dimension_names": (name,)} if zarr_format == 3 else {}
        group.create_array(name, shape=(days, 8, 6)[axis : axis + 1], dtype="f8", **extra)
        if zarr_format == 2:
            group[name].attrs["_ARRAY_DIMENSIONS"] = [name]
    return group


def test_one_array_and_what_it_is_called(tmp_path):
    array = zarr.open_group(tmp_path / "w.zarr", mode="w").create_array("rain", shape=(4, 2), dtype="f4")
    array[:] = np.arange(8).reshape(4, 2)
    for fields, called in ((None, "rain"), (["rain"], "rain"), ({"mm": "rain"}, "mm")):
        batch = next(iter(DataLoader(Zarr(array, fields), 4)))
        assert list(batch) == [called] and np.array_equal(batch[called], array[:])
    assert np.array_equal(next(iter(DataLoader(Zarr(array, "rain"), 4))), array[:])
    for fields in ("train", "rai", ["rain", "wind"], {"rain": "wind"}):
        with pytest.raises(ValueError, match="is one array, 'rain': leave fields out"):
            Zarr(array, fields)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_windows_of_fields_with_named_axes(tmp_path, zarr_format):
    group = weather(tmp_path / "w.zarr", zarr_format)
    dataset = Zarr(
        tmp_path / "w.zarr", window=5, stride=2, select={"lat": slice(2, 6), "wind": (slice(None), 1)}
    )
    assert [field.name for field in dataset.fields] == ["t2m", "wind"], "coordinates are left out"
    t2m, wind = group["t2m"][:, 2:6], group["wind"][:, :, 1]
    batches = list(in_order(dataset, 10, num_workers=2))
    starts = range(0, 56, 2)
    assert torch.equal(
        torch.cat([b["t2m"] for b in batches]), torch.from_numpy(np.stack([t2m[i : i + 5] for i in starts]))
    )
    assert torch.equal(
        torch.cat([b["wind"] for b in batches]), torch.from_numpy(np.stack([wind[i : i + 5] for i in starts]))
    )


def test_chunks_of_samples_are_those_of_the_array(tmp_path):
    weather(tmp_path / "w.zarr")
    dataset = Zarr(tmp_path / "w.zarr", "t2m")
    assert dataset.chunk_lengths.tolist() == [7] * 8 + [4]
    assert Zarr(tmp_path / "w.zarr").chunk_lengths.tolist() == [14] * 4 + [4], (
        "of two fields, what both divide"
    )
    assert Zarr(tmp_path / "w.zarr", "t2m", chunk_rows=20).chunk_lengths.tolist() == [20] * 3
    assert Zarr(tmp_path / "w.zarr", "t2m", select={"time": slice(5, 30)}).chunk_lengths.tolist() == [
        2,
        7,
        7,
        7,
        2,
    ]
    sampler = dataset.shuffled(buffer_chunks=2, seed=1)
    order = list(sampler)
    assert sorted(order) == list(range(60)) and order != sorted(order)
    batches = list(in_order(dataset, 8, sampler=dataset.shuffled(buffer_chunks=2, seed=1), num_workers=2))
    values = zarr.open_array(str(tmp_path / "w.zarr"), path="t2m", mode="r")[:]
    assert torch.equal(torch.cat(batches), torch.from_numpy(values[order]))


def test_shards(tmp_path):
    array = zarr.create_array(tmp_path / "s.zarr", shape=(100, 4), chunks=(5, 2), shards=(20, 4), dtype="i4")
    array[:90] = np.arange(360).reshape(90, 4)
    dataset = Zarr(tmp_path / "s.zarr")
    assert dataset.chunk_lengths.tolist() == [20] * 5 and dataset.fields[0].name == "array"
    check_dataset(dataset, list(array[:]), in_order, "array")


def test_text(tmp_path):
    group = zarr.open_group(tmp_path / "t.zarr", mode="w")
    group.create_array("name", shape=(5,), chunks=(2,), dtype=str)[:] = np.array(
        ["a", "bb", "", "ü", "e"], dtype=object
    )
    batches = list(in_order(Zarr(tmp_path / "t.zarr"), 5))
    assert batches == [{"name": ["a", "bb", "", "ü", "e"]}]
    assert "zarr-python: its values are" in Zarr(tmp_path / "t.zarr").readers["name"]


# -- stores
# ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def server(tmp_path):
    import functools
    from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *arguments):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(tmp_path))) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{http.server_port}"
        http.shutdown()


def test_urls_are_read_through_obstore_and_fsspec(tmp_path, server):
    pytest.importorskip("obstore")
    group = weather(tmp_path / "w.zarr")
    right = torch.from_numpy(group["t2m"][:])
    dataset = Zarr(f"{server}/w.zarr", ["t2m"])
    assert dataset.readers == {"t2m": "zarr-python: tensorstore does not know this store"}
    for made in (dataset, pickle.loads(pickle.dumps(dataset))):
        assert torch.equal(torch.cat([b["t2m"] for b in in_order(made, 16, num_workers=2)]), right)
    fork = torch.utils.data.DataLoader(dataset, 16, num_workers=2, multiprocessing_context="fork")
    assert torch.equal(torch.cat([b["t2m"] for b in fork]), right), (
        "forked from a process whose obstore has threads"
    )
    local = Zarr(f"file://{tmp_path}/w.zarr", ["t2m"])
    assert torch.equal(local[3]["t2m"], right[3])
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    memory.put(str(tmp_path / "w.zarr"), "/w.zarr", recursive=True)
    assert torch.equal(Zarr("memory://w.zarr", "t2m")[59], right[59])
    with pytest.raises(FileNotFoundError, match="nothing.zarr"):
        Zarr(f"{server}/nothing.zarr")


@pytest.mark.parametrize("loader", [torch.utils.data.DataLoader, DataLoader])
@pytest.mark.parametrize("method", ["fork", "spawn", "threads"])
def test_workers_of_every_kind(tmp_path, loader, method):
    """Also forked from a process whose tensorstore has threads, which the children lack."""
    group = weather(tmp_path / "w.zarr")
    dataset = Zarr(tmp_path / "w.zarr", "t2m")
    dataset[0]
    options = {"num_workers": 2 if method == "spawn" else 4}  # each imports torch for seconds
    if method != "threads":
        options["multiprocessing_context"] = method
    elif loader is not DataLoader:
        pytest.skip("torch has no threads")
    if loader is DataLoader and method != "threads":
        options["native"] = "never"
    assert torch.equal(torch.cat(list(loader(dataset, 10, **options))), torch.from_numpy(group["t2m"][:]))


def test_without_tensorstore(tmp_path):
    group = weather(tmp_path / "w.zarr")
    script = f"""
        import sys
        sys.modules["tensorstore"] = None
        import numpy as np, millrace
        dataset = millrace.datasets.Zarr({str(tmp_path / "w.zarr")!r}, "t2m")
        assert dataset.readers["t2m"] == "zarr-python: tensorstore is not installed", dataset.readers
        np.save({str(tmp_path / "seen.npy")!r}, np.stack([x.numpy() for x in dataset]))
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True, timeout=200)
    assert np.array_equal(np.load(tmp_path / "seen.npy"), group["t2m"][:])


def test_without_zarr(monkeypatch, tmp_path):
    from millrace._common import optional

    def refuse(name):
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(optional.importlib, "import_module", refuse)
    with pytest.raises(UnavailableError, match="pip install 'zarr>=3' tensorstore"):
        Zarr(tmp_path)


# -- xarray and dask
# ------------------------------------------------------------------------------------------------------------


def test_xarray_objects(tmp_path):
    xarray = pytest.importorskip("xarray")
    values = np.random.default_rng(0).standard_normal((40, 3, 5)).astype("f4")
    data = xarray.Dataset(
        {"t": (("time", "lat", "lon"), values), "n": (("time",), np.arange(40))},
        coords={"lat": np.array([10.0, 20.0, 30.0])},
    )
    for source in (data, data.chunk(time=9) if has_dask() else data):
        dataset = Zarr(source, window=4, stride=3, select={"lon": slice(1, 4)})
        assert [f.name for f in dataset.fields] == ["t", "n"]
        batches = list(in_order(dataset, 5, num_workers=2))
        starts = range(0, 37, 3)
        assert torch.equal(
            torch.cat([b["t"] for b in batches]),
            torch.from_numpy(np.stack([values[i : i + 4, :, 1:4] for i in starts])),
        )
        assert torch.cat([b["n"] for b in batches])[:, 0].tolist() == list(starts)
    check_dataset(Zarr(data["t"], "t"), list(values), in_order)
    data.to_zarr(tmp_path / "x.zarr", zarr_format=2, consolidated=False)
    opened = xarray.open_zarr(tmp_path / "x.zarr", chunks=None, consolidated=False)
    check_dataset(Zarr(opened, "t"), list(values), in_order)
    assert Zarr(opened, ["lat"])[1]["lat"] == 20.0
    with pytest.raises(ValueError, match="has no array 'u'; it has"):
        Zarr(data, ["u"])
    again = pickle.loads(pickle.dumps(Zarr(opened, "t")))
    assert torch.equal(again[7], torch.from_numpy(values[7]))


def has_dask():
    try:
        import dask.array  # noqa: F401
    except ImportError:
        return False
    return True


def test_dask_runs_in_the_thread_that_reads():
    array_of = pytest.importorskip("dask.array")
    threads: set[str] = set()

    def note(block):
        threads.add(threading.current_thread().name)
        return block * 2

    values = np.arange(200).reshape(50, 4)
    lazy = array_of.from_array(values, chunks=(8, 4)).map_blocks(note, dtype=values.dtype)
    dataset = Zarr({"x": lazy, "y": array_of.from_array(values[:, 0], chunks=16)})
    threads.clear()
    batches = list(in_order(dataset, 10, num_workers=2))
    assert torch.equal(torch.cat([b["x"] for b in batches]), torch.from_numpy(values * 2))
    assert torch.cat([b["y"] for b in batches]).tolist() == values[:, 0].tolist()
    assert threads and not [name for name in threads if "ThreadPoolExecutor" in name], threads
    check_dataset(Zarr(lazy, "array"), list(values * 2), in_order)


def test_errors_of_graphs_are_named():
    array_of = pytest.importorskip("dask.array")

    def fail(block, block_info=None):
        if block_info and block_info[0]["array-location"][0][0] == 8:
            raise ZeroDivisionError("odd block")
        return block

    lazy = array_of.ones((30,), chunks=8).map_blocks(fail, dtype=float)
    dataset = Zarr({"x": lazy})
    assert dataset[0]["x"] == 1
    with pytest.raises(
        CorruptDataError, match="'x', .*rows 8:16, cannot be read: ZeroDivisionError: odd block"
    ):
        dataset[9]


# -- bad input
# ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_chunks_that_are_missing_or_damaged(tmp_path, zarr_format):
    group = zarr.open_group(tmp_path / "d.zarr", mode="w", zarr_format=zarr_format)
    array = group.create_array("x", shape=(40, 3), chunks=(10, 3), dtype="i4", fill_value=7)
    array[:] = np.arange(120).reshape(40, 3)
    files = {int(row): tmp_path / "d.zarr" / "x" / name for row, name in _chunk_names(zarr_format)}
    os.remove(files[1])
    with open(files[2], "r+b") as file:
        file.truncate(12)
    dataset = Zarr(tmp_path / "d.zarr", "x")
    assert dataset[15].tolist() == [7, 7, 7], "a missing chunk is the fill value"
    assert dataset[39].tolist() == [117, 118, 119]
    with pytest.raises(
        CorruptDataError, match=r"d\.zarr: 'x', chunk 2, rows 20:30, cannot be read: "
    ) as caught:
        dataset[25]
    assert caught.value.path == str(tmp_path / "d.zarr")
    seen = []
    with pytest.raises(CorruptDataError, match="chunk 2"):
        for batch in in_order(dataset, 10, num_workers=2):
            seen.append(len(batch))
    assert seen == [10, 10]


def _chunk_names(zarr_format):
    return [(i, f"{i}.0" if zarr_format == 2 else f"c/{i}/0") for i in range(4)]


def test_groups_that_are_not_there_or_damaged(tmp_path):
    with pytest.raises(FileNotFoundError, match="missing.zarr is no Zarr group or array"):
        Zarr(tmp_path / "missing.zarr")
    group = weather(tmp_path / "w.zarr")
    with pytest.raises(ValueError, match=r"has no array 'rain'; it has t2m, wind"):
        Zarr(tmp_path / "w.zarr", ["t2m", "rain"])
    group.create_array("short", shape=(3,), dtype="i4")
    with pytest.raises(ValueError, match="fields differ in length: short has 3, t2m has 60, wind has 60"):
        Zarr(tmp_path / "w.zarr")
    zarr.open_group(tmp_path / "empty.zarr", mode="w")
    with pytest.raises(ValueError, match="holds no array with rows"):
        Zarr(tmp_path / "empty.zarr")
    with pytest.raises(ValueError, match="groups is empty"):
        Zarr([])
    (tmp_path / "w.zarr" / "zarr.json").write_text("{ no json")
    with pytest.raises(CorruptDataError, match="w.zarr: its metadata cannot be read"):
        Zarr(tmp_path / "w.zarr")


# -- resuming
# ------------------------------------------------------------------------------------------------------------


def test_a_run_goes_on_with_other_ranks(tmp_path):
    array = zarr.create_array(tmp_path / "n.zarr", shape=(103,), chunks=(9,), dtype="i8")
    array[:] = np.arange(103)
    dataset = Zarr(tmp_path / "n.zarr", "array")
    check_resuming(dataset)
