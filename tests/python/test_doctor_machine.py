"""What the doctor reads about a machine: trees of files that stand for other machines, and this one."""

from __future__ import annotations

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from machine_roots import V1_MOUNTS, V2_MOUNTS, gpu_files, make_root
from millrace import _core
from millrace_tools.doctor import machine as facts
from millrace_tools.system_files import SystemFiles, cpu_list, groups

pytestmark = pytest.mark.slow

GIB = 1 << 30


def look(folder, files, environment=None, **options):
    return facts.machine(SystemFiles(make_root(folder, files, **options)), environment or {})


def test_a_machine_without_limits(tmp_path):
    found = look(tmp_path, {})
    assert (
        found["cpu"]["cpus"] == 8
        and found["cpu"]["quota"] is None
        and found["cpu"]["cores"] == 8
        and found["cpu"]["load"] == 0.1
    )
    assert (
        found["cpu"]["model"] == "Test CPU 9000"
        and found["memory"]["total"] == 16 * GIB
        and found["memory"]["limit"] is None
    )
    assert found["memory"]["huge_pages"] == "madvise" and found["system"] == {
        "kernel": "6.1.0",
        "distribution": None,
        "container": None,
        "scheduler": None,
    }
    assert found["limits"] == {
        "open_files": [65536, 1048576],
        "locked_memory": [None, None],
        "processes": [60000, 60000],
        "pids": None,
    }
    assert [node["cpus"] for node in found["numa"]] == [list(range(8))] and found["gpus"] == []


def test_cgroup_v2_counts_every_level(tmp_path):
    inner = "/sys/fs/cgroup/kubepods/pod1/box"
    found = look(
        tmp_path,
        {
            "/proc/self/cgroup": "0::/kubepods/pod1/box\n",
            "/proc/self/mountinfo": V2_MOUNTS,
            f"{inner}/cpu.max": "max 100000\n",
            f"{inner}/memory.max": "max\n",
            f"{inner}/memory.events": "oom 4\noom_kill 3\n",
            f"{inner}/cpu.stat": "usage_usec 10\nthrottled_usec 1500000\n",
            f"{inner}/pids.max": "max\n",
            "/sys/fs/cgroup/kubepods/pod1/cpu.max": "150000 100000\n",
            "/sys/fs/cgroup/kubepods/pod1/memory.max": f"{4 * GIB}\n",
            "/sys/fs/cgroup/kubepods/pod1/memory.current": f"{3 * GIB}\n",
            "/sys/fs/cgroup/kubepods/pod1/pids.max": "500\n",
            "/sys/fs/cgroup/kubepods/pod1/memory.stat": (
                f"anon 5\ninactive_file {GIB}\nactive_file {GIB // 2}\n"
            ),
            "/sys/fs/cgroup/kubepods/cpu.max": "600000 100000\n",
        },
    )
    assert found["cpu"]["quota"] == 1.5 == found["cpu"]["cpus"] and found["cpu"]["throttled_seconds"] == 1.5
    assert (
        found["memory"]["limit"] == 4 * GIB
        and found["memory"]["limit_left"] == 4 * GIB - 3 * GIB + 3 * GIB // 2
    )
    assert (
        found["memory"]["kills"] == 3
        and found["limits"]["pids"] == 500
        and found["system"]["container"] == "kubernetes"
    )


def test_cgroup_v1_of_a_container_that_sees_only_its_own_group(tmp_path):
    mounts = V1_MOUNTS.replace("0:29 / ", "0:29 /docker/abc ").replace("0:32 / ", "0:32 /docker/abc ")
    found = look(
        tmp_path,
        {
            "/proc/self/cgroup": "5:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\n3:pids:/\n",
            "/proc/self/mountinfo": mounts,
            "/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "250000\n",
            "/sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            "/sys/fs/cgroup/cpu/cpu.stat": "nr_periods 3\nthrottled_time 2000000000\n",
            "/sys/fs/cgroup/memory/memory.limit_in_bytes": f"{2 * GIB}\n",
            "/sys/fs/cgroup/memory/memory.usage_in_bytes": f"{GIB}\n",
            "/sys/fs/cgroup/memory/memory.stat": f"total_inactive_file {GIB // 4}\ntotal_active_file 0\n",
            "/sys/fs/cgroup/memory/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n",
            "/.dockerenv": "",
        },
        {"LOCAL_WORLD_SIZE": "5"},
    )
    assert found["cpu"]["quota"] == 2.5 and found["cpu"]["cpus"] == 0.5 and found["cpu"]["ranks"] == 5
    assert found["cpu"]["throttled_seconds"] == 2 and found["memory"]["kills"] == 1
    assert (
        found["memory"]["limit_left"] == 2 * GIB - 3 * GIB // 4 and found["system"]["container"] == "docker"
    )


def test_no_quota_is_written_in_two_ways(tmp_path):
    v1 = {
        "/proc/self/cgroup": "5:cpu:/\n4:memory:/\n",
        "/proc/self/mountinfo": V1_MOUNTS.replace(",cpuacct", ""),
        "/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
        "/sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
    }
    assert (found := look(tmp_path, v1))["cpu"]["quota"] is None and found["memory"]["limit"] is None


