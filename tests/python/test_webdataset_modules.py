"""One switch for what may run code, and the package's modules for files, tensors, folders, caches."""

from __future__ import annotations

import io
import pickle
import random

import millrace
import numpy as np
import pytest
import torch
from millrace.datasets import WebDataset
from millrace.datasets import webdataset as wds
from shard_data import same, write_tar
from split_cases import number
from stream_cases import COUNT, shards  # noqa: F401


@pytest.fixture
def trust(monkeypatch):
    """What a script says, or WDS_SECURE."""
    return lambda value: monkeypatch.setattr(wds.utils, "enforce_security", value)


def fields(tmp_path):
    tensors, objects = io.BytesIO(), io.BytesIO()
    torch.save(torch.arange(3), tensors)
    np.save(objects, np.array([{1}], object))
    members = [
        ("a.pyd", pickle.dumps({"x": 1})),
        ("a.pth", tensors.getvalue()),
        ("a.npy", objects.getvalue()),
        ("a.txt", b"t"),
    ]
    return {
        name: write_tar(tmp_path / f"{name}.tar", [member]) for member in members for name in [member[0][2:]]
    }


def outcome(url, **options):
    try:
        (sample,) = WebDataset(url).decode(**options)
    except millrace.datasets.webdataset.DecodingError as error:
        return type(error.__cause__).__name__
    return "read"


@pytest.mark.parametrize(
    "value, allow, expected",
    [
        (None, False, {"pyd": "PickleRefused", "pth": "read", "npy": "PickleRefused", "txt": "read"}),
        (None, True, {"pyd": "read", "pth": "read", "npy": "read", "txt": "read"}),
        (False, False, {"pyd": "read", "pth": "read", "npy": "read", "txt": "read"}),
        (True, True, {"pyd": "ValueError", "pth": "ValueError", "npy": "PickleRefused", "txt": "read"}),
    ],
)
def test_one_switch_for_pickles(tmp_path, trust, value, allow, expected):
    trust(value)
    assert {name: outcome(url, allow_pickle=allow) for name, url in fields(tmp_path).items()} == expected


def test_what_a_script_reads_itself(trust):
    assert wds.autodecode.unpickle_loads(pickle.dumps(3)) == 3 and wds.autodecode.decoders["txt"](b"a") == "a"
    trust(True)
    for loads in (wds.autodecode.unpickle_loads, wds.torch_loads, wds.autodecode.decoders["pkl"]):
        with pytest.raises(ValueError, match="enforce_security is set"):
            loads(pickle.dumps(3))


def test_weights_only(trust, monkeypatch):
    made = io.BytesIO()
    torch.save({"a": random.Random(1)}, made)
    trust(False)
    assert isinstance(wds.torch_loads(made.getvalue())["a"], random.Random)
    for place in (wds, wds.autodecode):
        monkeypatch.setattr(place, "pytorch_weights_only", True, raising=False)
        with pytest.raises(wds.PickleRefused):
            wds.torch_loads(made.getvalue())
        monkeypatch.undo()
        trust(False)


def test_one_switch_for_commands(shards, trust, monkeypatch):
    url = f"pipe:cat {shards[0]}"
    with pytest.raises(millrace.UnavailableError, match="WDS_SECURE=0"):
        WebDataset(url)
    with pytest.raises(millrace.UnavailableError, match="enforce_security = False"):
        wds.gopen(url)
    trust(False)
    data = WebDataset([url, shards[2], f"pipe:gzip -c {shards[3]}"]).map(number)
    assert list(data) == [*range(7), 12, *range(13, 19)]
    state, rest = None, []
    for place, value in enumerate(data):
        rest += [value] if place > 3 else []
        state = data.state_dict() if place == 3 else state
    data.load_state_dict(state)
    assert list(data) == rest
    with pytest.raises(OSError, match="ended with status 3"):
        list(WebDataset("pipe:exit 3", handler=wds.ignore_and_continue, empty_check=False)) == []
        wds.gopen("pipe:exit 3").read()
    for reading in (lambda: millrace.datasets.JSONLStream(url), lambda: WebDataset(url).indexed()[0]):
        with pytest.raises(millrace.UnavailableError, match="is not read here"):
            reading()
    trust(True)
    monkeypatch.setenv("GOPEN_REWRITE", "http://a=http://b")
    for refused in (url, shards[0], f"file:{shards[0]}", "http://a/x"):
        with pytest.raises(ValueError, match="enforce_security is set"):
            wds.gopen(refused)
    assert list(WebDataset(shards).map(number)) == list(range(COUNT))  # data sets read local shards


