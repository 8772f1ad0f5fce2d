"""The doctor's timing of disk, store, batches and GPUs, and what it says about what it finds."""

from __future__ import annotations

import copy
import os
import random
import threading
import time
import types

import pytest
import torch
from fault_proxy import FaultProxy
from hypothesis import given, settings
from hypothesis import strategies as st
from machine_roots import V2_MOUNTS, gpu_files, make_root
from millrace._tools.doctor import attainable, batches, copies, disk, machine, network, photos, timing
from millrace._tools.doctor.attainable import need_of, resources, tightest
from millrace._tools.doctor.findings import LEVELS, findings
from millrace._tools.doctor.system_files import SystemFiles
from pictures import jpeg_bytes, make_picture

MIB = 1 << 20


# -- timing
# ------------------------------------------------------------------------------------------------------------


def test_loops_end_at_their_time_and_errors_come_out():
    calls, size, seconds = timing.until(0.05, lambda: time.sleep(0.001) or 10, threads=3)
    assert calls > 3 and size == 10 * calls and 0.05 <= seconds < 5
    with pytest.raises(ZeroDivisionError):
        timing.until(60, lambda: 1 // 0, threads=3)


def test_a_call_that_does_not_return_is_given_up():
    gate = threading.Event()
    with pytest.raises(TimeoutError, match="the store gave no answer within 0.05 s"):
        timing.within(0.05, gate.wait, "the store")
    gate.set()
    assert timing.within(5, lambda: 3, "it") == 3
    with pytest.raises(KeyError):
        timing.within(5, lambda: {}[1], "it")


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
    monkeypatch.setattr(os, "O_DIRECT", 0)
    reader = disk.Reader(str(path), MIB)
    reader.close()
    with open(path, "rb") as file:
        assert reader.bypass == ("dropped" if disk.resident_share(file.fileno(), MIB) < 0.1 else "no")
    monkeypatch.undo()
    monkeypatch.setattr(os, "preadv", lambda *what: (_ for _ in ()).throw(OSError(22, "Invalid argument")))
    reader = disk.Reader(str(path), MIB)
    reader.close()
    assert reader.bypass in (
        "dropped",
        "no",
    ), "a file system that opens for direct reads, and then refuses them"


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
        found = network.time_store(store.url("a.tar") + "?token=secret", 0.8)
    assert "error" not in found and "secret" not in found["url"] and found["size"] == 24 * MIB
    assert (
        0.03 <= found["latency_seconds"] < 0.3 and found["one"] < 21e6 and found["many"] > 0.5 * found["one"]
    )


def test_stores_that_fail():
    pytest.importorskip("obstore")
    with FaultProxy({"/empty": b""}) as store:
        assert "no such object" in network.time_store(store.url("none"), 0.2)["error"]
        assert "empty" in network.time_store(store.url("empty"), 0.2)["error"]
    assert "nobody answers" in network.time_store("http://127.0.0.1:1/x", 0.2)["error"]


# -- batches, memory, GPUs
# ----------------------------------------------------------------------------------------------------------


def test_batches_of_each_kind():
    made = photos.made_photos(20_000)
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
    own = photos.own_photos(disk.find_files(str(tmp_path)).files, random.Random(0))
    assert len(own.data) == 3 and own.progressive == 1 and own.pixels == 64 * 48 and own.own
    assert len(own.damaged) == 1 and "broken.jpg" in own.damaged[0]
    assert batches.time_pictures(own, 1, 0.02)["own"]


def test_made_photos_have_the_size_that_was_asked_for():
    for wanted in (5_000, 110_000, 1_000_000):
        assert 0.5 * wanted < photos.made_photos(wanted).mean_bytes < 1.5 * wanted


def test_simd_is_looked_for_once_and_leaves_the_environment(monkeypatch):
    monkeypatch.delenv("JSIMD_FORCENONE", raising=False)
    assert batches.libjpeg_uses_simd(0.03) in (True, None) and "JSIMD_FORCENONE" not in os.environ
    monkeypatch.setenv("JSIMD_FORCENONE", "1")
    assert batches.libjpeg_uses_simd() is False


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


# -- judging
# ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"kind": "videos"}, "kind='videos' is unknown"),
        ({"rate": 0}, "model_needs=0 should be more than 0"),
        ({"rate": float("nan")}, "model_needs=nan"),
        ({"step_ms": 3}, "belong together"),
        ({"batch_size": 3}, "belong together"),
        ({"step_ms": 0, "batch_size": 3}, "step_ms=0"),
        ({"step_ms": 3, "batch_size": 3, "rate": 4}, "give one of them"),
        ({"sample_bytes": -1}, "sample_bytes=-1"),
        ({"length": 5}, "length= is of kind tokens"),
    ],
)
def test_needs_that_are_refused(given, message):
    with pytest.raises(ValueError) as caught:
        need_of(**given)
    assert message in str(caught.value)


