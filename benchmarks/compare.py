"""Prints the tables of stored results, in Markdown.

    python -m benchmarks.compare RESULTS.jsonl [--scenario ...] [--workers 2] [--against NAME] [--readme
    README.md]

Medians over the quiet rounds of the latest run of each scenario and number of workers. The factor is
`against` (millrace) over the row's loader, round by round (both worked within the same seconds), as median
with a 95 % bootstrap interval. --readme replaces what stands between the lines "<!-- results -->" and "<!--
/results -->" of that file.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path

BEGIN, END = "<!-- results -->", "<!-- /results -->"


def read_results(path: str | Path) -> list[dict]:
    with open(path) as f:
        return [json.loads(line) for line in f if line.strip()]


def latest_runs(records: list[dict]) -> dict[tuple[str, int], list[dict]]:
    """Records by (scenario, workers), of the last run of each."""
    last = {(r["scenario"], r["workers"]): r["run"] for r in records}
    return {
        key: [r for r in records if (r["scenario"], r["workers"], r["run"]) == (*key, run)]
        for key, run in last.items()
    }


def kept_epochs(run: list[dict], loader: str) -> list[dict]:
    """The loader's timed epochs: of quiet rounds, or of all when no round was quiet."""
    epochs = [r for r in run if r["kind"] == "epoch" and r["loader"] == loader]
    return [r for r in epochs if r["quiet"]] or epochs


def interval(
    values: list[float], statistic: Callable = statistics.median, draws: int = 4000
) -> tuple[float, float]:
    """95 % bootstrap interval of the statistic; the same values give the same interval."""
    rng = random.Random(0)
    drawn = sorted(statistic(rng.choices(values, k=len(values))) for _ in range(draws))
    return drawn[round(0.025 * (draws - 1))], drawn[round(0.975 * (draws - 1))]


def factors(
    run: list[dict], loader: str, against: str, value: Callable[[dict], float] = itemgetter("images_per_s")
) -> list[float]:
    """The value of `against` over that of `loader`, for each round that both have."""
    ours = {r["repeat"]: value(r) for r in kept_epochs(run, against)}
    theirs = {r["repeat"]: value(r) for r in kept_epochs(run, loader)}
    return [ours[repeat] / theirs[repeat] for repeat in sorted(ours.keys() & theirs.keys())]


def told(ratios: list[float], form: str = ".2f", unit: str = "×") -> str:
    """Their median and its interval."""
    low, high = interval(ratios)
    return f"{statistics.median(ratios):{form}} {unit} ({low:{form}} – {high:{form}})"


def rates_table(
    run: list[dict],
    rate: str,
    heading: str,
    columns: dict[str, tuple[Callable[[dict], float | None], str]],
    best: str = "millrace",
    scale: float = 1,
    form: str = ",.0f",
) -> str:
    """The loaders of one scenario, fastest first: the median and range of record[rate] / scale, the median of
    each of the columns, given as
    (value of a record, its format), and by how much `best` is faster: of the loaders whose names begin so,
    the fastest one.
    """
    rates = {}
    for loader in dict.fromkeys(r["loader"] for r in run if r["kind"] == "epoch"):
        rates[loader] = [r[rate] / scale for r in kept_epochs(run, loader)]
    order = sorted(rates, key=lambda loader: -statistics.median(rates[loader]))
    fastest = next(loader for loader in order if loader.startswith(best))
    names = ["loader", heading, "min – max", *columns, f"{best} is faster by"]
    lines = [f"| {' | '.join(names)} |", f"|---|{'---:|' * (len(names) - 1)}"]
    for loader in order:
        cells = [
            loader,
            f"**{statistics.median(rates[loader]):{form}}**",
            f"{min(rates[loader]):{form}} – {max(rates[loader]):{form}}",
        ]
        for value, shape in columns.values():
            values = [value(r) for r in kept_epochs(run, loader)]
            cells.append("" if None in values else f"{statistics.median(values):{shape}}")
        cells.append("" if loader == fastest else told(factors(run, loader, fastest, itemgetter(rate))))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def summary(run: list[dict], loader: str) -> dict:
    """The numbers of one row but the factor; None where nothing was measured."""

    def values(kind: str, field: str) -> list[float]:
        return [r[field] for r in run if r["kind"] == kind and r["loader"] == loader and not r.get("warmup")]

    epochs = kept_epochs(run, loader)
    rates = [r["images_per_s"] for r in epochs]
    first = values("first", "seconds")
    peak, torch_only = values("memory", "peak_pss_bytes"), values("memory", "import_torch_pss_bytes")
    return {
        "loader": loader,
        "rate": statistics.median(rates),
        "low": min(rates),
        "high": max(rates),
        "epochs": len(epochs),
        "cpu": statistics.median(r["cpu_s_per_1000"] for r in epochs),
        "others": max(r["others_share"] for r in epochs),
        "first_ms": statistics.median(first) * 1000 if first else None,
        "memory_mb": (max(peak) - min(torch_only)) / 1e6 if peak else None,
    }


