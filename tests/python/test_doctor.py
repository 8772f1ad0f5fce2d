"""The doctor's timing of disk, store, batches and GPUs."""

from __future__ import annotations

import os
import random
import threading
import time
import types

import pytest
import torch
from fault_proxy import FaultProxy
from millrace_tools.doctor import batches, copies, disk, timing
from pictures import jpeg_bytes, make_picture

pytestmark = pytest.mark.slow

MIB = 1 << 20


# -- timing
# ------------------------------------------------------------------------------------------------------------


def test_loops_end_at_their_time_and_errors_come_out():
    calls, size, seconds = timing.until(0.05, lambda: time.sleep(0.001) or 10, threads=3)
    assert calls > 3 and size == 10 * calls and 0.05 <= seconds
    with pytest.raises(ZeroDivisionError):
        timing.until(60, lambda: 1 // 0, threads=3)


def test_a_call_that_does_not_return_is_given_up():
    gate = threading.Event()
    with pytest.raises(TimeoutError, match="the store gave no answer within 0.05 s"):
        timing.within(0.05, gate.wait, "the store")
    gate.set()
    assert timing.within(60, lambda: 3, "it") == 3
    with pytest.raises(KeyError):
        timing.within(60, lambda: {}[1], "it")


# -- disk
# ------------------------------------------------------------------------------------------------------------


def test_a_folder_of_small_files_and_one_of_large_ones(tmp_path):
    for i in range(20):
        (tmp_path / f"{i}.bin").write_bytes(os.urandom(3000 + i))
    (tmp_path / "empty").touch()
    found = disk.find_files(str(tmp_path))
    assert len(found.files) == 20 and found.complete and found.total == 60_190
    small = disk.time_files(found, 110_000, 0.02, random.Random(0))
    assert (
        small["as_files"]
        and small["random_bytes"] == round(60_190 / 20)
        and min(small[k] for k in ("sequential", "random", "cached")) > 0
    )
    (tmp_path / "shard.tar").write_bytes(os.urandom(5 * MIB + 123))
    large = disk.time_files(disk.find_files(str(tmp_path)), 110_000, 0.02, random.Random(0))
    assert not large["as_files"] and large["random_bytes"] == 110_000 and large["sequential_one"] > 0
    assert large["bypass"] in ("O_DIRECT", "dropped", "no") and large["latency_seconds"] * large[
        "random_one"
    ] == pytest.approx(1)
    one = disk.find_files(str(tmp_path / "shard.tar"))
    assert one.files == [(str(tmp_path / "shard.tar"), 5 * MIB + 123)]


def test_listing_is_bounded(tmp_path):
    for i in range(30):
        (tmp_path / str(i)).write_bytes(b"x")
    found = disk.find_files(str(tmp_path), most=10)
    assert len(found.files) == 10 and not found.complete
    assert (
        disk.time_files(disk.find_files(str(tmp_path / "nowhere")), 100, 0.01, random.Random(0))["error"]
        == "there is nothing to read"
    )


def test_without_direct_reads_pages_are_dropped(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_bytes(os.urandom(MIB))
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        file.read()
        assert disk.resident_share(file.fileno(), MIB) == 1.0
    refuse = OSError(22, "Invalid argument")
    monkeypatch.setattr(os, "preadv", lambda *what: (_ for _ in ()).throw(refuse))
    descriptor, bypass = disk.open_past_cache(str(path), MIB)
    os.close(descriptor)
    with open(path, "rb") as file:
        dropped = disk.resident_share(file.fileno(), MIB) < 0.1
    assert bypass == ("dropped" if dropped else "no"), "opened for direct reads, which are then refused"


def test_a_file_of_our_own_leaves_nothing(tmp_path):
    timed = disk.time_own_file(str(tmp_path), 100_000, 0.02, random.Random(0), most=16 * MIB)
    assert timed["bytes"] == 16 * MIB and timed["write"] > 0 and os.listdir(tmp_path) == []


def test_no_room_and_no_permission_are_told(tmp_path, monkeypatch):
    monkeypatch.setattr(disk.shutil, "disk_usage", lambda folder: types.SimpleNamespace(free=20 * MIB))
    assert "has room for 4 MiB" in disk.time_own_file(str(tmp_path), 100, 0.01, random.Random(0))["error"]
    monkeypatch.undo()
    assert (
        "No such file" in disk.time_own_file(str(tmp_path / "nowhere"), 100, 0.01, random.Random(0))["error"]
    )

    def refuse(**options):
        raise PermissionError(13, "Permission denied", options["dir"])

    monkeypatch.setattr(disk.tempfile, "TemporaryFile", refuse)
    assert (
        disk.time_own_file(str(tmp_path), 100, 0.01, random.Random(0))["error"]
        == f"{tmp_path}: Permission denied"
    )


# -- store
# ------------------------------------------------------------------------------------------------------------


def test_a_store_of_known_latency_and_rate():
    pytest.importorskip("obstore")
    with FaultProxy(
        {"/a.tar?token=secret": os.urandom(24 * MIB)}, latency=0.03, connection_rate=20e6
    ) as store:
        found = copies.time_store(store.url("a.tar") + "?token=secret", 0.8)
    assert "error" not in found and "secret" not in found["url"] and found["size"] == 24 * MIB
    assert (
        0.03 <= found["latency_seconds"] < 0.3 and found["one"] < 21e6 and found["many"] > 0.5 * found["one"]
    )


def test_stores_that_fail():
    pytest.importorskip("obstore")
    with FaultProxy({"/empty": b""}) as store:
        assert "no such object" in copies.time_store(store.url("none"), 0.2)["error"]
        assert "empty" in copies.time_store(store.url("empty"), 0.2)["error"]
    assert "nobody answers" in copies.time_store("http://127.0.0.1:1/x", 0.2)["error"]


# -- batches, memory, GPUs
# ----------------------------------------------------------------------------------------------------------


def test_batches_of_each_kind():
    made = batches.made_photos(20_000)
    assert 10_000 < made.mean_bytes < 40_000 and len(made.data) == 8 and not made.own
    pictures = batches.time_pictures(made, 2, 0.05)
    assert (
        pictures["decode"] > 10
        and pictures["one"] > 10
        and pictures["threads"] == 2
        and pictures["pixels"] > 1e6
    )
    tokens, rows = batches.time_tokens(64, 2, 0.02, MIB), batches.time_rows(400, 1, 0.02, MIB)
    assert tokens["one"] > 100 and tokens["all"] > 100 and rows["one"] == rows["all"] > 100
    assert batches.time_rows(8 * MIB, 1, 0.01, MIB)["one"] > 0, (
        "a row that is larger than the memory for data"
    )
    assert batches.time_tokens(MIB, 1, 0.01, MIB)["one"] > 0


def test_own_photos(tmp_path):
    for i in range(3):
        (tmp_path / f"{i}.JPG").write_bytes(jpeg_bytes(make_picture(64, 48, seed=i), progressive=i == 0))
    (tmp_path / "broken.jpg").write_bytes(jpeg_bytes(make_picture(64, 48))[:300])
    (tmp_path / "notes.txt").write_text("no photo")
    own = batches.own_photos(disk.find_files(str(tmp_path)).files, random.Random(0))
    assert len(own.data) == 3 and own.progressive == 1 and own.pixels == 64 * 48 and own.own
    assert len(own.damaged) == 1 and "broken.jpg" in own.damaged[0]
    assert batches.time_pictures(own, 1, 0.02)["own"]


def test_made_photos_have_the_size_that_was_asked_for():
    for wanted in (5_000, 110_000, 1_000_000):
        assert 0.5 * wanted < batches.made_photos(wanted).mean_bytes < 1.5 * wanted


def test_memory_copies():
    copied = copies.time_memory(2, 0.02, 4 * MIB)
    assert copied["one"] > 1e7 and copied["all"] > 1e7


@pytest.fixture
def fake_gpus(monkeypatch):
    """Two GPUs; what goes to them stays in ordinary memory. The second one is full."""
    properties = types.SimpleNamespace(
        name="Fake", total_memory=8 << 30, pci_domain_id=0, pci_bus_id=0x3B, pci_device_id=0
    )
    empty, ones = torch.empty, torch.ones
    for name, value in {
        "is_available": lambda: True,
        "device_count": lambda: 2,
        "get_device_properties": lambda index: properties,
        "mem_get_info": lambda index: ((64 * MIB, 0), (MIB, 0))[index],
        "synchronize": lambda index: None,
        "empty_cache": lambda: None,
    }.items():
        monkeypatch.setattr(torch.cuda, name, value)
    monkeypatch.setattr(torch, "empty", lambda *size, device=None, **options: empty(*size, **options))
    monkeypatch.setattr(torch, "ones", lambda *size, pin_memory=False, **options: ones(*size, **options))


def test_gpus(fake_gpus):
    first, full = copies.time_gpus(0.01, 4 * MIB)
    assert copies.why_no_gpu([]) == "" and first["name"] == "Fake" and first["address"] == "0000:3b:00.0"
    assert min(first["pinned"], first["pageable"], first["pin_bytes_per_second"]) > 0 and "error" not in first
    assert "GPU 1 has 1 MiB left" in full["error"] and "pinned" not in full


def test_why_there_is_no_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", None)
    monkeypatch.setattr(torch.version, "hip", None)
    assert copies.why_no_gpu([]).endswith(
        "was built without CUDA"
    ) and "although the machine has a GPU" in copies.why_no_gpu([{}])
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "init", lambda: (_ for _ in ()).throw(RuntimeError("driver is too old")))
    assert copies.why_no_gpu([{}]) == "torch cannot use CUDA: driver is too old"