def test_needs():
    assert need_of(step_ms=120, batch_size=256).rate == pytest.approx(256 / 0.12)
    tokens = need_of("tokens", length=2048)
    assert (tokens.sample_bytes, tokens.batch_bytes, tokens.rate) == (4096, 32768, None)
    assert need_of("rows", sample_bytes=100).batch_bytes == 100 and need_of().batch_bytes == 602_112


@pytest.fixture
def healthy(tmp_path):
    """An examination of a machine on which nothing is wrong; 3,000 photos a second."""
    found = machine.machine(SystemFiles(make_root(tmp_path, {})), {})
    found["shm"] = {"size": 8 << 30, "free": 8 << 30}
    return {
        "path": "/data",
        "machine": found,
        "memory_left": 1 << 30,
        "disk_place": "/data",
        "disk_is_memory": False,
        "access": "sequential",
        "file_system": {"kind": "ext4", "rotational": False},
        "no_gpu": "",
        "libjpeg_simd": True,
        "millrace_threads": {"threads": 8},
        "software": {
            "built_for_torch": "2.13.0+cpu",
            "torch": "2.13.0",
            "millrace_cuda": "",
            "threads_environment": {},
            "torch_threads": 8,
            "start_method": "spawn",
        },
        "disk": {
            "files": 9,
            "bytes": 1 << 40,
            "complete": True,
            "as_files": False,
            "random_bytes": 110_000,
            "sequential": 1.1e9,
            "sequential_one": 1e9,
            "random": 20_000.0,
            "random_one": 5000.0,
            "cached": 1e10,
            "bypass": "O_DIRECT",
        },
        "batches": {
            "one": 400.0,
            "all": 3000.0,
            "threads": 8,
            "own": True,
            "photos": 64,
            "progressive": 0,
            "damaged": [],
        },
        "memory_copy": {"one": 1e10, "all": 4e10},
        "gpus": [{"index": 0, "node": 0, "address": "0000:3b:00.0", "pinned": 2.4e10, "pageable": 2e10}],
    }


def judged(found, need=None):
    need = need or need_of(rate=2500)
    rows = resources(need, found)
    return rows, findings(need, found, rows)


def test_a_healthy_machine(healthy):
    rows, listed = judged(healthy)
    assert listed == [] and [row.name for row in rows if row.counts] == [
        "CPU",
        "disk (/data)",
        "link to GPU 0",
        "memory",
    ]
    assert tightest(rows).rate == 3000 and [row.rate for row in rows][1] == pytest.approx(10_000)
    listed = judged(healthy, need_of())[1]
    assert [f.level for f in listed] == ["note"]
    assert "the tightest, with 3,000 samples/s; for twice that: 16 CPUs would do" in listed[0].text


def test_each_resource_can_be_the_tightest(healthy):
    for change, name, command in (
        ({"disk": {**healthy["disk"], "sequential": 1e8}}, "disk (/data)", ""),
        (
            {"disk": {**healthy["disk"], "as_files": True, "random": 700.0}, "access": "random"},
            "disk (/data)",
            "millrace pack SRC DST",
        ),
        ({"memory_copy": {"one": 1e8, "all": 2e8}}, "memory", ""),
        (
            {"gpus": [{**healthy["gpus"][0], "pinned": 6e8, "pageable": 6e8}]},
            "link to GPU 0",
            'DataLoader(..., device="cuda")',
        ),
        ({"batches": {**healthy["batches"], "all": 900.0}}, "CPU", "millrace pack SRC DST --max-side 256"),
        ({"store": {"url": "s3://a/b", "one": 1e7, "many": 5e7}, "path": None}, "store", "WebDataset"),
    ):
        rows, listed = judged({**healthy, **change})
        assert tightest(rows).name == name, change
        assert (
            listed[0].level == "broken"
            and listed[0].subject == name
            and listed[0].first
            and command in listed[0].command
        )
        assert "and the model needs 2,500" in listed[0].text


