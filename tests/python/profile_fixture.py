"""Profiles as `loader.stats(steps=True)["profile"]` gives them, made up but consistent: what each test of
reports starts from.
"""

from __future__ import annotations

import random
from typing import Any

STAGES = {"fetch": 0.13, "decode": 0.46, "transform": 0.16, "collate": 0.03}


def profile(
    steps: int = 400,
    *,
    workers: int = 3,
    engine: str = "threads",
    running: bool = False,
    seed: int = 0,
    step_seconds: float = 0.02,
    wait_seconds: float = 0.012,
    kept: int = 65_536,
) -> dict[str, Any]:
    """A run of `steps` steps whose queue runs empty now and then; sums hold as they do in a real one."""
    rng = random.Random(seed)
    start = 0.35 if workers else 0.01
    now, enter, leave, ready = start, [], [], []
    depth = 0
    for step in range(steps):
        enter.append(now)
        slow = step == 0 or rng.random() < 0.35
        depth = 0 if slow else min(2 * workers, max(1, depth + rng.choice((-1, 0, 1))))
        ready.append(depth)
        now += rng.expovariate(1 / (2.6 * wait_seconds)) if slow else 4e-5
        leave.append(now)
        now += step_seconds * rng.uniform(0.9, 1.15)
    wall = now if steps else start + 0.002
    inside = sum(b - a for a, b in zip(enter, leave))
    consumer = {
        "start": start,
        "draw": 0.01 * inside,
        "wait": 0.0,
        "make": 0.0,
        "copy": 0.02 * inside,
        "handover": 0.04 * inside,
    }
    consumer["wait" if workers else "make"] = 0.93 * inside
    consumer["step"] = wall - sum(consumer.values())
    wall_of_workers = max(0.0, wall - 0.2)
    names = [f"thread {i}" if engine == "threads" else f"process {4711 + i}" for i in range(workers)]
    each = [
        {"name": name, "wall_seconds": wall_of_workers, "seconds": _shares(wall_of_workers, rng)}
        for name in names
    ]
    for worker in each:
        worker["cpu_seconds"] = {
            stage: worker["seconds"][stage] * (0.25 if stage == "fetch" else 0.97) for stage in STAGES
        }
    clocks = (("wall", "seconds"), ("cpu", "cpu_seconds"))
    stages = {
        stage: {clock: sum(worker[key][stage] for worker in each) for clock, key in clocks}
        for stage in STAGES
    }
    if not workers:
        stages = {"decode": {"wall": consumer["make"], "cpu": 0.9 * consumer["make"]}}
    lost = wall - consumer["step"]
    return {
        "version": 1,
        "engine": engine,
        "native": engine == "threads",
        "running": running,
        "epoch": 0,
        "settings": {
            "num_workers": workers,
            "prefetch_factor": 2 if workers else None,
            "batch_size": 64,
            "pin_memory": False,
            "device": None,
            "decode": "cpu",
            "cores": 4.0,
        },
        "started": 1_790_000_000.0,
        "wall_seconds": wall,
        "samples": 64 * steps,
        "batches": steps,
        "bytes": 64 * steps * 110_000,
        "consumer": consumer,
        "first_wait": leave[0] - enter[0] if steps else 0.0,
        "workers": each,
        "stages": stages,
        "hot": [
            {"stage": "transform", "where": "train.augment (train.py:33)", "share": 0.61},
            {"stage": "decode", "where": "PIL.Image.open (Image.py:3465)", "share": 0.22},
        ],
        "blame": {"decode": 0.81 * (lost - start), "transform": 0.19 * (lost - start), "start": start},
        "bottleneck": "decode" if steps else "consumer",
        "queue": {"slots": 2 * workers + 2, "overflow_slots": 0},
        "steps": {
            "kept_from": max(0, steps - kept),
            "enter": enter[-kept:],
            "leave": leave[-kept:],
            "ready": ready[-kept:],
        },
    }


def _shares(wall: float, rng: random.Random) -> dict[str, float]:
    seconds = {stage: share * wall * rng.uniform(0.95, 1.05) for stage, share in STAGES.items()}
    return {**seconds, "idle": wall - sum(seconds.values())}
