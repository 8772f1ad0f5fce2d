"""What this process may use of the machine, from the kernel's files (CPUs, memory, limits, NUMA nodes), and
what was built how (torch, millrace, libjpeg, Python, the environment's settings). Nothing is timed here.

Every function takes SystemFiles, so tests show them other machines, and returns plain values; None where the
kernel does not say.
"""

from __future__ import annotations

import multiprocessing
import os
import platform
import re
from collections.abc import Mapping
from typing import Any

import torch
from millrace import _core
from millrace._common.interpreter import has_gil

from ..system_files import SystemFiles, cpu_list, groups, whole

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def software(files: SystemFiles) -> dict[str, Any]:
    """JSON types. torch_cuda: the version of CUDA that torch was built with, None without; millrace_cuda: ""
    when this build can use a CUDA device, else why not, with the remedy; missing_in_torch: what this
    torch lacks, and what follows; gil: False on interpreters without one; libjpeg: the path of the library
    that the codecs use, None when it is part of ours; simd_is_off: by an environment variable of
    libjpeg-turbo's.
    """
    mapped = [line.rpartition(" ")[2] for line in files.text("/proc/self/maps").splitlines()]
    return {
        "python": platform.python_version(),
        "gil": has_gil(),
        "start_method": multiprocessing.get_start_method(allow_none=True)
        or multiprocessing.get_all_start_methods()[0],
        "torch": torch.__version__,
        "torch_cuda": torch.version.cuda or torch.version.hip,
        "torch_threads": torch.get_num_threads(),
        "millrace": _core.__version__,
        "missing_in_torch": _core.missing_in_torch(),
        "millrace_cuda": _core.cuda_missing_reason(),
        "nvtx": _has_nvtx(),
        "libjpeg": next(
            (
                name
                for name in mapped
                if os.path.basename(name).startswith("libjpeg.so") and "pillow" not in name.lower()
            ),
            None,
        ),
        "simd_is_off": os.environ.get("JSIMD_FORCENONE") == "1",
        "threads_environment": {name: whole(os.environ[name]) for name in _THREADS if name in os.environ},
    }


def _has_nvtx() -> bool:
    try:
        _core.nvtx(True)
    except RuntimeError:
        return False
    _core.nvtx(False)
    return True


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
    group = files.text("/proc/self/cgroup")
    containers = {
        "kubernetes": "KUBERNETES_SERVICE_HOST" in environment or "kubepods" in group,
        "docker": files.exists("/.dockerenv") or "/docker/" in group,
        "podman": files.exists("/run/.containerenv"),
        environment.get("container", ""): bool(environment.get("container")),
        "apptainer": bool({"APPTAINER_CONTAINER", "SINGULARITY_CONTAINER"} & environment.keys()),
    }
    schedulers = {"slurm": "SLURM_JOB_ID", "lsf": "LSB_JOBID", "pbs": "PBS_JOBID"}
    names = re.search(r'^PRETTY_NAME="?([^"\n]*)', files.text("/etc/os-release"), re.MULTILINE)
    return {
        "kernel": files.text("/proc/sys/kernel/osrelease") or None,
        "distribution": names[1] if names else None,
        "container": next((name for name, seen in containers.items() if seen), None),
        "scheduler": next((name for name, sign in schedulers.items() if sign in environment), None),
    }


def cpu(files: SystemFiles, environment: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """online, cores (without their second threads), affinity (CPUs of the mask) and its numbers, quota in
    CPUs, throttled_seconds, ranks (LOCAL_WORLD_SIZE; ranks_text when that is no positive number), cpus: the
    share that is left, load of the last minute, governor.
    """
    facts = files.text("/proc/cpuinfo")
    models = re.search(r"^model name\s*:\s*(.*)", facts, re.MULTILINE)
    processors = re.findall(r"^processor\s*:\s*(\d+)$", facts, re.MULTILINE | re.ASCII)
    online = cpu_list(files.text(f"{_CPUS}/online")) or list(map(int, processors))
    mask = cpu_list(files.values("/proc/self/status").get("Cpus_allowed_list", "")) or online
    cores = {files.text(f"{_CPUS}/cpu{n}/topology/thread_siblings_list") or str(n) for n in mask}
    quotas = [quota for group in groups(files, "cpu") if (quota := group.cpu_quota()) is not None]
    throttled = next(
        (seconds for group in groups(files, "cpu") if (seconds := group.throttled()) is not None), None
    )
    text = environment.get("LOCAL_WORLD_SIZE", "")
    ranks = int(text) if text.isdecimal() and int(text) > 0 else 1
    left = min([float(len(mask) or 1), *quotas]) / ranks
    load = re.match(r"\d+\.\d+ ", files.text("/proc/loadavg"), re.ASCII)
    frequency = f"{_CPUS}/cpu{mask[0] if mask else 0}/cpufreq"
    return {
        "model": models[1].strip() if models else None,
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
        "load": float(load[0]) if load else None,
        "governor": files.text(f"{frequency}/scaling_governor") or None,
        "frequency_driver": files.text(f"{frequency}/scaling_driver") or None,
    }


def memory(files: SystemFiles) -> dict[str, Any]:
    """limit, limit_left: of the tightest control group. kills: processes ended there for want of memory.
    huge_pages: "always", ...
    """
    every = list(groups(files, "memory"))
    limits = {group: limit for group in every if (limit := group.memory_limit()) is not None}
    left = [limit - used for group, limit in limits.items() if (used := group.memory_used()) is not None]
    kills = [count for group in every if (count := group.oom_kills()) is not None]
    pages = "/sys/kernel/mm/transparent_hugepage"
    return {
        "total": files.meminfo("MemTotal"),
        "available": files.meminfo("MemAvailable"),
        "swap": files.meminfo("SwapTotal"),
        "limit": min(limits.values(), default=None),
        "limit_left": min(left, default=None),
        "kills": next(iter(kills), None),
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
    names = {
        "open_files": "Max open files",
        "locked_memory": "Max locked memory",
        "processes": "Max processes",
    }
    text = files.text("/proc/self/limits")
    found = {name: re.search(rf"^{sign} +(\S+) +(\S+)", text, re.MULTILINE) for name, sign in names.items()}
    pids = [limit for group in groups(files, "pids") if (limit := group.pids_limit()) is not None]
    return {
        **{name: [whole(match[1]), whole(match[2])] if match else None for name, match in found.items()},
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
    for mounted, _, _, kind, source, _ in files.mounts():
        if mounted == number:
            folder = f"/sys/dev/block/{number}"
            spins = files.number(f"{folder}/queue/rotational")
            if spins is None:  # a partition: its disk knows
                spins = files.number(f"{folder}/../queue/rotational")
            return {
                "kind": kind,
                "source": source,
                "device": number,
                "rotational": None if spins is None else bool(spins),
            }
    return unknown


def _chosen(text: str) -> str | None:
    """The word in brackets of "always [madvise] never"."""
    found = re.search(r"\[(\w+)\]", text)
    return found[1] if found else None
