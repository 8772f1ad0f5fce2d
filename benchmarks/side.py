"""One loader in a process of its own, which does one thing when told: the harness starts it and talks to it
in lines of JSON.

check PATH   one epoch, looked at closely; the first images go to PATH        -> what checks.observe() saw
epoch        one epoch, timed                                                 -> times
paused N     one epoch whose consumer stops for N seconds twice, so that every queue of the loader fills up ->
{} first        a new iterator to its first batch                                -> seconds
import       nothing: the process has imported torch and waits                -> {}
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from importlib import metadata


def versions(packages: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "not installed as a package"
    return found


class Side:
    def __init__(self, loader: str, job, cpus: list[int]) -> None:
        from benchmarks import loaders

        self.job, self.cpus = job, cpus
        self.adapter = loaders.load(loader)
        self.epochs = self.adapter.open_epochs(job)

    def check(self, path: str) -> dict:
        import numpy as np

        from benchmarks import checks

        seen, images = checks.observe(self.epochs())
        np.save(path, images)
        return {**seen, "versions": versions(self.adapter.PACKAGES)}

    def epoch(self) -> dict:
        from benchmarks.probes import Epoch

        labels, images = [], 0
        timer = Epoch(self.cpus)
        for batch, batch_labels in self.epochs():
            labels.append(batch_labels)
            images += len(batch)
        result = timer.stop()
        in_order = [int(label) for batch in labels for label in batch] == [
            label for _, label in self.job.samples
        ]
        stats = getattr(self.epochs, "stats", dict)()
        return {**result, "images": images, "batches": len(labels), "in_order": in_order, "stats": stats}

    def paused(self, seconds: float) -> dict:
        for number, _ in enumerate(self.epochs()):
            if number in (1, 4):
                time.sleep(seconds)
        return {}

    def first(self) -> dict:
        start = time.perf_counter()
        batches = iter(self.epochs())
        batch = next(batches)
        seconds = time.perf_counter() - start
        del batch, batches
        gc.collect()
        return {"seconds": seconds}


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever a peer prints must not get between the answers
    settings = json.loads(sys.stdin.readline())
    os.sched_setaffinity(0, settings["cpus"])
    if settings["loader"] is None:
        import torch  # noqa: F401
    else:
        from benchmarks.loaders import Job
        from benchmarks.scenarios import SCENARIOS

        job = Job(
            SCENARIOS[settings["scenario"]],
            settings["root"],
            settings["workers"],
            settings["epoch_images"],
            settings["persistent"],
        )
        side = Side(settings["loader"], job, settings["cpus"])
    print("{}", file=answers)
    for line in sys.stdin:
        command, *arguments = json.loads(line)
        answer = {} if command == "import" else getattr(side, command)(*arguments)
        print(json.dumps(answer), file=answers)


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:
        os._exit(1)  # the harness is gone, and with it whoever wanted to know
