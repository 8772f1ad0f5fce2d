"""The profile as one dict of JSON's types, and the causes of the consumer's lost time.

The consumer's lost time is its wall time without `step`. Time that the consumer spent itself (start, draw,
copy, handover, stages made inside `next()`) is booked directly. Time that it waited for a batch is divided
among the stages in proportion to the workers' busy time: a stage that keeps all workers busy keeps the
consumer waiting. This is a model, right as long as batches are alike; it does not see which batch was late.
"""

from __future__ import annotations

from typing import Any

from .. import _core
from .stages import ENDED, HANDOVER, IDLE, MAKING, NAMES, SAMPLE, START, STEP, WAIT, Profiler, notes_of

VERSION = 1

SMALL_LOSS = 0.05
"""Below this share of the time a loader that costs nothing would gain 5 % at most, as much as two runs
differ: the consumer is the bottleneck then.
"""

_MOST_HOT = 20
_OWN = [NAMES[stage] for stage in (*range(START, STEP + 1),) if stage != WAIT]


def snapshot(record: Any, steps: bool = False) -> dict[str, Any] | None:
    """The profile of a RunRecord's iterator, as docs/profile.md has it; None where MILLRACE_PROFILE=0 keeps
    none.
    """
    if record.profiler is None:
        return record.frozen_profile
    if not _core.StageClock.enabled:
        return None
    return _of(record, record.profiler, steps)


def _of(record: Any, profiler: Profiler, steps: bool) -> dict[str, Any]:
    reading = profiler.clock.read()
    stage, born, until, wall, cpu = reading or (ENDED, 0, 0, [0] * len(NAMES), [0] * len(NAMES))
    rows = profiler.rows()
    consumer = {
        "start": wall[START] * 1e-9,
        "draw": wall[NAMES.index("draw")] * 1e-9,
        "wait": (wall[WAIT] + wall[IDLE]) * 1e-9,
        "make": sum(wall[:IDLE]) * 1e-9,
        "copy": wall[NAMES.index("copy")] * 1e-9,
        "handover": wall[HANDOVER] * 1e-9,
        "step": wall[STEP] * 1e-9,
    }
    wall_seconds = (until - born) * 1e-9
    split = _Split()
    made = _made_by_consumer(wall, cpu, split, profiler.clock.read_note())
    stages = {name: {"wall": made[name][0], "cpu": made[name][1]} for name in MAKING}
    busy = dict.fromkeys(MAKING, 0.0)
    workers = []
    for row in rows:
        worker = row.as_dict()
        split.divide(row.note, worker["seconds"], worker["cpu_seconds"])
        workers.append(worker)
        for name in MAKING:
            spent = worker["seconds"].get(name, 0.0)
            stages[name]["wall"] += spent
            stages[name]["cpu"] += worker["cpu_seconds"].get(name, 0.0)
            busy[name] += spent
        busy["collate"] += worker["seconds"].get("send", 0.0)  # what a batch costs after its samples
    late = min((row.reading[1] + row.reading[3][START] for row in rows), default=0) - born - wall[START]
    blame = _blame(consumer, late * 1e-9, {name: wall_of for name, (wall_of, _) in made.items()}, busy)
    counters = record.stats()
    result = {
        "version": VERSION,
        "engine": record.engine,
        "native": profiler.native,
        "running": stage != ENDED and reading is not None,
        "epoch": record.epoch,
        "settings": {**profiler.settings, "cores": _core.cpu_budget()["cpus"]},
        "started": profiler.started,
        "wall_seconds": wall_seconds,
        "process_cpu_seconds": profiler.process_cpu(),
        "contention": profiler.contention(),
        **profiler.counts(counters),
        "consumer": consumer,
        "first_wait": profiler.clock.first_wait_ns * 1e-9,
        "workers": workers,
        "stages": stages,
        "hot": split.hot(),
        "blame": blame,
        "bottleneck": bottleneck_of(blame, consumer, wall_seconds),
        "queue": {"slots": counters["slots"], "overflow_slots": counters["overflow_slots"]},
    }
    if "remote" in counters:
        result["remote"] = counters["remote"]
    if steps:
        kept_from, enter, leave, ready = profiler.clock.steps()
        result["steps"] = {
            "kept_from": kept_from,
            "enter": [(time - born) * 1e-9 for time in enter],
            "leave": [(time - born) * 1e-9 for time in leave],
            "ready": ready,
        }
    return result


