"""millrace inspect: counts what is there, finds what is broken, and fails then."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys

import pytest
from millrace.__main__ import main as command_line
from millrace_tools.pack import pack
from millrace_tools.pack.survey import summary
from pictures import jpeg_bytes, make_picture
from shard_data import write_tar
from test_webdataset_stores import served  # noqa: F401

pytestmark = pytest.mark.slow


def picture(i):
    return jpeg_bytes(make_picture(40 + i, 30, seed=i))


@pytest.fixture
def shards(tmp_path):
    """Ten sound samples in two shards."""
    for shard in range(2):
        members = []
        for i in range(5 * shard, 5 * shard + 5):
            members += [
                (f"{i:03d}.jpg", picture(i)),
                (f"{i:03d}.cls", b"%d" % (i % 3)),
                (f"{i:03d}.note.txt", b"x" * i),
            ]
        write_tar(tmp_path / f"s-{shard}.tar", members)
    return tmp_path


def inspect(capsys, *words):
    status = command_line(["inspect", *map(str, words), "--json"])
    return status, json.loads(capsys.readouterr().out)


def test_sound_shards(shards, capsys):
    status, found = inspect(capsys, shards / "s-{0..1}.tar")
    assert status == 0 and found["samples"] == 10 and [s["samples"] for s in found["shards"]] == [5, 5]
    assert found["labels"] == {"0": 4, "1": 3, "2": 3} and found["broken"] == {"count": 0, "first": []}
    assert found["pictures"]["formats"] == {"JPEG": 10}
    assert {name: found["pictures"]["width"][name] for name in ("min", "median", "max")} == {
        "min": 40,
        "median": 44,
        "max": 49,
    }
    notes = found["fields"]["note.txt"]
    assert (notes["files"], notes["bytes"], notes["min"], notes["max"]) == (10, 45, 0, 9)
    assert sum(count for _, _, count in notes["histogram"]) == 10
    assert found["duplicates"]["keys"]["count"] == found["duplicates"]["contents"]["count"] == 0
    assert inspect(capsys, shards)[1] == found, "a folder stands for its shards"


def test_packed_shards(shards, capsys):
    (shards / "s-1.tar.gz").write_bytes(gzip.compress((shards / "s-1.tar").read_bytes()))
    assert inspect(capsys, shards / "s-1.tar.gz")[1]["samples"] == 5


def test_shards_of_a_store(served, tmp_path, capsys):
    url, folder = served
    status, found = inspect(capsys, url)
    assert (
        status == 0
        and [s["samples"] for s in found["shards"]] == [4, 3, 5]
        and found["shards"][0]["url"].startswith("http://")
    )
    assert pack(url, tmp_path / "packed", samples_per_shard=5)["samples"] == 12
    (folder / "n-001.tar").unlink()
    status, found = inspect(capsys, url)
    assert (
        status == 1
        and found["samples"] == 9
        and found["broken"]["count"] == 1
        and "n-001.tar" in found["broken"]["first"][0]["shard"]
    )


def test_the_text_says_the_same(shards, capsys):
    assert command_line(["inspect", str(shards)]) == 0
    text = capsys.readouterr().out
    for line in (
        "10 samples, ",
        "jpg: 10 files, ",
        "width: 40 to 49, median 44 pixels",
        "3 labels (cls)",
        "10 JPEG",
        "broken: 0",
    ):
        assert line in text, text


def test_broken_entries_and_duplicates(tmp_path, capsys):
    whole = picture(1)
    write_tar(
        tmp_path / "a.tar",
        [
            ("1.jpg", whole),
            ("2.jpg", whole[:-50]),
            ("3.jpg", whole[:20]),
            ("1.cls", b"1"),
            ("4.jpg", whole),
            ("4.JPG", whole),
            ("5.cls", b"7"),
        ],
    )
    write_tar(tmp_path / "b.tar", [("8.cls", b"1"), ("9.cls", b"1")])
    data = (tmp_path / "b.tar").read_bytes()
    (tmp_path / "b.tar").write_bytes(data[:1024] + b"x" + data[1025:])  # the second header
    status, found = inspect(capsys, tmp_path / "a.tar", tmp_path / "b.tar", tmp_path / "missing.tar")
    assert status == 1
    broken = {(entry["shard"].rpartition("/")[2], entry["key"]): entry for entry in found["broken"]["first"]}
    assert found["broken"]["count"] == len(broken) == 5, broken
    assert "no end marker" in broken["a.tar", "2.jpg"]["error"] and ("a.tar", "3.jpg") in broken
    assert any(
        key.startswith("behind") and "4" in entry["error"]
        for (shard, key), entry in broken.items()
        if shard == "a.tar"
    )
    (cut,) = (entry for (shard, _), entry in broken.items() if shard == "b.tar")
    assert cut["offset"] == 1024
    assert found["duplicates"]["keys"]["first"] == ["1"]
    assert command_line(["inspect", str(tmp_path / "b.tar")]) == 1
    assert "at byte 1,024" in capsys.readouterr().out


def test_decode_finds_what_headers_hide(tmp_path, capsys):
    made = io.BytesIO()
    make_picture(60, 60).save(made, "PNG")
    data = made.getvalue()
    write_tar(tmp_path / "a.tar", [("1.png", data[:200] + bytes(100) + data[300:])])
    assert inspect(capsys, tmp_path / "a.tar")[0] == 0
    assert inspect(capsys, tmp_path / "a.tar", "--decode")[0] == 1


def test_wrong_words(tmp_path, capsys):
    assert command_line(["inspect", str(tmp_path)]) == 1
    assert "has no shards" in capsys.readouterr().err
    done = subprocess.run(
        [sys.executable, "-m", "millrace", "inspect"], capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 2 and "usage" in done.stderr


def test_summary():
    assert summary([]) is None
    assert summary([5]) == {"min": 5, "median": 5, "max": 5, "histogram": [[5, 5, 1]]}
    assert [count for _, _, count in summary(range(100))["histogram"]] == [13] * 7 + [9]
