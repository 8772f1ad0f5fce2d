"""What Linux knows about a process and its descendants: CPU time and memory."""

from __future__ import annotations

import os

_TICK = os.sysconf("SC_CLK_TCK")


def tree(pid: int) -> list[int]:
    """`pid` and its living descendants."""
    found, open_ends = [], [pid]
    while open_ends:
        pid = open_ends.pop()
        found.append(pid)
        try:
            for task in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{task}/children") as file:
                    open_ends += map(int, file.read().split())
        except OSError:  # it ended meanwhile
            pass
    return found


def cpu_seconds(pid: int) -> float:
    """User and system time of `pid`, its living descendants and those already waited for; in hundredths of a second."""
    ticks = 0
    for process in tree(pid):
        try:
            with open(f"/proc/{process}/stat") as file:
                ticks += sum(map(int, file.read().rpartition(")")[2].split()[11:15]))
        except OSError:
            pass
    return ticks / _TICK


def memory_bytes(pid: int) -> int:
    """Memory of the tree, where pages that n processes share count once (proportional set size)."""
    total = 0
    for process in tree(pid):
        try:
            with open(f"/proc/{process}/smaps_rollup") as file:
                total += next((int(line.split()[1]) for line in file if line.startswith("Pss:")), 0)
        except OSError:
            pass
    return total * 1024
