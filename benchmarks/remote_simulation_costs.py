"""What remote_simulation.py is fed with: the costs of batches on a cluster of two nodes of this machine, with
trainer and actor on a CPU each, measured through the loader itself.

The raylet of the trainer's node and Ray's other processes there share the trainer's CPU; the node's raylet
shares the actor's. So batches cross from one store to the other, as between machines, but for the wire. CPU
time is read from /proc by thread: the courier, threads that make batches, Ray's in the trainer, the raylet's.
"""

from __future__ import annotations

import itertools
import os
import re
import statistics
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks import probes, remote
from benchmarks.harness import run_facts
from benchmarks.remote_cluster import NODE, Cluster, cluster, wait_for
from benchmarks.remote_simulation_model import Costs

SIZES = (32, 112, 224)
REFS = (2, 200, 2000)
EDGE = 20  # batches of an epoch that are not looked at, at its begin and at its end
PARTS = {
    "courier": ("courier_s",),
    "ray_thread": ("ray_thread_s",),
    "raylet": ("raylet_thread_s",),
    "cpu": ("courier_s", "ray_s", "raylet_s"),
}


def thread_seconds(pid: int) -> dict[str, tuple[str, float]]:
    """Thread: (its name, CPU seconds)."""
    found = {}
    for thread in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{thread}/comm") as name:
                with open(f"/proc/{pid}/task/{thread}/schedstat") as times:
                    found[thread] = name.read().strip(), int(times.read().split()[0]) / 1e9
        except OSError:
            pass  # it ended meanwhile
    return found


def with_names(threads: dict[str, tuple[str, float]]) -> dict[str, tuple[str, float]]:
    """Threads of this process, by the names that Python gave them."""
    names = {str(thread.native_id): thread.name for thread in threading.enumerate()}
    return {thread: (names.get(thread, name), spent) for thread, (name, spent) in threads.items()}


def between(before: dict[str, tuple[str, float]], after: dict[str, tuple[str, float]]) -> dict[str, float]:
    return {thread: spent - before.get(thread, ("", 0.0))[1] for thread, (_, spent) in after.items()}


def look(on: Cluster, loader: Any) -> dict[str, Any]:
    seen = loader.stats()["remote"]
    made = [node["batches"] for node in seen["nodes"].values()]
    sent = [node["bytes"] for node in seen["nodes"].values()]
    return {
        "at": time.perf_counter(),
        "counts": {"local": seen["local"], "remote": sum(made), "bytes": sum(sent)},
        "trainer": with_names(thread_seconds(os.getpid())),
        "raylet": thread_seconds(on.head_raylet),
        "node": probes.tree_cpu_seconds(on.node_raylet),
    }


def epoch(on: Cluster, loader: Any) -> dict[str, Any]:
    """What the batches behind the first ones cost."""
    timer = probes.Epoch(on.cpus)
    steps, before, after = len(loader), None, None
    for number, _ in enumerate(loader):
        if number == EDGE:
            before = look(on, loader)
        if number == steps - EDGE:
            after = look(on, loader)
    assert before is not None and after is not None, f"an epoch of {steps} batches is too short"
    return {"others_share": timer.stop()["others_share"], **spent_between(before, after)}


def idle(on: Cluster, loader: Any, seconds: float) -> dict[str, Any]:
    """What the same processes do while nothing is asked of them."""
    before = look(on, loader)
    time.sleep(seconds)
    return spent_between(before, look(on, loader))


