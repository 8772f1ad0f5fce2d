"""ShardReader against tarfile and the system's tar: archives in every format, and broken ones."""

from __future__ import annotations

import gzip
import os
import re
import shutil
import subprocess
import tarfile

import millrace
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from millrace import _core
from shard_reader_cases import shard, write  # noqa: F401

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


def grouped(members):
    """(name, bytes) as samples, as webdataset has it: runs of equal keys, suffixes from the first dot."""
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
    names = "a.b a/b.c.d .a a/.b a.b/.c a.b/c a.b/c/.d a a. /.a //.a a//b.c .. a/.. a..b".split()
    names += ["a.b.", "./a.b", "a.b//.c", "a/b/", "a.B"]
    for name in names:
        key, suffix = theirs(name)
        assert grouped([(name, b"x")]) == ([] if key is None else [{"__key__": key, suffix.lower(): b"x"}]), (
            name
        )


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
