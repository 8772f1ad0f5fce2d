"""The machine's faults and their remedies, in sentences; the most urgent first.

Most of it is tables of rules: when, level, subject, text, command.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from millrace._common.torch_private import TESTED

from ..texts import count_text, size_text
from .attainable import Need, Resource, tightest
from .system_rules import Rule, cpu_rules, limit_rules, memory_rules

LEVELS = ("broken", "slow", "note")
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
# What to do about the tightest resource: (text, command). "photos", "files": CPUs that decode, disks with a
# file for each sample.
_REMEDIES = {
    "CPU": ("{more:,} CPUs would do, {cpus:.3g} are this process's", ""),
    "photos": (
        "{more:,} CPUs would do, {cpus:.3g} are this process's{gpu}; smaller and sequential pictures decode"
        " faster",
        "millrace pack SRC DST --max-side 256",
    ),
    "disk": (
        "a disk {factor:.2g} times as fast would do: copy the data to a local NVMe disk, or store smaller"
        " samples",
        "",
    ),
    "files": (
        "files of their own cost a request each; shards are read from front to back",
        "millrace pack SRC DST",
    ),
    "store": (
        "keep what was read on a local disk",
        'WebDataset(urls, cache_dir="/nvme/cache", cache_size=10**12)',
    ),
    "link": (
        "a sample in a batch has {size}: send uint8 instead of float32, a quarter of it, and convert on the"
        " device",
        'DataLoader(..., device="cuda")',
    ),
    "memory": ("fewer bytes in a sample: uint8 instead of float32", ""),
}


@dataclass(frozen=True)
class Finding:
    """level: "broken" (something does not work, or the need is not met), "slow" (costs time), "note" (good to
    know). command: what to type, or change; "" when there is nothing to type. first: before its like, as it
    is about the tightest resource.
    """

    level: str
    subject: str
    text: str
    command: str = ""
    first: bool = False


def findings(need: Need, found: dict[str, Any], rows: list[Resource]) -> list[Finding]:
    """`found`: what examine() measured."""
    machine = found["machine"]
    made = [
        *_attainable(need, found, rows),
        *_those(_failure_rules(found)),
        *_those(cpu_rules(machine)),
        *_those(memory_rules(machine)),
        *_those(limit_rules(machine)),
        *_those(_disk_rules(found)),
        *_those(_gpu_rules(found)),
        *_those(_software_rules(found)),
    ]
    return sorted(made, key=lambda finding: (LEVELS.index(finding.level), not finding.first))


def _those(rules: list[Rule]) -> list[Finding]:
    """The findings of those rules that hold."""
    return [Finding(level, subject, text, command) for when, level, subject, text, command in rules if when]


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
    kind = row.name.partition(" ")[0]
    if kind == "CPU" and need.kind == "jpeg224":
        kind = "photos"
    elif kind == "disk" and found["disk"]["as_files"]:
        kind = "files"
    text, command = _REMEDIES.get(kind, _REMEDIES["memory"])
    cpus = found["machine"]["cpu"]["cpus"]
    decodes = ', DataLoader(..., device="cuda", decode="auto") lets the GPU decode'
    facts = {
        "cpus": cpus,
        "more": math.ceil(cpus * factor),
        "factor": factor,
        "size": size_text(need.batch_bytes),
        "gpu": decodes if found.get("gpus") else "",
    }
    return text.format_map(facts), command


def _failure_rules(found: dict[str, Any]) -> list[Rule]:
    """What could not be timed or read."""
    disk, store, made = found.get("disk") or {}, found.get("store") or {}, found.get("batches") or {}
    unlisted, damaged = disk.get("unlisted") or [], made.get("damaged") or []
    given, tried = bool(found.get("path")), len(damaged) + made.get("photos", 0)
    return [
        (
            disk.get("error") and not unlisted,
            "broken" if given else "note",
            "disk",
            f"not timed: {disk.get('error')}",
            "" if given else "millrace doctor --tmp FOLDER",
        ),
        *((True, "broken", "disk", f"cannot be listed: {error}", "") for error in unlisted[:3]),
        (store.get("error"), "broken", "store", store.get("error", ""), ""),
        (made.get("error"), "broken", "CPU", f"no batches were made: {made.get('error')}", ""),
        *(
            (
                True,
                "broken",
                "photos",
                f"{len(damaged)} of {tried} photos that were tried cannot be decoded, such as {example}",
                'DataLoader(..., on_error="skip")',
            )
            for example in damaged[:1]
        ),
        (found.get("memory_error"), "broken", "memory", f"not timed: {found.get('memory_error')}", ""),
    ]


def _disk_rules(found: dict[str, Any]) -> list[Rule]:
    disk, system, made = (found.get(name) or {} for name in ("disk", "file_system", "batches"))
    kind, in_memory = system.get("kind") or "", found["disk_is_memory"]
    what, bypass = kind or "this file system", not in_memory and disk.get("bypass")
    reads, progressive = disk.get("random_one", math.inf), made.get("progressive", 0)
    return [
        (
            in_memory,
            "note",
            "disk",
            f"{found['disk_place']} is memory ({kind}): no disk was timed",
            "millrace doctor PATH, or --tmp FOLDER on a disk",
        ),
        (
            bypass == "no",
            "note",
            "disk",
            f"the page cache could not be bypassed on {what}: the rates may be those of memory, and the first"
            " epoch slower",
            "",
        ),
        (
            bypass == "dropped",
            "note",
            "disk",
            f"{what} has no direct reads; the files' pages were dropped from the cache instead, so repeated"
            " reads may have come from memory",
            "",
        ),
        (
            kind.partition(".")[0] in _NETWORK and found.get("path"),
            "note",
            "disk",
            f"the data lie on {kind}, a file system of the network or of another host: small files cost a"
            " round trip each",
            "millrace pack SRC DST" if disk.get("as_files") else "",
        ),
        (
            system.get("rotational") and reads < 300,
            "slow",
            "disk",
            f"a disk that turns: {count_text(reads)} random reads a second by one reader",
            "millrace pack SRC DST, which reads from front to back",
        ),
        (
            made.get("own") and progressive > 0.1 * made["photos"],
            "slow",
            "photos",
            f"{progressive} of {made.get('photos')} photos are progressive JPEGs, which decode several times"
            " slower",
            "millrace pack SRC DST (same pixels, baseline)",
        ),
    ]


def _gpu_rules(found: dict[str, Any]) -> list[Rule]:
    present, timed, reason = found["machine"]["gpus"], found.get("gpus") or [], found["no_gpu"]
    no_kernels = found["software"]["millrace_cuda"]
    return [
        (
            reason and present,
            "broken",
            "GPU",
            f"{len(present)} NVIDIA GPU{'s are' if len(present) > 1 else ' is'} here, and cannot be used:"
            f" {reason}",
            "a CUDA build of torch, and a driver that is new enough (nvidia-smi)",
        ),
        (
            timed and no_kernels,
            "note",
            "GPU",
            f"torch uses the GPU, millrace's own kernels cannot: {no_kernels}",
            "",
        ),
        *(rule for gpu in timed for rule in _rules_of_one_gpu(gpu, found["machine"])),
    ]


def _rules_of_one_gpu(gpu: dict[str, Any], machine: dict[str, Any]) -> list[Rule]:
    """Of one that was timed."""
    mask, node = set(machine["cpu"]["affinity_list"]), gpu.get("node", -1)
    nodes = {entry["number"]: entry["cpus"] for entry in machine["numa"]}
    lanes = next(
        (
            (device["link"][1] or 0, device["link_most"][1] or 0)
            for device in machine["gpus"]
            if device["address"] == gpu.get("address")
        ),
        (0, 0),
    )
    pinned, pageable = gpu.get("pinned", 0), gpu.get("pageable", math.inf)
    return [
        (gpu.get("error"), "broken", "GPU", gpu.get("error", ""), ""),
        (
            len(nodes) > 1 and node in nodes and mask and not mask & set(nodes[node]),
            "slow",
            "GPU",
            f"GPU {gpu['index']} hangs on NUMA node {node}, and none of this process's CPUs do: batches"
            " cross the machine",
            f"numactl --cpunodebind={node} --preferred={node} COMMAND",
        ),
        (
            0 < lanes[0] < lanes[1],
            "slow",
            "GPU",
            f"GPU {gpu['index']}'s link has {lanes[0]} of {lanes[1]} lanes: another slot, or a riser card",
            "",
        ),
        (
            pageable < 0.7 * pinned,
            "note",
            "GPU",
            f"page-locked memory is copied {pinned / pageable:.2g} times as fast as ordinary memory",
            f'DataLoader(..., device="cuda:{gpu["index"]}"), or pin_memory=True',
        ),
    ]


def _software_rules(found: dict[str, Any]) -> list[Rule]:
    software, cpus = found["software"], max(1, found["machine"]["cpu"]["cpus"])
    variables, fewer = software["threads_environment"], f"={int(cpus)}"
    return [
        *(
            (
                True,
                "slow",
                "torch",
                f"torch {software['torch']} does not give {missing}",
                f"pip install 'torch=={TESTED}.*'",
            )
            for missing in software["missing_in_torch"]
        ),
        (
            software["simd_is_off"],
            "slow",
            "libjpeg",
            "JSIMD_FORCENONE=1 is set: progressive and odd JPEGs decode without SIMD",
            "unset JSIMD_FORCENONE",
        ),
        *(
            (
                value is not None and value > 1.5 * cpus,
                "slow",
                "threads",
                f"{name}={value}, and this process has {cpus:.3g} CPUs: they take turns",
                f"export {name}{fewer}",
            )
            for name, value in variables.items()
        ),
        (
            not variables and software["torch_threads"] > 1.5 * cpus,
            "slow",
            "threads",
            f"torch computes with {software['torch_threads']} threads, and this process has {cpus:.3g} CPUs",
            f"export OMP_NUM_THREADS{fewer}",
        ),
        (
            software["start_method"] == "fork" and found.get("gpus"),
            "note",
            "Python",
            "worker processes are forked: what they inherit must not use CUDA",
            'multiprocessing_context="spawn"',
        ),
    ]
