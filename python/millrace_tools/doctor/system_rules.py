"""Rules over the facts of machine(): costs of the kernel's settings for a loader, and how to change them."""

from __future__ import annotations

from typing import Any

from ..texts import size_text

Rule = tuple[Any, str, str, str, str]
"""When (a truth value), and the finding's level, subject, text and command; see findings.Finding."""

_MIB, _GIB = 1 << 20, 1 << 30


def _by_container(machine: dict[str, Any], kubernetes: str, plain: str, docker: str) -> str:
    """The remedy for this place: Kubernetes, a machine without a container, or any other container."""
    return {"kubernetes": kubernetes, None: plain}.get(machine["system"]["container"], docker)


def cpu_rules(machine: dict[str, Any]) -> list[Rule]:
    cpu = machine["cpu"]
    mask, online = cpu["affinity"] or 0, cpu["online"] or 0
    raise_quota = _by_container(
        machine,
        f"resources: limits: cpu: {mask}",
        f"systemctl set-property SLICE CPUQuota={100 * mask}%",
        f"docker run --cpus={mask}",
    )
    more_cpus = f"taskset -c 0-{online - 1} COMMAND"
    if machine["system"]["scheduler"] == "slurm":
        more_cpus = "srun --cpus-per-task=N"
    load, throttled = cpu["load"] or 0.0, cpu.get("throttled_now") or 0.0
    powersave = cpu["governor"] == "powersave" and "pstate" not in (cpu["frequency_driver"] or "")
    return [
        (
            cpu["ranks_text"] is not None,
            "broken",
            "CPU",
            f"LOCAL_WORLD_SIZE={cpu['ranks_text']!r} is no positive whole number and is ignored: each"
            " rank takes all CPUs",
            "unset LOCAL_WORLD_SIZE, or start by torchrun",
        ),
        (
            cpu["quota"] is not None and cpu["quota"] < mask,
            "slow",
            "CPU",
            f"a cgroup quota allows {cpu['quota'] or 0:.3g} of the {mask} CPUs that are there; more threads"
            " than that are made to stand still",
            raise_quota,
        ),
        (
            0 < mask < online,
            "slow",
            "CPU",
            f"the affinity mask has {mask} of {online} CPUs",
            more_cpus,
        ),
        (
            cpu["ranks"] > 1 and cpu["cpus"] < 2,
            "slow",
            "CPU",
            f"{cpu['ranks']} ranks share the CPUs: {cpu['cpus']:.3g} for each, its training loop included",
            "",
        ),
        (
            throttled,
            "slow",
            "CPU",
            f"the cgroup's threads stood still for {throttled:.2g} s while this was timed: the quota is"
            " used up",
            "fewer threads: num_workers, OMP_NUM_THREADS",
        ),
        (
            powersave,
            "slow",
            "CPU",
            "the frequency governor is powersave: CPUs stay at their lowest frequency",
            "cpupower frequency-set -g performance",
        ),
        (
            mask and load > 0.5 * mask,
            "note",
            "CPU",
            f"others are at work (load {load:.3g} on {mask} CPUs): what was timed is too low; run it again"
            " on a quiet machine",
            "",
        ),
        (
            (cpu["threads_per_core"] or 1) > 1.5 and cpu["cores"],
            "note",
            "CPU",
            f"{mask} CPUs are the threads of {cpu['cores']} cores: two of one core are worth little more than"
            " one",
            "",
        ),
    ]


def memory_rules(machine: dict[str, Any]) -> list[Rule]:
    memory = machine["memory"]
    left, available, kills = memory["limit_left"], memory["available"], memory["kills"] or 0
    oom_score = memory["oom_score_adj"] or 0
    raise_it = _by_container(
        machine,
        "resources: limits: memory: SIZE",
        "systemctl set-property SLICE MemoryMax=SIZE",
        "docker run --memory=SIZE",
    )
    limit = f"the cgroup's limit of {size_text(memory['limit'] or 0)} leaves {size_text(max(0, left or 0))}"
    return [
        (
            left is not None and left < 256 * _MIB,
            "broken",
            "memory",
            f"{limit}: the kernel kills who goes on",
            raise_it,
        ),
        (left is not None and 256 * _MIB <= left < _GIB, "slow", "memory", limit, raise_it),
        (
            available is not None and available < 512 * _MIB,
            "broken",
            "memory",
            f"the machine has {size_text(available or 0)} left",
            "",
        ),
        (
            kills,
            "slow",
            "memory",
            f"the kernel has ended {kills:,} process{'es' * (kills > 1)} of this cgroup for want of memory",
            f"fewer workers, a smaller prefetch_factor, or {raise_it}",
        ),
        (
            oom_score >= 500,
            "note",
            "memory",
            f"oom_score_adj is {oom_score}: this process is ended first when memory is short",
            "",
        ),
    ]


def limit_rules(machine: dict[str, Any]) -> list[Rule]:
    """Of /dev/shm, open files, processes and threads."""
    shm, limits = machine["shm"], machine["limits"]
    size, free = (shm["size"], shm["free"]) if shm else (0, 0)
    ours = "(millrace itself needs none, torch's workers do)"
    in_use = f", {size_text(free)} of it free" if free < 0.9 * size else ""
    larger = _by_container(
        machine,
        "an emptyDir with medium: Memory at /dev/shm",
        "mount -o remount,size=8g /dev/shm",
        "docker run --shm-size=8g",
    )
    soft, hard = limits["open_files"] or (None, None)
    files = soft if soft is not None else 1 << 30
    wanted = 64 + 8 * (machine["cpu"]["affinity"] or 1)
    threads = {"ulimit -u": (limits["processes"] or [None])[0], "the cgroup's pids.max": limits["pids"]}
    return [
        (shm is None, "note", "/dev/shm", f"there is none {ours}", "mount -t tmpfs shm /dev/shm"),
        (shm and free < _GIB, "note", "/dev/shm", f"it has {size_text(size)}{in_use} {ours}", larger),
        (
            files < 4096,
            "slow" if files < 1024 else "note",
            "limits",
            f"ulimit -n is {files:,}: worker processes, shards and sockets run out of it",
            f"ulimit -n {hard if hard and hard > files else 65536}",
        ),
        *(
            (
                limit is not None and limit < wanted,
                "slow",
                "limits",
                f"{name} is {limit}: threads may fail to start; {wanted:,} should do",
                "",
            )
            for name, limit in threads.items()
        ),
    ]
