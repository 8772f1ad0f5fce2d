"""h5py's and zarr's arrays, read by a dataset's own code while a loader asks: the values, types and errors
are the libraries' own, whoever reads.
"""

from __future__ import annotations

import os
import pickle
from contextlib import contextmanager
from typing import Any

import millrace
import numpy as np
import pytest
import torch
from array_cases import cases, settings_of_all
from hypothesis import given, settings
from hypothesis import strategies as st
from lazy_cases import WAYS, epochs
from millrace._arrays import hdf5_reads, zarr_reads
from millrace._pictures.asking import asks, put_back, stops_asking
from millrace._pictures.counts import PictureCounts

h5py = pytest.importorskip("h5py")
zarr = pytest.importorskip("zarr", "3")

HDF5 = {
    "contiguous": {},
    "plain chunks": {"chunks": True},
    "gzip": {"chunks": True, "compression": 4},
    "all filters": {"chunks": True, "compression": 1, "shuffle": True, "fletcher32": True},
    "lzf": {"chunks": True, "compression": "lzf"},  # h5py's own
}
ZARR = {"zarr 2": 2, "zarr 3": 3}
ENOUGH = 12  # reads, after which the engine reads


@contextmanager
def asking():
    before = asks(PictureCounts())
    try:
        yield
    finally:
        stops_asking(before)


def outcome(read: Any, key: Any) -> Any:
    """What array[key] is, or the error."""
    try:
        value = read(key)
    except Exception as error:
        return type(error), str(error)
    assert not isinstance(value, np.ndarray) or value.flags.writeable
    return type(value), value.dtype, value.shape, value.tobytes()


@st.composite
def keys(draw: Any, shape: tuple[int, ...]) -> Any:
    def part(size: int) -> Any:
        number = st.integers(-size - 1, size)
        ends = st.one_of(st.none(), st.integers(-size - 2, size + 2))
        cut = st.builds(slice, ends, ends, st.one_of(st.none(), st.integers(-1, 3)))
        return st.one_of(number, number.map(np.int32), cut, st.just(slice(None)))

    parts = draw(st.integers(0, len(shape)))
    key = tuple(draw(part(size)) for size in shape[:parts])
    odd = [..., np.newaxis, True, [0], np.array([0]), "x", 1.0, (0,) * (len(shape) + 1), slice(0.0, 1)]
    return draw(
        st.sampled_from([key, key, key, key[0] if key else (), (*key, ...), draw(st.sampled_from(odd))])
    )


def check_keys(array: Any, told: list[Any], is_ours: Any) -> None:
    """`is_ours`: of the array, whether the engine reads it."""
    expected = [outcome(array.__getitem__, key) for key in told]
    with asking():
        for _ in range(ENOUGH):
            array[0]
        assert is_ours(array)
        assert [outcome(array.__getitem__, key) for key in told] == expected
    assert [outcome(array.__getitem__, key) for key in told] == expected


def hdf5_is_ours(array: Any) -> bool:
    reader = array.__dict__["_millrace_reader"]
    return reader.array is not None


def zarr_is_ours(array: Any) -> bool:
    return array.__dict__["_millrace_reader"].decode is not None


@pytest.mark.parametrize("layout", HDF5)
@settings(max_examples=25, **settings_of_all)
@given(data=st.data())
def test_every_key_of_h5py(layout, data, tmp_path_factory):
    case = data.draw(cases())
    path = tmp_path_factory.mktemp("h5") / "file.h5"
    options = {**HDF5[layout], **({"chunks": case.chunk} if "chunks" in HDF5[layout] else {})}
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("a/x", case.shape, case.dtype, **options)
        dataset[: case.written] = case.values()[: case.written]
    with h5py.File(path) as file:
        expected = layout != "lzf" and case.dtype.isnative
        told = data.draw(st.lists(keys(case.shape), min_size=5, max_size=9))
        check_keys(file["a/x"], told, lambda array: hdf5_is_ours(array) == expected)


@pytest.mark.parametrize("version", ZARR)
@pytest.mark.parametrize("compressor", ["auto", None, "gzip"])
@settings(max_examples=10, **settings_of_all)
@given(data=st.data())
def test_every_key_of_zarr(version, compressor, data, tmp_path_factory):
    case = data.draw(cases())
    folder = tmp_path_factory.mktemp("zarr")
    if compressor == "gzip":
        import numcodecs

        compressor = numcodecs.GZip() if ZARR[version] == 2 else zarr.codecs.GzipCodec()
    made: Any = zarr.create_array(
        folder,
        shape=case.shape,
        dtype=case.dtype,
        chunks=case.chunk,
        compressors=compressor,
        fill_value=0,
        zarr_format=ZARR[version],
    )
    made[: case.written] = case.values()[: case.written]
    array = zarr.open_array(folder, mode="r")
    told = data.draw(st.lists(keys(case.shape), min_size=3, max_size=6))
    check_keys(array, told, lambda array: zarr_is_ours(array) == array.dtype.isnative)


