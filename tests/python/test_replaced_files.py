"""Files and objects that are replaced by others of the same size: what was known of the old one is never used
for the new one.

A dataset that is made anew has the new content; one that was opened before is an error, or has the old
content whole.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import pickle
import threading
from http.server import ThreadingHTTPServer

import numpy as np
import pytest
from millrace import CorruptDataError, DataLoader
from millrace.datasets import HDF5, JSONL, Arrays, ArrowFile, JSONLStream, Lines, Parquet, Tokens, WebDataset
from shard_data import write_tar
from test_webdataset_stores import Ranges


def jsonl(long_first):
    """100 rows of two lengths; both orders have the same size and their borders in other places."""
    rows = [{"n": i, "t": "x" * (40 if (i < 60) == long_first else 3)} for i in range(10, 110)]
    return rows, "".join(json.dumps(row) + "\n" for row in rows).encode()


ROWS = [jsonl(True)[0], jsonl(False)[0]]
PLAIN = [jsonl(True)[1], jsonl(False)[1]]
PACKED = [gzip.compress(data, 0, mtime=0) for data in PLAIN]  # stored, not packed: of one size
assert len(PLAIN[0]) == len(PLAIN[1]) and len(PACKED[0]) == len(PACKED[1]) and PLAIN[0] != PLAIN[1]


class Versioned(Ranges):
    """With an ETag that follows the content, or without one."""

    def send_header(self, keyword, value):
        if keyword == "ETag":
            path = self.server.folder / self.path.lstrip("/")
            value = f'"{hashlib.sha256(path.read_bytes()).hexdigest()[:16]}"'
            if not self.server.versions:
                return
        if keyword == "Last-Modified" and not self.server.versions:
            return
        super().send_header(keyword, value)


@pytest.fixture
def server(tmp_path):
    pytest.importorskip("obstore")
    (tmp_path / "www").mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Versioned)
    server.folder, server.versions = tmp_path / "www", True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    server.url = f"http://127.0.0.1:{server.server_port}"
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def replace(path, data):
    """Another file takes the place of this one, with its size and time. The clock of inodes ticks every few
    milliseconds: within a tick it would pass for the same file.
    """
    before = os.stat(path)
    new = f"{path}.new"
    while not os.path.exists(new) or os.stat(new).st_ctime_ns == before.st_ctime_ns:
        with open(new, "wb") as file:
            file.write(data)
        os.utime(new, ns=(before.st_atime_ns, before.st_mtime_ns))
    os.replace(new, path)
    after = os.stat(path)
    assert (after.st_size, after.st_mtime_ns) == (
        before.st_size,
        before.st_mtime_ns,
    ) and after.st_ino != before.st_ino


# ---------------------------------------------------------------- lines


@pytest.mark.parametrize("name, contents", [("a.jsonl", PLAIN), ("a.jsonl.gz", PACKED)])
def test_an_object_that_is_replaced(name, contents, server, tmp_path):
    path, url = server.folder / name, f"{server.url}/{name}"
    for version in (0, 1, 0):
        path.write_bytes(contents[version])
        assert list(JSONL(url, {"n": int, "t": str}, index_dir=str(tmp_path / "kept"))) == ROWS[version]
        assert list(Lines(url, index_dir=str(tmp_path / "kept"))) == PLAIN[version].decode().split("\n")[:-1]
        assert list(JSONLStream(url, {"n": int, "t": str})) == ROWS[version]


@pytest.mark.parametrize("name, contents", [("a.jsonl", PLAIN), ("a.jsonl.gz", PACKED)])
def test_a_local_file_that_is_replaced(name, contents, tmp_path):
    path = tmp_path / name
    path.write_bytes(contents[0])
    for version in (0, 1, 0):
        if version != 0 or path.read_bytes() != contents[0]:
            replace(path, contents[version])
        assert list(JSONL(path, {"n": int, "t": str}, index_dir=str(tmp_path / "kept"))) == ROWS[version]


def test_what_a_store_says_no_version_of_is_not_kept(server, tmp_path):
    server.versions = False
    for name, contents in (("a.jsonl", PLAIN), ("a.jsonl.gz", PACKED)):
        for version in (0, 1):
            (server.folder / name).write_bytes(contents[version])
            try:
                rows = list(
                    JSONL(f"{server.url}/{name}", {"n": int, "t": str}, index_dir=str(tmp_path / "kept"))
                )
            except OSError as error:  # some versions of the client refuse such an answer
                pytest.skip(str(error))
            assert rows == ROWS[version]
    assert not [name for _, _, names in os.walk(tmp_path / "kept") for name in names]


@pytest.mark.parametrize("remote", [False, True])
def test_another_process_reads_the_same_version_or_nothing(remote, server, tmp_path):
    path = server.folder / "a.jsonl"
    path.write_bytes(PLAIN[0])
    dataset = JSONL(
        f"{server.url}/a.jsonl" if remote else path, {"n": int, "t": str}, index_dir=str(tmp_path / "kept")
    )
    assert dataset[3] == ROWS[0][3]
    sent = pickle.dumps(dataset)
    assert pickle.loads(sent)[3] == ROWS[0][3]
    replace(path, PLAIN[1])
    with pytest.raises(CorruptDataError, match="a.jsonl changed since the dataset was opened first"):
        pickle.loads(sent)[3]


def test_an_index_beside_the_file_is_that_files(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(PLAIN[0])
    JSONL(path, {"n": int}, index_dir=str(tmp_path / "kept")).save_indexes()
    os.utime(f"{path}.lines")  # newer than the file, whatever happens to it
    assert list(JSONL(path, {"n": int, "t": str}, index_dir=str(tmp_path / "kept"))) == ROWS[0]
    replace(path, PLAIN[1])
    assert list(JSONL(path, {"n": int, "t": str}, index_dir=str(tmp_path / "kept"))) == ROWS[1]
    dataset = JSONL(path, {"n": int}, index_dir=str(tmp_path / "kept"))
    assert len(dataset) == 100
    replace(path, PLAIN[0])
    with pytest.raises(CorruptDataError, match="changed since"):
        dataset.save_indexes()


def test_an_index_beside_the_file_is_used(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(PLAIN[0])
    JSONL(path, {"n": int}, index_dir=str(tmp_path / "kept")).save_indexes()
    said = []
    assert (
        len(
            JSONL(
                path, {"n": int}, index_dir=str(tmp_path / "other"), progress=lambda *what: said.append(what)
            )
        )
        == 100
    )
    assert not (tmp_path / "other").exists() and not said


@pytest.mark.parametrize("workers", [0, 2])
def test_a_file_that_is_written_over_gives_no_mixture(workers, tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(PLAIN[0])
    for dataset in (
        JSONL(path, {"n": int, "t": str}, index_dir=str(tmp_path)),
        Lines(path, index_dir=str(tmp_path)),
    ):
        assert len(dataset) == 100
        path.write_bytes(PLAIN[1])
        with pytest.raises(
            CorruptDataError, match=r"a\.jsonl, line \d+ \(byte \d+\): it does not end where it did"
        ):
            for _ in DataLoader(dataset, 10, num_workers=workers):
                pass
        path.write_bytes(PLAIN[0])


def test_a_file_that_grows_can_still_be_read(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(PLAIN[0][:-1])  # without its last newline
    dataset = JSONL(path, {"n": int, "t": str}, index_dir=str(tmp_path))
    assert len(dataset) == 100
    with path.open("ab") as file:
        file.write(b"\n" + PLAIN[1])
    assert list(dataset) == ROWS[0]


# ---------------------------------------------------------------- tars


def tar(path, first):
    """Five samples; their files lie in other places in the other version, which has the same size."""
    members = [
        (f"{i}.txt", bytes([65 + i + 10 * first]) * (900 if (i < 2) == bool(first) else 300))
        for i in range(4)
    ]
    write_tar(path, members)
    return path.read_bytes(), [content for _, content in members]


@pytest.mark.parametrize("beside", [False, True])
def test_a_shard_that_is_replaced(beside, tmp_path):
    path = tmp_path / "a.tar"
    (one, first), (other, second) = tar(tmp_path / "1.tar", 0), tar(tmp_path / "2.tar", 1)
    assert len(one) == len(other) and one != other
    path.write_bytes(one)

    def make():
        return WebDataset(str(path)).indexed(index_dir=str(tmp_path / "kept"))

    def texts(dataset):
        return [dataset[i]["txt"] for i in range(len(dataset))]

    if beside:
        from millrace import _core

        _core.TarIndex.build(str(path)).save(f"{path}.index", _core.content_mark(str(path)))
    dataset = make()
    assert texts(dataset) == first and (tmp_path / "kept").exists() != beside
    sent = pickle.dumps(dataset)
    replace(path, other)
    with pytest.raises(CorruptDataError, match="is another file than when it was opened"):
        dataset[0]
    with pytest.raises(CorruptDataError, match="changed since the dataset was opened first"):
        pickle.loads(sent)[0]
    assert texts(make()) == second


def test_a_shard_of_a_store_that_is_replaced(server, tmp_path):
    (one, first), (other, second) = tar(tmp_path / "1.tar", 0), tar(tmp_path / "2.tar", 1)
    for content, texts in ((one, first), (other, second), (one, first)):
        (server.folder / "a.tar").write_bytes(content)
        dataset = WebDataset(f"{server.url}/a.tar").indexed(index_dir=str(tmp_path / "kept"))
        assert [dataset[i]["txt"] for i in range(len(dataset))] == texts
    sent = pickle.dumps(dataset)
    (server.folder / "a.tar").write_bytes(other)
    with pytest.raises(CorruptDataError, match="changed since the dataset was opened first"):
        pickle.loads(sent)[0]


# ---------------------------------------------------------------- tables, arrays, tokens


def write_table(path, values):
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({"n": pa.array(values, pa.int64())})
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=20, compression="none", use_dictionary=False)
    else:
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table, 20)


def write_h5(path, values):
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        file.create_dataset("n", data=values, track_times=False)


@pytest.mark.parametrize("kind", ["parquet", "arrow", "h5"])
def test_a_table_that_is_replaced(kind, tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / f"a.{kind}"
    make = {"parquet": Parquet, "arrow": ArrowFile, "h5": HDF5}[kind]
    write = write_h5 if kind == "h5" else write_table
    write(tmp_path / f"b.{kind}", np.arange(100, 200))
    write(path, np.arange(100))
    dataset = make(path)
    assert int(dataset[1]["n"]) == 1
    sent = pickle.dumps(dataset)
    replace(path, (tmp_path / f"b.{kind}").read_bytes())
    for old in (dataset, pickle.loads(sent)):
        with pytest.raises(CorruptDataError, match="changed since"):
            old[50]  # of a chunk that is not in memory
    assert int(make(path)[1]["n"]) == 101


def test_mapped_files_that_are_replaced(tmp_path):
    tokens, array = tmp_path / "t.bin", tmp_path / "a.npy"
    np.arange(100, dtype=np.uint16).tofile(tokens)
    np.save(array, np.arange(100))
    made = Tokens(tokens, 9, "uint16", targets=None), Arrays(x=array)
    sent = pickle.dumps(made)
    contents = []
    for path in (tokens, array):
        contents.append(bytearray(path.read_bytes()))
        contents[-1][-100:] = bytes(100)
        replace(path, contents[-1])
    assert made[0][10].tolist() == list(range(90, 99)) and made[1][99]["x"] == 99  # what is mapped stays
    for path, dataset in ((tokens, made[0]), (array, made[1])):
        with pytest.raises(CorruptDataError, match=f"{path.name} changed since"):
            pickle.loads(pickle.dumps(dataset))
    with pytest.raises(CorruptDataError):
        pickle.loads(sent)
    assert Tokens(tokens, 9, "uint16", targets=None)[10].tolist() == [0] * 9


def test_another_mode_is_no_other_file(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(PLAIN[0])
    dataset = JSONL(path, {"n": int, "t": str}, index_dir=str(tmp_path))
    assert len(dataset) == 100
    path.chmod(0o444)
    assert pickle.loads(pickle.dumps(dataset))[3] == ROWS[0][3]
