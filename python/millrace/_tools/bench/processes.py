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
    """User and system time of `pid`, its living descendants and those already waited for; in hundredths of a
    second.
    """
    ticks = 0
    for process in tree(pid):
        try:
            with open(f"/proc/{process}/stat") as file:
                ticks += sum(map(int, file.read().rpartition(")")[2].split()[11:15]))
        except OSError:
            pass
    return ticks / _TICK


def memory_bytes(pid: int) -> int:
    """Memory of the tree, where pages that n processes share count once (proportional set size). Takes
    milliseconds per process.
    """
    return sum(_field(process, "smaps_rollup", "Pss:") for process in tree(pid))


def given_back_bytes(pid: int) -> int:
    """By how much the processes of the tree had more memory at their peaks, summed: what they took for a
    while.
    """
    return sum(
        max(0, _field(process, "status", "VmHWM:") - _field(process, "status", "VmRSS:"))
        for process in tree(pid)
    )


def _field(pid: int, file_name: str, name: str) -> int:
    """Bytes; 0 for a process that is gone."""
    try:
        with open(f"/proc/{pid}/{file_name}") as file:
            return 1024 * next((int(line.split()[1]) for line in file if line.startswith(name)), 0)
    except OSError:
        return 0