def test_what_is_h5pys(tmp_path):
    """Text, records, enumerations, virtual and compact datasets, files that are written."""
    path = tmp_path / "file.h5"
    with h5py.File(path, "w") as file:
        file["text"] = ["a", "b"] * 10
        file["bytes"] = np.array([b"ab", b"c"] * 10)
        file["records"] = np.zeros(20, [("x", "f4"), ("y", "i8")])
        kind = h5py.enum_dtype({"A": 0, "B": 1}, "i4")
        file.create_dataset("enum", data=np.zeros(20, "i4"), dtype=kind)
        file.create_dataset("ragged", (20,), h5py.vlen_dtype("u1"))
        file["number"] = 5
        file["empty"] = h5py.Empty("f4")
        file["x"] = np.arange(20.0)
        layout = h5py.VirtualLayout((20,), "f8")
        layout[:] = h5py.VirtualSource(file["x"])
        file.create_virtual_dataset("virtual", layout)
    with h5py.File(path) as file:
        for name in ("text", "bytes", "records", "enum", "ragged", "number", "empty", "virtual"):
            told = [0, 3, slice(2, 5), (), -1, 20, ..., "x"]
            if name in ("number", "empty"):
                dataset = file[name]
                expected = [outcome(dataset.__getitem__, key) for key in told if name == "number"]
                with asking():
                    assert [outcome(dataset.__getitem__, key) for key in told if name == "number"] == expected
                continue
            for key in told:
                dataset = file[name]
                expected = repr_of(dataset, key)
                with asking():
                    for _ in range(ENOUGH):
                        dataset[0]
                    assert not hdf5_is_ours(dataset) and repr_of(dataset, key) == expected
    with h5py.File(path, "r+") as file, asking():
        assert file["x"] is not file["x"]
        dataset = file["x"]
        for number in range(ENOUGH):
            dataset[0] = number
            assert dataset[0] == number
        assert not hdf5_is_ours(dataset)


def repr_of(dataset: Any, key: Any) -> Any:
    try:
        return repr(dataset[key])
    except Exception as error:
        return repr(error)


@pytest.fixture
def photos(tmp_path):
    """Rows in chunks of several, and labels."""
    path = tmp_path / "photos.h5"
    with h5py.File(path, "w") as file:
        rows = np.arange(60 * 3 * 8 * 8, dtype=np.float32).reshape(60, 3, 8, 8)
        file.create_dataset("in/x", data=rows, chunks=(7, 1, 4, 8), compression="gzip")
        file["y"] = np.arange(60)
    return path


def test_lookups_give_the_same_object_while_the_file_is_open(photos):
    with h5py.File(photos) as file:
        with asking():
            assert file["in/x"] == file["in/x"] and file["in"] == file["in"]  # the second is kept
            first, group = file["in/x"], file["in"]
            assert file["in/x"] is first and file["in"] is group and group["x"] == first
            assert type(first) is h5py.Dataset and first.name == "/in/x"
            for key in ("no", "in/no", b"y", 3):
                with pytest.raises((KeyError, TypeError)) as ours:
                    file[key] if key != b"y" else file[b"no"]
                stopped = asks(None)
                with pytest.raises(type(ours.value)) as theirs:
                    file[key] if key != b"y" else file[b"no"]
                stops_asking(stopped)
                assert str(theirs.value) == str(ours.value)
        assert file["in/x"] is not first
    with asking(), pytest.raises((ValueError, KeyError)):
        file["in/x"]
    with asking(), pytest.raises((ValueError, RuntimeError)):
        first[0]


def test_many_names_are_not_kept(tmp_path):
    with h5py.File(tmp_path / "many.h5", "w") as file:
        for number in range(200):
            file[f"{number}"] = np.full(3, number)
    with h5py.File(tmp_path / "many.h5") as file, asking():
        for number in range(200):
            assert file[f"{number}"][0] == number
        assert len(file.__dict__["_millrace_names"]) == hdf5_reads._MOST_NAMES


def test_another_file_in_its_place_is_not_read(photos):
    """HDF5 reads on in the file that it has opened, and so does the engine."""
    with h5py.File(photos) as file, asking():
        before = [file["in/x"][row].sum() for row in range(60)]
        other = photos.with_name("other.h5")
        with h5py.File(other, "w") as written:
            written["in/x"] = np.zeros((60, 3, 8, 8), np.float32)
        os.replace(other, photos)
        assert [file["in/x"][row].sum() for row in range(60)] == before and hdf5_is_ours(file["in/x"])