def test_a_cgroup_outside_of_the_mount(tmp_path):
    files = SystemFiles(
        make_root(tmp_path, {"/proc/self/cgroup": "0::/../elsewhere\n", "/proc/self/mountinfo": V2_MOUNTS})
    )
    assert [group.folder for group in groups(files, "cpu")] == ["/sys/fs/cgroup"]


def test_affinity_and_hyperthreads(tmp_path):
    siblings = {
        f"/sys/devices/system/cpu/cpu{n}/topology/thread_siblings_list": f"{n % 4},{n % 4 + 4}\n"
        for n in range(8)
    }
    governor = {"/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": "powersave\n"}
    found = look(tmp_path, siblings | governor, mask="1,5-6")
    assert (
        found["cpu"]["affinity_list"] == [1, 5, 6]
        and found["cpu"]["affinity"] == 3
        and found["cpu"]["cores"] == 2
    )
    assert (
        found["cpu"]["online"] == 8
        and found["cpu"]["threads_per_core"] == 1.5
        and found["cpu"]["governor"] == "powersave"
    )


@pytest.mark.parametrize("text", ["0", "-2", "many", "2.5"])
def test_a_world_size_that_is_none(tmp_path, text):
    found = look(tmp_path, {}, {"LOCAL_WORLD_SIZE": text})
    assert found["cpu"]["ranks"] == 1 and found["cpu"]["ranks_text"] == text and found["cpu"]["cpus"] == 8


def test_numa_and_gpus(tmp_path):
    found = look(
        tmp_path,
        {
            "/sys/devices/system/node/online": "0-1\n",
            "/sys/devices/system/node/node0/cpulist": "0-3\n",
            "/sys/devices/system/node/node1/cpulist": "4-7\n",
            "/sys/devices/system/node/node1/meminfo": "Node 1 MemTotal:  8388608 kB\n",
            **gpu_files("0000:3b:00.0", 1, width=8),
            "/sys/bus/pci/devices/0000:00:01.0/vendor": "0x8086\n",
        },
    )
    assert [(node["cpus"], node["memory"]) for node in found["numa"]] == [
        ([0, 1, 2, 3], None),
        ([4, 5, 6, 7], 8 * GIB),
    ]
    assert found["gpus"] == [
        {
            "address": "0000:3b:00.0",
            "node": 1,
            "link": ["16.0 GT/s PCIe", 8],
            "link_most": ["32.0 GT/s PCIe", 16],
        }
    ]


def test_a_machine_that_says_nothing(tmp_path):
    found = facts.machine(SystemFiles(tmp_path / "nowhere"), {})
    assert (
        found["cpu"]["online"] is None
        and found["cpu"]["cpus"] == 1
        and found["memory"]["total"] is None
        and found["shm"] is None
    )
    assert found["numa"] == [] and found["gpus"] == [] and found["limits"]["open_files"] is None


@settings(derandomize=True, deadline=None, max_examples=150)
@given(
    st.dictionaries(
        st.sampled_from(
            [
                "/proc/self/cgroup",
                "/proc/self/mountinfo",
                "/proc/self/status",
                "/proc/meminfo",
                "/proc/loadavg",
                "/proc/self/limits",
                "/proc/cpuinfo",
                "/sys/devices/system/cpu/online",
                "/sys/devices/system/node/online",
                "/sys/fs/cgroup/cpu.max",
                "/sys/fs/cgroup/memory.max",
                "/sys/fs/cgroup/cpu.stat",
            ]
        ),
        st.one_of(
            st.sampled_from(
                [
                    V1_MOUNTS,
                    V2_MOUNTS,
                    "0::/a/b\n",
                    "1 0\n",
                    "-5 0\n",
                    "99999999999999999999\n",
                    "5-2\n",
                    "0-99999999\n",
                    " - \n",
                ]
            ),
            st.text(max_size=60),
        ),
    )
)
def test_no_file_makes_it_fail(tmp_path_factory, files):
    found = look(
        tmp_path_factory.mktemp("odd"),
        {name: text.encode("utf-8", "replace").decode() for name, text in files.items()},
    )
    assert found["cpu"]["cpus"] > 0


@settings(derandomize=True, deadline=None)
@given(st.sets(st.integers(0, 300)))
def test_cpu_lists(numbers):
    ranges, listed = [], sorted(numbers)
    while listed:
        last = next(i for i in range(len(listed)) if i + 1 == len(listed) or listed[i + 1] != listed[i] + 1)
        ranges.append(f"{listed[0]}-{listed[last]}" if last else f"{listed[0]}")
        listed = listed[last + 1 :]
    assert cpu_list(",".join(ranges)) == sorted(numbers)


def test_this_machine_as_the_engine_sees_it():
    found, budget = facts.machine(SystemFiles()), _core.cpu_budget()
    assert found["cpu"]["cpus"] == pytest.approx(budget["cpus"]) and found["cpu"]["affinity"] == len(
        os.sched_getaffinity(0)
    )
    left, limit = found["memory"]["limit_left"], _core.memory_budget()[0]
    assert limit <= min(found["memory"]["available"], left or limit) * 1.1
    system = facts.file_system(SystemFiles(), "/proc")
    assert system["kind"] == "proc" and facts.file_system(SystemFiles(), "/nowhere at all")["kind"] is None
