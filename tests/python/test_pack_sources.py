"""millrace pack: what it reads (Datasets, iterables, shards, Parquet files), and the names of samples."""

from __future__ import annotations

import io
import json
import os
import tarfile
from pathlib import Path

import millrace
import numpy as np
import pytest
import torch
from millrace import _core
from millrace.__main__ import main as command_line
from millrace_tools.pack import pack
from millrace_tools.pack.keys import checked_field, safe_key
from pack_cases import files_of, packed, photos, samples_of  # noqa: F401
from pictures import jpeg_bytes, make_jpeg_folder, make_picture


class Things(torch.utils.data.Dataset):
    targets = [4, 5]

    def __len__(self):
        return 2

    def __getitem__(self, i):
        return {
            "image": make_picture(30, 20, seed=i),
            "label": 4 + i,
            "mask.png": jpeg_bytes(make_picture(9, 9)),
            "text": "däs",
            "box": torch.arange(4) + i,
            "info": {"b": 1, "a": [0.5]},
            "nothing": None,
        }


def test_torch_datasets(tmp_path):
    report = pack(Things(), tmp_path / "things", shuffle=False)
    first, second = samples_of(tmp_path / "things")
    assert list(first) == ["__key__", "__url__", "jpg", "cls", "mask.png", "text.txt", "box.npy", "info.json"]
    assert (first["__key__"], first["cls"], second["cls"], first["text.txt"]) == (
        "000000000",
        b"4",
        b"5",
        "däs".encode(),
    )
    assert np.load(io.BytesIO(second["box.npy"])).tolist() == [1, 2, 3, 4]
    assert json.loads(first["info.json"]) == {"b": 1, "a": [0.5]}
    assert report["label_counts"] == {"4": 1, "5": 1}
    tuples = torch.utils.data.TensorDataset(torch.arange(6).reshape(3, 2), torch.tensor([7, 8, 9]))
    pack(tuples, tmp_path / "tuples", shuffle=False)
    assert [s["cls"] for s in samples_of(tmp_path / "tuples")] == [b"7", b"8", b"9"]
    with pytest.raises(TypeError, match="000000000: value 0: a object cannot be stored"):
        pack([(object(),)], tmp_path / "objects")
    with pytest.raises(ValueError, match="cannot be a field"):
        pack([{"a/b": b"1"}], tmp_path / "field")


def test_an_image_folder_object_gives_its_files(photos, packed, tmp_path):
    pack(millrace.datasets.ImageFolder(photos), tmp_path / "packed", samples_per_shard=7)
    assert {name: data for name, data in files_of(tmp_path / "packed").items() if name.endswith(".tar")} == {
        name: data for name, data in files_of(packed[0]).items() if name.endswith(".tar")
    }


def test_iterables_and_packed_shards_come_in_order(packed, tmp_path):
    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter([{"__key__": f"k{i}", "cls": i} for i in range(5)])

    assert pack(Stream(), tmp_path / "stream", samples_per_shard=2)["label_counts"] == {
        str(i): 1 for i in range(5)
    }
    assert [s["__key__"] for s in samples_of(tmp_path / "stream")] == [f"k{i}" for i in range(5)]
    with pytest.raises(ValueError, match="read by number"):
        pack(Stream(), tmp_path / "shuffled", shuffle=True)
    import gzip

    source = packed[0] / "shard-000000.tar"
    (tmp_path / "x.tar.gz").write_bytes(gzip.compress(source.read_bytes()))
    pack(tmp_path / "x.tar.gz", tmp_path / "from_gz", jpeg="keep")
    assert (tmp_path / "from_gz/shard-000000.tar").read_bytes() == source.read_bytes()


def test_shards_are_packed_again(packed, tmp_path):
    shards = str(packed[0] / "shard-{000000..000003}.tar")
    report = pack(shards, tmp_path / "again", downsample="balance", seed=3)
    assert report["samples"] == 24
    assert [s["__key__"] for s in samples_of(tmp_path / "again")] != [
        s["__key__"] for s in samples_of(packed[0])
    ]
    pack(packed[0], tmp_path / "same", shuffle=False, samples_per_shard=7)
    again, once = (folder / "shard-000002.tar" for folder in (tmp_path / "same", packed[0]))
    assert again.read_bytes() == once.read_bytes(), "transcoding twice changes nothing"


