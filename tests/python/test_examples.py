"""The examples and the demo: photos are made once and alike, the script trains, the table appears, Ctrl-C
ends everything.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import make_photos
import pytest
from pictures import make_jpeg_folder
from PIL import Image

from benchmarks.probes import process_tree

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"


needs_sources = pytest.mark.skipif(
    not make_photos.sources_installed(), reason="scikit-image and scikit-learn are not installed"
)


def run(*command: object) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, timeout=300)


@needs_sources
def test_photos_are_made_once_and_alike(tmp_path: Path) -> None:
    root = make_photos.make_photos(tmp_path / "a", 30, workers=2, quiet=True)
    photos = sorted(root.rglob("*.jpg"))
    assert len(photos) == 30 and sorted(p.name for p in root.iterdir() if p.is_dir()) == make_photos.CLASSES
    bytes_of = {p.relative_to(root): p.read_bytes() for p in photos}
    times = {p: p.stat().st_mtime_ns for p in photos}

    photos[3].unlink()  # as if it had been interrupted
    make_photos.make_photos(root, 30, workers=1, quiet=True)
    make_photos.make_photos(root, 10, workers=1, quiet=True)
    assert {p.relative_to(root): p.read_bytes() for p in sorted(root.rglob("*.jpg"))} == bytes_of
    assert [p for p in photos if p.stat().st_mtime_ns != times[p]] == [photos[3]]


@needs_sources
def test_photos_are_like_imagenets() -> None:
    import io

    photos = [make_photos.make_photo(i) for i in range(60)]
    pictures = [Image.open(io.BytesIO(data)) for data in photos]
    assert all(300 <= side <= 700 for p in pictures for side in p.size)
    assert 180_000 < sum(p.width * p.height for p in pictures) / 60 < 220_000
    assert 90_000 < sum(map(len, photos)) / 60 < 130_000
    assert all(p.mode == "L" or p.layer[0][1:3] == (2, 2) for p in pictures), "4:2:0"
    assert not any(p.info.get("progressive") for p in pictures)


def test_photos_never_mix_with_other_files(tmp_path: Path) -> None:
    (tmp_path / "holiday.jpg").write_bytes(b"mine")
    with pytest.raises(FileExistsError, match="name another folder"):
        make_photos.make_photos(tmp_path, 10)


def test_the_script_trains(tmp_path: Path) -> None:
    folder = make_jpeg_folder(tmp_path / "photos", per_class=10)
    done = run(EXAMPLES / "train_image_folder.py", folder, "--epochs", "2", "--workers", "1")
    assert done.returncode == 0, done.stderr
    assert (
        re.search(r"epoch 2: \d+\.\d% of the validation photos right", done.stdout)
        and "transform: native" in done.stdout
    )


def test_resume_tells_its_story() -> None:
    done = run(EXAMPLES / "resume.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (
        "resumed in epoch 2, behind step 40" in done.stdout
        and "losses of all steps are the same" in done.stdout
    )


def test_distributed_tells_its_story() -> None:
    done = run(EXAMPLES / "distributed.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1001 of 1001 samples are read" in done.stdout and "together: 1001 of 1001 samples" in done.stdout


def test_a_plain_torch_loader_feeds_a_device() -> None:
    done = run(EXAMPLES / "prefetch_to_device.py")
    assert done.returncode == 0, done.stderr
    losses = [float(loss) for loss in re.findall(r"epoch \d: loss ([0-9.]+)", done.stdout)]
    assert len(losses) == 3 and losses[2] < losses[0], done.stdout


def test_weighted_sampling_shows_its_shares() -> None:
    done = run(EXAMPLES / "weighted_sampling.py")
    assert done.returncode == 0, done.stderr
    for line in (
        r"the data: +cat 80\.0%, dog 18\.0%, otter 2\.0%",
        r"inverse weights: +cat 3\d\.\d%, dog 3\d\.\d%, otter 3\d\.\d%",
        r"at least (9|10) of each class in all 333 batches of 30",
        "the same draws, from a state of",
        "750 of 1,000 from the first data set, 250 of the next 1,000",
    ):
        assert re.search(line, done.stdout), done.stdout


def test_webdataset_shards_are_read_and_resumed() -> None:
    done = run(EXAMPLES / "webdataset_shards.py")
    assert done.returncode == 0, done.stderr
    for line in (
        "read:        400 pictures in 14 batches",
        "rank 1, worker 1: 2 of 8 shards: .*train-003.tar, .*train-007.tar",
        "few shards:  rank 1, worker 3: 1 of 2 shards, every 4. sample from number 3",
        "epochs:      in other orders",
        "behind 80 samples, from a state of [0-9]+ bytes; the other 320 came, each once",
        r"a mixture:   7\d% even numbers of 200",
        "an error:    train-001.tar: sample '000033', field 'cls' cannot be decoded: ZeroDivisionError",
        "skipped:     40 of 400 samples",
    ):
        assert re.search(line, done.stdout), done.stdout
    assert "GIVES OTHERS" not in done.stdout


def test_object_storage_shows_its_cache() -> None:
    pytest.importorskip("obstore", reason="obstore is not installed: pip install obstore")
    done = run(EXAMPLES / "object_storage.py")
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.split("epoch 2")
    assert "600 samples" in first and "hit rate of the cache: 0 %" in first and "61 MB came over" in first, (
        done.stdout
    )
    assert (
        "600 samples" in second and "hit rate of the cache: 100 %" in second and "; 0 MB came over" in second
    ), done.stdout
    assert "no such object in the store" in second


def test_a_language_model_learns() -> None:
    done = run(EXAMPLES / "tokens_lm.py")
    assert done.returncode == 0, done.stdout + done.stderr
    losses = [float(loss) for loss in re.findall(r"step \d+: loss ([0-9.]+)", done.stdout)]
    assert losses[0] > 5 and losses[-1] < 2.5, done.stdout


@needs_sources
def test_a_table_is_learned() -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install pyarrow")
    done = run(EXAMPLES / "tabular.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "455 patients to learn from, 114 held out, in 10 row groups" in done.stdout
    assert "dataset: native — Parquet of 455 samples" in done.stdout
    assert float(re.search(r"right about ([0-9.]+)%", done.stdout)[1]) >= 92, done.stdout


@needs_sources
def test_zarr_science_learns_to_forecast() -> None:
    pytest.importorskip("zarr", reason="zarr is not installed: pip install zarr tensorstore")
    done = run(EXAMPLES / "zarr_science.py")
    assert done.returncode == 0, done.stderr
    losses = [float(loss) for loss in re.findall(r"epoch \d: loss ([0-9.]+)", done.stdout)]
    assert len(losses) == 5 and losses[4] < 0.07, done.stdout
    assert int(re.search(r"of saying that nothing changes [0-9.]+: (\d+)% of it", done.stdout)[1]) <= 30, (
        done.stdout
    )


def test_packing_loses_nothing() -> None:
    done = run(EXAMPLES / "pack.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (
        "60 samples in 3 shards, {'transcoded': 60}" in done.stdout
        and "all 60 pictures have the pixels of their files" in done.stdout
    )
    losses = [float(loss) for loss in re.findall(r"epoch \d: loss ([0-9.]+)", done.stdout)]
    assert len(losses) == 3 and losses[2] < losses[0], done.stdout


@pytest.mark.slow
def test_the_demo_shows_its_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import demo

    folder = make_jpeg_folder(tmp_path / "photos", per_class=10)
    demo.train_a_network(folder, 1, own_photos=False)
    assert "s of training went into waiting for data" in capsys.readouterr().out
    plan = demo.Plan(rounds=1, first_batches=1, memory_epochs=1, memory_pause_s=0, images_per_worker=400)
    demo.compare(folder, 1, plan)
    out = capsys.readouterr().out
    for line in ("images per second", "first batch", "CPU seconds per 1,000 images", "peak memory"):
        assert re.search(rf"^{line}.*\d +[\d.,]+ +[\d.]+ x$", out, re.MULTILINE), out
    assert re.search(r"threads spent their time: read \d+%, decode \d+%", out)


@pytest.mark.slow
@pytest.mark.alone
def test_ctrl_c_ends_the_demo_and_its_children(tmp_path: Path) -> None:
    folder = make_jpeg_folder(tmp_path / "photos", per_class=10)
    command = [sys.executable, EXAMPLES / "demo.py", "--images", folder]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as demo:
        try:
            for line in demo.stdout:
                if line.startswith("3. "):
                    break
            time.sleep(3)  # into the measurement: a side is running
            children = process_tree(demo.pid)[1:]
            os.kill(demo.pid, signal.SIGINT)
            start = time.monotonic()
            rest = demo.stdout.read()
            assert demo.wait(10) == 130, rest
            assert time.monotonic() - start < 5 and "Traceback" not in rest
        finally:
            if demo.poll() is None:
                os.killpg(demo.pid, signal.SIGKILL)
    deadline = time.monotonic() + 3
    while any(Path(f"/proc/{pid}").exists() for pid in children) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert children and not [pid for pid in children if Path(f"/proc/{pid}").exists()]
