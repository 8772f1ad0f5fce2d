"""What actors of Ray add to one thread of the trainer's, and what their batches cost the trainer.

    python -m benchmarks.remote --images DIR [--rounds 7] [--pictures 24000] [--out FILE.jsonl]

Photos to uint8 of 224 x 224, batches of 64, on two CPUs: by one local thread, by two, and by one with an
actor of one CPU. Trainer and actor share the two CPUs, so all that the way costs on both sides is in the
rate. One epoch comes in shared memory, as batches of actors on the trainer's machine do, and one through
Ray's store (`store_...`), as those of other machines. Before anything is timed, both give the same batches.
`added`: the share of the second thread's gain that the actor brings. `cpu_s_per_gb`: the CPU seconds of the
trainer's threads that make no pictures, beyond those of one thread's epoch of the same round.
`cpu_s_per_gb_by_difference`: of all its threads, less what the pictures made here cost one thread alone;
these cost more beside an actor, on the same memory, so it is noisy, and more than the way from the actor
costs. Each round is one line of JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import millrace
import torch
from millrace import transforms
from millrace._loader.remote import member

from benchmarks.harness import run_facts
from benchmarks.runs import hold_to_cpus

BATCH, SIZE = 64, 224
CPU_S = "cpu_s_per_gb", "cpu_s_per_gb_by_difference"
OF_ACTOR = "thread_and_actor", "share_remote", "added", *CPU_S
START_S = 120.0  # actors import torch first


def loader_of(images: str, pictures: int, workers: int, **options: Any) -> millrace.DataLoader:
    chain = [transforms.RandomResizedCrop(SIZE), transforms.RandomHorizontalFlip(), transforms.PILToTensor()]
    data = millrace.datasets.ImageFolder(images, transform=transforms.Compose(chain))
    order = torch.utils.data.RandomSampler(
        data, replacement=True, num_samples=pictures, generator=torch.Generator().manual_seed(1)
    )
    seed = torch.Generator().manual_seed(2)
    return millrace.DataLoader(data, BATCH, sampler=order, num_workers=workers, generator=seed, **options)


def epoch(loader: millrace.DataLoader) -> dict[str, float]:
    began, cpu, samples = time.perf_counter(), time.process_time(), 0
    for pictures, _ in loader:
        samples += len(pictures)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    profile = loader.profile()
    assert profile is not None
    makers = sum(sum(worker["cpu_seconds"].values()) for worker in profile["workers"])
    return {"rate": samples / seconds, "cpu_s": cpu, "rest_cpu_s": cpu - makers, "samples": samples}


def started(images: str) -> None:
    """Checks that a loader with an actor gives what one without gives, in epochs until the actor helps."""
    alone = loader_of(images, 10 * BATCH, 1)
    helped = loader_of(images, 10 * BATCH, 1, remote="ray", remote_workers=1)
    until = time.monotonic() + START_S
    while not helped.stats().get("remote", {}).get("nodes"):
        for (ours, labels), (theirs, their_labels) in zip(alone, helped, strict=True):
            assert torch.equal(ours, theirs) and torch.equal(labels, their_labels)
        if time.monotonic() > until:
            raise SystemExit(f"no actor answers: {helped.stats()['remote']}")


@contextlib.contextmanager
def through_the_store() -> Iterator[None]:
    """Iterators that begin inside take the actor for one of another machine."""
    here, member.this_machine = member.this_machine, lambda: None
    try:
        yield
    finally:
        member.this_machine = here


def one_round(number: int, one: Any, two: Any, helped: Any) -> dict[str, Any]:
    alone, both = epoch(one), epoch(two)
    record = {"one_thread": alone["rate"], "two_threads": both["rate"]}
    for way in ("", "store_") if number % 2 else ("store_", ""):
        with through_the_store() if way else contextlib.nullcontext():
            remote = epoch(helped)
        nodes = helped.stats()["remote"]["nodes"].values()
        direct = sum(node["in_shared_memory"] for node in nodes)
        assert direct == (0 if way else sum(node["batches"] for node in nodes)), "batches came another way"
        samples = sum(node["samples"] for node in nodes)
        gigabytes = sum(node["bytes"] for node in nodes) / 1e9
        own = (remote["samples"] - samples) * alone["cpu_s"] / alone["samples"]
        found = {
            "thread_and_actor": remote["rate"],
            "share_remote": samples / remote["samples"],
            "added": (remote["rate"] - alone["rate"]) / (both["rate"] - alone["rate"]),
            "gb": gigabytes,
            "cpu_s_per_gb": (remote["rest_cpu_s"] - alone["rest_cpu_s"]) / gigabytes,
            "cpu_s_per_gb_by_difference": (remote["cpu_s"] - own) / gigabytes,
        }
        record |= {way + key: value for key, value in found.items()}
    return record


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", required=True, help="class folders of JPEGs")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--pictures", type=int, default=24_000)
    parser.add_argument("--out", default="/dev/null")
    arguments = parser.parse_args()
    hold_to_cpus(2)
    started(arguments.images)
    sizes = [path.stat().st_size for path in Path(arguments.images).rglob("*") if path.is_file()]
    common = {
        **run_facts(["ray", "torch", "millrace-loader"]),
        "batch": BATCH,
        "pictures": arguments.pictures,
        "photo_bytes": round(statistics.mean(sizes)),
    }
    given = arguments.images, arguments.pictures
    one, two = loader_of(*given, 1), loader_of(*given, 2)
    helped = loader_of(*given, 1, remote="ray", remote_workers=1)
    for _ in helped:  # its actor is another one, which starts meanwhile
        pass
    records = []
    with open(arguments.out, "a") as out:
        for number in range(arguments.rounds):
            records.append({**common, "repeat": number, **one_round(number, one, two, helped)})
            print(json.dumps(records[-1]), file=out, flush=True)
            print(f"round {number}", file=sys.stderr)
    for key in ("one_thread", "two_threads", *OF_ACTOR, *(f"store_{key}" for key in OF_ACTOR)):
        print(f"{key}: {statistics.median(record[key] for record in records):.3g}")


if __name__ == "__main__":
    main()
