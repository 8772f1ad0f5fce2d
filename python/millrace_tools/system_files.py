"""The kernel's files as values. `root` is the machine's "/", or a folder in its place: of another machine, or
of a test.

Missing, unreadable or odd values are None or empty; nothing here raises.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

_NO_LIMIT = 1 << 60  # cgroup v1 writes "none" as a huge number


class SystemFiles:
    """Files below `root` by their absolute names."""

    def __init__(self, root: str | os.PathLike[str] = "/") -> None:
        self.root = Path(root)

    def path(self, name: str) -> Path:
        return self.root / name.lstrip("/")

    def text(self, name: str) -> str:
        """The file's text without blanks around it; "" when it cannot be read."""
        try:
            return self.path(name).read_text(encoding="utf-8", errors="replace").strip()
        except (OSError, ValueError):
            return ""

    def number(self, name: str) -> int | None:
        """The first word, when it is a whole number."""
        return whole(self.text(name).partition("\n")[0].partition(" ")[0])

    def exists(self, name: str) -> bool:
        return os.path.exists(self.path(name))

    def names(self, name: str) -> list[str]:
        """The names in a folder, sorted."""
        try:
            return sorted(os.listdir(self.path(name)))
        except OSError:
            return []

    def values(self, name: str) -> dict[str, str]:
        """Lines of "key value", or "key: value", of files such as meminfo and memory.events."""
        lines = (re.split(r": *| ", line, maxsplit=1) for line in self.text(name).splitlines())
        return {key.strip(): "".join(value).strip() for key, *value in lines}

    def meminfo(self, key: str) -> int | None:
        """Bytes."""
        kib = whole(self.values("/proc/meminfo").get(key, "").partition(" ")[0])
        return None if kib is None else kib << 10

    def mounts(self) -> Iterator[tuple[str, str, str, str, str, str]]:
        """(the device's numbers, root, point, kind, source, options) of each mount that this process sees."""
        for line in self.text("/proc/self/mountinfo").splitlines():
            left, _, right = line.partition(" - ")
            place, kind = left.split(), right.split()
            if len(place) >= 5 and len(kind) >= 2:
                yield place[2], place[3], place[4], kind[0], kind[1], "".join(kind[2:3])


class Group:
    """A control group's folder; `v2`: which of the kernel's two interfaces it has."""

    def __init__(self, files: SystemFiles, folder: str, v2: bool) -> None:
        self.files, self.folder, self.v2 = files, folder, v2

    def cpu_quota(self) -> float | None:
        """In CPUs; None: no quota."""
        at = self.folder
        names = ["cpu.max"] if self.v2 else ["cpu.cfs_quota_us", "cpu.cfs_period_us"]
        numbers = [whole(word) or 0 for name in names for word in self.files.text(f"{at}/{name}").split()]
        return numbers[0] / numbers[1] if len(numbers) == 2 and min(numbers) > 0 else None

    def throttled(self) -> float | None:
        """Seconds for which the cgroup's threads were held back since it was made."""
        stat = self.files.values(f"{self.folder}/cpu.stat")
        units = {"throttled_usec": 1e-6, "throttled_time": 1e-9}
        counts = ((whole(stat.get(name, "")), unit) for name, unit in units.items())
        return next((count * unit for count, unit in counts if count is not None), None)

    def memory_limit(self) -> int | None:
        limit = self.files.number(f"{self.folder}/{'memory.max' if self.v2 else 'memory.limit_in_bytes'}")
        return None if limit is None or limit >= _NO_LIMIT else limit

    def memory_used(self) -> int | None:
        """Without the page cache, which the kernel gives up first."""
        used = self.files.number(f"{self.folder}/{'memory.current' if self.v2 else 'memory.usage_in_bytes'}")
        if used is None:
            return None
        stat = self.files.values(f"{self.folder}/memory.stat")
        prefix = "" if self.v2 else "total_"
        cache = sum(whole(stat.get(f"{prefix}{name}_file", "")) or 0 for name in ("inactive", "active"))
        return max(0, used - cache)

    def oom_kills(self) -> int | None:
        events = "memory.events" if self.v2 else "memory.oom_control"
        return whole(self.files.values(f"{self.folder}/{events}").get("oom_kill", ""))

    def pids_limit(self) -> int | None:
        return self.files.number(f"{self.folder}/pids.max")


def groups(files: SystemFiles, controller: str) -> Iterator[Group]:
    """This process's groups with `controller` ("cpu", "memory", "pids"), the innermost first, up to each
    mount's root (cgroups(7)).
    """
    own = [
        line.split(":", 2) for line in files.text("/proc/self/cgroup").splitlines() if line.count(":") >= 2
    ]
    for _, root, point, kind, _, options in files.mounts():
        v2 = kind == "cgroup2"
        if not v2 and (kind != "cgroup" or controller not in options.split(",")):
            continue
        path = next(
            (entry[2] for entry in own if (not entry[1] if v2 else controller in entry[1].split(","))), "/"
        )
        # A container's mount may show only the inside of its own group, while the kernel names it from
        # outside.
        if root != "/" and path.startswith(root):
            path = path[len(root) :]
        path = "" if ".." in path else path.rstrip("/")
        while True:
            yield Group(files, point + path, v2)
            if not path:
                break
            path = path.rpartition("/")[0].rstrip("/")


def cpu_list(text: str) -> list[int]:
    """The numbers of "0-3,8,10-11"; [] for anything else."""
    found: list[int] = []
    for part in filter(None, text.strip().split(",")):
        first, dash, last = part.partition("-")
        low, high = whole(first), whole(last if dash else first)
        if low is None or high is None or high - low > 1 << 16:
            return []
        found += range(low, high + 1)
    return found


def whole(text: str) -> int | None:
    return int(text) if re.fullmatch(r"-?\d+", text, re.ASCII) else None
