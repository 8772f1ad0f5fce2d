"""millrace pack: what goes in comes out, by the webdataset package and our readers; always the same bytes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tarfile
import time
from collections import Counter
from pathlib import Path

import millrace
import numpy as np
import pytest
from millrace import _core
from millrace.__main__ import main as command_line
from millrace_tools.pack import index_path, pack, packer, transcode_jpeg, verify
from millrace_tools.texts import Progress
from pack_cases import files_of, packed, photos, pixels, samples_of  # noqa: F401
from pictures import jpeg_bytes, make_jpeg_folder, make_picture
from PIL import Image


def test_webdataset_reads_what_was_packed(photos, packed):
    webdataset = pytest.importorskip("webdataset")
    folder, report = packed
    shards = sorted(str(path) for path in folder.glob("*.tar"))
    assert [shard["samples"] for shard in report["shards"]] == [7, 7, 7, 3] and len(shards) == 4
    read = list(webdataset.WebDataset(shards, shardshuffle=False))
    assert [s["__key__"] for s in read] == [s["__key__"] for s in samples_of(folder)] and len(read) == 24
    for sample in read:
        path = Path(photos) / f"{sample['__key__']}.jpg"
        assert np.array_equal(pixels(sample["jpg"]), pixels(path.read_bytes()))
        assert report["classes"][int(sample["cls"])] == path.parent.name
    classes = [s["cls"] for s in read]
    assert classes != sorted(classes), "shuffled by default"


def test_shards_are_plain_and_have_an_index(packed):
    folder, report = packed
    assert sorted(files_of(folder)) == sorted(
        ["dataset.json"] + [f"shard-{i:06d}.tar{end}" for i in range(4) for end in ("", ".index")]
    )
    with tarfile.open(folder / "shard-000000.tar") as tar:
        for member in tar:
            assert (member.mtime, member.uid, member.gid, member.mode, member.type) == (
                0,
                0,
                0,
                0o644,
                tarfile.REGTYPE,
            )
            assert not member.pax_headers
    index = _core.TarIndex.load(str(index_path(folder / "shard-000000.tar")))
    assert len(index) == 7 and index.suffixes == ["jpg", "cls"]
    assert report == json.loads((folder / "dataset.json").read_text())
    assert report["label_counts"] == {"0": 8, "1": 8, "2": 8} and report["fields"]["cls"] == {
        "files": 24,
        "bytes": 24,
    }
    assert report["pictures"]["notes"] == {"transcoded": 24} and report["skipped"] == []
    assert report["pictures"]["longer_sides"] == {"64-127": 6, "128-191": 18}


def test_bytes_do_not_depend_on_threads_or_time(photos, packed, tmp_path):
    pack(photos, tmp_path / "again", samples_per_shard=7, workers=1)
    assert files_of(tmp_path / "again") == files_of(packed[0])


def test_a_pack_goes_on_behind_its_last_complete_shard(photos, packed, tmp_path, monkeypatch):
    """Stopped in the middle of each shard, and between a shard and its line in the journal."""
    folder = tmp_path / "stopped"
    real, stop_at = packer.make_picture, {3, 12, 20}
    calls = []

    def stopping(content, rules):
        calls.append(content)
        if len(calls) in stop_at:
            stop_at.discard(len(calls))
            raise KeyboardInterrupt
        return real(content, rules)

    monkeypatch.setattr(packer, "make_picture", stopping)
    stops = 0
    while True:
        try:
            pack(photos, folder, samples_per_shard=7, workers=1)
            break
        except KeyboardInterrupt:
            stops += 1
            assert not list(folder.glob("*.tar.part"))
            if stops == 2:  # as if it had died right behind a shard, in the middle of its line
                journal = folder / "pack.journal"
                journal.write_bytes(journal.read_bytes()[:-40])
    assert stops == 3 and files_of(folder) == files_of(packed[0])
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert pack(photos, folder, samples_per_shard=7) == packed[1]
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before, (
        "a complete pack is left as it is"
    )
    with pytest.raises(FileExistsError, match="holds a pack whose seed is 0, not 1"):
        pack(photos, folder, samples_per_shard=7, seed=1)


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGKILL])
def test_a_killed_command_is_resumed(tmp_path, sign):
    photos, folder = make_jpeg_folder(tmp_path / "photos", per_class=30, size=(300, 200)), tmp_path / "packed"
    command = [
        sys.executable,
        "-m",
        "millrace",
        "pack",
        photos,
        str(folder),
        "--samples-per-shard",
        "10",
        "--workers",
        "1",
        "--json",
    ]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        while process.poll() is None and len(list(folder.glob("*.tar"))) < 3:
            time.sleep(0.005)
        process.send_signal(sign)
        assert process.wait(20) in (130, 0, -signal.SIGKILL) and "Traceback" not in process.stderr.read()
    assert command_line(["pack", photos, str(folder), "--samples-per-shard", "10", "--verify"]) == 0
    pack(photos, tmp_path / "whole", samples_per_shard=10)
    assert files_of(folder) == files_of(tmp_path / "whole")


def test_other_folders_are_not_touched(photos, tmp_path):
    (tmp_path / "mine.txt").write_text("x")
    with pytest.raises(FileExistsError, match="holds 'mine.txt' and is no pack"):
        pack(photos, tmp_path)
    assert list(tmp_path.iterdir()) == [tmp_path / "mine.txt"]


def test_verify_sees_every_change(photos, tmp_path):
    folder = tmp_path / "packed"
    pack(photos, folder, samples_per_shard=12)
    verify(folder)
    shard = folder / "shard-000001.tar"
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)
    with pytest.raises(millrace.CorruptDataError, match="shard-000001.tar: has .* bytes with CRC-32"):
        verify(folder)
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)
    index_path(shard).write_bytes(index_path(folder / "shard-000000.tar").read_bytes())
    with pytest.raises(millrace.CorruptDataError, match="does not have sample 0"):
        verify(folder)


def test_keep_and_sizes(photos, tmp_path):
    kept = pack(photos, tmp_path / "kept", jpeg="keep", shuffle=False, shard_size=20_000)
    originals = sorted(Path(photos).rglob("*.jpg"))
    assert [s["jpg"] for s in samples_of(tmp_path / "kept")] == [path.read_bytes() for path in originals]
    assert len(kept["shards"]) > 3
    assert all(shard["bytes"] <= 20_000 or shard["samples"] == 1 for shard in kept["shards"])
    small = pack(photos, tmp_path / "small", max_side=100, quality=80, pixel_statistics=True)
    assert all(max(pixels(s["jpg"]).shape) == 100 for s in samples_of(tmp_path / "small"))
    values = np.concatenate([pixels(s["jpg"]).reshape(-1, 3) for s in samples_of(tmp_path / "small")]) / 255
    assert np.allclose(small["pixels"]["mean"], values.mean(0))
    assert np.allclose(small["pixels"]["std"], values.std(0))


@pytest.mark.parametrize(
    "how, expected", [("balance", [3, 3, 3]), (0.5, [5, 3, 2]), (4, [4, 4, 3]), ({0: 0.2}, [2, 6, 3])]
)
def test_downsampling_is_by_hash(tmp_path, how, expected):
    for label, count in enumerate((10, 6, 3)):
        make_jpeg_folder(tmp_path / "photos", classes=(f"c{label}",), per_class=count, size=(20, 20))
    report = pack(tmp_path / "photos", tmp_path / "a", downsample=how)
    assert [report["label_counts"].get(str(label), 0) for label in range(3)] == expected
    keys = Counter(s["__key__"] for s in samples_of(tmp_path / "a"))
    pack(tmp_path / "photos", tmp_path / "b", downsample=how, shuffle=False, samples_per_shard=2)
    assert Counter(s["__key__"] for s in samples_of(tmp_path / "b")) == keys
    pack(tmp_path / "photos", tmp_path / "c", downsample=how, seed=5)
    assert Counter(s["__key__"] for s in samples_of(tmp_path / "c")) != keys or how == 10


def test_broken_pictures(tmp_path):
    root = Path(make_jpeg_folder(tmp_path / "photos", per_class=3))
    whole = (root / "ant/00.jpg").read_bytes()
    (root / "ant/cut.jpg").write_bytes(whole[: len(whole) // 2])
    (root / "bee/empty.jpg").write_bytes(b"")
    (root / "bee/text.jpg").write_bytes(b"no picture")
    (root / "bee/rare.ppm").write_bytes(b"P6 1 1 255\nabc")
    with pytest.raises(OSError, match="cut.jpg|ant/cut|empty|text.jpg"):
        pack(root, tmp_path / "raised")
    assert not list((tmp_path / "raised").glob("*.part"))
    report = pack(root, tmp_path / "skipped", on_error="skip", samples_per_shard=4)
    lost = {entry["sample"]: entry["error"] for entry in report["skipped"]}
    assert report["samples"] == 10 and sorted(lost) == ["ant/cut", "bee/empty", "bee/text"]
    assert "no end marker" in lost["ant/cut"]
    assert "0 bytes" in lost["bee/empty"]
    assert "no picture that Pillow knows" in lost["bee/text"]
    assert {"ppm", "cls"} <= {field for sample in samples_of(tmp_path / "skipped") for field in sample}


def test_what_cannot_be_transcoded_but_decoded_is_kept(tmp_path):
    data = jpeg_bytes(make_picture(60, 40))
    damaged = data[: data.rfind(b"\xff\xd9") - 30] + b"\xff\xd9"  # Pillow shows it, the lost blocks in grey
    report = pack([{"jpg": data}, {"jpg": damaged}], tmp_path / "packed", shuffle=False)
    notes = report["pictures"]["notes"]
    assert notes.pop("transcoded") == 1
    assert [count for note, count in notes.items() if note.startswith("kept: JPEG cannot")] == [1]
    assert samples_of(tmp_path / "packed")[1]["jpg"] == damaged


def test_arguments_are_checked(photos, tmp_path):
    for wrong in (
        {"jpeg": "best"},
        {"max_side": 0},
        {"quality": 0},
        {"on_error": "ignore"},
        {"shard_size": 0},
        {"name": "a/b"},
        {"samples_per_shard": 0},
        {"workers": 0},
        {"downsample": 0.0},
        {"downsample": 1.5},
        {"downsample": "some"},
        {"downsample": {"a": 2}},
    ):
        with pytest.raises((ValueError, TypeError), match=next(iter(wrong))):
            pack(photos, tmp_path / "packed", **wrong)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        pack(tmp_path / "nowhere", tmp_path / "packed")
    assert not (tmp_path / "packed").exists()


def test_transcode_jpeg():
    picture = make_picture(150, 90)
    for options in ({"quality": 90}, {"quality": 75, "progressive": True}, {"quality": 95, "subsampling": 0}):
        data = jpeg_bytes(picture, exif=Image.Exif().tobytes(), comment=b"mine", **options)
        made = transcode_jpeg(data)
        assert np.array_equal(pixels(made), pixels(data)) and b"mine" in made and b"Exif" in made
        header = _core.probe_jpeg(made)
        assert (header["width"], header["height"], header["progressive"]) == (150, 90, False)
        assert transcode_jpeg(bytearray(made)) == made
        assert len(transcode_jpeg(data, 0, own_tables=True)) < len(made)
    with pytest.raises(millrace.CorruptDataError, match="truncated"):
        transcode_jpeg(data[:-100])
    with pytest.raises(ValueError, match="segment_pixels"):
        transcode_jpeg(data, -1)


def test_the_command(photos, packed, tmp_path, capsys):
    assert command_line(["pack", photos, str(tmp_path / "packed"), "--samples-per-shard", "7", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == packed[1]
    made = (
        "import torch\ndef make():\n    return torch.utils.data.TensorDataset(torch.tensor([1, 1, 1, 1]))\n"
    )
    (tmp_path / "things.py").write_text(made)
    command = [sys.executable, "-m", "millrace", "pack", "things:make", "out", "--downsample", "0.5"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0 and "4 samples" not in done.stdout and "2 samples" in done.stdout, done.stderr
    assert command_line(["pack", str(tmp_path / "nowhere"), str(tmp_path / "x")]) == 1
    assert "does not exist" in capsys.readouterr().err


def test_classes_are_called_and_errors_of_their_code_say_where(tmp_path, capsys, monkeypatch):
    code = (
        "class Rows:\n    def __len__(self):\n        return 3\n    def __getitem__(self, i):\n        return"
        " {'cls': i}\n"
    )
    (tmp_path / "rows_module.py").write_text(code + "def broken():\n    raise KeyError('size')\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert command_line(["pack", "rows_module:Rows", str(tmp_path / "rows")]) == 0
    assert "3 samples" in (said := capsys.readouterr().out) and "in 1 shard in" in said
    assert command_line(["pack", "rows_module:broken", str(tmp_path / "broken")]) == 1
    assert "millrace pack: KeyError: 'size' (line 7 of " in capsys.readouterr().err


def test_the_bar_says_how_far_it_is():
    bar = Progress("packing", 200, begin=100)
    bar.add(50, 10_000_000)
    assert (
        bar.line(5.0) == "packing [##################......] 150 of 200, 10 samples/s, 2 MB/s, 0:00:05 left"
    )
    assert Progress("reading", None).line(1.0) == "reading 0, 0 samples/s, 0 MB/s"
