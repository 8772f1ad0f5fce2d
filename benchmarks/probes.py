"""What the system knows about processes: CPU time, memory, and who else was busy. Linux, standard library
only.
"""

from __future__ import annotations

import os
import platform
import threading
import time
from collections.abc import Callable, Iterable

TICK = os.sysconf("SC_CLK_TCK")


def process_tree(pid: int) -> list[int]:
    """`pid` and all its living descendants."""
    found, todo = [], [pid]
    while todo:
        pid = todo.pop()
        found.append(pid)
        try:
            for task in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{task}/children") as f:
                    todo += map(int, f.read().split())
        except OSError:
            pass  # it ended meanwhile
    return found


def tree_cpu_seconds(pid: int) -> float:
    """CPU seconds, user and system, of `pid`, its living descendants and those already waited for."""
    total = 0
    for process in process_tree(pid):
        try:
            with open(f"/proc/{process}/stat") as f:
                total += sum(map(int, f.read().rpartition(")")[2].split()[11:15]))
        except OSError:
            pass
    return total / TICK


def busy_cpu_seconds(cpus: Iterable[int]) -> float:
    """Seconds that these CPUs were busy since boot, whoever used them; stolen time counts, it was not ours
    either.
    """
    names = {f"cpu{n}" for n in cpus}
    total = 0
    with open("/proc/stat") as f:
        for line in f:
            name, *ticks = line.split()
            if name in names:
                user, nice, system, _, _, irq, softirq, steal = map(int, ticks[:8])
                total += user + nice + system + irq + softirq + steal
    return total / TICK


def tree_pss_bytes(pid: int) -> int:
    """Proportional set size of the tree: pages shared by n processes count 1/n in each, so shared memory
    counts once.
    """
    total = 0
    for process in process_tree(pid):
        try:
            with open(f"/proc/{process}/smaps_rollup") as f:
                total += sum(int(line.split()[1]) for line in f if line.startswith("Pss:"))
        except OSError:
            pass
    return total * 1024


class PeakMemory:
    """Samples tree_pss_bytes() in a thread while its `with` block runs; `bytes` is the highest value seen."""

    def __init__(self, pid: int, interval_s: float = 0.03) -> None:
        self.bytes = 0
        self._pid, self._interval_s = pid, interval_s
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        while not self._done.is_set():
            self.bytes = max(self.bytes, tree_pss_bytes(self._pid))
            self._done.wait(self._interval_s)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *_) -> None:
        self._done.set()
        self._thread.join()


def machine() -> dict:
    """The facts about this machine that a result depends on."""
    model = platform.machine()
    with open("/proc/cpuinfo") as f:
        for line in f:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": model,
        "cpus": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


class Epoch:
    """Wall time, CPU time of this process tree, and the share of `cpus` that others took, from construction
    to stop(). `spent` says the CPU seconds since then, where tree_cpu_seconds() does not see all of them.
    """

    def __init__(self, cpus: list[int], spent: Callable[[], float] | None = None) -> None:
        self._cpus, self._spent = cpus, spent
        self._cpu, self._busy = tree_cpu_seconds(os.getpid()), busy_cpu_seconds(cpus)
        self._start = time.perf_counter()

    def stop(self) -> dict:
        seconds = time.perf_counter() - self._start
        cpu = self._spent() if self._spent else tree_cpu_seconds(os.getpid()) - self._cpu
        others = busy_cpu_seconds(self._cpus) - self._busy - cpu
        return {
            "seconds": seconds,
            "cpu_seconds": cpu,
            "others_share": max(0.0, others) / seconds / len(self._cpus),
        }