def test_other_processes_know_it(shards, trust):
    trust(True)
    sent = pickle.dumps(WebDataset(shards))
    trust(None)
    pickle.loads(sent)
    assert wds.utils.enforce_security is True


def test_files_of_any_kind(tmp_path, trust, monkeypatch):
    trust(False)
    with wds.gopen(f"pipe:cat > {tmp_path}/a", "wb") as file:
        file.write(b"abc")
    with wds.gopen(f"{tmp_path}/a") as file:
        assert file.read() == b"abc"
    monkeypatch.setenv("GOPEN_REWRITE", f"data:={tmp_path}/")
    assert wds.gopen("data:a").read() == b"abc"
    monkeypatch.setitem(wds.gopen_schemes, "mine", lambda url, mode, bufsize: io.BytesIO(url.encode()))
    assert wds.gopen("mine:7").read() == b"mine:7"
    with pytest.raises(TypeError, match="timeout mean nothing for a local file"):
        wds.gopen(f"{tmp_path}/a", timeout=3)
    with pytest.raises(ValueError, match="'rb' or 'wb'"):
        wds.gopen("a", "r")


# ---------------------------------------------------------------- what is written


ARRAYS = [
    np.arange(6, dtype=np.float32).reshape(2, 3),
    np.array(7, np.int64),
    np.zeros((0, 5), np.uint8),
    np.ones((2, 1, 3), np.float16),
]


def test_tensors_as_bytes(tmp_path):
    tenbin, theirs = wds.tenbin, pytest.importorskip("webdataset.tenbin")
    made = tenbin.encode_buffer(ARRAYS, infos=["a", "b", "", "12345678"])
    assert same(tenbin.decode_buffer(made), ARRAYS) and tenbin.decode_buffer(made, infos=True)[1] == [
        "a",
        "b",
        "",
        "12345678",
    ]
    arrays = [array for array in ARRAYS if array.ndim]  # the package does not read those without dimensions
    made = tenbin.encode_buffer(arrays)
    assert same([np.array(array) for array in theirs.decode_buffer(made)], arrays)
    assert same(tenbin.decode_buffer(bytes(theirs.encode_buffer(ARRAYS))), ARRAYS)
    assert tenbin.encode_buffer(ARRAYS) == theirs.encode_buffer(ARRAYS)
    tenbin.save(tmp_path / "a.ten", *ARRAYS)
    tenbin.save(tmp_path / "b.ten", *arrays)
    assert same(tenbin.load(tmp_path / "a.ten"), ARRAYS)
    assert same(theirs.decode_buffer((tmp_path / "b.ten").read_bytes()), arrays)
    for wrong in (made[:30], b"x" * 64, made[:-70]):
        with pytest.raises(ValueError):
            tenbin.read(io.BytesIO(wrong))
    with pytest.raises(ValueError, match="integers and floats"):
        tenbin.encode_buffer([np.zeros(1, complex)])


SAMPLE = {
    "__key__": "k/a",
    "txt": "hello",
    "cls": 3,
    "json": {"a": [1]},
    "npy": np.arange(3),
    "npz": {"a": np.ones(2)},
    "pth": torch.arange(2),
    "ten": np.ones((2, 2)),
    "txt.gz": "packed",
    "png": np.full((4, 5, 3), 0.5),
    "raw.bin": b"abc",
}