def spent_between(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    counts = {name: after["counts"][name] - before["counts"][name] for name in after["counts"]}
    spent: Counter[str] = Counter()
    rays, busiest = 0.0, ""
    for thread, seconds in between(before["trainer"], after["trainer"]).items():
        name = after["trainer"][thread][0]
        spent[kind_of(name)] += seconds
        if kind_of(name) == "ray" and seconds > rays:
            rays, busiest = seconds, name
    raylet = between(before["raylet"], after["raylet"]).values()
    return {
        "seconds": after["at"] - before["at"],
        **counts,
        **{f"{kind}_s": spent[kind] for kind in ("courier", "making", "loop", "ray")},
        "ray_thread_s": rays,
        "ray_thread": busiest,
        "raylet_s": sum(raylet),
        "raylet_thread_s": max(raylet),
        "node_s": after["node"] - before["node"],
    }


def kind_of(thread: str) -> str:
    if "courier" in thread:
        return "courier"
    if thread == "MainThread":
        return "loop"
    return "making" if re.match(r"millrace( local|-\d)", thread) else "ray"


def control(ray: Any) -> Iterator[dict[str, Any]]:
    """Ray alone: a call that does nothing, there and back; ray.wait() on many answers that do not come."""
    import asyncio

    class Idle:
        async def nothing(self) -> None:
            pass

        async def forever(self) -> None:
            await asyncio.Event().wait()

    actor = ray.remote(Idle).options(num_cpus=0.1, max_concurrency=max(REFS) + 10).remote()
    ray.get(actor.nothing.remote())
    for count in REFS:
        refs = [actor.forever.remote() for _ in range(count)]
        took, calls = [], []
        for _ in range(20):
            began = time.perf_counter()
            ray.wait(refs, num_returns=1, timeout=0)
            took.append(time.perf_counter() - began)
            began = time.perf_counter()
            ray.get(actor.nothing.remote())
            calls.append(time.perf_counter() - began)
        yield {"refs": count, "wait_s": statistics.median(took), "call_s": statistics.median(calls)}
        for ref in refs:
            ray.cancel(ref)
    ray.kill(actor)


def measured(images: str, rounds: int, seconds: float, actors: int) -> Iterator[dict[str, Any]]:
    """Records: of idle seconds; of epochs of about so many seconds, of pictures of each size, `rounds` each,
    by turns; of small pictures with so many actors in place of one; and of Ray alone.
    """
    common = {**run_facts(("ray", "torch")), "batch": remote.BATCH}
    with cluster() as on:
        loaders = {size: loader_of(images, size, seconds, 1) for size in SIZES}
        for repeat in range(rounds):
            found = idle(on, loaders[SIZES[0]], seconds)
            yield {**common, "kind": "idle", "repeat": repeat, **found}
        for repeat, size in itertools.product(range(rounds), SIZES):
            found = epoch(on, loaders[size])
            yield {**common, "kind": "epoch", "size": size, "actors": 1, "repeat": repeat, **found}
        loaders.clear()
        loader = loader_of(images, SIZES[0], seconds, actors)
        for repeat in range(rounds):
            found = epoch(on, loader)
            yield {**common, "kind": "epoch", "size": SIZES[0], "actors": actors, "repeat": repeat, **found}
        del loader
        for record in control(on.ray):
            yield {**common, "kind": "ray", **record}


def loader_of(images: str, size: int, seconds: float, actors: int) -> Any:
    """A loader that so many actors of one thread help, whose epochs take about so many seconds. None of them
    asks Ray for CPUs, as those of all loaders share one.
    """
    remote.SIZE = size
    alone = remote.loader_of(images, 3 * EDGE * remote.BATCH, 1)
    rate = remote.epoch(alone)["rate"]
    pictures = max(4 * EDGE * remote.BATCH, round(1.5 * rate * seconds))
    options = {"actors": actors, "num_cpus": 0, "resources": {NODE: 0.01}}
    loader = remote.loader_of(images, pictures, 1, remote="ray", remote_workers=options)
    wait_for(loader, actors)
    return loader


def idle_shares(records: list[dict[str, Any]]) -> dict[str, float]:
    """CPU seconds that Ray's own processes take in a second in which nothing is asked of them."""
    rests = [r for r in records if r["kind"] == "idle"]
    parts = ("ray_s", "ray_thread_s", "raylet_s", "raylet_thread_s", "node_s")
    return {part: statistics.median(r[part] / r["seconds"] for r in rests) for part in parts if rests}


def fitted(records: list[dict[str, Any]], size: int) -> Costs:
    """Costs of batches of pictures of `size`; for each stage, a line through what batches of several sizes
    cost.
    """
    idle = idle_shares(records)
    runs = [
        {**r, **{part: max(0.0, r[part] - share * r["seconds"]) for part, share in idle.items()}}
        for r in records
        if r["kind"] == "epoch" and r["remote"] > 0
    ]
    ones = [r for r in runs if r["actors"] == 1]
    sizes = np.array([r["bytes"] / r["remote"] for r in ones])
    lines = {}
    for stage, parts in PARTS.items():
        spent = np.array([sum(r[part] for part in parts) / r["remote"] for r in ones])
        slope = max(0.0, float(np.polyfit(sizes, spent, 1)[0])) if len(set(sizes)) > 1 else 0.0
        lines[stage] = max(0.0, float(np.mean(spent) - slope * np.mean(sizes))), slope
    many = [r for r in runs if r["actors"] > 1]
    few = [r for r in ones if many and r["size"] == many[0]["size"]]
    more = [statistics.median(r["courier_s"] / r["remote"] for r in each) for each in (many, few) if each]
    waits = sorted((r["refs"], r["wait_s"]) for r in records if r["kind"] == "ray")
    of_wait = 2 * (waits[-1][1] - waits[0][1]) / (waits[-1][0] - waits[0][0]) if len(waits) > 1 else 0.0
    of_members = (more[0] - more[1]) / (many[0]["actors"] - 1) if len(more) == 2 else 0.0
    own = [r for r in ones if r["size"] == size]
    if not own:
        raise ValueError(f"nothing was measured of pictures of {size}")
    return Costs(
        bytes=statistics.median(r["bytes"] / r["remote"] for r in own),
        node_cpu_s=statistics.median(r["node_s"] / r["remote"] for r in own),
        local_cpu_s=statistics.median(r["making_s"] / max(1, r["local"]) for r in own),
        task_s={stage: line[0] for stage, line in lines.items()},
        byte_s={stage: line[1] for stage, line in lines.items()},
        member_s=max(0.0, of_wait, of_members),
        samples=own[0]["batch"],
    )
