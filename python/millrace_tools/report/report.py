"""What `loader.report()` returns: a profile that prints itself as plain lines, and that can be saved as a
page, a trace or numbers.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Union

from millrace._common.regular_files import write_whole

from .loader_page import loader_page, notebook_block
from .metrics import scalars
from .scales import STYLE, amount
from .summary import MEANING, Summary, node_rows, remote_line
from .trace import trace_events

_BAR = 28
_MOST_WORKERS, _MOST_HOT = 16, 10

Row = tuple[str, float, float, str]  # name, seconds, share, what it is


def blocks(summary: Summary) -> Iterator[tuple[str, list[Row]]]:
    """(heading, rows) of each table there is something for."""
    wall = summary.wall or 1.0
    if summary.consumer:
        yield (
            "training loop",
            [(name, s, s / wall, MEANING.get(name, "")) for name, s in summary.consumer.items()],
        )
    if summary.blame and summary.lost:
        lost, lost_to = summary.lost, sorted(summary.blame.items(), key=lambda item: -item[1])
        yield "lost to", [(name, s, s / lost, MEANING.get(name, "")) for name, s in lost_to]
    if summary.stages_wall:
        whole = summary.worker_seconds or sum(summary.stages_wall.values())
        rows = [
            (
                stage,
                s,
                s / whole,
                f"{amount(summary.stages_cpu.get(stage, 0.0), 's')} of CPU; {MEANING.get(stage, '')}",
            )
            for stage, s in summary.stages_wall.items()
        ]
        if summary.idle:
            rows.append(("idle", summary.idle, summary.idle / whole, MEANING["idle"]))
        yield f"stages, of {amount(whole, 's')} of worker time", rows
    if len(summary.workers) > 1:
        rows = [
            (
                name,
                sum(parts.values()) - parts.get("idle", 0.0),
                1 - parts.get("idle", 0.0) / (sum(parts.values()) or 1.0),
                "",
            )
            for name, parts in list(summary.workers.items())[:_MOST_WORKERS]
        ]
        yield "busy", rows
    if summary.remote:
        yield "batches by node", node_rows(summary)


def notes(summary: Summary) -> list[str]:
    found = []
    if summary.batches:
        found.append(f"the first batch took {amount(summary.first_wait, 's')}")
    if len(summary.workers) > _MOST_WORKERS:
        found.append(f"{len(summary.workers) - _MOST_WORKERS} more workers are not listed")
    if overflow := summary.queue.get("overflow_slots"):
        found.append(
            f"{overflow:,} batches found all {summary.queue.get('slots', 0)} slots taken, and got memory of"
            " their own"
        )
    if summary.remote:
        found.append(remote_line(summary.remote))
    return found


def plain(summary: Summary, advice: str | None) -> str:
    lines = [summary.headline(), *(advice or summary.verdict()).splitlines()]
    for heading, rows in blocks(summary):
        lines += ["", heading]
        for name, seconds, share, meaning in rows:
            bar = "#" * round(_BAR * min(1.0, max(0.0, share)))
            line = f"  {name:<12} {amount(seconds, 's'):>9} {share:>7.1%}  {bar:<{_BAR}}  {meaning}"
            lines.append(line.rstrip())
    if summary.hot:
        lines += ["", "hot lines of your code"]
        lines += [
            f"  {entry['share']:>6.1%}  {entry['stage']:<10} {entry['where']}"
            for entry in summary.hot[:_MOST_HOT]
        ]
    if more := notes(summary):
        lines += ["", *more]
    return "\n".join(lines)


PathLike = Union[str, os.PathLike[str]]


class Report:
    """The profile of a loader: where its time went, up to the call.

    str() and print() give plain lines; notebooks draw it.

    Args:
        profile: the result of `loader.profile(steps=True)`.
        advice: the changes to make, with the verdict at the top as its first line. None: a verdict that
            follows from the profile alone.
    """

    def __init__(self, profile: Mapping[str, Any], advice: str | None = None) -> None:
        self.profile = profile
        self.advice = advice
        self.summary = Summary(profile)

    def __str__(self) -> str:
        return plain(self.summary, self.advice)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<style>{STYLE}</style>{notebook_block(self.summary, self.advice)}"

    def html(self) -> str:
        """The page that save() writes."""
        return loader_page(self.profile, self.advice).html()

    def save(self, path: PathLike = "report.html") -> Path:
        """Write a page, one file with everything in it.

        Raises:
            OSError: if the folder is missing or cannot be written to.
        """
        return write_whole(path, self.html())

    def save_trace(self, path: PathLike = "trace.json") -> Path:
        """Write the steps as Chrome's trace events, which ui.perfetto.dev and chrome://tracing draw.

        Raises:
            OSError: as save().
        """
        return write_whole(path, json.dumps(trace_events(self.profile), separators=(",", ":")))

    def to_tensorboard(self, writer: Any, step: int, prefix: str = "millrace") -> None:
        """Give the numbers to anything with add_scalar(tag, value, step), as torch.utils.tensorboard's
        SummaryWriter.
        """
        for name, value in scalars(self.summary).items():
            writer.add_scalar(f"{prefix}/{name}", value, step)
