"""HDF5 files that are missing, cut short, damaged or changed, and questions that they have no answer to."""

from __future__ import annotations

import os
import shutil
import warnings

import millrace
import numpy as np
import pytest
import torch
from millrace import CorruptDataError, DataLoader
from millrace.datasets import HDF5

h5py = pytest.importorskip("h5py")


@pytest.fixture
def path(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset(
            "x", data=np.arange(4000, dtype=np.int32).reshape(100, 40), chunks=(10, 40), compression="gzip"
        )
        file.create_dataset("y", data=np.arange(99))
        file.create_dataset("rows", data=np.arange(500_000).reshape(1000, 500))
        file["one"] = 3.5
        file["group/inner"] = np.zeros(100)
    return tmp_path / "x.h5"


def damage(path, dataset="x", chunk=3, at=20):
    with h5py.File(path) as file:
        where = file[dataset].id.get_chunk_info(chunk)
    with open(path, "r+b") as file:
        file.seek(where.byte_offset + at)
        file.write(b"\xa5" * 8)


def test_fields_that_are_not_there(path, tmp_path):
    with pytest.raises(ValueError, match=r"x\.h5 has no dataset 'z'; it has group/inner, one, rows, x, y"):
        HDF5(path, ["x", "z"])
    with pytest.raises(ValueError, match="'group' in .* is a group, not a dataset; it holds inner"):
        HDF5(path, "group")
    with pytest.raises(ValueError, match="'one' in .* has no rows: it is a single value"):
        HDF5(path, "one")
    with pytest.raises(ValueError, match="fields differ in length: x has 100, y has 99; name those"):
        HDF5(path, ["x", "y"])
    with pytest.raises(ValueError, match="named twice"):
        HDF5(path, ["x", "x"])
    with h5py.File(tmp_path / "empty.h5", "w"):
        pass
    with pytest.raises(ValueError, match="holds no dataset with rows; what is in it: nothing"):
        HDF5(tmp_path / "empty.h5")


def test_cuts_that_cannot_be(path):
    for select, word in {
        "nothing": "neither a field .x. nor an axis",
        "x": "outside axis 1 of 'x' in .*x.h5, which has 40",
    }.items():
        with pytest.raises(ValueError, match=word):
            HDF5(path, ["x"], select={select: 40})
    with pytest.raises(ValueError, match="goes backwards along axis 1"):
        HDF5(path, ["x"], select={"x": slice(None, None, -1)})
    with pytest.raises(ValueError, match=r"nothing is left of the rows of 'x' in .*: their shape is \(0,\)"):
        HDF5(path, ["x"], select={"x": slice(3, 3)})
    with pytest.raises(ValueError, match="slices count elements, not labels"):
        HDF5(path, ["x"], select={"x": slice("a", "b")})
    with pytest.raises(ValueError, match="has 2 parts, and 'x' in .* has 1 axes behind its first"):
        HDF5(path, ["x"], select={"x": (slice(None), 1)})
    with pytest.raises(ValueError, match="use a slice or a number"):
        HDF5(path, ["x"], select={"x": [1, 2]})
    for name in "window", "stride", "chunk_rows":
        with pytest.raises(ValueError, match=f"{name} should be a whole number of rows, 1 or more, not 0"):
            HDF5(path, ["x"], **{name: 0})
    with pytest.raises(ValueError, match="give window, too"):
        HDF5(path, ["x"], stride=2)
    assert len(HDF5(path, ["x"], window=101)) == 0


def test_files_that_are_not_there_or_no_hdf5(path, tmp_path):
    with pytest.raises(FileNotFoundError):
        HDF5(tmp_path / "missing.h5")
    with pytest.raises(FileNotFoundError, match="no file matches"):
        HDF5(tmp_path / "*.hdf5")
    with pytest.raises(ValueError, match="paths is empty"):
        HDF5([])
    with pytest.raises(IsADirectoryError):
        HDF5([tmp_path])
    (tmp_path / "text.h5").write_text("no HDF5 file at all")
    with pytest.raises(CorruptDataError, match="text.h5 cannot be opened as an HDF5 file"):
        HDF5(tmp_path / "text.h5")
    os.truncate(path, path.stat().st_size - 1000)
    with pytest.raises(CorruptDataError, match="x.h5 cannot be opened as an HDF5 file: .*truncated"):
        HDF5(path)


def test_files_that_differ(path, tmp_path):
    for name, data in {
        "wide": np.zeros((5, 41), np.int32),
        "floats": np.zeros((5, 40), np.float32),
        "text": ["a", "b"],
    }.items():
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            file["x"] = data
        with pytest.raises(ValueError, match=rf"field 'x' differs between files: rows of .*{name}.h5 are"):
            HDF5([path, tmp_path / f"{name}.h5"], "x")


@pytest.mark.parametrize("threads", [0, 2])
def test_a_damaged_chunk_is_named(path, threads):
    damage(path)
    dataset = HDF5(path, "x")
    assert dataset[29][0] == 1160
    with pytest.raises(
        CorruptDataError, match=r"x\.h5: chunk \[30:40, 0:40\] of dataset 'x', at byte \d+, is damaged"
    ) as caught:
        dataset[30]
    assert caught.value.path == str(path) and caught.value.offset > 0
    loader = DataLoader(dataset, 10, native="require", num_workers=threads)
    iterator, seen = iter(loader), 0
    with pytest.raises(CorruptDataError, match=r"\[30:40, 0:40\]"):
        for batch in iterator:
            seen += len(batch)
    assert seen == 30


def test_damage_that_only_a_checksum_sees(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", data=np.arange(100), chunks=(10,), fletcher32=True)
        file.create_dataset("plain", data=np.arange(100), chunks=(10,))
    damage(tmp_path / "x.h5")
    with pytest.raises(CorruptDataError, match=r"chunk \[30:40\] of dataset 'x'.*fletcher32"):
        HDF5(tmp_path / "x.h5", "x")[35]


def test_damage_that_h5py_meets(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", data=np.arange(1000), chunks=(100,), compression="lzf", fletcher32=True)
    damage(tmp_path / "x.h5")
    dataset = HDF5(tmp_path / "x.h5", "x")
    with pytest.raises(CorruptDataError, match=r"x\.h5: 'x', .*rows 300:400, cannot be read"):
        dataset[301]


def test_damaged_samples_are_skipped_when_asked(path):
    damage(path)
    loader = DataLoader(HDF5(path, "x"), 10, on_error="skip", num_workers=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = torch.cat([batch[:, 0] // 40 for batch in loader]).tolist()
    assert sorted(rows) == [*range(30), *range(40, 100)]


@pytest.mark.parametrize("field", ["x", "rows"])
def test_a_file_that_changed(path, tmp_path, field):
    dataset = HDF5(path, field)
    loader = DataLoader(dataset, 10, native="require", num_workers=1)
    assert len(next(iter(loader))) == 10
    shutil.copy(path, tmp_path / "copy.h5")
    os.utime(path, ns=(1, 1))
    for ask in (
        lambda: dataset[50],
        lambda: list(loader),
        lambda: next(iter(torch.utils.data.DataLoader(dataset, 4))),
    ):
        with pytest.raises(
            CorruptDataError, match="x.h5 was changed since it was opened; make the HDF5 dataset anew"
        ):
            ask()
    os.remove(path)
    with pytest.raises(FileNotFoundError):
        dataset[0]


@pytest.mark.parametrize("field", ["x", "rows"])
def test_a_file_that_is_cut_short_while_it_is_read(path, field):
    dataset = HDF5(path, field, cache_bytes=0)
    iterator = iter(DataLoader(dataset, 1, native="require", num_workers=1, prefetch_factor=2))
    next(iterator)
    os.truncate(path, 3000)
    with pytest.raises(CorruptDataError, match="x.h5"):
        list(iterator)


def test_strings_in_place_of_numbers(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["text"] = ["1", "2", "3"]
        file.create_dataset("fixed", data=np.array([b"ab", b"c"] * 2)[:3])
    batch = next(iter(DataLoader(HDF5(tmp_path / "x.h5"), 3, native="require")))
    assert batch == {"text": ["1", "2", "3"], "fixed": ["ab", "c", "ab"]}
    with pytest.raises(
        ValueError, match="'text' in .* is no array of numbers, of which windows could be made"
    ):
        HDF5(tmp_path / "x.h5", "text", window=2)


def test_without_h5py(path, monkeypatch):
    from millrace._common import optional

    def refuse(name):
        raise ImportError(f"No module named {name!r}")

    unavailable = millrace.UnavailableError  # imported now, where it is asked for the first time
    monkeypatch.setattr(optional.importlib, "import_module", refuse)
    with pytest.raises(unavailable, match="pip install h5py"):
        HDF5(path)
