"""millrace doctor as people run it: in a process of its own, on this machine and on those that trees of files
stand for.
"""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time

import pytest
from machine_roots import V2_MOUNTS, make_root
from millrace.__main__ import main as command_line
from millrace_tools.doctor import batches, copies, disk
from pictures import jpeg_bytes, make_picture

pytestmark = pytest.mark.slow


def doctor(*words, **options):
    environment = {**os.environ, **options.pop("environment", {})}
    command = [sys.executable, "-m", "millrace", "doctor", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, **options)


@pytest.fixture
def quick_probes(monkeypatch):
    """Timings that take no time: what is asked here is what the command does with them."""
    disk_times = {
        "files": 1,
        "bytes": 1 << 28,
        "complete": True,
        "as_files": False,
        "random_bytes": 110_000,
        "sequential": 1e9,
        "sequential_one": 1e9,
        "random": 5000.0,
        "random_one": 4000.0,
        "latency_seconds": 1 / 4000,
        "bypass": "O_DIRECT",
        "cached": 1e10,
    }
    made = {
        "one": 1000.0,
        "all": 4000.0,
        "threads": 4,
        "own": False,
        "photos": 8,
        "progressive": 0,
        "decode": 900.0,
        "pixels": 2e8,
        "bytes": 110_000.0,
    }
    monkeypatch.setattr(disk, "time_own_file", lambda *how: {**disk_times, "write": 1e9})
    monkeypatch.setattr(disk, "time_files", lambda *how: dict(disk_times))
    for name in ("time_pictures", "time_tokens", "time_rows"):
        monkeypatch.setattr(batches, name, lambda *how: dict(made))
    monkeypatch.setattr(copies, "time_memory", lambda *how: {"one": 1e10, "all": 2e10})
    monkeypatch.setattr(
        copies,
        "time_store",
        lambda url, *how: {
            "url": url,
            "latency_seconds": 0.05,
            "one": 1e7,
            "many": 1e8,
            "requests": 16,
            "size": 1 << 30,
        },
    )


def run(capsys, *words):
    status = command_line(["doctor", *map(str, words)])
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def test_this_machine_and_a_folder_of_photos(tmp_path):
    """Really timed: photos of the user's, one of them damaged, in a process of its own whose temporary folder
    stays empty.
    """
    data, temporary = tmp_path / "data", tmp_path / "tmp"
    for folder in (data / "cats", temporary):
        folder.mkdir(parents=True)
    for i in range(6):
        (data / "cats" / f"{i}.jpg").write_bytes(jpeg_bytes(make_picture(160, 120, seed=i)))
    (data / "cats" / "cut.jpg").write_bytes(jpeg_bytes(make_picture(160, 120))[:500])
    before = {path: path.stat().st_mtime_ns for path in data.rglob("*")}
    ran = doctor("--quick", "--json", data, environment={"TMPDIR": str(temporary)})
    found = json.loads(ran.stdout)
    assert ran.returncode == 1 and not found["ok"], "a damaged photo"
    assert [f["subject"] for f in found["findings"] if f["level"] == "broken"] == [
        "photos"
    ] and "cut.jpg" in found["batches"]["damaged"][0]
    assert (
        found["disk"]["files"] == 7
        and found["disk"]["as_files"]
        and found["batches"]["photos"] == 6
        and found["batches"]["own"]
    )
    assert {row["name"] for row in found["attainable"]} >= {
        "CPU",
        f"disk ({data})",
        "memory",
        "page cache",
    } and found["tightest"]["rate"] > 0
    assert (
        ran.stderr == ""
        and os.listdir(temporary) == []
        and before == {path: path.stat().st_mtime_ns for path in data.rglob("*")}
    )


def test_another_machine_whose_needs_are_not_met(tmp_path):
    """Really timed with a temporary file; what it may use is read from the files of another machine."""
    root = make_root(
        tmp_path / "root",
        {
            "/proc/self/mountinfo": V2_MOUNTS,
            "/sys/fs/cgroup/cpu.max": "150000 100000\n",
            "/.dockerenv": "",
            "/proc/self/limits": (
                "Max open files            1024                 4096                 files\n"
            ),
        },
    )
    ran = doctor(
        "--quick",
        "--root",
        root,
        "--tmp",
        tmp_path,
        "--step-ms",
        "0.001",
        "--batch-size",
        256,
        "--kind",
        "tokens",
        "--length",
        512,
    )
    assert ran.returncode == 1 and ran.stderr == "" and os.listdir(tmp_path) == ["root"]
    assert "8 of 8 CPUs in the affinity mask" in ran.stdout and "a cgroup quota of 1.5" in ran.stdout
    assert "For rows of 512 tokens" in ran.stdout and "The model needs 256,000,000: too slow." in ran.stdout
    assert "docker run --cpus=8" in ran.stdout and "ulimit -n 4096" in ran.stdout
    first = " ".join(re.search(r"^1\. (.*?)^(?:2\.|   >)", ran.stdout, re.MULTILINE | re.DOTALL)[1].split())
    assert "samples/s are attainable, and the model needs 256,000,000" in first
    assert "\033" not in ran.stdout and max(map(len, ran.stdout.splitlines())) < 250, (
        "plain lines where there is no terminal"
    )


