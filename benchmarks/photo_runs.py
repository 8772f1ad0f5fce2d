"""The command and the table of benchmarks whose scenarios are loaders over photos, in one process."""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.compare import latest_runs, rates_table
from benchmarks.harness import ROOT
from benchmarks.runs import hold_to_cpus, rounds_told, stored

WORKERS = 2


def photos(images: str, count: int) -> list[str]:
    """`count` of the JPEGs in the class folders of `images`, of all classes alike."""
    found = sorted(str(path) for path in Path(images).rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))
    if not found:
        raise SystemExit(f"{images}: no JPEGs")
    step = max(1, len(found) // count)
    return found[::step][:count]


def table(records: list[dict]) -> str:
    """A table for each scenario: the median and range of its rates, and CPU seconds."""
    columns: dict[str, tuple[Callable[[dict], float | None], str]] = {
        "CPU ms per picture": (lambda r: r["cpu_seconds"] / r["rows"] * 1e3, ".3f")
    }
    return "\n\n".join(
        f"**{scenario}**, {run[0]['pictures']:,} pictures, {workers} workers\n\n"
        + rates_table(run, "rows_per_s", "pictures/s", columns)
        for (scenario, workers), run in latest_runs(records).items()
    )


def run(
    text: str,
    folder: str,
    packages: Mapping[str, str],
    measure: Callable[[str, Any, int, list[int]], Iterable[dict]],
    more: Callable[[argparse.ArgumentParser], object] = lambda parser: None,
    files: Callable[[str, argparse.Namespace], Any] = lambda name, given: photos(given.images, given.photos),
) -> None:
    """The command line that `text` describes.

    packages: by scenario, what has to be installed for it. measure(scenario, files, rounds, CPUs) gives its
    records, which are appended to a file in benchmarks/results/`folder`; files(scenario, arguments) are the
    photos unless told otherwise.
    """
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenario", nargs="*", default=list(packages), help=", ".join(packages))
    parser.add_argument("--images", default=str(ROOT / "demo_data" / "photos"), help="class folders of JPEGs")
    parser.add_argument("--photos", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=15)
    out = f"benchmarks/results/{folder}/local.jsonl"
    parser.add_argument("--out", default=out, help="results are appended to this file")
    more(parser)
    given = parser.parse_args()
    cpus, records = hold_to_cpus(WORKERS), []
    for name in given.scenario:
        if importlib.util.find_spec(packages[name]) is None:
            print(f"{name} was left out: {packages[name]} is not installed")
            continue
        records += stored(measure(name, files(name, given), given.rounds, cpus), given.out)
    if records:
        print(f"{rounds_told(records)}\n\n{table(records)}\n")
