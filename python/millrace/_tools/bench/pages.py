"""A BenchResult as an HTML page, or as a picture: throughput over workers, times of batches, waits over
steps.
"""

from __future__ import annotations

from typing import Any

from ...errors import UnavailableError
from .result import BenchResult, Row, number
from .search import seconds

_KINDS = {"native": "native", "process": "processes", "thread": "threads"}
_MOST_STEPS = 1000  # of each side in the chart of waits


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
            "samples per second": number(best.rate),
            str(best.configuration): "best",
            "first batch": seconds(best.first_seconds),
        }
        if result.speedup is not None:
            tiles["against torch's loader at its best"] = f"{result.speedup:.2f} x"
        if result.step_seconds:
            tiles["of the time waiting"] = f"{100 * best.wait_share:.1f} %"
        page.tiles(tiles)
    if result.best_line:
        page.section(
            "Arguments",
            pre(f"from millrace import DataLoader\n{result.best_line}"),
            note="\n".join(result.remarks()),
        )
    page.section(
        "Throughput over workers",
        svg.scatter(_over_workers(result), svg.Axis("workers"), svg.Axis("samples/s")),
        note="Each dot is one measurement; the line goes through their medians.",
    )
    sides = _sides(result)
    between = {name: _between(row) for name, row in sides.items()}
    page.section("Time from batch to batch", svg.histogram(between, svg.Axis("time", "s", log=True)))
    waits = {name: (list(range(len(times))), times) for name, row in sides.items() if (times := _waits(row))}
    page.section(
        "Waits over steps",
        svg.scatter(waits, svg.Axis("step"), svg.Axis("wait", "s")),
        note="How long the loop waited for each batch, in one measurement.",
    )
    page.section(
        "All configurations",
        table(
            [_cells(row) for row in result.rows],
            [
                "configuration",
                "samples/s",
                "lowest",
                "highest",
                "measurements",
                "waiting",
                "first batch",
                "CPU s per 1,000",
                "memory",
            ],
        ),
        note="\n".join(f"{configuration}: {why}" for configuration, why in result.failures.items()),
    )
    page.data("bench", result.to_json())
    page.save(path)


def write_png(result: BenchResult, path: str) -> None:
    """UnavailableError without matplotlib."""
    pyplot = matplotlib()
    figure, (over, between, waits) = pyplot.subplots(3, 1, figsize=(9, 11), layout="constrained")
    figure.suptitle(result.title(), wrap=True)
    for name, (workers, rates) in _over_workers(result).items():
        over.plot(workers, rates, "o", label=name)
    over.set(xlabel="workers", ylabel="samples/s", ylim=(0, None))
    over.legend()
    for name, row in _sides(result).items():
        between.hist([1000 * value for value in _between(row)], bins=60, alpha=0.6, label=name)
        waits.plot([1000 * value for value in _waits(row)], label=name, linewidth=0.8)
    between.set(xlabel="ms from batch to batch", ylabel="batches", yscale="log")
    waits.set(xlabel="step", ylabel="ms waited")
    for axes in between, waits:
        if axes.get_legend_handles_labels()[0]:
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


def _over_workers(result: BenchResult) -> dict[str, tuple[list[float], list[float]]]:
    """{method or torch: (workers, samples/s)} of every measurement that counts, in ascending numbers of
    workers.
    """
    found: dict[str, tuple[list[float], list[float]]] = {}
    for row in sorted(result.rows, key=lambda row: row.configuration.workers):
        c = row.configuration
        workers, rates = found.setdefault("torch" if c.side == "torch" else _KINDS[c.method], ([], []))
        workers += [c.workers] * len(row.rates)
        rates += row.rates
    return found


def _sides(result: BenchResult) -> dict[str, Row]:
    return {
        name: row for name, row in (("millrace", result.best), ("torch", result.torch)) if row is not None
    }


def _between(row: Row) -> list[float]:
    return [
        end - begin for record in row.records for begin, end in zip([0.0, *record["ends"]], record["ends"])
    ]


def _waits(row: Row) -> list[float]:
    return row.records[-1]["waits"][:_MOST_STEPS]


def _cells(row: Row) -> list[Any]:
    return [
        str(row.configuration),
        round(row.rate, 1),
        round(row.low, 1),
        round(row.high, 1),
        len(row.rates),
        f"{100 * row.wait_share:.0f} %",
        seconds(row.first_seconds),
        float(f"{row.cpu_per_1000:.3g}"),
        f"{row.memory_bytes / 1e6:,.0f} MB",
    ]
