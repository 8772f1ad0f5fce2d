"""What the doctor says about what was found: which resource is the tightest, what is wrong, what to do."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from machine_roots import V2_MOUNTS, gpu_files, make_root
from millrace_tools import texts
from millrace_tools.doctor import batches, machine
from millrace_tools.doctor.attainable import need_of, resources, tightest
from millrace_tools.doctor.findings import LEVELS, findings
from millrace_tools.system_files import SystemFiles

pytestmark = pytest.mark.slow

MIB = 1 << 20


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
        "millrace_threads": {"threads": 8},
        "software": {
            "missing_in_torch": [],
            "torch": "2.13.0",
            "millrace_cuda": "",
            "threads_environment": {},
            "torch_threads": 8,
            "simd_is_off": False,
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
        (("software", "missing_in_torch"), ["blocks, so"], "slow", "does not give blocks", "pip install"),
        (
            ("software", "threads_environment"),
            {"OMP_NUM_THREADS": 64},
            "slow",
            "OMP_NUM_THREADS=64",
            "export OMP_NUM_THREADS=8",
        ),
        (("software", "torch_threads"), 64, "slow", "computes with 64 threads", "export OMP_NUM_THREADS=8"),
        (("software", "start_method"), "fork", "note", "forked", "spawn"),
        (("software", "simd_is_off"), True, "slow", "JSIMD_FORCENONE", "unset"),
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
    lowest = min(disk_rate / batches.USUAL_BYTES, cpu_rate, copy_rate / 602_112)
    counted = [row.rate for row in rows if row.counts]
    assert tightest(rows).rate == pytest.approx(lowest) and counted == sorted(counted)


def test_sizes_and_counts():
    sizes = {0: "0 B", 999: "999 B", 999.7: "1 kB", 12_345: "12.3 kB", 1.5e9: "1.5 GB", 2e15: "2e+03 TB"}
    assert {size: texts.size_text(size) for size in sizes} == sizes
    assert [texts.count_text(n) for n in (0.1234, 12.34, 1234.5)] == ["0.123", "12.3", "1,234"]
    assert LEVELS == ("broken", "slow", "note")
