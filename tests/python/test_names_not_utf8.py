"""Names that are any bytes, as os.listdir() gives them ("caf\udce9"): what gives, takes, writes or prints a
path does so with them.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys

import millrace
import numpy as np
import pytest
from millrace import DataLoader, _core
from millrace.datasets import HDF5, ImageFolder, Lines, WebDataset
from millrace.transforms import CenterCrop, Compose, ToTensor
from pictures import jpeg_bytes, make_picture
from shard_data import write_tar

NAMES = ["caf\udce9", "\udcff\udcfe", "日本\udc80", "a\udca0 b", "line\n\udce9"]


@pytest.fixture(params=NAMES, ids=ascii)
def folder(tmp_path, request):
    """A folder of that name."""
    (tmp_path / request.param).mkdir()
    return os.fspath(tmp_path / request.param)


@pytest.fixture
def pictures(folder):
    below = os.path.join(folder, "train\udce9", "classe\udce9")
    os.makedirs(below)
    for number in range(4):
        with open(os.path.join(below, f"{number}\udce9.jpg"), "wb") as file:
            file.write(jpeg_bytes(make_picture(30, 30, seed=number)))
    return os.path.join(folder, "train\udce9")


def test_what_a_loader_says_of_its_samples(pictures, folder):
    dataset = ImageFolder(pictures, Compose([CenterCrop(24), ToTensor()]))
    loader = DataLoader(dataset, 2, num_workers=2, native="require")
    list(loader)
    paths = [path for step in (0, 1) for path in loader.seen(step)["paths"]]
    assert paths == [path for path, _ in dataset.samples] and all(map(os.path.exists, paths))
    files = _core.PathFiles(_core.PathTable(paths))
    assert [files.name(number) for number in range(len(files))] == paths
    assert list(pickle.loads(pickle.dumps(_core.PathTable(paths)))) == paths
    for name in ("dump\udce9.json", "dump\udce9.txt"):
        assert loader.dump_state(os.path.join(folder, name))
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            assert file.read()
    loader.report().save(os.path.join(folder, "report\udce9.html"))


def test_python_decoders_that_name_the_file(pictures):
    """An error whose text has the name, as Pillow's have."""
    broken = os.path.join(pictures, "classe\udce9", "1\udce9.jpg")
    with open(broken, "wb") as file:
        file.write(b"no picture")
    dataset = ImageFolder(pictures, Compose([CenterCrop(24), ToTensor()]))
    loader = DataLoader(dataset, 4, num_workers=2, on_error="skip")
    assert sum(len(labels) for _, labels in loader) == 3
    assert [error["path"] for error in loader.stats()["errors"]] == [broken]
    with pytest.raises(OSError) as caught:
        list(DataLoader(dataset, 4, num_workers=2))
    assert broken in str(caught.value)


def test_arrays_of_hdf5(folder):
    h5py = pytest.importorskip("h5py")
    path, values = os.path.join(folder, "x\udce9.h5"), np.arange(60).reshape(12, 5)
    with h5py.File(os.fsencode(path), "w") as file:
        file.create_dataset("plain", data=values)
        file.create_dataset("chunked", data=values, chunks=(4, 5), compression="gzip")
    for field in ("plain", "chunked"):
        (batch,) = DataLoader(HDF5(path, field), 12)
        assert np.array_equal(batch, values)
    os.truncate(path, os.path.getsize(path) - 8)
    with pytest.raises(OSError) as caught:
        list(DataLoader(HDF5(path, "chunked"), 12))
    assert path in str(caught.value)


def test_shards_and_what_is_in_them(folder, capfd):
    members = [(f"{n}\udce9.{suffix}", b"%d" % n) for n in range(3) for suffix in ("cls", "x\udce9")]
    url = write_tar(os.path.join(folder, "s\udce9.tar"), members)
    dataset = WebDataset(url, verbose=True)
    samples = list(DataLoader(dataset, batch_size=None, num_workers=1))
    assert [s["__key__"] for s in samples] == ["0\udce9", "1\udce9", "2\udce9"]
    assert samples[1]["x\udce9"] == b"1" and samples[1]["__url__"] == url
    assert "reads" in capfd.readouterr().out
    list(dataset.log_keys(os.path.join(folder, "keys\udce9")))
    with open(os.path.join(folder, "keys\udce9"), encoding="utf-8", errors="surrogateescape") as file:
        assert "1\udce9" in file.read()
    index = _core.TarIndex.build(url)
    assert list(index.numbers(["x\udce9"])) == [0, 1, 2]
    files = _core.TarSamples([_core.open_local_file(url)], [index], ["x\udce9"])
    assert files.name(2) == f"{url}/2\udce9.x\udce9" and files.read(2) == b"2"
    assert dataset.indexed()[2]["x\udce9"] == b"2"


def test_sources_that_python_opens(folder):
    """The words of an error, and the names of what is opened, come back as they went in."""
    name = os.path.join(folder, "x\udce9")

    def fails():
        raise FileNotFoundError(f"nothing at {name}")

    with pytest.raises(FileNotFoundError) as caught:
        _core.SourcePool(1).add(name, 10, fails).read_at(0, 1)
    assert f"nothing at {name}" in str(caught.value)
    blocks = _core.BlockFile(name, 100)
    blocks.fail("corrupt_data", f"{name} is damaged")
    assert blocks.name == name
    with pytest.raises(millrace.CorruptDataError) as caught:
        blocks.reader().read_at(0, 10)
    assert caught.value.path == name and f"{name} is damaged" in str(caught.value)


@pytest.mark.parametrize("folder", NAMES[:1], indirect=True, ids=ascii)
def test_commands_print_them(pictures, folder):
    """To a pipe that takes UTF-8 alone."""
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8:strict"}
    packed = os.path.join(folder, "packed\udce9")
    for arguments in (["pack", pictures, packed], ["inspect", packed]):
        ran = subprocess.run(
            [sys.executable, "-m", "millrace", *arguments], capture_output=True, env=environment
        )
        assert ran.returncode == 0, ran.stderr


def test_texts_of_batches(folder):
    """Lines, hashes of what was seen, and states with such texts."""
    path = os.path.join(folder, "l\udce9.txt")
    with open(path, "w") as file:
        file.write("a\nb\n")
    assert list(Lines(path)) == ["a", "b"]

    class Paths(list):
        pass

    loader = DataLoader(Paths([path, folder, path]), 2, history=True)
    assert [len(batch) for batch in loader] == [2, 1]
    assert json.loads(json.dumps(loader.state_dict()))
    assert str(loader.report())
