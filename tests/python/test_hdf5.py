"""HDF5: values as h5py gives them, for every dtype, layout and cut; who reads what; workers of every kind;
resuming.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch
from array_cases import Case, cases, check_dataset, check_resuming, in_order, settings_of_all
from hypothesis import given, settings
from hypothesis import strategies as st
from millrace import DataLoader
from millrace.datasets import HDF5

h5py = pytest.importorskip("h5py")

LAYOUTS = {
    "contiguous": {},
    "plain chunks": {"chunks": True},
    "gzip": {"chunks": True, "compression": 4},
    "shuffled": {"chunks": True, "compression": 1, "shuffle": True},
    "checksummed": {"chunks": True, "compression": 1, "shuffle": True, "fletcher32": True},
    "checksum alone": {"chunks": True, "fletcher32": True},
    "lzf": {"chunks": True, "compression": "lzf"},
}


def write(path, case: Case, layout: str, latest: bool) -> np.ndarray:
    options = dict(LAYOUTS[layout])
    if "chunks" in options:
        options["chunks"] = case.chunk
    if case.dtype.kind in "iuf":
        options["fillvalue"] = 3
    with h5py.File(path, "w", libver="latest" if latest else None) as file:
        dataset = file.create_dataset("a/x", case.shape, case.dtype, **options)
        if case.written:
            dataset[: case.written] = case.values()[: case.written]
        return dataset[...]


@pytest.mark.parametrize("layout", LAYOUTS)
@settings(max_examples=40, **settings_of_all)
@given(case=cases(), latest=st.booleans(), threads=st.sampled_from([0, 2]))
def test_values_are_h5pys(layout, case, latest, threads, tmp_path_factory):
    path = tmp_path_factory.mktemp("h5") / "file.h5"
    values = write(path, case, layout, latest)
    dataset = HDF5(path, "a/x", select={"a/x": case.select}, window=case.window, stride=case.stride)
    check_dataset(dataset, case.samples(values), lambda d, n: in_order(d, n, num_workers=threads))
    assert ("h5py" in dataset.readers["a/x"]) == (layout == "lzf"), dataset.readers


@pytest.fixture
def science(tmp_path):
    """Images in gzipped chunks, labels that are contiguous, a time series with named axes, text."""
    path, random = tmp_path / "science.h5", np.random.default_rng(1)
    with h5py.File(path, "w") as file:
        file.create_dataset(
            "images", data=random.integers(0, 255, (50, 6, 8), np.uint8), chunks=(7, 6, 8), compression="gzip"
        )
        file.create_dataset("labels", data=np.arange(50))
        file.create_dataset("name", data=[f"sample {i}" for i in range(50)])
        record = file.create_dataset("record", (50,), np.dtype([("id", "<i4"), ("xy", ">f4", (2,))]))
        record["id"] = np.arange(50)
        series = file.create_dataset(
            "weather/t2m", data=random.standard_normal((40, 5, 4)).astype("f4"), chunks=(3, 5, 2)
        )
        for axis, name in enumerate(("time", "lat", "lon")):
            file[f"weather/{name}"] = np.arange(series.shape[axis], dtype="f8")
            file[f"weather/{name}"].make_scale(name)
            series.dims[axis].attach_scale(file[f"weather/{name}"])
    return path


def test_fields_of_several_kinds(science):
    dataset = HDF5(science, ["images", "labels", "name"])
    with h5py.File(science) as file:
        images = torch.from_numpy(file["images"][...])
    batches = list(in_order(dataset, 16, num_workers=2))
    assert torch.equal(torch.cat([b["images"] for b in batches]), images)
    assert torch.cat([b["labels"] for b in batches]).tolist() == list(range(50))
    assert [name for b in batches for name in b["name"]] == [f"sample {i}" for i in range(50)]
    sample = dataset[7]
    assert sample["name"] == "sample 7" and sample["labels"] == 7 and type(sample["labels"]) is np.int64
    assert (
        dataset.readers["images"] == dataset.readers["labels"] == "native"
        and "h5py, under one lock" in dataset.readers["name"]
    )
    assert dataset.chunk_lengths.tolist() == [7] * 7 + [1]
    renamed = HDF5(science, {"x": "images", "y": "labels"})
    assert set(renamed[0]) == {"x", "y"} and torch.equal(renamed[0]["x"], images[0])
    assert HDF5(science, "labels")[3] == 3


def test_records_are_dicts(science):
    batch = next(iter(in_order(HDF5(science, ["record"]), 4)))
    assert batch["record"]["id"].tolist() == [0, 1, 2, 3] and batch["record"]["xy"].shape == (4, 2)


def test_axes_have_names(science):
    dataset = HDF5(
        science,
        "weather/t2m",
        select={"lat": slice(1, 4), "lon": 2, "time": slice(2, 30)},
        window=6,
        stride=2,
    )
    with h5py.File(science) as file:
        cut = file["weather/t2m"][2:30, 1:4, 2]
    check_dataset(dataset, [cut[i : i + 6] for i in range(0, 23, 2)], in_order)
    everything = HDF5(science, {"t": "weather/t2m"})
    assert len(everything) == 40 and everything[0]["t"].shape == (5, 4)


def test_files_are_counted_through(tmp_path):
    for i in range(3):
        with h5py.File(tmp_path / f"run-{i}.h5", "w") as file:
            file["x"] = np.arange(10) + 100 * i
            file.create_dataset("y", data=np.arange(10) + 100 * i, chunks=(4,), compression="gzip")
    right = [*range(10), *range(100, 110), *range(200, 210)]
    for field in "x", "y":
        check_dataset(HDF5(tmp_path / "run-*.h5", field), [np.int64(i) for i in right], in_order)
    windows = HDF5([tmp_path / f"run-{i}.h5" for i in range(3)], "y", window=4)
    assert [w[0].item() for w in windows] == [0, 4, 100, 104, 200, 204], (
        "no window crosses from one file to the next"
    )


def test_contiguous_rows_are_gathered_in_place(tmp_path):
    path = tmp_path / "rows.h5"
    with h5py.File(path, "w") as file:
        file["x"], file["y"] = np.arange(600, dtype=np.float32).reshape(100, 6), np.arange(100)
    loader = in_order(HDF5(path), 32, shuffle=True, num_workers=2)
    assert "copied row by row" in loader.explain()
    batches = list(loader)
    order = torch.cat([b["y"] for b in batches])
    assert torch.equal(torch.cat([b["x"] for b in batches])[:, 0], 6.0 * order) and sorted(
        order.tolist()
    ) == list(range(100))
    windows = HDF5(path, "x", window=5, stride=1)
    check_dataset(
        windows, [np.arange(6 * i, 6 * i + 30, dtype=np.float32).reshape(5, 6) for i in range(96)], in_order
    )


@pytest.mark.parametrize("layout", ["contiguous", "gzip", "lzf"])
@pytest.mark.parametrize("loader", [torch.utils.data.DataLoader, DataLoader])
@pytest.mark.parametrize("method", ["fork", "spawn", "threads"])
def test_handles_opened_before_workers(tmp_path, layout, loader, method):
    """The classic: a file that the parent had open, and read from, before it forked four workers."""
    if method == "spawn" and (layout == "contiguous" or loader is DataLoader):
        pytest.skip("the same as with torch's loader, and slow")
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        options = dict(LAYOUTS[layout], **({"chunks": (8, 3)} if layout != "contiguous" else {}))
        file.create_dataset("x", data=np.arange(300, dtype=np.int32).reshape(100, 3), **options)
    with h5py.File(path) as held:
        assert held["x"][5, 0] == 15
        dataset = HDF5(path, "x")
        assert dataset[99][0] == 297
        options = {"num_workers": 2 if method == "spawn" else 4}  # each imports torch for seconds
        if method != "threads":
            options["multiprocessing_context"] = method
        elif loader is not DataLoader:
            pytest.skip("torch has no threads")
        if loader is DataLoader and method != "threads":
            options["native"] = "never"
        seen = torch.cat(list(loader(dataset, 10, **options)))
    assert torch.equal(seen, torch.arange(300, dtype=torch.int32).reshape(100, 3))


def test_pickles_hold_no_handle(science):
    dataset = HDF5(science, ["images", "name"])
    before = dataset[3]
    again = pickle.loads(pickle.dumps(dataset))
    after = again[3]
    assert torch.equal(before["images"], after["images"]) and before["name"] == after["name"]


def test_forked_while_others_read(tmp_path):
    """A child that is forked while threads are in the middle of reading, and hold every lock there is, reads
    on its own.
    """
    script = f"""
        import os, sys, threading
        import h5py, numpy as np
        import millrace
        path = {str(tmp_path / "x.h5")!r}
        with h5py.File(path, "w") as file:
            file.create_dataset("x", data=np.arange(4000).reshape(1000, 4), chunks=(10, 4), compression="lzf")
        dataset = millrace.datasets.HDF5(path, "x", cache_bytes=0)
        stop = threading.Event()
        def read():
            while not stop.is_set():
                dataset[int(np.random.randint(1000))]
        threads = [threading.Thread(target=read) for _ in range(3)]
        for thread in threads: thread.start()
        for _ in range(8):
            pid = os.fork()
            if pid == 0:
                os._exit(0 if dataset[77][0] == 308 else 1)
            assert os.waitpid(pid, 0)[1] == 0
        stop.set()
        for thread in threads: thread.join()
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True, timeout=200)


@pytest.mark.parametrize("layout", ["contiguous", "gzip"])
def test_a_run_goes_on_where_it_was(tmp_path, layout):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        options = {"chunks": (9,), "compression": "gzip"} if layout == "gzip" else {}
        file.create_dataset("x", data=np.arange(103), **options)
    dataset = HDF5(path, "x")
    check_resuming(dataset)
