"""What this process may use of the machine, from the kernel's files: CPUs, memory, limits, NUMA nodes.
Nothing is timed here.

Every function takes SystemFiles, so tests show them other machines, and returns plain values; None where the
kernel does not say.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from .system_files import SystemFiles, cpu_list, groups, whole

_CPUS = "/sys/devices/system/cpu"
_NODES = "/sys/devices/system/node"


def machine(files: SystemFiles, environment: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """All of it, as JSON types; sizes in bytes."""
    return {
        "system": system(files, environment),
        "cpu": cpu(files, environment),
        "memory": memory(files),
        "shm": shared_memory(files),
        "limits": limits(files),
        "numa": numa(files),
        "gpus": gpus(files),
    }


def system(files: SystemFiles, environment: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """container: "docker", "podman", "kubernetes", another name, or None."""
    kind: str | None = None
    if "KUBERNETES_SERVICE_HOST" in environment or "kubepods" in files.text("/proc/self/cgroup"):
        kind = "kubernetes"
    elif files.exists("/.dockerenv") or "/docker/" in files.text("/proc/self/cgroup"):
        kind = "docker"
    elif files.exists("/run/.containerenv"):
        kind = "podman"
    elif environment.get("container"):
        kind = environment["container"]
    elif environment.get("APPTAINER_CONTAINER") or environment.get("SINGULARITY_CONTAINER"):
        kind = "apptainer"
    return {
        "kernel": files.text("/proc/sys/kernel/osrelease") or None,
        "distribution": next(
            (
                line.partition("=")[2].strip('"')
                for line in files.text("/etc/os-release").splitlines()
                if line.startswith("PRETTY_NAME=")
            ),
            None,
        ),
        "container": kind,
        "scheduler": next(
            (
                name
                for name, sign in (("slurm", "SLURM_JOB_ID"), ("lsf", "LSB_JOBID"), ("pbs", "PBS_JOBID"))
                if sign in environment
            ),
            None,
        ),
    }


def cpu(files: SystemFiles, environment: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """online, cores (without their second threads), affinity (CPUs of the mask) and its numbers, quota in
    CPUs, throttled_seconds, ranks
    (LOCAL_WORLD_SIZE; ranks_text when that is no positive number), cpus: the share that is left, load of the
    last minute, governor.
    """
    online = cpu_list(files.text(f"{_CPUS}/online"))
    if not online:
        online = [
            n
            for line in files.text("/proc/cpuinfo").splitlines()
            if line.startswith("processor") and (n := whole(line.partition(":")[2].strip())) is not None
        ]
    mask = cpu_list(files.values("/proc/self/status").get("Cpus_allowed_list", "")) or online
    cores = {files.text(f"{_CPUS}/cpu{n}/topology/thread_siblings_list") or str(n) for n in mask}
    quotas = [quota for group in groups(files, "cpu") if (quota := group.cpu_quota()) is not None]
    throttled = next(
        (seconds for group in groups(files, "cpu") if (seconds := group.throttled()) is not None), None
    )
    text = environment.get("LOCAL_WORLD_SIZE", "")
    ranks = int(text) if text.isdecimal() and int(text) > 0 else 1
    left = min([float(len(mask) or 1), *quotas]) / ranks
    load = files.text("/proc/loadavg").split()
    return {
        "model": next(
            (
                line.partition(":")[2].strip()
                for line in files.text("/proc/cpuinfo").splitlines()
                if line.startswith("model name")
            ),
            None,
        ),
        "online": len(online) or None,
        "affinity": len(mask) or None,
        "affinity_list": mask,
        "cores": len(cores) or None,
        "threads_per_core": round(len(mask) / len(cores), 2) if mask and cores else None,
        "quota": min(quotas, default=None),
        "throttled_seconds": throttled,
        "ranks": ranks,
        "ranks_text": text if text and text != str(ranks) else None,
        "cpus": left,
        "load": float(load[0]) if load and re.fullmatch(r"\d+\.\d+", load[0]) else None,
        "governor": next(
            (name for n in mask[:1] if (name := files.text(f"{_CPUS}/cpu{n}/cpufreq/scaling_governor"))), None
        ),
        "frequency_driver": next(
            (name for n in mask[:1] if (name := files.text(f"{_CPUS}/cpu{n}/cpufreq/scaling_driver"))), None
        ),
    }


def memory(files: SystemFiles) -> dict[str, Any]:
    """limit, limit_left: of the tightest control group. kills: processes ended there for want of memory.
    huge_pages: "always", ...
    """
    limit: int | None = None
    left: int | None = None
    kills: int | None = None
    for group in groups(files, "memory"):
        if kills is None:
            kills = group.oom_kills()
        own, used = group.memory_limit(), group.memory_used()
        if own is not None:
            limit = own if limit is None else min(limit, own)
            if used is not None:
                left = own - used if left is None else min(left, own - used)
    pages = "/sys/kernel/mm/transparent_hugepage"
    return {
        "total": files.meminfo("MemTotal"),
        "available": files.meminfo("MemAvailable"),
        "swap": files.meminfo("SwapTotal"),
        "limit": limit,
        "limit_left": left,
        "kills": kills,
        "oom_score_adj": files.number("/proc/self/oom_score_adj"),
        "overcommit": files.number("/proc/sys/vm/overcommit_memory"),
        "huge_pages": _chosen(files.text(f"{pages}/enabled")),
        "huge_pages_shm": _chosen(files.text(f"{pages}/shmem_enabled")),
    }


def shared_memory(files: SystemFiles) -> dict[str, int] | None:
    """size and free of /dev/shm; None when there is none."""
    try:
        found = os.statvfs(files.path("/dev/shm"))
    except OSError:
        return None
    return {"size": found.f_blocks * found.f_frsize, "free": found.f_bavail * found.f_frsize}


def limits(files: SystemFiles) -> dict[str, Any]:
    """open_files, locked_memory (bytes), processes: [soft, hard], None for unlimited; pids: of the control
    group.
    """
    found: dict[str, Any] = {}
    for line in files.text("/proc/self/limits").splitlines():
        for name, sign in (
            ("open_files", "Max open files"),
            ("locked_memory", "Max locked memory"),
            ("processes", "Max processes"),
        ):
            words = line[len(sign) :].split()
            if line.startswith(sign) and len(words) >= 2:
                found[name] = [whole(words[0]), whole(words[1])]
    pids = [limit for group in groups(files, "pids") if (limit := group.pids_limit()) is not None]
    return {
        **{name: found.get(name) for name in ("open_files", "locked_memory", "processes")},
        "pids": min(pids, default=None),
    }


def numa(files: SystemFiles) -> list[dict[str, Any]]:
    """A dict for each node: number, cpus, memory in bytes."""
    nodes = []
    for number in cpu_list(files.text(f"{_NODES}/online")):
        size = re.search(r"MemTotal:\s+(\d+) kB", files.text(f"{_NODES}/node{number}/meminfo"))
        nodes.append(
            {
                "number": number,
                "cpus": cpu_list(files.text(f"{_NODES}/node{number}/cpulist")),
                "memory": int(size[1]) << 10 if size else None,
            }
        )
    return nodes


def gpus(files: SystemFiles) -> list[dict[str, Any]]:
    """NVIDIA's, as PCI shows them, whether or not there is a driver: address, node (None: not told), link and
    its maximum.
    """
    found = []
    devices = "/sys/bus/pci/devices"
    for address in files.names(devices):
        at = f"{devices}/{address}"
        if files.text(f"{at}/vendor") != "0x10de" or not files.text(f"{at}/class").startswith("0x03"):
            continue
        node = files.number(f"{at}/numa_node")
        found.append(
            {
                "address": address,
                "node": None if node is None or node < 0 else node,
                "link": [
                    files.text(f"{at}/current_link_speed") or None,
                    files.number(f"{at}/current_link_width"),
                ],
                "link_most": [
                    files.text(f"{at}/max_link_speed") or None,
                    files.number(f"{at}/max_link_width"),
                ],
            }
        )
    return found


def file_system(files: SystemFiles, path: str | os.PathLike[str]) -> dict[str, Any]:
    """Of what lies at `path`: kind ("ext4", "nfs4", "tmpfs"), source, the block device's name and whether it
    turns; None if unknown.
    """
    unknown: dict[str, Any] = {"kind": None, "source": None, "device": None, "rotational": None}
    try:
        device = os.stat(path).st_dev
    except OSError:
        return unknown
    number = f"{os.major(device)}:{os.minor(device)}"
    for line in files.text("/proc/self/mountinfo").splitlines():
        left, _, right = line.partition(" - ")
        place, kind = left.split(), right.split()
        if len(place) >= 5 and len(kind) >= 2 and place[2] == number:
            folder = f"/sys/dev/block/{number}"
            spins = files.number(f"{folder}/queue/rotational")
            if spins is None:  # a partition: its disk knows
                spins = files.number(f"{folder}/../queue/rotational")
            return {
                "kind": kind[0],
                "source": kind[1],
                "device": number,
                "rotational": None if spins is None else bool(spins),
            }
    return unknown


def _chosen(text: str) -> str | None:
    """The word in brackets of "always [madvise] never"."""
    found = re.search(r"\[(\w+)\]", text)
    return found[1] if found else None
