"""HDF5 datasets in another file than the one that is named, and elements that are arrays: h5py's values,
natively read or not, or an error.
"""

from __future__ import annotations

import os
import pickle
import shutil

import numpy as np
import pytest
import torch
from millrace import CorruptDataError, DataLoader
from millrace.datasets import HDF5

h5py = pytest.importorskip("h5py")
WANT = np.arange(66, dtype="i4").reshape(22, 3)


@pytest.fixture(params=[None, (4, 3), "gzip", "lzf", ">i4"], ids=str)
def folder(tmp_path, request):
    """main.h5 -> sub/other.h5 -> sub/deep/third.h5; at the same places of main.h5 lies something else."""
    (tmp_path / "sub" / "deep").mkdir(parents=True)
    kind = request.param
    options = {"compression": kind, "chunks": (5, 3)} if kind in ("gzip", "lzf") else {}
    options |= {"chunks": kind} if isinstance(kind, tuple) else {}
    values = WANT.astype(kind) if kind == ">i4" else WANT
    with h5py.File(tmp_path / "sub" / "deep" / "third.h5", "w") as file:
        file.create_dataset("z", data=values + 1000, **options)
    with h5py.File(tmp_path / "sub" / "other.h5", "w") as file:
        file.create_dataset("g/y", data=values, **options)
        file["g/soft"] = h5py.SoftLink("/g/y")
        file["deeper"] = h5py.ExternalLink("deep/third.h5", "/z")
    with h5py.File(tmp_path / "main.h5", "w") as file:
        file["pad"] = np.full(50_000, 77, "i4")
        file["own"] = WANT * 2
        file["x"] = h5py.ExternalLink("sub/other.h5", "/g/y")
        file["group"] = h5py.ExternalLink("sub/other.h5", "/g")
        file["chain"] = h5py.ExternalLink("sub/other.h5", "deeper")
        file["soft"] = h5py.SoftLink("/group/y")
        file["self"] = h5py.ExternalLink("main.h5", "/own")
        file["absolute"] = h5py.ExternalLink(str(tmp_path / "sub" / "other.h5"), "/g/soft")
        file["local/inner"] = h5py.ExternalLink("sub/deep/third.h5", "/z")
    return tmp_path


FIELDS = ["x", "group/y", "group/soft", "chain", "soft", "self", "absolute", "local/inner"]


def test_external_links(folder):
    path = folder / "main.h5"
    for field in FIELDS:
        with h5py.File(path) as file:
            right = file[field][()].astype("i4")
        dataset = pickle.loads(pickle.dumps(HDF5(path, field)))
        for got in (*DataLoader(dataset, 22), *DataLoader(dataset, 22, num_workers=2)):
            assert np.array_equal(got, right), field
        windows = HDF5(path, field, window=4, select={field: 1})
        assert np.array_equal(np.stack(list(windows)), right[:20, 1].reshape(5, 4)), field
    mixed = HDF5(path, ["own", "x", "chain"])  # contiguous ones in three files
    (batch,) = DataLoader(mixed, 22, num_workers=1)
    assert np.array_equal(batch["own"], WANT * 2) and np.array_equal(batch["x"], WANT)
    assert np.array_equal(batch["chain"], WANT + 1000)


def test_the_file_that_has_the_numbers_is_watched(folder):
    dataset = HDF5(folder / "main.h5", ["own", "x"])
    shutil.copy(folder / "sub" / "other.h5", folder / "copy.h5")
    with open(folder / "sub" / "other.h5", "ab") as file:
        file.write(b"more")
    with pytest.raises(CorruptDataError, match="other.h5 was changed"):
        list(DataLoader(dataset, 4))
    os.replace(folder / "copy.h5", folder / "sub" / "other.h5")
    os.unlink(folder / "sub" / "deep" / "third.h5")
    for field, where in (("local/inner", "sub/deep/third.h5"), ("chain", "sub/other.h5")):
        with pytest.raises(
            ValueError, match=f"'{field}' in .*main.h5 leads to .* in {where}, which cannot be opened"
        ):
            HDF5(folder / "main.h5", field)


@pytest.mark.parametrize(
    "kind, shape",
    [
        (("i4", (3,)), (7,)),
        ((">f8", (2, 2)), (7,)),
        (("u1", (5,)), (7, 2)),
        (("S4", (2,)), (7,)),
        ((np.dtype([("a", "i2"), ("b", "f4", (2,))]), (2,)), (7,)),
        (("c8", (1,)), (7, 3)),
        (("?", (4,)), (7,)),
    ],
    ids=str,
)
@pytest.mark.parametrize("chunks", [None, 3])
def test_elements_that_are_arrays(tmp_path, kind, shape, chunks):
    dtype = np.dtype(kind)
    count = int(np.prod(shape + dtype.shape))
    values = (np.arange(count) % 100).astype(dtype.base if dtype.base.names is None else "i2")
    values = np.array([(int(v), [v, v]) for v in values], dtype.base) if dtype.base.names else values
    values = values.reshape(shape + dtype.shape)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        chunk = None if chunks is None else (chunks, *shape[1:])
        file.create_dataset("x", shape, dtype, chunks=chunk)[...] = values
    with h5py.File(tmp_path / "x.h5") as file:
        right = file["x"][()]
    dataset = HDF5(tmp_path / "x.h5", "x")
    assert len(dataset) == 7 and right.shape == values.shape
    if dtype.base.kind in "SV":
        wanted = right[5].tolist()
        got = dataset[5]
        if dtype.base.kind == "S":
            assert got == [text.decode() for text in wanted]
        else:
            assert [(one["a"], one["b"].tolist()) for one in got] == [(a, list(b)) for a, b in wanted]
        return
    for batch in (*DataLoader(dataset, 7), *DataLoader(dataset, 7, num_workers=2)):
        assert batch.dtype == torch.from_numpy(right.astype(right.dtype.newbyteorder("="))).dtype
        assert np.array_equal(batch, right)
    cut = HDF5(
        tmp_path / "x.h5", "x", select={"x": (*(slice(None),) * (right.ndim - 2), 0)}, window=3, stride=2
    )
    assert np.array_equal(np.stack(list(cut)), np.stack([right[i : i + 3, ..., 0] for i in (0, 2, 4)]))