def _made_by_consumer(
    wall: list[int], cpu: list[int], split: _Split, note: bytes
) -> dict[str, tuple[float, float]]:
    """Seconds of wall and CPU time by stage; `send`, which nobody does here, is what a batch costs after its
    samples.
    """
    rest = slice(SAMPLE + 1, IDLE)
    seconds, cpu_seconds = (
        {name: times[stage] * 1e-9 for stage, name in enumerate(MAKING)} for times in (wall, cpu)
    )
    seconds["collate"] += sum(wall[rest]) * 1e-9
    cpu_seconds["collate"] += sum(cpu[rest]) * 1e-9
    split.divide(note, seconds, cpu_seconds)
    return {name: (seconds[name], cpu_seconds[name]) for name in MAKING}


def _blame(
    consumer: dict[str, float], late: float, made: dict[str, float], busy: dict[str, float]
) -> dict[str, float]:
    """Seconds that the consumer lost, by their cause; they sum to its wall time without `step`.

    `late`: how long after `start` the first worker was ready to work; as far as the consumer waited, that is
        part of starting them.
    """
    blame = dict(made)
    blame |= {name: consumer[name] for name in _OWN if name != "step"}
    starting = min(max(0.0, late), consumer["wait"])
    blame["start"] += starting
    wait, total = consumer["wait"] - starting, sum(busy.values())
    for name in MAKING:
        if total > 0:
            blame[name] += wait * busy[name] / total
    if total == 0:  # nobody says what kept them
        blame["sample"] += wait
    return {name: seconds for name, seconds in blame.items() if seconds > 0}


def bottleneck_of(blame: dict[str, float], consumer: dict[str, float], wall_seconds: float) -> str:
    """The cause that costs the most; "consumer" if the loader costs next to nothing. Starting is no
    bottleneck: it comes once.
    """
    start = blame.get("start", 0.0)
    lost = wall_seconds - consumer["step"] - start
    candidates = {name: seconds for name, seconds in blame.items() if name != "start"}
    if not candidates or lost <= SMALL_LOSS * (wall_seconds - start):
        return "consumer"
    return max(candidates, key=candidates.__getitem__)


class _Split:
    """What StackSamplers saw of the workers' Python code: their notes, put together."""

    def __init__(self) -> None:
        self._hits: dict[tuple[str, str], float] = {}

    def divide(self, note: bytes, seconds: dict[str, float], cpu_seconds: dict[str, float]) -> None:
        """Divides `sample` of a worker's seconds, in place, as its note says."""
        notes = notes_of(note)
        for stage, where, hits in notes.get("hot", ()):
            self._hits[stage, where] = self._hits.get((stage, where), 0.0) + hits
        for key, times in (("split", seconds), ("cpu", cpu_seconds)):
            split = {name: hits for name, hits in notes.get(key, {}).items() if name in MAKING and hits > 0}
            total, whole = sum(split.values()), times.get("sample", 0.0)
            if total and whole:
                times["sample"] = 0.0
                for name, hits in split.items():
                    times[name] = times.get(name, 0.0) + whole * hits / total

    def hot(self) -> list[dict[str, Any]]:
        total = sum(self._hits.values())
        most = sorted(self._hits.items(), key=lambda item: -item[1])[:_MOST_HOT]
        return [{"stage": stage, "where": where, "share": hits / total} for (stage, where), hits in most]
