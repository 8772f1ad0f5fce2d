"""The summary of a profile: the few numbers and sentences that every kind of report shows.

A profile is `loader.stats()["profile"]`. Missing parts, or an epoch without steps, give zeros, and nothing is
shown of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .scales import amount

# In the order in which they are shown.
CONSUMER = ("step", "wait", "make", "copy", "draw", "handover", "start")
WORKER = ("fetch", "decode", "transform", "collate", "sample", "send", "idle")

MEANING = {
    "step": "the loop's own code, between two calls of next()",
    "wait": "next() blocked until a batch was ready",
    "make": "batches made inside next() itself",
    "copy": "pinning, and handing to the device",
    "draw": "the sampler",
    "handover": "the rest of next()",
    "start": "making the iterator and its workers",
    "fetch": "reading bytes",
    "decode": "bytes to samples",
    "transform": "your transforms, or the native ones",
    "collate": "samples to a batch",
    "sample": "Python's dataset[i], not split further",
    "send": "answering the training process",
    "idle": "nothing to do, or no free slot",
}


def ordered(seconds: Mapping[str, float], order: Sequence[str]) -> dict[str, float]:
    """The entries above zero, known ones first."""
    names = [*order, *(name for name in seconds if name not in order)]
    return {name: float(seconds[name]) for name in names if (seconds.get(name) or 0) > 0}


class Summary:
    """A profile's numbers, derived once."""

    def __init__(self, profile: Mapping[str, Any]) -> None:
        self.wall = float(profile.get("wall_seconds") or 0)
        self.consumer = ordered(profile.get("consumer") or {}, CONSUMER)
        self.blame = ordered(profile.get("blame") or {}, WORKER)
        self.lost = max(0.0, self.wall - self.consumer.get("step", 0.0)) if self.consumer else 0.0
        self.lost_share = self.lost / self.wall if self.wall > 0 else 0.0
        self.batches, self.samples, self.bytes = (
            int(profile.get(key) or 0) for key in ("batches", "samples", "bytes")
        )
        self.samples_per_second = self.samples / self.wall if self.wall > 0 else 0.0
        self.bytes_per_second = self.bytes / self.wall if self.wall > 0 else 0.0
        self.workers = {w["name"]: ordered(w["seconds"], WORKER) for w in profile.get("workers") or []}
        stages = profile.get("stages") or {}
        self.stages_wall = ordered({stage: times.get("wall") or 0 for stage, times in stages.items()}, WORKER)
        self.stages_cpu = ordered({stage: times.get("cpu") or 0 for stage, times in stages.items()}, WORKER)
        self.idle = sum(parts.get("idle", 0.0) for parts in self.workers.values())
        self.worker_seconds = sum(sum(parts.values()) for parts in self.workers.values())
        self.hot = list(profile.get("hot") or [])
        self.first_wait = float(profile.get("first_wait") or 0)
        self.bottleneck = str(profile.get("bottleneck") or "")
        self.queue = profile.get("queue") or {}
        self.remote = profile.get("remote") or {}
        self.running, self.epoch = bool(profile.get("running")), int(profile.get("epoch") or 0)
        self.engine = _engine(profile, len(self.workers))

    def headline(self) -> str:
        """How far the run is and how fast it went."""
        state = "running for" if self.running else "took"
        read = f", {amount(self.bytes, 'B')} ({amount(self.bytes_per_second, 'B/s')})" if self.bytes else ""
        return (
            f"epoch {self.epoch} {state} {amount(self.wall, 's')}: {self.batches:,}"
            f" batch{'es' * (self.batches != 1)}, {self.samples:,} sample{'s' * (self.samples != 1)}"
            f" ({amount(self.samples_per_second)}/s){read}; {self.engine}"
        )

    def verdict(self) -> str:
        """A sentence: whether the loop waited for the loader, and for which stage."""
        if not self.batches:
            return "no batch was handed out yet"
        if self.bottleneck == "consumer" or not self.bottleneck:
            return f"the training loop sets the pace: it had to wait for {self.lost_share:.1%} of the time"
        most = max(self.blame, key=lambda part: self.blame[part], default=self.bottleneck)
        slowest = f"; the slowest stage is {self.bottleneck}" if most != self.bottleneck else ""
        return (
            f"loader-bound {self.lost_share:.1%}: {amount(self.lost, 's')} lost, most of it to"
            f" {most}{slowest}"
        )


def _engine(profile: Mapping[str, Any], workers: int) -> str:
    kind = "native" if profile.get("native") else "Python"
    name = str(profile.get("engine") or "inline")
    if name == "inline":
        return f"{kind}, in the training loop's thread"
    many = workers != 1
    who = {"threads": "thread" + "s" * many, "processes": "worker process" + "es" * many}.get(name, name)
    return f"{workers} {kind} {who}"


def step_times(
    steps: Mapping[str, Any], wall: float
) -> tuple[list[float], list[float], list[float], list[float]]:
    """(enter, leave, waits, steps) of the steps that are kept: seconds in next(), and in the loop's own code
    after it.
    """
    enter, leave = list(steps.get("enter") or []), list(steps.get("leave") or [])
    count = min(len(enter), len(leave))
    ends = [*enter[1 : count + 1], *[max(wall, leave[-1] if leave else 0.0)]][:count]
    enter, leave = enter[:count], leave[:count]
    waits = [max(0.0, b - a) for a, b in zip(enter, leave)]
    return enter, leave, waits, [max(0.0, b - a) for a, b in zip(leave, ends)]


def node_rows(summary: Summary) -> list[tuple[str, float, float, str]]:
    """Of each node: its name, the seconds that its actors were at work, its share of the samples, and the
    rest in words.
    """
    rows = []
    for name, node in summary.remote["nodes"].items():
        way, received = amount(node["way_seconds"] / node["batches"], "s"), amount(node["bytes"], "B")
        words = f"{node['samples']:,} samples; {received}, {way} a batch on the way"
        rows.append((name, node["make_seconds"], node["samples"] / max(1, summary.samples), words))
    return rows


def remote_line(remote: Mapping[str, Any]) -> str:
    counted = (
        "{local:,} batches made here, {again:,} given to another worker, {hedged:,} made here as well,"
        " {duplicates:,} dropped, {checked:,} compared"
    ).format(**remote)
    expelled = "".join(f"; worker {name} expelled: {why}" for name, why in remote["expelled"].items())
    return f"remote workers: {remote['working']} of {remote['workers']} at work; {counted}{expelled}"