def table(run: list[dict], against: str = "millrace") -> str:
    """One scenario at one number of workers, fastest first."""
    loaders = {r["loader"] for r in run if r["kind"] == "epoch"}
    rows = sorted((summary(run, loader) for loader in loaders), key=lambda row: -row["rate"])
    lines = [
        (
            "| loader | images/s | min – max | CPU s per 1,000 | first batch, ms | memory above torch, MB | "
            f"{against} is faster by |"
        ),
        "|---|---:|---:|---:|---:|---:|---:|",
    ]

    def number(value: float | None) -> str:
        return "" if value is None else f"{value:,.0f}"

    for r in rows:
        ratios = factors(run, r["loader"], against) if r["loader"] != against else []
        factor = told(ratios) if ratios else ""
        lines.append(
            f"| {r['loader']} | **{r['rate']:,.0f}** | {r['low']:,.0f} – {r['high']:,.0f} | {r['cpu']:.2f} | "
            f"{number(r['first_ms'])} | {number(r['memory_mb'])} | {factor} |"
        )
    return "\n".join(lines)


def report(
    records: list[dict],
    against: str = "millrace",
    scenarios: list[str] | None = None,
    workers: list[int] | None = None,
) -> str:
    """The tables (all by default), each under a line that says on what and how it was measured."""
    parts = []
    for (scenario, count), run in latest_runs(records).items():
        epochs = [r for r in run if r["kind"] == "epoch"]
        if (scenarios and scenario not in scenarios) or (workers and count not in workers) or not epochs:
            continue
        machine, data = run[0]["machine"], run[0]["data"]
        kept = kept_epochs(run, epochs[0]["loader"])
        parts.append(
            f"**{scenario}**, {count} worker{'s' * (count != 1)} on as many CPUs of {machine['cpu']};"
            f" {len(kept)} epochs of {kept[0]['images']:,} images each, {data['mean_bytes'] / 1000:.0f} kB in"
            f" the mean; revision {run[0]['revision']}, {run[0]['run'][:10]}.\n\n{table(run, against)}"
        )
        parts += [f"{r['loader']} was left out: {r['reason']}" for r in run if r["kind"] == "left out"]
    return "\n\n".join(parts)


def replace_block(text: str, block: str) -> str:
    before, _, rest = text.partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise ValueError(f"the file has no lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{block}\n{END}{after}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results")
    parser.add_argument("--scenario", nargs="+")
    parser.add_argument("--workers", nargs="+", type=int)
    parser.add_argument("--against", default="millrace")
    parser.add_argument("--readme", type=Path)
    arguments = parser.parse_args()
    text = report(read_results(arguments.results), arguments.against, arguments.scenario, arguments.workers)
    print(text)
    if arguments.readme:
        arguments.readme.write_text(replace_block(arguments.readme.read_text(), text))


if __name__ == "__main__":
    main()
