"""A BenchResult as an HTML page, or as a picture: throughput over workers, times of batches, waits over
steps.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from millrace.errors import UnavailableError

from ..report.scales import amount
from ..texts import count_text
from .configurations import KINDS
from .result import HEAD, BenchResult, cells

_MOST_STEPS = 1000  # of each side in the chart of waits


@dataclass(frozen=True)
class Chart:
    """`kind`: "scatter", "histogram" or "line"; `series`: {name: (x, y)}, of a histogram {name: values}; the
    last axis is in seconds, but for the scatter.
    """

    title: str
    kind: str
    x: str
    series: dict[str, Any]
    note: str = ""


def charts(result: BenchResult) -> Iterator[Chart]:
    """What the page and the picture show."""
    over: dict[str, tuple[list[float], list[float]]] = {}
    for row in sorted(result.rows, key=lambda row: row.configuration.workers):
        c = row.configuration
        workers, rates = over.setdefault("torch" if c.side == "torch" else KINDS[c.method], ([], []))
        workers += [c.workers] * len(row.rates)
        rates += row.rates
    note = "Each dot is one measurement; the line goes through their medians."
    yield Chart("Throughput over workers", "scatter", "workers", over, note)
    sides = {name: row for name, row in (("millrace", result.best), ("torch", result.torch)) if row}
    between = {
        name: [b - a for record in row.records for a, b in itertools.pairwise([0.0, *record["ends"]])]
        for name, row in sides.items()
    }
    yield Chart("Time from batch to batch", "histogram", "time", between)
    waits = {name: row.records[-1]["waits"][:_MOST_STEPS] for name, row in sides.items()}
    waited = {name: (list(range(len(times))), times) for name, times in waits.items() if times}
    note = "How long the loop waited for each batch, in one measurement."
    yield Chart("Waits over steps", "line", "step", waited, note)


def write_html(result: BenchResult, path: str) -> None:
    """One file, whole or not at all. OSError where it cannot be written."""
    from ..report import svg
    from ..report.page import Page, pre, table

    page = Page(f"bench: {result.name}", result.title())
    best = result.best
    if result.stopped:
        page.callout("Stopped before it was through: this is what was measured until then.", bad=True)
    if best is not None:
        tiles = {
            "samples per second": count_text(best.rate),
            str(best.configuration): "best",
            "first batch": amount(best.first_seconds, "s"),
        }
        if result.speedup is not None:
            tiles["against torch's loader at its best"] = f"{result.speedup:.2f} x"
        if result.step_seconds:
            tiles["of the time waiting"] = f"{100 * best.wait_share:.1f} %"
        page.tiles(tiles)
    if result.best_line:
        line = pre(f"from millrace import DataLoader\n{result.best_line}")
        page.section("Arguments", line, note="\n".join(result.remarks()))
    for chart in charts(result):
        if chart.kind == "histogram":
            drawn = svg.histogram(chart.series, svg.Axis(chart.x, "s", log=True))
        else:
            up = svg.Axis("samples/s") if chart.kind == "scatter" else svg.Axis("wait", "s")
            drawn = svg.scatter(chart.series, svg.Axis(chart.x), up)
        page.section(chart.title, drawn, note=chart.note)
    failures = "\n".join(f"{configuration}: {why}" for configuration, why in result.failures.items())
    page.section("All configurations", table(map(cells, result.rows), HEAD), note=failures)
    page.data("bench", result.to_json())
    page.save(path)


def write_png(result: BenchResult, path: str) -> None:
    """UnavailableError without matplotlib."""
    pyplot = matplotlib()
    figure, every = pyplot.subplots(3, 1, figsize=(9, 11), layout="constrained")
    figure.suptitle(result.title(), wrap=True)
    for axes, chart in zip(every, charts(result)):
        axes.set(title=chart.title, xlabel=chart.x)
        for name, points in chart.series.items():
            if chart.kind == "histogram":
                axes.hist([1000 * value for value in points], bins=60, alpha=0.6, label=name)
                axes.set(xlabel=f"{chart.x} (ms)", ylabel="batches", yscale="log")
            elif chart.kind == "scatter":
                axes.plot(*points, "o", label=name)
                axes.set(ylabel="samples/s", ylim=(0, None))
            else:
                axes.plot(points[0], [1000 * value for value in points[1]], label=name, linewidth=0.8)
                axes.set(ylabel="wait (ms)")
        if chart.series:
            axes.legend()
    figure.savefig(path, format="png", dpi=120)
    pyplot.close(figure)


def matplotlib() -> Any:
    """matplotlib.pyplot, drawing into files."""
    try:
        import matplotlib as package
    except ImportError:
        raise UnavailableError(
            "--png draws with matplotlib, which is missing: pip install matplotlib; --html needs nothing"
        ) from None
    package.use("Agg")
    import matplotlib.pyplot as pyplot

    return pyplot
