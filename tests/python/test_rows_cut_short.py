"""Files under rows in memory that somebody cuts short: an error that names the file, whatever hides that the
memory is a file's.

Each case runs in a forked child: what is wrong here ends the process.
"""

import mmap
import os
import re

import millrace
import numpy as np
import pytest
import torch
from test_rows_in_place import in_child
from torch.utils.data import ConcatDataset, StackDataset, Subset, TensorDataset

ROWS = 64


def memmap_in_a_tensor(path, shape):
    return torch.from_numpy(np.memmap(path, np.float32, "r+", shape=shape))


def memmap_as_array(path, shape):
    return np.asarray(np.memmap(path, np.float32, "r", shape=shape))


def part_of_a_memmap(path, shape):
    return np.memmap(path, np.float32, "r", shape=shape)[:, :]


def memmap(path, shape):
    return np.memmap(path, np.float32, "c", shape=shape)


def buffer(path, shape):
    with open(path, "rb") as file:
        return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.float32).reshape(shape)


def torchs_file(path, shape):
    return torch.from_file(str(path), shared=True, size=shape[0] * shape[1]).view(shape)


def columns_in_a_tensor(path, shape):
    return torch.from_numpy(np.memmap(path, np.float32, "r+", shape=shape, order="F"))


def columns(path, shape):
    return np.memmap(path, np.float32, "r", shape=shape, order="F")


VIEWS = [
    memmap_in_a_tensor,
    memmap_as_array,
    part_of_a_memmap,
    memmap,
    buffer,
    torchs_file,
    columns_in_a_tensor,
    columns,
]


def read(dataset, path, workers, cut):
    """Cuts the file between two batches; returns the values until the error."""
    iterator = iter(millrace.DataLoader(dataset, 4, num_workers=workers, native="require"))
    seen = [next(iterator)[0]]
    os.truncate(path, cut)
    with pytest.raises(millrace.CorruptDataError, match=re.escape(str(path)) + " is shorter than it was"):
        seen += [batch[0] for batch in iterator]
    return torch.cat(seen)


@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("width", [1024, 100_000])
@pytest.mark.parametrize("view", VIEWS)
def test_a_file_that_is_cut_short(view, width, workers, tmp_path):
    def body():
        path = tmp_path / "rows"
        values = np.arange(1, ROWS * width + 1, dtype=np.float32).reshape((ROWS, width))
        path.write_bytes(values.tobytes("F" if view in (columns, columns_in_a_tensor) else "C"))
        rows = view(path, (ROWS, width))
        dataset = TensorDataset(rows) if isinstance(rows, torch.Tensor) else StackDataset(rows)
        # Not on a page's border: what is behind the end, within its page, is zeros without a signal.
        seen = read(dataset, path, workers, values.nbytes // 2 + 100)
        assert torch.equal(seen, torch.from_numpy(values[: len(seen)])), (
            "no row with zeros in place of what was cut"
        )

    in_child(body)


CONTAINERS = {
    "subset": lambda t: Subset(TensorDataset(t), range(ROWS)),
    "concatenated": lambda t: ConcatDataset([TensorDataset(torch.zeros(4, 2000)), TensorDataset(t)]),
    "beside memory": lambda t: TensorDataset(t, torch.arange(ROWS)),
    "behind memory": lambda t: StackDataset(torch.arange(ROWS).float()[:, None].repeat(1, 2000), t),
}


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("container", CONTAINERS)
def test_a_file_within_other_datasets(container, workers, tmp_path):
    def body():
        path = tmp_path / "rows"
        path.write_bytes(np.ones((ROWS, 2000), np.float32).tobytes())
        read(CONTAINERS[container](memmap_in_a_tensor(path, (ROWS, 2000))), path, workers, 100_000)

    in_child(body)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_saved_tensor_that_is_mapped(workers, tmp_path):
    def body():
        path = tmp_path / "rows.pt"
        torch.save(torch.ones(ROWS, 5000), path)
        read(TensorDataset(torch.load(path, mmap=True)), path, workers, 600_000)

    in_child(body)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_table_that_is_mapped(workers, tmp_path):
    arrow = pytest.importorskip("pyarrow")

    def body():
        path = tmp_path / "rows.arrow"
        numbers = np.arange(1, 400_001)
        table = arrow.table({"a": numbers})
        with arrow.OSFile(str(path), "wb") as file, arrow.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
        with arrow.memory_map(str(path)) as file:
            mapped = arrow.ipc.open_file(file).read_all()
        dataset = millrace.datasets.Table(mapped)
        iterator = iter(millrace.DataLoader(dataset, 1000, num_workers=workers, native="require"))
        next(iterator)
        os.truncate(path, 1_000_000)
        with pytest.raises(millrace.CorruptDataError, match="is shorter than it was"):
            list(iterator)

    in_child(body)


def test_a_file_that_has_no_name_any_more(tmp_path):
    def body():
        path = tmp_path / "rows"
        path.write_bytes(np.ones((ROWS, 2000), np.float32).tobytes())
        rows = memmap_in_a_tensor(path, (ROWS, 2000))
        other = os.open(path, os.O_RDWR)
        path.unlink()
        iterator = iter(millrace.DataLoader(TensorDataset(rows), 4, native="require"))
        next(iterator)
        os.ftruncate(other, 100_000)
        with pytest.raises(millrace.CorruptDataError, match="a mapped file is shorter than it was"):
            list(iterator)

    in_child(body)


def test_mapped_rows_are_the_threads(tmp_path):
    """Reading them may wait for the disk, however small they are; those in /dev/shm are memory."""
    counted = {}
    for folder in "/dev/shm", str(tmp_path):
        path = f"{folder}/millrace_rows_{os.getpid()}"
        try:
            values = np.memmap(path, np.float32, "w+", shape=(ROWS, 4))
            loader = millrace.DataLoader(
                TensorDataset(torch.from_numpy(values)), 4, num_workers=1, native="require"
            )
            assert len(list(loader)) == ROWS // 4
            counted[folder] = loader.stats()["slots"]
        finally:
            os.unlink(path)
    assert counted["/dev/shm"] == 0 and counted[str(tmp_path)] > 0