def test_a_need_that_is_met(quick_probes, capsys):
    status, text, error = run(capsys, "--model-needs", 2500)
    assert (status, error) == (
        0,
        "",
    ) and "4,000 samples/s are attainable, by CPU. The model needs 2,500: 1.6 times that is there." in text
    assert re.search(r"CPU +4,000 +fine +decoding", text) and "GPU" in text
    status, text, _ = run(capsys, "--model-needs", 4500)
    assert (
        status == 1
        and re.search(r"CPU +4,000 +too slow", text)
        and "What to fix first:\n1. CPU: 4,000 samples/s are attainable" in text
    )


def test_a_store(quick_probes, capsys):
    status, text, _ = run(capsys, "s3://bucket/shard.tar", "--model-needs", 2000, "--json")
    found = json.loads(text)
    assert (
        status == 1
        and found["disk"] is None
        and found["tightest"]["name"] == "store"
        and "cache_dir" in found["findings"][0]["command"]
    )
    status, text, _ = run(capsys, "s3://bucket/shard.tar", "--sample-bytes", 1000)
    assert status == 0 and "50 ms a request, 10 MB/s by one at a time, 100 MB/s by up to 16" in text


def test_ranks_share(quick_probes, capsys, monkeypatch):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "1")
    found = json.loads(run(capsys, "--ranks", 5, "--json")[1])
    rates = {row["name"].partition(" ")[0]: row["rate"] for row in found["attainable"]}
    assert (
        rates["disk"] == 1000
        and found["machine"]["cpu"]["ranks"] == 5
        and found["millrace_threads"]["threads"] >= 1
    )


def test_every_kind(quick_probes, capsys):
    for kind, words in (
        ("jpeg224", "JPEGs of 110 kB"),
        ("tokens", "rows of 1024 tokens"),
        ("rows", "rows of 4.1 kB"),
    ):
        status, text, _ = run(capsys, "--kind", kind)
        assert status == 0 and f"For {words}" in text


def test_nothing_could_be_timed(quick_probes, capsys, monkeypatch):
    def fails(*how):
        raise OSError(24, "Too many open files")

    for name in ("time_pictures", "time_tokens", "time_rows"):
        monkeypatch.setattr(batches, name, fails)
    monkeypatch.setattr(
        disk, "time_own_file", lambda *how: {"error": "/tmp has room for 0 MiB, and 16 are needed"}
    )
    monkeypatch.setattr(copies, "time_memory", fails)
    status, text, _ = run(capsys)
    assert (
        status == 1
        and "Too many open files" in text
        and "has room for 0 MiB" in text
        and "nothing was timed" in text
    )


def test_a_file_system_that_does_not_answer(quick_probes, capsys, monkeypatch, tmp_path):
    from millrace_tools.doctor import examination

    monkeypatch.setattr(examination, "_PATIENCE", -1.95)
    monkeypatch.setattr(disk, "time_files", lambda *how: time.sleep(1))
    (tmp_path / "file").write_bytes(b"x" * 10)
    status, text, _ = run(capsys, tmp_path, "--quick")
    assert status == 1 and "gave no answer within" in text


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become somebody else")
def test_a_folder_that_may_not_be_read(tmp_path):
    """As root everything may be read, so another user lists, in a process of its own."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    read_end, write_end = os.pipe()
    if (child := os.fork()) == 0:
        os.setuid(65534)
        os.write(write_end, "\n".join(disk.find_files(str(closed)).errors).encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(write_end)
    with open(read_end) as told:
        assert f"{closed}: Permission denied" in told.read()


WRONG = [
    (["/nowhere/at/all"], "No such file"),
    (["--model-needs", "0"], "model_needs=0"),
    (["--step-ms", "5"], "belong together"),
    (["--model-needs", "nan"], "model_needs=nan"),
    (["a", "b"], "give one path"),
    (["http://a/b", "http://a/c"], "one URL"),
    (["http://bucket"], "names a store but no object"),
    (["--tmp", "/nowhere"], "--tmp=/nowhere is no folder"),
    (["--ranks", "0"], "--ranks=0"),
    (["--length", "5"], "length= is of kind tokens"),
]


@pytest.mark.parametrize(("words", "message"), WRONG, ids=[" ".join(words) for words, _ in WRONG])
def test_wrong_arguments(capsys, words, message):
    status, text, error = run(capsys, *words)
    assert status == 2 and text == "" and message in error


def test_words_that_are_no_options(capsys):
    for words in (["--kind", "videos"], ["--step-ms", "180ms"], ["--nonsense"]):
        with pytest.raises(SystemExit) as ended:
            run(capsys, *words)
        assert ended.value.code == 2


def test_tables_on_a_terminal(quick_probes, monkeypatch):
    pytest.importorskip("rich")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "100")
    controller, terminal = pty.openpty()
    with open(terminal, "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        assert command_line(["doctor", "--model-needs", "4500"]) == 1
        monkeypatch.undo()
        os.set_blocking(controller, False)
        shown = b""
        try:
            while piece := os.read(controller, 1 << 16):
                shown += piece
        except BlockingIOError:
            pass
    os.close(controller)
    assert b"\x1b[31m" in shown and b"too slow" in shown and b"What to fix first" in shown


def test_ctrl_c_ends_it(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-X", "importtime", "-m", "millrace", "doctor", "--tmp", str(tmp_path)],
        text=True,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    for line in process.stderr:
        if "millrace_tools.doctor.page" in line:
            break
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    text, error = process.communicate(timeout=200)
    assert process.returncode == 130 and "stopped" in error and "Traceback" not in error and text == ""
    assert os.listdir(tmp_path) == []