def test_ranks_share_disk_and_store_but_not_links(healthy):
    before = {row.name: row.rate for row in judged(healthy)[0]}
    healthy["machine"]["cpu"]["ranks"] = 4
    after = {row.name: row.rate for row in judged(healthy)[0]}
    assert (
        after["disk (/data)"] == before["disk (/data)"] / 4
        and after["link to GPU 0"] == before["link to GPU 0"]
    )


def test_what_fits_into_memory_is_read_once(healthy):
    healthy["disk"] |= {"bytes": 100 * MIB, "sequential": 1e7}
    rows, listed = judged(healthy)
    row = next(row for row in rows if row.name.startswith("disk"))
    assert not row.counts and "first epoch only" in row.how and listed == []


def test_what_was_not_timed_is_no_limit(healthy):
    healthy |= {
        "disk": {"error": "/data: Permission denied"},
        "batches": {"error": "no more descriptors"},
        "gpus": [{"index": 0, "error": "busy"}],
    }
    rows, listed = judged(healthy)
    assert [row.rate for row in rows[1:]] == [None] * 3 and {
        f.subject for f in listed if f.level == "broken"
    } == {"disk", "CPU", "GPU"}


def test_what_is_wrong_is_said_with_what_to_do(healthy, tmp_path):
    """One change each: (where, what), the level and words of what is said."""
    cases = [
        (
            ("machine", "shm"),
            {"size": 64 * MIB, "free": 64 * MIB},
            "note",
            "67.1 MB (millrace itself needs none",
            "mount -o remount",
        ),
        (("machine", "shm"), None, "note", "there is none", "tmpfs"),
        (
            ("machine", "cpu", "quota"),
            1.5,
            "slow",
            "a cgroup quota allows 1.5 of the 8 CPUs",
            "CPUQuota=800%",
        ),
        (("machine", "cpu", "affinity"), 3, "slow", "affinity mask has 3 of 8", "taskset -c 0-7"),
        (("machine", "cpu", "ranks_text"), "-1", "broken", "LOCAL_WORLD_SIZE='-1'", "torchrun"),
        (("machine", "cpu", "governor"), "powersave", "slow", "governor is powersave", "cpupower"),
        (("machine", "cpu", "load"), 7.0, "note", "others are at work (load 7 on 8 CPUs)", ""),
        (("machine", "cpu", "threads_per_core"), 2.0, "note", "threads of 8 cores", ""),
        (("machine", "cpu", "throttled_now"), 0.7, "slow", "stood still for 0.7 s", "num_workers"),
        (("machine", "memory", "available"), 100 * MIB, "broken", "has 105 MB left", ""),
        (("machine", "memory", "kills"), 2, "slow", "ended 2 processes", "fewer workers"),
        (("machine", "memory", "oom_score_adj"), 900, "note", "oom_score_adj is 900", ""),
        (("machine", "limits", "open_files"), [256, 4096], "slow", "ulimit -n is 256", "ulimit -n 4096"),
        (("machine", "limits", "pids"), 50, "slow", "pids.max is 50", ""),
        (("disk", "bypass"), "no", "note", "could not be bypassed on ext4", ""),
        (("disk", "bypass"), "dropped", "note", "no direct reads", ""),
        (("disk", "unlisted"), ["/data/x: Permission denied"], "broken", "/data/x: Permission denied", ""),
        (("disk_is_memory",), True, "note", "is memory (ext4)", "--tmp"),
        (("file_system", "kind"), "nfs4", "note", "the data lie on nfs4", ""),
        (("file_system", "kind"), "fuse.sshfs", "note", "the data lie on fuse.sshfs", ""),
        (("batches", "progressive"), 60, "slow", "60 of 64 photos are progressive", "millrace pack"),
        (("batches", "damaged"), ["/data/a.jpg: cut"], "broken", "1 of 65 photos", "on_error"),
        (("memory_error",), "no memory", "broken", "no memory", ""),
        (("no_gpu",), "built without CUDA", None, "", ""),
        (("software", "millrace_cuda"), "no nvcc at the build", "note", "no nvcc at the build", ""),
        (("software", "built_for_torch"), "2.12.1", "broken", "was built for torch 2.12.1", "pip install"),
        (
            ("software", "threads_environment"),
            {"OMP_NUM_THREADS": 64},
            "slow",
            "OMP_NUM_THREADS=64",
            "export OMP_NUM_THREADS=8",
        ),
        (("software", "torch_threads"), 64, "slow", "computes with 64 threads", "export OMP_NUM_THREADS=8"),
        (("software", "start_method"), "fork", "note", "forked", "spawn"),
        (("libjpeg_simd",), False, "slow", "JSIMD_FORCENONE", "unset"),
        (("libjpeg_simd",), None, "note", "no sign of SIMD", "libjpeg-turbo"),
        (("store",), {"error": "no such object"}, "broken", "no such object", ""),
        (
            ("gpus",),
            [{"index": 0, "node": 0, "address": "", "pinned": 2e10, "pageable": 5e9}],
            "note",
            "4 times as fast",
            "pin_memory",
        ),
    ]
    for where, value, level, text, command in cases:
        changed = copy.deepcopy(healthy)
        place = changed
        for name in where[:-1]:
            place = place[name]
        place[where[-1]] = value
        listed = judged(changed)[1]
        assert [f.level for f in listed] == ([level] if level else []), (where, listed)
        if level:
            assert text in listed[0].text and command in listed[0].command, (where, listed)


