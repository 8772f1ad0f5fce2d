"""ShardReader against Python's tarfile and the system's tar: what it reads of archives in every format, and
what it says of broken ones.
"""

from __future__ import annotations

import gc
import gzip
import io
import os
import re
import shutil
import subprocess
import tarfile
import threading

import millrace
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from millrace import _core

FORMATS = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}

LONG = "folder/" * 12 + "n" * 90
NAMES = {
    "ustar": ["a", "dir/b", "x" * 90, "p" * 100 + "/" + "q" * 80, "ü"],
    "gnu": [
        "a",
        "dir/b",
        LONG,
        "q" * 300,
        "ü" * 70,
        b"\xff\xfe".decode("utf-8", "surrogateescape") + "z" * 120,
    ],
    "pax": [
        "a",
        "dir/b",
        LONG,
        "q" * 300,
        "ü" * 70,
        b"\xff\xfe".decode("utf-8", "surrogateescape") + "z" * 120,
        "a=b\tc",
        "日本語",
    ],
}


def write(path, members, tar_format=tarfile.PAX_FORMAT, mode="w"):
    with tarfile.open(path, mode, format=tar_format, encoding="utf-8", errors="surrogateescape") as tar:
        for member in members:
            name, data, changes = (*member, {})[:3]
            info = tarfile.TarInfo(name)
            info.size = len(data)
            for attribute, value in changes.items():
                setattr(info, attribute, value)
            tar.addfile(info, io.BytesIO(data) if data else None)
    return str(path)


def write_bytes(path, data):
    path.write_bytes(data)
    return str(path)


def grouped(members):
    """Members (name, bytes) as samples, by webdataset's words: runs of equal keys, the suffix behind the base
    name's first dot.
    """
    samples = []
    for name, data in members:
        match = re.match(r"^((?:.*/|)[^.]+)[.]([^/]*)$", name, re.DOTALL)
        if match is None or re.match(r"__[^/]*__($|/)", name):
            continue
        key, suffix = match[1], match[2].lower()
        if not samples or samples[-1]["__key__"] != key:
            samples.append({"__key__": key})
        samples[-1][suffix] = data
    return samples


def read(source, **options):
    samples = list(_core.ShardReader(source, **options))
    for sample in samples:
        del sample["__url__"]
    return samples


def by_tarfile(path):
    with tarfile.open(path, encoding="utf-8", errors="surrogateescape") as tar:
        return grouped([(member.name, tar.extractfile(member).read()) for member in tar if member.isreg()])


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("packed", ["", "gz"])
def test_archives_of_tarfile(tmp_path, name, packed):
    members = []
    for number, stem in enumerate(NAMES[name]):
        members += [
            (f"{stem}.jpg", os.urandom(700 * number)),
            (f"{stem}.cls", str(number).encode()),
            (f"{stem}.seg.PNG", b""),
        ]
    others = [
        ("folder", b"", {"type": tarfile.DIRTYPE}),
        ("l.jpg", b"", {"type": tarfile.SYMTYPE, "linkname": LONG[:90]}),
    ]
    others += [
        ("h.jpg", b"", {"type": tarfile.LNKTYPE, "linkname": "a.jpg"}),
        ("f.jpg", b"", {"type": tarfile.FIFOTYPE}),
    ]
    path = write(
        tmp_path / f"s.tar.{packed}", [*members[:3], *others, *members[3:]], FORMATS[name], f"w:{packed}"
    )
    expected = grouped(members)
    assert len(expected) == len(NAMES[name])
    assert read(path) == by_tarfile(path) == expected
    assert {sample["__url__"] for sample in _core.ShardReader(path)} == {path}


def test_attributes_in_pax_records(tmp_path):
    extra = {
        "pax_headers": {
            "mtime": "1234567890.123456789",
            "SCHILY.xattr.user.x": "y" * 3000,
            "comment": "=\n 12 path=no",
        }
    }
    path = write(
        tmp_path / "s.tar",
        [("a.txt", b"1", extra), ("b.txt", b"2"), ("c.txt", b"3", {"mtime": 0.5, "uid": 2**40})],
    )
    assert [sample["__key__"] for sample in read(path)] == ["a", "b", "c"] and read(path) == by_tarfile(path)


