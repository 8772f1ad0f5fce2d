"""The page of a loader's report: the waits of the training loop, with their causes and times, and the
workers' activity meanwhile.
"""

from __future__ import annotations

import datetime
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import svg
from .page import Html, Page, pre, table
from .scales import Axis, amount
from .summary import MEANING, WORKER, Summary, node_rows, ordered, remote_line, step_times

_MOST_WORKERS = 64
_TOOLS = (
    '<div class="tools"><button type="button" data-zoom-by="+" disabled>Zoom in</button><button type="button"'
    ' data-zoom-by="-" disabled>Zoom out</button><button type="button" data-zoom-by="0"'
    " disabled>All</button><span data-shown>the whole run</span></div>"
)


def loader_page(profile: Mapping[str, Any], advice: str | None) -> Page:
    summary = Summary(profile)
    page = Page("Where the time went", summary.headline())
    first, _, more = (advice or summary.verdict()).partition("\n")
    page.callout(first, bad=summary.batches > 0 and summary.lost_share > 0.1)
    if more:
        page.section("What to change", pre(textwrap.dedent(more)))
    page.tiles(
        {
            "of the time lost to the loader": f"{summary.lost_share:.1%}",
            "samples per second": amount(summary.samples_per_second),
            "batches": f"{summary.batches:,}",
            "until the first batch, in next()": amount(summary.first_wait, "s"),
            "bytes per second": amount(summary.bytes_per_second, "B/s") if summary.bytes else "–",
        }
    )
    _loop(page, summary)
    _time(page, profile, summary)
    _workers(page, summary)
    if summary.remote:
        _remote(page, summary)
    _hot(page, summary)
    _settings(page, profile, summary)
    page.data("profile", profile, digits=6)  # times to the microsecond: half the size
    page.script((Path(__file__).parent / "loader.js").read_text(encoding="utf-8"))
    return page


def notebook_block(summary: Summary, advice: str | None) -> str:
    """The report for a notebook's cell: the most important parts, on a background of its own, because themes
    of notebooks are not the browser's.
    """
    first, _, more = (advice or summary.verdict()).partition("\n")
    charts = [svg.stacked_bars({"training loop": summary.consumer}, Axis("time", "s"), shares=True)]
    if summary.workers:
        whole = ordered({**summary.stages_wall, "idle": summary.idle}, WORKER)
        charts.append(svg.stacked_bars({"workers": whole}, Axis("worker time", "s"), shares=True))
    head = f"<div>{svg.escape(summary.headline())}</div><div><b>{svg.escape(first)}</b></div>"
    return "".join([head, pre(textwrap.dedent(more)) if more else "", *map(svg.on_paper, charts)])


def _loop(page: Page, summary: Summary) -> None:
    whole = {"training loop": summary.consumer}
    bars = [svg.stacked_bars(whole, Axis("share of the time", "s"), shares=True)]
    if summary.blame and summary.lost > 0:
        lost = {"lost to": summary.blame}
        bars.append(svg.stacked_bars(lost, Axis("share of what was lost", "s"), shares=True))
    known = [
        (name, amount(s, "s"), f"{s / (summary.wall or 1):.1%}", MEANING.get(name, ""))
        for name, s in summary.consumer.items()
    ]
    page.section(
        "The training loop",
        *bars,
        table(known, ("", "time", "share", "")),
        note=(
            "Every second of the loop's thread. What is not its own code (step) is lost to the loader, and"
            " the second bar says to which stage: a wait is put down to what the workers were busy with"
            " meanwhile."
        ),
    )


def _time(page: Page, profile: Mapping[str, Any], summary: Summary) -> None:
    steps = profile.get("steps") or {}
    enter, _, waits, _ = step_times(steps, summary.wall)
    if not enter:
        page.section(
            "Over time",
            note="No step was taken, or the profile was asked for without its steps: stats(steps=True).",
        )
        return
    kept_from = int(steps.get("kept_from") or 0)
    latest = f" Shown are the latest {len(enter):,} of {kept_from + len(enter):,} steps." if kept_from else ""
    page.section(
        "Over time",
        _TOOLS,
        '<div class="zoomable" tabindex="0"></div>',  # loader.js draws them
        '<div class="tip" hidden></div>',
        note=(
            "A wait is the time inside next(). Drag over a stretch to see it closer; double-click, or press"
            f" 0, for the whole run; +, - and the arrows work, too.{latest}"
        ),
    )
    lasting = [w for w in waits if w > 0]
    if lasting:
        page.section(
            "How long steps waited",
            svg.histogram(
                {"wait": lasting}, Axis("time in next()", "s", log=True, low=max(1e-6, min(lasting)))
            ),
        )


def _workers(page: Page, summary: Summary) -> None:
    if summary.stages_wall:
        rows = {"wall": summary.stages_wall, "CPU": summary.stages_cpu}
        page.section(
            "Stages",
            svg.stacked_bars(rows, Axis("time, summed over workers", "s")),
            note=(
                "Much more wall than CPU time: a stage that waits, for a disk, a store, or for another"
                " thread. Else it computes."
            ),
        )
    if not summary.workers:
        return
    shown = dict(list(summary.workers.items())[:_MOST_WORKERS])
    more = len(summary.workers) - len(shown)
    page.section(
        "Workers",
        svg.stacked_bars(shown, Axis("time", "s"), bar=20 if len(shown) <= 16 else 12),
        note="idle: nothing was left to do, or no slot was free to put it in."
        + (f" {more} more are not shown." if more else ""),
    )


def _remote(page: Page, summary: Summary) -> None:
    rows = [
        (name, amount(seconds, "s"), f"{share:.1%}", words)
        for name, seconds, share, words in node_rows(summary)
    ]
    page.section(
        "Batches by node",
        table(rows, ("node", "its actors at work", "of the samples", "")),
        note=remote_line(summary.remote),
    )


def _hot(page: Page, summary: Summary) -> None:
    if summary.hot:
        rows = [
            (
                f"{entry['share']:.1%}",
                str(entry["stage"]),
                Html(f"<code>{svg.escape(str(entry['where']))}</code>"),
            )
            for entry in summary.hot
        ]
        page.section(
            "Hot lines of your code",
            table(rows, ("share", "stage", "where")),
            note="Where workers were found when they were looked at, now and then, while running Python.",
        )


def _settings(page: Page, profile: Mapping[str, Any], summary: Summary) -> None:
    settings = [
        (str(name), "–" if value is None else str(value))
        for name, value in (profile.get("settings") or {}).items()
    ]
    settings += [
        ("engine", summary.engine),
        ("slots", str(summary.queue.get("slots", "–"))),
        ("batches beyond the slots", str(summary.queue.get("overflow_slots", "–"))),
    ]
    if started := profile.get("started"):
        time = datetime.datetime.fromtimestamp(float(started), datetime.timezone.utc)
        settings.append(("started", time.strftime("%Y-%m-%d %H:%M:%S UTC")))
    page.section("Settings", table(settings))