def test_damage_is_h5pys_to_tell(photos):
    with h5py.File(photos) as file:
        place = file["in/x"].id.get_chunk_info(0)
    with open(photos, "r+b") as file:
        file.seek(place.byte_offset + 5)
        file.write(b"\xff" * 20)
    with h5py.File(photos) as file:
        expected = outcome(file["in/x"].__getitem__, 0)
        assert expected[0] is OSError
        with asking():
            for _ in range(ENOUGH):
                file["in/x"][59]
            assert hdf5_is_ours(file["in/x"])
            assert outcome(file["in/x"].__getitem__, 0) == expected
            assert file["in/x"][59].shape == (3, 8, 8)


def test_decoded_chunks_are_kept_and_go_with_the_file(photos):
    cache = hdf5_reads._process.cache
    before = cache.bytes
    file = h5py.File(photos)
    with asking():
        for row in range(60):
            file["in/x"][row]
        assert before < cache.bytes <= before + 9 * 3 * 2 * 7 * 4 * 8 * 4
        del file
        assert cache.bytes == before


def test_zarr_arrays_that_are_resized_or_pickled(tmp_path):
    array: Any = zarr.create_array(tmp_path / "a.zarr", shape=(20, 3), chunks=(4, 3), dtype="f4")
    array[:] = np.arange(60).reshape(20, 3)
    with asking():
        assert array[7].tolist() == [21, 22, 23] and zarr_reads._READER in array.__dict__
        array[7] = 5
        assert array[7].tolist() == [5, 5, 5]
        again = pickle.loads(pickle.dumps(array))
        assert again[8].tolist() == [24, 25, 26]
        array.resize((30, 3))
        assert array[29].tolist() == [0, 0, 0]
        with pytest.raises(IndexError):
            array[30]


class Rows(torch.utils.data.Dataset):
    """Opened by the process that reads, at its first sample."""

    def __init__(self, path: Any, is_zarr: bool) -> None:
        self.path, self.is_zarr, self.file = str(path), is_zarr, None

    def __len__(self) -> int:
        return 60

    def __getitem__(self, index: int) -> Any:
        if self.file is None:
            self.file = zarr.open_group(self.path, mode="r") if self.is_zarr else h5py.File(self.path)
        left = int(torch.randint(0, 4, ()))
        row = self.file["in/x"][index, :, :, left : left + 4]
        return torch.from_numpy(row), int(self.file["y"][index])


@pytest.mark.parametrize(
    ("way", "is_zarr"), [*((way, False) for way in WAYS), ("inline", True), ("fork", True)]
)
def test_loaders(photos, tmp_path, way, is_zarr):
    if is_zarr:
        group = zarr.open_group(tmp_path / "g.zarr", mode="w")
        with h5py.File(photos) as file:
            for name, chunks in (("in/x", (7, 3, 8, 8)), ("y", (60,))):
                group.create_array(name, data=file[name][:], chunks=chunks)
        photos = tmp_path / "g.zarr"
    theirs = {name: value for name, value in WAYS[way].items() if name != "worker_method"}
    count = 1 if way == "spawn" else 2
    expected = epochs(
        torch.utils.data.DataLoader(Rows(photos, is_zarr), 4, shuffle=True, **theirs), count=count
    )
    loader = millrace.DataLoader(Rows(photos, is_zarr), 4, shuffle=True, **WAYS[way])
    assert way == "threads" or epochs(loader, count=count) == expected
    if way == "threads":  # whose draws come in any order
        assert sorted(label for batch in loader for label in batch[1].tolist()) == list(range(60))
    if way == "inline" and not is_zarr:
        assert hdf5_is_ours(loader.dataset.file.__dict__["_millrace_names"]["in/x"])
        line = "\narrays: rows of h5py and zarr are read by the "
        assert line + "engine" in loader.explain()
        assert line + "library" in millrace.DataLoader(loader.dataset, pictures="pillow").explain()


def test_nothing_stays_replaced(photos):
    with asking():
        assert h5py.Dataset.__getitem__ is not OWN[0] and h5py.Group.__getitem__ is not OWN[1]
    put_back()
    assert (h5py.Dataset.__getitem__, h5py.Group.__getitem__, zarr.Array.__getitem__) == OWN


put_back()
OWN = h5py.Dataset.__getitem__, h5py.Group.__getitem__, zarr.Array.__getitem__
