"""Batches per second as a function of what each part of a batch costs.

What the consumer's thread does itself (draw, make, copy, handover, and the loop's step) is done one after the
other; workers work side by side, as far as there are CPUs for the part of their time that needs one:

    batches per second = min(1 / consumer, efficiency * workers / work, efficiency * cores / CPU time of a
    batch, everybody's)

A batch's CPU time is that of its work and what the training process's other threads use meanwhile: the loop
itself, the libraries', those that read from stores. `efficiency` is what the same formula misses today, when
it says that workers are the limit: batches that are not alike, or CPUs that others use. It is kept for other
numbers of workers. The model knows nothing of disks and networks that have no more to give, which makes it
too hopeful, never too shy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Costs:
    """Seconds per batch, as measured, or as they would be."""

    step: float
    draw: float
    make: float
    copy: float
    handover: float
    work: float  # of one worker
    cpu: float  # of it
    workers: int
    cores: float
    efficiency: float = 1.0
    own_cpu: float = 0.0  # of the training process, but for its workers
    contention: float = 0.0  # share of the time in which work wanted a CPU and did not get it

    @property
    def consumer(self) -> float:
        return self.step + self.draw + self.make + self.copy + self.handover

    @property
    def of_workers(self) -> float:
        """Batches per second that the workers could make."""
        if self.workers == 0 or self.work <= 0:
            return math.inf
        return min(self.efficiency * self.workers / self.work, self.of_cpus)

    @property
    def of_cpus(self) -> float:
        """Batches per second that the CPUs could make, by any number of workers."""
        used = self.cpu + self.own_cpu
        return self.efficiency * self.cores / used if used > 0 else math.inf

    @property
    def waits(self) -> bool:
        """Whether most of the work is no work of a CPU, nor a wait for one: then more workers than CPUs may
        help.
        """
        return self.cpu / (1 - self.contention) < 0.5 * self.work

    def crowding(self, more: int) -> float:
        """How much less of a CPU each of `more` workers gets than each of the present workers, if other
        programs want the CPUs, too.

        Each thread that is ready gets an equal share. `others`: how many other threads are ready at a time,
        computed from the CPU time that the workers could not have.
        """
        now = max(1, self.workers)
        others = max(0.0, self.cores / (1 - self.contention) - now)
        return max(self.cores, now + others) / max(self.cores, more + others)

    @property
    def rate(self) -> float:
        """Batches per second."""
        return min(1 / max(self.consumer, 1e-9), self.of_workers)


def measured(profile: Mapping[str, Any]) -> tuple[Costs, float, float] | None:
    """(costs, batches per second after the first one, samples per batch); None when there were too few
    batches to tell.
    """
    batches, consumer = profile["batches"], profile["consumer"]
    filling = min(profile["first_wait"], consumer["wait"] + consumer["make"])
    seconds = profile["wall_seconds"] - consumer["start"] - filling
    if batches < 3 or seconds <= 0 or profile["samples"] <= 0:
        return None
    workers = profile["workers"]
    made = batches + _ready(profile)
    work = (
        sum(seconds for worker in workers for stage, seconds in worker["seconds"].items() if stage != "idle")
        / made
    )
    cpu = sum(seconds for worker in workers for seconds in worker["cpu_seconds"].values()) / made
    inline = not workers
    own = profile.get("process_cpu_seconds", 0.0) / batches
    if inline:
        own -= sum(times["cpu"] for times in profile["stages"].values()) / batches
    elif profile["engine"] == "threads":
        own -= cpu * made / batches
    costs = Costs(
        **{name: consumer[name] / batches for name in ("step", "draw", "copy", "handover")},
        make=(consumer["make"] - (filling if inline else 0)) / (batches - 1 if inline else batches),
        work=work,
        cpu=min(cpu, work),
        workers=len(workers),
        cores=max(1.0, float(profile["settings"].get("cores") or 1)),
        own_cpu=max(0.0, own),
        contention=min(0.99, profile.get("contention", 0.0)),
    )
    rate = (batches - (0 if not filling else 1)) / seconds
    model = costs.rate
    if costs.of_workers <= model and model > 0:
        costs = replace(costs, efficiency=min(1.0, max(0.3, rate / model)))
    return costs, rate, profile["samples"] / batches


def _ready(profile: Mapping[str, Any]) -> float:
    """Batches made and not handed out: while it runs, the workers are ahead of the consumer."""
    ready = [number for number in (profile.get("steps") or {}).get("ready", ())[-8:] if number >= 0]
    return sum(ready) / len(ready) if ready and profile["running"] else 0.0