@pytest.mark.skipif(shutil.which("tar") is None, reason="there is no tar program")
@pytest.mark.parametrize("form", ["v7", "oldgnu", "gnu", "ustar", "pax", "posix"])
def test_archives_of_the_systems_tar(tmp_path, form):
    folder = tmp_path / "files"
    deep = folder / "deep" / ("d" * 60) / ("e" * 60)
    deep.mkdir(parents=True)
    stems = [folder / "a", folder / "b.c", folder / "deep" / "é"] + (
        [deep / ("n" * 80)] if form not in ("v7",) else []
    )
    for number, stem in enumerate(stems):
        stem.with_name(stem.name + ".jpg").write_bytes(os.urandom(1000 * number))
        stem.with_name(stem.name + ".cls").write_text(str(number))
    os.symlink("a.jpg", folder / "link.jpg")
    os.link(folder / "a.cls", folder / "zz.cls")
    path = str(tmp_path / "s.tar")
    done = subprocess.run(
        ["tar", f"--format={form}", "--sort=name", "-cf", path, "-C", str(folder), "."],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        pytest.skip(f"this tar does not write {form}: {done.stderr.strip()[:80]}")
    found = read(path)
    assert found == by_tarfile(path)
    assert len(found) == len(stems)


@pytest.mark.skipif(shutil.which("tar") is None, reason="there is no tar program")
@pytest.mark.parametrize("form", ["oldgnu", "gnu", "posix"])
def test_sparse_files_are_refused_by_name(tmp_path, form):
    with open(tmp_path / "a.bin", "wb") as file:
        file.write(b"begin")
        file.truncate(10_000_000)
    path = str(tmp_path / "s.tar")
    done = subprocess.run(
        ["tar", f"--format={form}", "--sparse", "-cf", path, "-C", str(tmp_path), "a.bin"],
        capture_output=True,
    )
    if done.returncode or os.path.getsize(path) > 5_000_000:
        pytest.skip("this tar, or this file system, has no sparse files")
    with pytest.raises(
        millrace.UnavailableError, match=r"s\.tar: .*a\.bin' is a sparse file, at byte \d+, .*--sparse"
    ):
        list(_core.ShardReader(path))


# No slash at the end: tarfile takes that of some headers away.
NAME = st.builds(str.__add__, st.text("ab./_AÉ\n", max_size=11), st.sampled_from("aÉ.")) | st.sampled_from(
    ["__x__/a.b", "__m__", "__.__/x.y", "____/a.b", "___/a.b"]
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(NAME, st.binary(max_size=3)), min_size=1, max_size=8))
def test_the_rule_of_keys(tmp_path_factory, members):
    path = write(tmp_path_factory.getbasetemp() / "rule.tar", members)
    expected, twice, seen, previous = grouped(members), False, set(), None
    for name, _ in members:
        sample = grouped([(name, b"")])
        if not sample:
            continue
        key, suffix = sample[0]["__key__"], list(sample[0])[1]
        seen = seen if key == previous else set()
        previous = key
        twice |= suffix in seen
        seen.add(suffix)
    if twice:
        with pytest.raises(ValueError, match="is there twice in sample"):
            read(path)
    else:
        assert read(path) == expected


def test_the_rule_is_the_packages():
    theirs = pytest.importorskip("webdataset.tariterators").base_plus_ext
    names = [
        "a.b",
        "a/b.c.d",
        ".a",
        "a/.b",
        "a.b/.c",
        "a.b/c",
        "a.b/c/.d",
        "a",
        "a.",
        "/.a",
        "//.a",
        "a//b.c",
        "..",
        "a/..",
        "a..b",
    ]
    names += ["a.b.", "./a.b", "a.b//.c", "a/b/", "a.B"]
    for name in names:
        key, suffix = theirs(name)
        assert grouped([(name, b"x")]) == ([] if key is None else [{"__key__": key, suffix.lower(): b"x"}]), (
            name
        )


@pytest.fixture
def shard(tmp_path):
    members = []
    for i in range(6):
        members += [
            (f"d/{i}.jpg", os.urandom(6000 * i)),
            (f"d/{i}.cls", str(i).encode()),
            (f"d/{i}.txt", b"t" * 5000),
        ]
    return write(tmp_path / "shard.tar", members)


