"""Draws stored results as SVG: one bar per loader (the median), one dot per epoch, so that the spread is
seen.

python -m benchmarks.plot benchmarks/results/NAME.jsonl --out benchmarks/results     #
NAME-imagenet_train-2.svg, ...
"""

from __future__ import annotations

import argparse
import statistics
from html import escape
from pathlib import Path

from benchmarks.compare import kept_epochs, latest_runs, read_results

WIDTH, LEFT, RIGHT, ROW, TOP = 760, 130, 70, 30, 64
OURS, THEIRS, DOT = "#c2571a", "#8fa3b5", "#1d2733"


def draw(run: list[dict], field: str = "images_per_s", title: str = "") -> str:
    """An SVG picture of one run: `field` of every kept epoch, best loader on top."""
    loaders = {r["loader"] for r in run if r["kind"] == "epoch"}
    values = {loader: [r[field] for r in kept_epochs(run, loader)] for loader in loaders}
    order = sorted(loaders, key=lambda loader: -statistics.median(values[loader]))
    scale = (WIDTH - LEFT - RIGHT) / max(max(v) for v in values.values())
    machine = run[0]["machine"]
    note = (
        f"{machine['cpu']}, {run[0]['workers']} workers on as many CPUs; revision {run[0]['revision']},"
        f" {run[0]['run'][:10]}"
    )
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{TOP + ROW * len(order) + 10}" '
            'font-family="sans-serif" font-size="13">'
        ),
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="10" y="24" font-size="16" fill="{DOT}">{escape(title)}</text>',
        f'<text x="10" y="44" font-size="11" fill="#5b6875">{escape(note)}</text>',
    ]
    for i, loader in enumerate(order):
        y = TOP + ROW * i
        median = statistics.median(values[loader])
        parts.append(
            f'<text x="{LEFT - 8}" y="{y + 15}" text-anchor="end" fill="{DOT}">{escape(loader)}</text>'
        )
        parts.append(
            f'<rect x="{LEFT}" y="{y}" width="{median * scale:.1f}" height="{ROW - 9}" rx="2" '
            f'fill="{OURS if loader == "millrace" else THEIRS}"/>'
        )
        parts += [
            f'<circle cx="{LEFT + v * scale:.1f}" cy="{y + 10}" r="2.2" fill="{DOT}" fill-opacity="0.55"/>'
            for v in values[loader]
        ]
        parts.append(
            f'<text x="{LEFT + max(values[loader]) * scale + 8:.1f}" y="{y + 15}"'
            f' fill="{DOT}">{median:,.0f}</text>'
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for (scenario, workers), run in latest_runs(read_results(arguments.results)).items():
        if any(r["kind"] == "epoch" for r in run):
            path = arguments.out / f"{arguments.results.stem}-{scenario}-{workers}.svg"
            path.write_text(draw(run, title=f"{scenario}: images per second"))
            print(path)


if __name__ == "__main__":
    main()
