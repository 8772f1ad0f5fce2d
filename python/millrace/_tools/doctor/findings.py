"""What is wrong here, and what to do about it, in sentences; the first one first."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .attainable import Need, Resource, count_text, size_text, tightest

LEVELS = ("broken", "slow", "note")
_MIB, _GIB = 1 << 20, 1 << 30
_NETWORK = (
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "fuse",
    "fuseblk",
    "9p",
    "virtiofs",
    "ceph",
    "lustre",
    "gpfs",
    "beegfs",
    "afs",
    "glusterfs",
)


@dataclass(frozen=True)
class Finding:
    """level: "broken" (something does not work, or the need is not met), "slow" (costs time), "note" (good to
    know). command: what
    to type, or change; "" when there is nothing to type. first: before its like, as it is about the tightest
    resource.
    """

    level: str
    subject: str
    text: str
    command: str = ""
    first: bool = False


def findings(need: Need, found: dict[str, Any], rows: list[Resource]) -> list[Finding]:
    """`found`: what examine() measured."""
    made = [
        *_attainable(need, found, rows),
        *_failures(found),
        *_cpus(found["machine"]),
        *_memory(found["machine"]),
        *_limits(found),
        *_disk(found),
        *_gpus(found),
        *_software(found),
    ]
    return sorted(made, key=lambda finding: (LEVELS.index(finding.level), not finding.first))


def _attainable(need: Need, found: dict[str, Any], rows: list[Resource]) -> Iterator[Finding]:
    slowest = tightest(rows)
    if slowest is None or slowest.rate is None:
        return
    if need.rate is None:
        text, command = _remedy(slowest, need, found, 2)
        text = f"the tightest, with {count_text(slowest.rate)} samples/s; for twice that: {text}"
        yield Finding("note", slowest.name, text, command, first=True)
        return
    for row in rows:
        if row.counts and row.rate is not None and row.rate < need.rate:
            text, command = _remedy(row, need, found, need.rate / row.rate)
            text = (
                f"{count_text(row.rate)} samples/s are attainable, and the model needs"
                f" {count_text(need.rate)}: {text}"
            )
            yield Finding("broken", row.name, text, command, first=row is slowest)


def _remedy(row: Resource, need: Need, found: dict[str, Any], factor: float) -> tuple[str, str]:
    cpu = found["machine"]["cpu"]
    if row.name == "CPU":
        cpus = f"{math.ceil(cpu['cpus'] * factor):,} CPUs would do, {cpu['cpus']:.3g} are this process's"
        if need.kind != "jpeg224":
            return cpus, ""
        gpu = (
            ', DataLoader(..., device="cuda", decode="auto") lets the GPU decode' if found.get("gpus") else ""
        )
        return (
            f"{cpus}{gpu}; smaller and sequential pictures decode faster",
            "millrace pack SRC DST --max-side 256",
        )
    if row.name.startswith("disk"):
        if found["disk"]["as_files"]:
            return (
                "files of their own cost a request each; shards are read from front to back",
                "millrace pack SRC DST",
            )
        return (
            (
                f"a disk {factor:.2g} times as fast would do: copy the data to a local NVMe disk, or store"
                " smaller samples"
            ),
            "",
        )
    if row.name == "store":
        return (
            "keep what was read on a local disk",
            'WebDataset(urls, cache_dir="/nvme/cache", cache_size=10**12)',
        )
    if row.name.startswith("link"):
        return (
            (
                f"a sample in a batch has {size_text(need.batch_bytes)}: send uint8 instead of float32, a"
                " quarter of it, and convert on the device"
            ),
            'DataLoader(..., device="cuda")',
        )
    return "fewer bytes in a sample: uint8 instead of float32", ""


def _failures(found: dict[str, Any]) -> Iterator[Finding]:
    disk, store, made = found.get("disk") or {}, found.get("store") or {}, found.get("batches") or {}
    if disk.get("error") and not disk.get("unlisted"):
        yield Finding(
            "broken" if found.get("path") else "note",
            "disk",
            f"not timed: {disk['error']}",
            "" if found.get("path") else "millrace doctor --tmp FOLDER",
        )
    for error in (disk.get("unlisted") or [])[:3]:
        yield Finding("broken", "disk", f"cannot be listed: {error}", "")
    if store.get("error"):
        yield Finding("broken", "store", store["error"])
    if made.get("error"):
        yield Finding("broken", "CPU", f"no batches were made: {made['error']}")
    damaged = made.get("damaged") or []
    if damaged:
        yield Finding(
            "broken",
            "photos",
            f"{len(damaged)} of {len(damaged) + made['photos']} photos that were tried cannot be decoded, "
            f"such as {damaged[0]}",
            'DataLoader(..., on_error="skip")',
        )
    if found.get("memory_error"):
        yield Finding("broken", "memory", f"not timed: {found['memory_error']}")


def _cpus(machine: dict[str, Any]) -> Iterator[Finding]:
    cpu, container = machine["cpu"], machine["system"]["container"]
    quota, mask, online = cpu["quota"], cpu["affinity"], cpu["online"]
    if cpu["ranks_text"] is not None:
        yield Finding(
            "broken",
            "CPU",
            f"LOCAL_WORLD_SIZE={cpu['ranks_text']!r} is no positive whole number and is ignored: each rank "
            "takes all CPUs",
            "unset LOCAL_WORLD_SIZE, or start by torchrun",
        )
    if quota is not None and mask is not None and quota < mask:
        more = {
            "kubernetes": f"resources: limits: cpu: {mask}",
            None: f"systemctl set-property SLICE CPUQuota={100 * mask}%",
        }
        command = more.get(container, f"docker run --cpus={mask}")
        yield Finding(
            "slow",
            "CPU",
            f"a cgroup quota allows {quota:.3g} of the {mask} CPUs that are there; more threads than that are"
            " made to stand still",
            command,
        )
    if mask is not None and online is not None and mask < online:
        how = (
            "srun --cpus-per-task=N"
            if machine["system"]["scheduler"] == "slurm"
            else f"taskset -c 0-{online - 1} COMMAND"
        )
        yield Finding("slow", "CPU", f"the affinity mask has {mask} of {online} CPUs", how)
    if cpu["ranks"] > 1 and cpu["cpus"] < 2:
        yield Finding(
            "slow",
            "CPU",
            f"{cpu['ranks']} ranks share the CPUs: {cpu['cpus']:.3g} for each, its training loop included",
        )
    if cpu.get("throttled_now"):
        yield Finding(
            "slow",
            "CPU",
            f"the cgroup's threads stood still for {cpu['throttled_now']:.2g} s while this was timed: the"
            " quota is used up",
            "fewer threads: num_workers, OMP_NUM_THREADS",
        )
    if cpu["governor"] == "powersave" and "pstate" not in (cpu["frequency_driver"] or ""):
        yield Finding(
            "slow",
            "CPU",
            "the frequency governor is powersave: CPUs stay at their lowest frequency",
            "cpupower frequency-set -g performance",
        )
    if cpu["load"] is not None and mask and cpu["load"] > 0.5 * mask:
        yield Finding(
            "note",
            "CPU",
            f"others are at work (load {cpu['load']:.3g} on {mask} CPUs): what was timed is too low; run it "
            "again on a quiet machine",
        )
    if (cpu["threads_per_core"] or 1) > 1.5 and cpu["cores"]:
        yield Finding(
            "note",
            "CPU",
            f"{mask} CPUs are the threads of {cpu['cores']} cores: two of one core are worth "
            "little more than one",
        )


def _memory(machine: dict[str, Any]) -> Iterator[Finding]:
    memory, container = machine["memory"], machine["system"]["container"]
    left, limit = memory["limit_left"], memory["limit"]
    raise_it = {
        "kubernetes": "resources: limits: memory: SIZE",
        None: "systemctl set-property SLICE MemoryMax=SIZE",
    }.get(container, "docker run --memory=SIZE")
    if left is not None and left < 256 * _MIB:
        yield Finding(
            "broken",
            "memory",
            f"the cgroup's limit of {size_text(limit)} leaves {size_text(max(0, left))}: the kernel kills "
            "who goes on",
            raise_it,
        )
    elif left is not None and left < _GIB:
        yield Finding(
            "slow", "memory", f"the cgroup's limit of {size_text(limit)} leaves {size_text(left)}", raise_it
        )
    if memory["available"] is not None and memory["available"] < 512 * _MIB:
        yield Finding("broken", "memory", f"the machine has {size_text(memory['available'])} left")
    if memory["kills"]:
        yield Finding(
            "slow",
            "memory",
            f"the kernel has ended {memory['kills']:,} process{'es' * (memory['kills'] > 1)} of this cgroup "
            "for want of memory",
            "fewer workers, a smaller prefetch_factor, or " + raise_it,
        )
    if (memory["oom_score_adj"] or 0) >= 500:
        yield Finding(
            "note",
            "memory",
            f"oom_score_adj is {memory['oom_score_adj']}: this process is ended first when memory is short",
        )


def _limits(found: dict[str, Any]) -> Iterator[Finding]:
    machine = found["machine"]
    shm, limits, docker = machine["shm"], machine["limits"], machine["system"]["container"] == "docker"
    ours = "(millrace itself needs none, torch's workers do)"
    if shm is None:
        yield Finding("note", "/dev/shm", f"there is none {ours}", "mount -t tmpfs shm /dev/shm")
    elif shm["free"] < _GIB:
        what = f"it has {size_text(shm['size'])}" + (
            f", {size_text(shm['free'])} of it free" if shm["free"] < 0.9 * shm["size"] else ""
        )
        yield Finding(
            "note",
            "/dev/shm",
            f"{what} {ours}",
            (
                "docker run --shm-size=8g"
                if docker
                else (
                    "an emptyDir with medium: Memory at /dev/shm"
                    if machine["system"]["container"] == "kubernetes"
                    else "mount -o remount,size=8g /dev/shm"
                )
            ),
        )
    files = limits["open_files"]
    if files and files[0] is not None and files[0] < 4096:
        yield Finding(
            "slow" if files[0] < 1024 else "note",
            "limits",
            f"ulimit -n is {files[0]:,}: worker processes, shards and sockets run out of it",
            f"ulimit -n {files[1] if files[1] and files[1] > files[0] else 65536}",
        )
    wanted = 64 + 8 * (machine["cpu"]["affinity"] or 1)
    for name, limit in (
        ("ulimit -u", (limits["processes"] or [None])[0]),
        ("the cgroup's pids.max", limits["pids"]),
    ):
        if limit is not None and limit < wanted:
            yield Finding(
                "slow", "limits", f"{name} is {limit:,}: threads may fail to start; {wanted:,} should do"
            )


def _disk(found: dict[str, Any]) -> Iterator[Finding]:
    disk, kind = found.get("disk") or {}, (found.get("file_system") or {}).get("kind") or ""
    if found["disk_is_memory"]:
        yield Finding(
            "note",
            "disk",
            f"{found['disk_place']} is memory ({kind}): no disk was timed",
            "millrace doctor PATH, or --tmp FOLDER on a disk",
        )
    elif disk.get("bypass") == "no":
        yield Finding(
            "note",
            "disk",
            f"the page cache could not be bypassed on {kind or 'this file system'}: the rates may be those of"
            " memory, and the first epoch slower",
        )
    elif disk.get("bypass") == "dropped":
        yield Finding(
            "note",
            "disk",
            f"{kind or 'this file system'} has no direct reads; the files' pages were dropped from the cache "
            "instead, so repeated reads may have come from memory",
        )
    if kind.partition(".")[0] in _NETWORK and found.get("path"):
        yield Finding(
            "note",
            "disk",
            f"the data lie on {kind}, a file system of the network or of another host: small files cost a "
            "round trip each",
            "millrace pack SRC DST" if disk.get("as_files") else "",
        )
    if (found.get("file_system") or {}).get("rotational") and disk.get("random_one", math.inf) < 300:
        yield Finding(
            "slow",
            "disk",
            f"a disk that turns: {count_text(disk['random_one'])} random reads a second by one reader",
            "millrace pack SRC DST, which reads from front to back",
        )
    made = found.get("batches") or {}
    if made.get("own") and made.get("progressive", 0) > 0.1 * made["photos"]:
        yield Finding(
            "slow",
            "photos",
            f"{made['progressive']} of {made['photos']} photos are progressive JPEGs, which decode several "
            "times slower",
            "millrace pack SRC DST (same pixels, baseline)",
        )


def _gpus(found: dict[str, Any]) -> Iterator[Finding]:
    present, timed, reason = found["machine"]["gpus"], found.get("gpus") or [], found["no_gpu"]
    mask = set(found["machine"]["cpu"]["affinity_list"])
    nodes = {node["number"]: node["cpus"] for node in found["machine"]["numa"]}
    if reason and present:
        yield Finding(
            "broken",
            "GPU",
            f"{len(present)} NVIDIA GPU{'s are' if len(present) > 1 else ' is'} here, and cannot be used: "
            f"{reason}",
            "a CUDA build of torch, and a driver that is new enough (nvidia-smi)",
        )
    if timed and found["software"]["millrace_cuda"]:
        yield Finding(
            "note",
            "GPU",
            f"torch uses the GPU, millrace's own kernels cannot: {found['software']['millrace_cuda']}",
        )
    for gpu in timed:
        if gpu.get("error"):
            yield Finding("broken", "GPU", gpu["error"])
        node = gpu.get("node", -1)
        if len(nodes) > 1 and node in nodes and mask and not mask & set(nodes[node]):
            yield Finding(
                "slow",
                "GPU",
                f"GPU {gpu['index']} hangs on NUMA node {node}, and none of this process's CPUs do: batches "
                "cross the machine",
                f"numactl --cpunodebind={node} --preferred={node} COMMAND",
            )
        link = next((device for device in present if device["address"] == gpu.get("address")), None)
        if link and link["link"][1] and link["link_most"][1] and link["link"][1] < link["link_most"][1]:
            yield Finding(
                "slow",
                "GPU",
                f"GPU {gpu['index']}'s link has {link['link'][1]} of {link['link_most'][1]} lanes: another "
                "slot, or a riser card",
            )
        if gpu.get("pageable", math.inf) < 0.7 * gpu.get("pinned", 0):
            yield Finding(
                "note",
                "GPU",
                f"page-locked memory is copied {gpu['pinned'] / gpu['pageable']:.2g} times as fast as"
                " ordinary memory",
                f'DataLoader(..., device="cuda:{gpu["index"]}"), or pin_memory=True',
            )


def _software(found: dict[str, Any]) -> Iterator[Finding]:
    software, cpus = found["software"], found["machine"]["cpu"]["cpus"]
    if software["built_for_torch"].partition("+")[0] != software["torch"].partition("+")[0]:
        yield Finding(
            "broken",
            "build",
            f"millrace was built for torch {software['built_for_torch']}, and this is {software['torch']}",
            "pip install --no-build-isolation --force-reinstall --no-deps millrace",
        )
    simd: bool | None = found.get("libjpeg_simd")
    if simd is False:
        yield Finding(
            "slow",
            "libjpeg",
            "JSIMD_FORCENONE=1 is set: progressive and odd JPEGs decode without SIMD",
            "unset JSIMD_FORCENONE",
        )
    elif simd is None and "libjpeg_simd" in found:
        yield Finding(
            "note",
            "libjpeg",
            "no sign of SIMD: progressive and odd JPEGs may decode slowly, others do not use it (millrace "
            "decodes them itself)",
            "libjpeg-turbo 2.1.4 or newer, built with SIMD",
        )
    for name, value in software["threads_environment"].items():
        if value is not None and value > max(1, cpus) * 1.5:
            yield Finding(
                "slow",
                "threads",
                f"{name}={value}, and this process has {cpus:.3g} CPUs: they take turns",
                f"export {name}={max(1, int(cpus))}",
            )
    if not software["threads_environment"] and software["torch_threads"] > max(1, cpus) * 1.5:
        yield Finding(
            "slow",
            "threads",
            f"torch computes with {software['torch_threads']} threads, and this process has {cpus:.3g} CPUs",
            f"export OMP_NUM_THREADS={max(1, int(cpus))}",
        )
    if software["start_method"] == "fork" and found.get("gpus"):
        yield Finding(
            "note",
            "Python",
            "worker processes are forked: what they inherit must not use CUDA",
            'multiprocessing_context="spawn"',
        )
