"""Folders that stand for machines: what their /proc and /sys say, for the doctor's tests."""

from __future__ import annotations

from pathlib import Path

V1_MOUNTS = """\
31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
40 31 0:37 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
"""
V2_MOUNTS = "29 22 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"


def make_root(folder: Path, files: dict[str, str], cpus: int = 8, mask: str = "0-7") -> Path:
    """A machine of `cpus` CPUs without hyperthreads, 16 GiB, limits that trouble nobody, and `files`."""
    usual = {
        "/proc/self/status": f"Name:\tpython\nCpus_allowed_list:\t{mask}\n",
        "/proc/self/cgroup": "0::/\n",
        "/proc/self/limits": (
            "Limit                     Soft Limit           Hard Limit           Units\n"
            "Max processes             60000                60000                processes\n"
            "Max open files            65536                1048576              files\n"
            "Max locked memory         unlimited            unlimited            bytes\n"
        ),
        "/proc/meminfo": (
            "MemTotal:       16777216 kB\nMemAvailable:   12582912 kB\nSwapTotal:             0 kB\n"
        ),
        "/proc/cpuinfo": "processor\t: 0\nmodel name\t: Test CPU 9000\n",
        "/proc/loadavg": "0.10 0.10 0.10 1/100 4711\n",
        "/proc/sys/kernel/osrelease": "6.1.0\n",
        "/proc/self/oom_score_adj": "0\n",
        "/sys/devices/system/cpu/online": f"0-{cpus - 1}\n",
        "/sys/devices/system/node/online": "0\n",
        "/sys/devices/system/node/node0/cpulist": f"0-{cpus - 1}\n",
        "/sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
        "/dev/shm/empty": "",
    }
    for name, text in {**usual, **files}.items():
        path = folder / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def gpu_files(address: str, node: int, width: int = 16) -> dict[str, str]:
    at = f"/sys/bus/pci/devices/{address}"
    return {
        f"{at}/vendor": "0x10de\n",
        f"{at}/class": "0x030200\n",
        f"{at}/numa_node": f"{node}\n",
        f"{at}/current_link_speed": "16.0 GT/s PCIe\n",
        f"{at}/current_link_width": f"{width}\n",
        f"{at}/max_link_speed": "32.0 GT/s PCIe\n",
        f"{at}/max_link_width": "16\n",
    }