@pytest.mark.parametrize("name", ["a.tar", "a.tgz"])
def test_a_shard_is_written(tmp_path, name):
    theirs = pytest.importorskip("webdataset")
    with wds.TarWriter(tmp_path / name, mtime=1) as writer:
        writer.write(SAMPLE)
    with theirs.TarWriter(str(tmp_path / f"theirs-{name}"), mtime=1) as writer:
        writer.write(SAMPLE)
    mine, other = ([next(iter(package.WebDataset(str(tmp_path / shard), **options).decode("rgb8")))
                    for package, options in ((wds, {}), (theirs, {"shardshuffle": False}))]
                   for shard in (name, f"theirs-{name}"))  # fmt: skip
    for sample in (*mine, *other):
        sample.pop("__local_path__", None)
        sample.pop("__url__")
    assert same(mine[0], other[0]) and same(mine[1], other[1]) and mine[0]["txt.gz"] == "packed"


def test_shards_are_written(tmp_path):
    done = []
    with wds.ShardWriter(
        f"{tmp_path}/%03d.tar", maxcount=4, post=done.append, verbose=0, start_shard=2, encoder=False
    ) as writer:
        for i in range(10):
            writer.write({"__key__": str(i), "cls": b"%d" % i})
    assert done == [f"{tmp_path}/{i:03}.tar" for i in (2, 3, 4)] and writer.total == 10
    assert list(WebDataset(done).map(number)) == list(range(10))
    with (
        pytest.raises(ValueError, match="files hold bytes, not int"),
        wds.TarWriter(io.BytesIO(), encoder=False) as writer,
    ):
        writer.write({"__key__": "a", "cls": 3})


# ---------------------------------------------------------------- folders and caches


def test_shards_of_a_folder(tmp_path, shards):
    folder = f"{tmp_path}/"
    for i, shard in enumerate(shards):
        (tmp_path / f"{i}.tar").write_bytes(open(shard, "rb").read())
    source = wds.DirectoryShardList(folder, poll=None, mode="keep", select="oldest")
    data = wds.DataPipeline(source, wds.tarfile_to_samples(), wds.map(number))
    assert sorted(data) == list(range(COUNT))
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{i}.tar._done_" for i in range(4)]
    with pytest.raises(ValueError, match="give a folder that is there"):
        wds.DirectoryShardList("nowhere")
    with pytest.raises(ValueError, match="give 'unlink'"):
        wds.DirectoryShardList(folder, mode="eat")


def test_files_that_a_script_keeps(tmp_path, trust):
    for i in range(6):
        (tmp_path / f"{i}").write_bytes(b"x" * 1000)
    wds.LRUCleanup(tmp_path, 3500, keyfn=lambda path: path, interval=None).cleanup()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["3", "4", "5"]
    (entry,) = wds.cache.FileCache(str(tmp_path), validator=None)([{"url": f"{tmp_path}/3"}])
    assert entry["local_path"] == f"{tmp_path}/3" and entry["stream"].read() == b"x" * 1000
    trust(False)
    (entry,) = wds.cache.FileCache(str(tmp_path), url_to_name=lambda url: "n", validator=None)(
        [f"pipe:cat {tmp_path}/4"]
    )
    assert entry["local_path"] == f"{tmp_path}/n" and (tmp_path / "n").read_bytes() == b"x" * 1000
    with pytest.raises(ValueError, match="it is no tar archive"):
        list(wds.cache.FileCache(str(tmp_path), url_to_name=lambda url: "m")([f"pipe:cat {tmp_path}/4"]))
    assert wds.cache.url_to_cache_name("s3://b/c/d.tar", ndir=1) == "c/d.tar"
    assert wds.pipe_cleaner("pipe:curl https://a/b") == "https://a/b"


def test_where_a_shard_lies(tmp_path, shards):
    first, *_ = WebDataset(shards, cache_dir=str(tmp_path))
    assert first["__local_path__"] == shards[0]
