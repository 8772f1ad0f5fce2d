"""A loader and its training loop in simulated time: what a Controller is tested with, and a grid of fixed
settings beside it.

Workers share the CPUs with each other and with the consumer (processor sharing). They claim the pieces of
batches in order; a batch is begun only while fewer than `slots` are in memory, the consumer's included. A
piece waits `latency` seconds (a disk, a store) and then takes `cpu` seconds of a CPU. A step of the consumer
takes `step_cpu` seconds of a CPU and then `step_else` of something else.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from millrace._loader.tuning import Bounds, Controller, Setting

Cost = Callable[[float, int, random.Random], float]  # of (seconds, number, random numbers)


def fixed(seconds: float) -> Cost:
    return lambda now, number, draws: seconds


def spread(seconds: float, share: float) -> Cost:
    return lambda now, number, draws: seconds * max(0.1, draws.gauss(1.0, share))


@dataclass
class Load:
    cores: float
    cpu: Cost = fixed(0.0)
    latency: Cost = fixed(0.0)
    step_cpu: Cost = fixed(0.0)
    step_else: Cost = fixed(0.0)
    pieces: int = 1
    in_the_way: float = 0.0
    """What each further thread adds to a piece's CPU time, as a share: caches, locks."""


@dataclass
class _Worker:
    phase: str = "idle"
    left: float = 0.0
    then: float = 0.0  # CPU behind the latency
    batch: int = -1


@dataclass
class Pipeline:
    load: Load
    threads: int
    slots: int
    seed: int = 0
    now: float = 0.0
    handed: list[float] = field(default_factory=list)
    most_in_memory: int = 0
    most_active: int = 0

    def __post_init__(self) -> None:
        self.draws = random.Random(self.seed)
        self.begun = 0  # batches
        self.claimed = 0  # pieces of the batch begun last
        self.left: dict[int, int] = {}  # batch: pieces not made
        self.turn = 0  # the batch that the consumer gets next
        self.consumer = _Worker("waits")
        self.asked = 0.0
        self.step = 0.0
        self.workers: list[_Worker] = []

    def _give_work(self) -> None:
        active = sum(worker.phase != "idle" for worker in self.workers)
        while active < self.threads:
            if self.claimed == 0 or self.claimed == self.load.pieces:
                holds = 1 if self.turn > 0 else 0
                if self.begun - self.turn + holds >= self.slots:
                    return
                self.left[self.begun] = self.load.pieces
                self.begun += 1
                self.claimed = 0
                self.most_in_memory = max(self.most_in_memory, self.begun - self.turn + holds)
            worker = next((w for w in self.workers if w.phase == "idle"), None)
            if worker is None:
                worker = _Worker()
                self.workers.append(worker)
            self.claimed += 1
            number = self.begun - 1
            slowed = 1 + self.load.in_the_way * (self.threads - 1)
            worker.batch, worker.then = number, self.load.cpu(self.now, number, self.draws) * slowed
            latency = self.load.latency(self.now, number, self.draws)
            worker.phase, worker.left = ("latency", latency) if latency > 0 else ("cpu", worker.then)
            active += 1
            self.most_active = max(self.most_active, active)

    def next_batch(self) -> tuple[float, float]:
        """(wait, step) of the next batch, as the consumer sees them."""
        while True:
            self._give_work()
            consumer = self.consumer
            if consumer.phase == "waits" and self.left.get(self.turn) == 0:
                del self.left[self.turn]
                wait, step = self.now - self.asked, self.step
                number = self.turn
                self.turn += 1
                consumer.phase, consumer.left = "cpu", self.load.step_cpu(self.now, number, self.draws) + 1e-6
                consumer.then = self.load.step_else(self.now, number, self.draws)
                self.began = self.now
                self.handed.append(self.now)
                return wait, step
            on_cpu = [w for w in (*self.workers, consumer) if w.phase == "cpu"]
            speed = min(1.0, self.load.cores / len(on_cpu)) if on_cpu else 1.0
            busy = [w for w in (*self.workers, consumer) if w.phase in ("cpu", "latency")]
            passed = min(w.left / (speed if w.phase == "cpu" else 1.0) for w in busy)
            self.now += passed
            for worker in busy:
                worker.left -= passed * (speed if worker.phase == "cpu" else 1.0)
                if worker.left > 1e-12:
                    continue
                if worker is not consumer and worker.phase == "latency" and worker.then > 0:
                    worker.phase, worker.left = "cpu", worker.then
                elif worker is consumer and worker.phase == "cpu" and worker.then > 0:
                    worker.phase, worker.left = "latency", worker.then
                elif worker is consumer:
                    worker.phase = "waits"
                    self.asked, self.step = self.now, self.now - self.began
                else:
                    worker.phase = "idle"
                    self.left[worker.batch] -= 1


def rate(handed: list[float], since: float, until: float) -> float:
    return sum(since <= at < until for at in handed) / (until - since)


def fixed_rate(load: Load, setting: Setting, seconds: float, seed: int = 1) -> float:
    pipeline = Pipeline(load, setting.threads, setting.slots, seed)
    while pipeline.now < 2 + seconds:
        pipeline.next_batch()
    return rate(pipeline.handed, 2, 2 + seconds)


def tuned(
    load: Load, bounds: Bounds, seconds: float, seed: int = 1, start: Setting | None = None
) -> tuple[Pipeline, Controller, list[tuple[float, Setting]]]:
    """A run of `seconds` under a Controller; (pipeline, controller, [(when, setting)])."""
    controller = Controller(bounds, start or Setting(bounds.threads, 3))
    pipeline = Pipeline(load, controller.setting.threads, controller.setting.slots, seed)
    changes = [(0.0, controller.setting)]
    controller.restart()
    while pipeline.now < seconds:
        wait, step = pipeline.next_batch()
        if controller.note(wait, step):
            changes.append((pipeline.now, controller.setting))
            pipeline.threads, pipeline.slots = controller.setting.threads, controller.setting.slots
    return pipeline, controller, changes