def test_select_rename_suffixes_and_start(shard):
    everything = read(shard)
    seen = []

    def select(name):
        seen.append(name)
        return not name.endswith(".txt")

    chosen = read(shard, select=select)
    assert chosen == [
        {name: value for name, value in sample.items() if name != "txt"} for sample in everything
    ]
    assert seen[:4] == ["d/0.jpg", "d/0.cls", "d/0.txt", "d/1.jpg"]
    renamed = read(
        shard,
        rename=lambda name: name.replace("d/", "").replace("cls", "label"),
        select=lambda name: "label" in name,
    )
    assert renamed == [{"__key__": str(i), "label": str(i).encode()} for i in range(6)]
    assert read(shard, suffixes=["cls", "none"]) == [
        {"__key__": s["__key__"], "cls": s["cls"]} for s in everything
    ]
    assert read(shard, suffixes=[]) == [{"__key__": s["__key__"]} for s in everything]
    for start in range(8):
        assert read(shard, start=start) == everything[start:]
        assert (
            read(shard, start=start, suffixes={"cls"}, locate_from=100)
            == read(shard, suffixes={"cls"})[start:]
        )
    with pytest.raises(ValueError, match="start should be 0 or more"):
        _core.ShardReader(shard, start=-1)
    assert read(shard, select=lambda name: False) == []


def test_located_files(shard, tmp_path):
    everything = read(shard)
    for source in (shard, _core.open_local_file(shard), _core.open_local_file(shard, keep_open=False)):
        located = read(source, locate_from=4096)
        for sample, whole in zip(located, everything, strict=True):
            for name, value in sample.items():
                if isinstance(value, _core.LocatedFile):
                    assert value.size == len(whole[name]) >= 4096
                    sample[name] = value.read()
        assert located == everything
    assert isinstance(read(shard, locate_from=0)[0]["jpg"], _core.LocatedFile)
    packed = tmp_path / "p.tar.gz"
    packed.write_bytes(gzip.compress(open(shard, "rb").read()))
    assert read(str(packed), locate_from=0) == everything  # in packed shards nothing has a place


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
        assert (raised.value.path, raised.value.offset) == (str(path), offset) and str(path) in str(
            raised.value
        )
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
        return len(os.listdir("/proc/self/fd"))

    before = count()
    for _ in range(50):
        next(_core.ShardReader(shard))
        next(_core.ShardReader(shard, select=lambda name: True))
        _core.TarIndex.build(shard)
        with pytest.raises(ZeroDivisionError):
            next(_core.ShardReader(shard, select=lambda name: 1 / 0))
    assert count() == before
    kept = [next(_core.ShardReader(shard, locate_from=4096))["txt"] for _ in range(3)]
    assert count() == before + 3
    del kept
    assert count() == before


def test_sources(shard):
    source = _core.open_local_file(shard, name="s3://bucket/x.tar")
    assert (source.name, source.size) == ("s3://bucket/x.tar", os.path.getsize(shard))
    whole = open(shard, "rb").read()
    assert source.read_at(100, 5000) == whole[100:5100] and source.read_at(7, 0) == b""
    assert next(_core.ShardReader(source))["__url__"] == "s3://bucket/x.tar"
    for offset, size in ((-1, 5), (5, -1)):
        with pytest.raises(ValueError, match="0 or more"):
            source.read_at(offset, size)
    with pytest.raises(millrace.CorruptDataError, match="s3://bucket/x.tar ends at byte"):
        source.read_at(len(whole) - 3, 5)
    odd = b"\xff".decode("utf-8", "surrogateescape")
    assert _core.open_local_file(shard, name=odd).name == odd


def test_the_index_says_what_the_reader_reads(shard):
    index, everything = _core.TarIndex.build(shard), read(shard)
    whole = open(shard, "rb").read()
    assert len(index) == 6 and index.shard_bytes == len(whole)
    for number, sample in enumerate(everything):
        assert index.key(number) == sample.pop("__key__")
        assert {name: whole[at : at + size] for name, (at, size) in index.files(number).items()} == sample
    assert index.numbers(["cls"]).tolist() == list(range(6)) and index.numbers(["txt"]) is None
    for bad in (6, -1):
        with pytest.raises(IndexError):
            index.key(bad)


def test_huge_sizes_take_no_memory(tmp_path):
    """What a header claims is believed as far as the archive goes, and piece by piece where that is not
    known.
    """
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