def test_a_gpu_on_another_node_with_half_its_lanes(healthy, tmp_path):
    files = {
        "/sys/devices/system/node/online": "0-1\n",
        "/sys/devices/system/node/node0/cpulist": "0-3\n",
        "/sys/devices/system/node/node1/cpulist": "4-7\n",
        **gpu_files("0000:3b:00.0", 1, width=8),
    }
    other = machine.machine(SystemFiles(make_root(tmp_path / "numa", files, mask="0-3")), {})
    healthy["machine"] |= {name: other[name] for name in ("numa", "gpus")}
    healthy["gpus"][0]["node"] = 1
    healthy["machine"]["cpu"]["affinity_list"] = [0, 1, 2, 3]
    commands = [f.command for f in judged(healthy)[1]]
    assert len(commands) == 2 and commands[0] == "numactl --cpunodebind=1 --preferred=1 COMMAND"
    healthy |= {"gpus": [], "no_gpu": "built without CUDA"}
    assert [f.level for f in judged(healthy)[1]] == ["broken"], "a GPU that cannot be used"


def test_a_full_cgroup_in_a_container(healthy, tmp_path):
    files = {
        "/proc/self/mountinfo": V2_MOUNTS,
        "/.dockerenv": "",
        "/sys/fs/cgroup/memory.max": f"{1 << 30}\n",
        "/sys/fs/cgroup/memory.current": f"{1000 * MIB}\n",
    }
    other = machine.machine(SystemFiles(make_root(tmp_path / "full", files)), {})
    healthy["machine"] = {**other, "shm": {"size": 64 * MIB, "free": 60 * MIB}}
    listed = judged(healthy)[1]
    assert [(f.level, f.subject) for f in listed] == [("broken", "memory"), ("note", "/dev/shm")]
    assert listed[0].command == "docker run --memory=SIZE" and listed[1].command == "docker run --shm-size=8g"


@settings(derandomize=True, deadline=None)
@given(st.floats(1, 1e9), st.floats(1, 1e12), st.floats(1, 1e7), st.floats(1, 1e12))
def test_the_need_is_met_when_every_resource_meets_it(needed, disk_rate, cpu_rate, copy_rate):
    cpu = {"ranks": 1, "cpus": 2.0}
    found = {
        "machine": {"cpu": cpu},
        "path": "/d",
        "disk": {
            "as_files": False,
            "random": 1.0,
            "random_bytes": 1,
            "sequential": disk_rate,
            "cached": 1e9,
            "complete": False,
            "bytes": 1,
        },
        "batches": {"one": cpu_rate, "all": cpu_rate, "threads": 2},
        "disk_place": "/d",
        "memory_copy": {"all": copy_rate},
        "memory_left": 1,
        "access": "sequential",
        "disk_is_memory": False,
        "millrace_threads": {"threads": 2},
    }
    rows = resources(need_of(rate=needed), found)
    lowest = min(disk_rate / photos.USUAL_BYTES, cpu_rate, copy_rate / 602_112)
    counted = [row.rate for row in rows if row.counts]
    assert tightest(rows).rate == pytest.approx(lowest) and counted == sorted(counted)


def test_sizes_and_counts():
    sizes = {0: "0 B", 999: "999 B", 999.7: "1 kB", 12_345: "12.3 kB", 1.5e9: "1.5 GB", 2e15: "2e+03 TB"}
    assert {size: attainable.size_text(size) for size in sizes} == sizes
    assert [attainable.count_text(n) for n in (0.1234, 12.34, 1234.5)] == ["0.123", "12.3", "1,234"]
    assert LEVELS == ("broken", "slow", "note")
