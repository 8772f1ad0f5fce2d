"""A profile as Chrome's trace events: the JSON that Perfetto and chrome://tracing draw.

Track 1 is the training loop: one event for each time in next() and for each step of its own. Counters show
how many batches were ready.
What workers did is known as sums only: their tracks, in a process of their own, show these end to end, not
when they happened.
Source of the format: Google's "Trace Event Format" (events X, C and M; times in microseconds).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .summary import Summary, step_times

_LOOP, _WORKERS = 1, 2  # pids


def trace_events(profile: Mapping[str, Any]) -> dict[str, Any]:
    summary = Summary(profile)
    steps = profile.get("steps") or {}
    enter, leave, waits, own = step_times(steps, summary.wall)
    kept_from, ready = int(steps.get("kept_from") or 0), list(steps.get("ready") or [])
    events = [_named(_LOOP, "millrace loader"), _named(_LOOP, "training loop", 1)]
    if kept_from == 0 and (start := summary.consumer.get("start", 0.0)) > 0:
        events.append(_span(_LOOP, 1, "start", 0.0, min(start, enter[0]) if enter else start, {}))
    for i, (begin, end) in enumerate(zip(enter, leave)):
        number = {"step": kept_from + i}
        events += [
            _span(_LOOP, 1, "wait", begin, waits[i], number),
            _span(_LOOP, 1, "step", end, own[i], number),
        ]
        if i < len(ready) and ready[i] >= 0:
            count = {"batches": ready[i]}
            events.append({"ph": "C", "pid": _LOOP, "name": "ready batches", "ts": _us(begin), "args": count})
    if summary.workers:
        events.append(_named(_WORKERS, "workers: sums over the run, end to end"))
    for track, (name, parts) in enumerate(summary.workers.items(), 1):
        events.append(_named(_WORKERS, name, track))
        begin = 0.0
        for stage, seconds in parts.items():
            events.append(
                _span(
                    _WORKERS, track, stage, begin, seconds, {"share": round(seconds / sum(parts.values()), 4)}
                )
            )
            begin += seconds
    about = {
        key: profile.get(key) for key in ("engine", "epoch", "batches", "samples", "bottleneck", "settings")
    }
    return {"displayTimeUnit": "ms", "otherData": about, "traceEvents": events}


def _us(seconds: float) -> float:
    return round(seconds * 1e6, 1)


def _span(
    pid: int, tid: int, name: str, begin: float, seconds: float, args: dict[str, Any]
) -> dict[str, Any]:
    return {
        "ph": "X",
        "cat": "millrace",
        "pid": pid,
        "tid": tid,
        "name": name,
        "ts": _us(begin),
        "dur": _us(seconds),
        "args": args,
    }


def _named(pid: int, name: str, tid: int = 0) -> dict[str, Any]:
    return {
        "ph": "M",
        "pid": pid,
        "tid": tid,
        "name": "thread_name" if tid else "process_name",
        "args": {"name": name},
    }