def test_parquet(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    pictures = [jpeg_bytes(make_picture(40 + i, 30, seed=i)) for i in range(10)]
    features = {
        "info": {
            "features": {"image": {"_type": "Image"}, "label": {"_type": "ClassLabel", "names": ["a", "b"]}}
        }
    }
    table = pa.table(
        {
            "image": [{"bytes": p, "path": None} for p in pictures],
            "label": [i % 2 for i in range(10)],
            "caption": [f"no {i}" for i in range(10)],
        }
    ).replace_schema_metadata({"huggingface": json.dumps(features)})
    (tmp_path / "source").mkdir()
    parquet.write_table(table, tmp_path / "source" / "train.parquet", row_group_size=3)
    report = pack(tmp_path / "source", tmp_path / "packed", jpeg="keep")
    assert report["classes"] == ["a", "b"] and report["label_counts"] == {"0": 5, "1": 5}
    read = {s["__key__"]: s for s in samples_of(tmp_path / "packed")}
    assert sorted(read) == [f"train/{i:09d}" for i in range(10)] and list(read) != sorted(read)
    for i in range(10):
        sample = read[f"train/{i:09d}"]
        assert (sample["jpg"], sample["cls"], sample["caption.txt"]) == (
            pictures[i],
            str(i % 2).encode(),
            f"no {i}".encode(),
        )
    assert pack(tmp_path / "source", tmp_path / "less", downsample=2)["label_counts"] == {"0": 2, "1": 2}


@pytest.mark.parametrize(
    "key, stored",
    [
        ("cat/0001", "cat/0001"),
        ("v1.0/x", "v1.0/x"),
        ("cat/a.b", "cat/a%2Eb"),
        ("../../etc/passwd", "%2E%2E/%2E%2E/etc/passwd"),
        ("/etc/passwd", "etc/passwd"),
        ("a//b", "a/b"),
        ("..", "%2E%2E"),
        ("a\0b\n", "a%00b%0A"),
        ("50%.x", "50%25%2Ex"),
        ("__meta__/x", "%5F_meta__/x"),
        ("__x__", "%5F_x__"),
        ("./x", "%2E/x"),
        ("ä ö", "ä ö"),
    ],
)
def test_keys_are_safe(key, stored, tmp_path):
    assert safe_key(key) == stored and safe_key(stored) == stored
    pack(_Keyed([key, "other"]), tmp_path / "packed")
    (path,) = (tmp_path / "packed").glob("*.tar")
    with tarfile.open(path) as tar:
        assert tar.getnames() == [f"{stored}.cls", "other.cls"]
    assert [s["__key__"] for s in _core.ShardReader(str(path))] == [stored, "other"]


class _Keyed(torch.utils.data.IterableDataset):
    def __init__(self, keys):
        self.keys = keys

    def __iter__(self):
        return ({"__key__": key, "cls": 1} for key in self.keys)


def test_odd_names(tmp_path):
    long = safe_key("x" * 300), safe_key("y" + "x" * 299), safe_key("/".join(["folder" * 10] * 5) + "/x")
    assert len(set(long)) == 3 and all(len(key) < 69 for key in long)
    assert checked_field("JPG") == "jpg"
    with pytest.raises(ValueError, match="no name for a sample"):
        safe_key("/")
    with pytest.raises(ValueError, match="two samples behind each other have the key 'same'"):
        pack(_Keyed(["same", "same"]), tmp_path / "twice")
    root = tmp_path / "photos"
    make_jpeg_folder(root, classes=("ant",), per_class=1)
    (root / "ant/00.png").write_bytes(
        jpeg_bytes(make_picture(20, 20))
    )  # lies about its kind, and has the key of another
    (root / "ant/a.b.jpg").write_bytes(jpeg_bytes(make_picture(20, 20)))
    Path(os.fsdecode(os.fsencode(root) + b"/ant/\xff.jpg")).write_bytes(jpeg_bytes(make_picture(20, 20)))
    pack(root, tmp_path / "packed", shuffle=False, verify=True)
    assert [(s["__key__"], set(s) - {"__key__", "__url__"}) for s in samples_of(tmp_path / "packed")] == [
        ("ant/00%2Ejpg", {"jpg", "cls"}),
        ("ant/00%2Epng", {"jpg", "cls"}),
        ("ant/a%2Eb", {"jpg", "cls"}),
        (os.fsdecode(b"ant/\xff"), {"jpg", "cls"}),
    ]
    assert command_line(["inspect", str(tmp_path / "packed")]) == 0
