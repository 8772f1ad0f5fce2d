"""Memory that an epoch adds: 2 worker processes over millions of Python strings, as a list and frozen.

    python -m benchmarks.memory                       # 5 million strings; about two minutes and 2 GB
    python -m benchmarks.memory --items 500000 --data list frozen

Every kind of data runs in a process of its own: it builds the data, then iterates one shuffled epoch.
"growth" is the highest proportional set size of the process and its workers during the epoch, minus that
before `iter()`; "above indices" subtracts the growth of a data set of equal length that has no data at all,
so what is left belongs to the strings.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import subprocess
import sys
import time

KINDS = ("indices", "list", "frozen")
LOADERS = {"torch": "torch.utils.data", "millrace": "millrace"}


def strings(count: int) -> list[str]:
    return [f"folder/class_{i % 1000:04d}/image_{i:09d}.jpg" for i in range(count)]


class Lengths:
    """A data set of the lengths of its strings, or of its indices when there are none."""

    def __init__(self, items, count: int) -> None:
        self.items, self.count = items, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> int:
        return index if self.items is None else len(self.items[index])


def measure(kind: str, loader_name: str, count: int, start_method: str) -> dict:
    """In this process: megabytes, and seconds per step."""
    import importlib

    from millrace import frozen

    from benchmarks.probes import tree_pss_bytes

    me = os.getpid()
    items = None if kind == "indices" else strings(count)
    started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if kind == "frozen":
        items = frozen(items)
    build_seconds = time.perf_counter() - started
    build_mb = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / 1e6

    loader = importlib.import_module(LOADERS[loader_name]).DataLoader(
        Lengths(items, count), 1000, shuffle=True, num_workers=2, multiprocessing_context=start_method
    )
    gc.collect()
    base = tree_pss_bytes(me)
    started, peak, total = time.perf_counter(), base, 0
    for number, batch in enumerate(loader):
        total += int(batch.sum())
        if number % 250 == 0 or number == len(loader) - 1:
            peak = max(peak, tree_pss_bytes(me))
    seconds = time.perf_counter() - started
    expected = (
        count * (count - 1) // 2 if items is None else count * len("folder/class_0000/image_000000000.jpg")
    )
    assert total == expected, "not every sample came exactly once"
    return {
        "data": kind,
        "loader": loader_name,
        "items": count,
        "start_method": start_method,
        "growth_mb": round((peak - base) / 1e6, 1),
        "base_mb": round(base / 1e6),
        "epoch_seconds": round(seconds, 1),
        "freeze_seconds": round(build_seconds, 2),
        "freeze_peak_mb": round(build_mb),
    }


def measure_apart(kind: str, loader: str, count: int, start_method: str = "fork") -> dict:
    command = [sys.executable, "-m", "benchmarks.memory", "--inside", kind, loader, str(count), start_method]
    return json.loads(
        subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout.splitlines()[-1]
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--items", type=int, default=5_000_000)
    parser.add_argument("--data", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--loader", choices=LOADERS, default="millrace")
    parser.add_argument("--start-method", default="fork")
    parser.add_argument("--inside", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inside:
        kind, loader, count, start_method = arguments.inside
        print(json.dumps(measure(kind, loader, int(count), start_method)))
        return
    nothing = None
    for kind in dict.fromkeys(["indices", *arguments.data]):
        result = measure_apart(kind, arguments.loader, arguments.items, arguments.start_method)
        nothing = result["growth_mb"] if nothing is None else nothing
        print(json.dumps(result | {"above_indices_mb": round(result["growth_mb"] - nothing, 1)}), flush=True)


if __name__ == "__main__":
    main()
