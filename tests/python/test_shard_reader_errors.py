"""The native reader of shards: errors, their places, and what a reader holds on to."""

from __future__ import annotations

import gc
import gzip
import os
import re
import tarfile
import threading

import millrace
import pytest
from millrace import _core
from open_files import open_files
from shard_reader_cases import shard, write  # noqa: F401


def write_bytes(path, data):
    path.write_bytes(data)
    return str(path)


def test_functions_that_raise_cost_one_file(shard):
    class OddError(Exception):
        pass

    def select(name):
        if name in ("d/1.cls", "d/3.jpg"):
            raise OddError(name)
        return True

    reader, got, errors = _core.ShardReader(shard, select=select), [], []
    while True:
        try:
            got.append(next(reader))
        except OddError as error:
            errors.append(str(error))
        except StopIteration:
            break
    assert errors == ["d/1.cls", "d/3.jpg"]
    assert [sorted(sample)[2:] for sample in got] == [
        ["cls", "jpg", "txt"],
        ["jpg", "txt"],
        ["cls", "jpg", "txt"],
        ["cls", "txt"],
        ["cls", "jpg", "txt"],
        ["cls", "jpg", "txt"],
    ]
    with pytest.raises(TypeError):
        next(_core.ShardReader(shard, rename=lambda name: None))


def test_a_name_that_is_there_twice(tmp_path):
    odd = b"\xff".decode("utf-8", "surrogateescape")
    members = [
        ("a.x", b"1"),
        (f"a.{odd}", b"2"),
        (f"a.{odd}", b"3"),
        ("a.y", b"4"),
        ("b.x", b"5"),
        ("b.É", b"6"),
        ("b.é", b"7"),
    ]
    path = write(tmp_path / f"{odd}.tar", members)
    reader = _core.ShardReader(path)
    with pytest.raises(ValueError) as raised:
        next(reader)
    assert f"{path}: 'a.{odd}' is there twice in sample 'a', the second time at byte " in str(raised.value)
    assert next(reader) == {"__key__": "a", "__url__": path, "x": b"1", odd: b"2", "y": b"4"}
    with pytest.raises(ValueError, match="'b.é' is there twice in sample 'b'"):
        next(reader)
    assert next(reader) == {"__key__": "b", "__url__": path, "x": b"5", "é": b"6"}
    assert next(reader, None) is None


def test_errors_say_where_and_end_the_shard(shard, tmp_path):
    whole = open(shard, "rb").read()
    with tarfile.open(shard) as tar:
        third = tar.getmember("d/3.jpg")
    broken = {
        third.offset + 100: ("ends inside a header", third.offset),
        third.offset_data + 100: ("ends inside 'd/3.jpg', which is said to have 18000 bytes", third.offset),
    }
    for cut, (reason, offset) in broken.items():
        path = tmp_path / "cut.tar"
        path.write_bytes(whole[:cut])
        reader, got = _core.ShardReader(str(path)), []
        with pytest.raises(millrace.CorruptDataError, match=reason) as raised:
            got.extend(reader)
        assert (raised.value.path, raised.value.offset) == (str(path), offset)
        assert str(path) in str(raised.value)
        assert next(reader, "end") == "end"
    with pytest.raises(millrace.CorruptDataError, match="this is no tar archive"):
        next(_core.ShardReader(write_bytes(tmp_path / "no.tar", os.urandom(3000))))
    with pytest.raises(millrace.CorruptDataError, match="empty"):
        next(_core.ShardReader(write_bytes(tmp_path / "empty.tar", b"")))
    with pytest.raises(FileNotFoundError):
        _core.ShardReader(str(tmp_path / "missing.tar"))
    with pytest.raises(IsADirectoryError):
        _core.ShardReader(tmp_path)
    with pytest.raises(TypeError):
        _core.ShardReader(7)


def test_a_file_cut_while_it_is_read(shard):
    reader = _core.ShardReader(shard, locate_from=4096)
    first, second = next(reader), next(reader)
    os.truncate(shard, 20_000)
    assert len(first["txt"].read()) == 5000
    with pytest.raises(millrace.CorruptDataError, match=f"{re.escape(shard)} ends at byte 20000"):
        second["txt"].read() and list(reader)


def test_a_reader_has_one_reader(shard):
    inner = []

    def select(name):
        with pytest.raises(ValueError, match="being read by another thread, or by its own select"):
            next(reader)
        inner.append(name)
        return True

    reader = _core.ShardReader(shard, select=select)
    assert len(list(reader)) == 6 and len(inner) == 18
    shared, got, refused = _core.ShardReader(shard), [], []

    def drain():
        while True:
            try:
                got.append(next(shared)["__key__"])
            except StopIteration:
                return
            except ValueError:
                refused.append(1)

    threads = [threading.Thread(target=drain) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got) == [f"d/{i}" for i in range(6)]


def test_descriptors_are_closed(shard):
    def count():
        gc.collect()
        return len(open_files(str(shard)))

    for _ in range(50):
        next(_core.ShardReader(shard))
        next(_core.ShardReader(shard, select=lambda name: True))
        _core.TarIndex.build(shard)
        with pytest.raises(ZeroDivisionError):
            next(_core.ShardReader(shard, select=lambda name: 1 / 0))
    assert count() == 0
    kept = [next(_core.ShardReader(shard, locate_from=4096))["txt"] for _ in range(3)]
    assert count() == 3
    del kept
    assert count() == 0


def test_huge_sizes_take_no_memory(tmp_path):
    """A header is believed as far as the archive goes, and piece by piece where that is not known."""
    info = tarfile.TarInfo("big.bin")
    info.size = 8 * 2**30
    header = info.tobuf(tarfile.GNU_FORMAT)
    plain = write_bytes(tmp_path / "plain.tar", header + bytes(1000))
    packed = write_bytes(tmp_path / "packed.tar.gz", gzip.compress(header + os.urandom(1000)))
    info.size = 100 * 2**30
    hundred = write_bytes(tmp_path / "hundred.tar", info.tobuf(tarfile.GNU_FORMAT) + bytes(1000))
    before = peak_memory()
    with pytest.raises(
        millrace.CorruptDataError,
        match="ends inside 'big.bin', which is said to have 8589934592 bytes, at byte 0",
    ):
        next(_core.ShardReader(plain))
    with pytest.raises(millrace.CorruptDataError, match="ends inside the file that began there, at byte 0"):
        next(_core.ShardReader(packed))
    with pytest.raises(millrace.CorruptDataError, match="said to have 107374182400 bytes, more than"):
        next(_core.ShardReader(hundred))
    assert peak_memory() - before < 300 * 2**20


def peak_memory():
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith("VmHWM"))
