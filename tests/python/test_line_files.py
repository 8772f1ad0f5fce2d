"""Files of lines: their indexes are kept, found again and made anew; packed ones are unpacked once; Lines
gives them as str.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import millrace
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from line_data import write_bytes, write_json, write_lines
from millrace import DataLoader, _core
from millrace.datasets import JSONL, Lines
from millrace.datasets.lines import files

ROWS = [{"n": i, "t": "x" * (i % 40)} for i in range(500)]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "millrace"


@pytest.fixture
def built(monkeypatch):
    """How many indexes were made."""
    made = []

    class Builder(_core.LineIndexBuilder):
        def __init__(self, source, keep_blank):
            super().__init__(source, keep_blank)
            made.append(source.name)

    monkeypatch.setattr(_core, "LineIndexBuilder", Builder)
    return made


def numbers(dataset):
    return [n for batch in DataLoader(dataset, 64) for n in batch["n"].tolist()]


def test_an_index_is_made_once(tmp_path, cache, built):
    path = write_json(tmp_path / "a.jsonl", ROWS)
    for _ in range(3):
        assert numbers(JSONL(path, {"n": int})) == list(range(500))
    assert built == [path]
    (kept,) = (cache / "line-indexes").iterdir()
    assert kept.stat().st_size <= 4 * len(ROWS) + 80
    whole = kept.read_bytes()
    for damaged in (whole[:-1], b"", whole[:100] + bytes([whole[100] ^ 1]) + whole[101:]):
        kept.write_bytes(damaged)
        assert len(JSONL(path)) == 500
    assert len(built) == 4 and kept.read_bytes() == whole


def test_a_changed_file_gets_another_index(tmp_path, built):
    path = tmp_path / "a.jsonl"
    write_json(path, ROWS)
    assert len(JSONL(str(path))) == 500
    before = path.stat()
    text = path.read_text()
    path.write_text(text[:100].replace("\n", " ") + text[100:])  # of the same size
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert len(JSONL(str(path))) < 500 and len(built) == 2


def test_indexes_beside_the_files(tmp_path, cache, built):
    paths = [write_json(tmp_path / f"{i}.jsonl", ROWS[i * 100 : i * 100 + 100]) for i in range(5)]
    JSONL(paths).save_indexes()
    assert all(os.path.exists(f"{path}.lines") for path in paths)
    for kept in (cache / "line-indexes").iterdir():
        kept.unlink()
    assert numbers(JSONL(paths, {"n": int})) == list(range(500)) and len(built) == 5
    time.sleep(0.01)
    write_json(tmp_path / "3.jsonl", ROWS[:7])
    assert len(JSONL(paths)) == 407 and len(built) == 6


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    path = write_json(tmp_path / "a.jsonl", ROWS)
    assert len(JSONL(path, index_dir=str(tmp_path / "file" / "below"))) == 500


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_packed_files_are_unpacked_once(tmp_path, cache, suffix, monkeypatch):
    path = write_json(tmp_path / f"a.jsonl{suffix}", ROWS)
    dataset = JSONL(path, {"n": int})
    assert numbers(dataset) == list(range(500)) and dataset[-1]["n"] == 499
    (kept,) = (cache / "unpacked").iterdir()
    stamp = kept.stat().st_mtime_ns
    assert len(JSONL(path)) == 500 and kept.stat().st_mtime_ns == stamp
    (tmp_path / "bad").mkdir()
    broken = Path(write_bytes(tmp_path / "bad" / "b", Path(path).read_bytes()[:-9]))
    with pytest.raises(millrace.CorruptDataError, match="bad/b"):
        len(JSONL(str(broken)))
    assert [p.name for p in (cache / "unpacked").iterdir()] == [kept.name], "nothing half done is left"


@pytest.mark.parametrize("opens", [True, False])
def test_a_full_disk_while_unpacking_names_the_cache_folder(opens, tmp_path, monkeypatch):
    path = write_json(tmp_path / "data.jsonl.gz", ROWS)
    folder = tmp_path / "kept"

    def mkstemp(dir, prefix):
        if not opens:
            raise OSError(errno.ENOSPC, "No space left on device", os.path.join(dir, f"{prefix}1"))
        return os.open("/dev/full", os.O_WRONLY), str(folder / f"{prefix}1")

    monkeypatch.setattr(files.tempfile, "mkstemp", mkstemp)
    with pytest.raises(
        OSError, match="cannot keep what .*data.jsonl.gz unpacks to.*make room there.*index_dir="
    ) as caught:
        len(JSONL(path, {"n": int}, index_dir=str(folder)))
    assert caught.value.errno == errno.ENOSPC and caught.value.filename == str(folder)


def test_progress_and_giving_up(tmp_path, monkeypatch, capfd):
    path = write_json(tmp_path / "a.jsonl", ROWS)
    size = os.path.getsize(path)
    monkeypatch.setattr(files, "_STEP", 1000)
    monkeypatch.setattr(files, "_REPORTED", 0)
    seen = []
    assert len(JSONL(path, progress=lambda *report: seen.append(report))) == 500
    assert seen[-1] == (f"indexing {path}", size, size)
    assert len(JSONL(path, index_dir=str(tmp_path / "other"), progress=True)) == 500
    assert "millrace: indexing" in capfd.readouterr().err

    def give_up(*report):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        len(JSONL([path] * 3, index_dir=str(tmp_path / "third"), progress=give_up))


@pytest.mark.alone
def test_ctrl_c_ends_the_making_of_an_index(tmp_path):
    """Of a sparse file that takes long to read; its bytes are zeros, hence one line."""
    path = tmp_path / "large"
    with open(path, "wb") as file:
        file.truncate(200 << 30)
    script = f"""
        import millrace
        dataset = millrace.datasets.Lines({str(path)!r})
        try:
            print("begins", flush=True)
            len(dataset)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
    """
    run = subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, text=True)
    assert run.stdout.readline() == "begins\n"
    time.sleep(0.5)
    begin = time.monotonic()
    run.send_signal(signal.SIGINT)
    assert run.stdout.readline() == "interrupted\n"
    assert run.wait(20) == 0 and time.monotonic() - begin < 20


# ---------------------------------------------------------------- Lines


@settings(derandomize=True, deadline=None, max_examples=80)
@given(
    texts=st.lists(
        st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"]), max_size=10), max_size=12
    ),
    end=st.sampled_from(["\n", "\r\n"]),
    last=st.booleans(),
    keep=st.booleans(),
)
def test_lines_are_those_of_the_text(tmp_path_factory, texts, end, last, keep):
    path = tmp_path_factory.mktemp("text") / "a.txt"
    data = end.join(texts) + (end if last else "")
    write_bytes(path, data.encode())
    if data.startswith("\ufeff"):
        data = data[1:]
    expected = data.replace("\r\n", "\n").split("\n")
    if expected[-1] == "":
        expected.pop()
    if not keep:
        expected = [line for line in expected if line.strip(" \t\r")]
    dataset = Lines(str(path), keep_blank=keep)
    assert [dataset[i] for i in range(len(dataset))] == expected
    if expected:
        assert dataset[-1] == expected[-1]
        assert [text for batch in DataLoader(dataset, 3) for text in batch] == expected


def test_lines_of_any_bytes(tmp_path):
    path = write_bytes(tmp_path / "a.txt", b"good\nb\xe4d\n" + b"l" * 50)
    dataset = Lines(path, max_line_bytes=20)
    assert dataset[0] == "good"
    with pytest.raises(
        millrace.CorruptDataError,
        match=rf"{path}, line 2 \(byte 5\): .*can't decode byte 0xe4.*errors='replace'",
    ):
        dataset[1]
    with pytest.raises(millrace.CorruptDataError, match="line 3 .*longer than max_line_bytes"):
        dataset[2]
    assert Lines(path, errors="replace")[1] == "b\ufffdd"
    assert [t for batch in DataLoader(dataset, 2, on_error="skip") for t in batch] == ["good"]


def test_the_two_kinds_of_index_are_two(tmp_path):
    path = write_bytes(tmp_path / "a.txt", b"a\n\nb\n")
    assert len(Lines(path)) == 3 and len(Lines(path, keep_blank=False)) == 2 and len(Lines(path)) == 3


def test_a_large_file_in_any_order(tmp_path):
    """Against a list of its lines; line lengths around the sizes of chunks and reads."""
    random = np.random.default_rng(1)
    texts = [
        f"{i}-" + "y" * int(n)
        for i, n in enumerate(
            random.choice([3, 100, 2040, 5000, 70_000], 3000, p=[0.4, 0.4, 0.1, 0.09, 0.01])
        )
    ]
    path = write_lines(tmp_path / "a.txt", texts)
    dataset = Lines(path)
    assert len(dataset) == len(texts)
    order = random.permutation(len(texts)).tolist() * 2
    assert [t for batch in DataLoader(dataset, 100, sampler=order, num_workers=2) for t in batch] == [
        texts[i] for i in order
    ]


def test_files_as_urls(tmp_path):
    path = write_json(tmp_path / "a.jsonl", ROWS)
    assert numbers(JSONL([f"file://{path}", path], {"n": int})) == [*range(500), *range(500)]
    with pytest.raises(ValueError, match="is no file"):
        JSONL(str(tmp_path / "*.jsonl"))
    assert len(JSONL(str(tmp_path / "{a,a}.jsonl"))) == 1000
    assert json.loads(Lines(path)[3]) == ROWS[3]
