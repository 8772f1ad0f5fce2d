"""Draws docs/figures/factors.svg and writes the table of docs/measured.md, from stored results: how much
faster millrace is than torch's loader, for each kind of data.

    python -m benchmarks.figures            # writes both
    python -m benchmarks.figures --check    # exit status 1 when they are not what the results say

Each side counts with its fastest entry: the number of workers, and of torch's side the way to write the
dataset, that is best for it. The factor is that of the medians over the quiet rounds of the latest run.
"""

from __future__ import annotations

import argparse
import math
import statistics
from dataclasses import dataclass
from html import escape
from pathlib import Path

from benchmarks.compare import read_results

ROOT = Path(__file__).resolve().parents[1]
RESULTS, FIGURE, PAGE = (
    ROOT / "benchmarks/results",
    ROOT / "docs/figures/factors.svg",
    ROOT / "docs/measured.md",
)
BEGIN, END = "<!-- factors -->", "<!-- /factors -->"
WIDTH, LEFT, RIGHT, ROW, TOP = 760, 330, 60, 28, 60
OURS, TEXT, GREY = "#c2571a", "#1d2733", "#5b6875"


@dataclass
class Task:
    """What is compared: where its records are, and how those of torch's side begin."""

    title: str
    file: str
    scenario: str
    against: str  # in words
    ours: tuple[str, ...] = ("millrace",)
    theirs: tuple[str, ...] = ("torch",)
    unit: str = "rows"


PHOTOS, LISTS, RECIPES = "epyc-2cpu", "picture_datasets/xeon-2cpu", "recipes/xeon-2cpu"
MEMORY, WORKERS = "in_memory/epyc-2cpu", "python_workers/epyc-2cpu"
PILLOW, SAME, ROWS = "torchvision on Pillow", "the same dataset", "TensorDataset"
TENSORS = ("torch_0", "torch_2")

TASKS = [
    Task(
        "photos in folders, random crops", PHOTOS, "imagenet_train", PILLOW, theirs=("torch_",), unit="photos"
    ),
    Task("Food101, a list of files", LISTS, "food101", PILLOW, unit="photos"),
    Task("CIFAR10, pictures in memory", LISTS, "cifar10", PILLOW, unit="pictures"),
    Task("photos with RandAugment", RECIPES, "rand_augment", PILLOW, unit="photos"),
    Task("SimCLR's pair of views", RECIPES, "simclr", PILLOW, unit="photos"),
    Task("photos that your own dataset opens", "lazy_pictures/xeon-2cpu", "train", SAME, unit="photos"),
    Task(
        "photos in tar shards",
        "tar_shards/epyc-2cpu",
        "train_crops",
        "webdataset in torch's loader",
        theirs=("webdataset_torch",),
        unit="photos",
    ),
    Task("tensors in memory, 64 bytes a row", MEMORY, "tiny_rows", ROWS, theirs=TENSORS),
    Task("tensors in memory, 602 kB a row", MEMORY, "wide_rows", ROWS, theirs=TENSORS),
    Task("Python dataset, 602 kB a sample, all read", WORKERS, "wide_rows_read", SAME, unit="batches"),
    Task("Python dataset, lists that are pickled", WORKERS, "lists", SAME, unit="batches"),
    Task(
        "lines of JSON, shuffled", "jsonl/epyc-2cpu", "numbers", "json.loads, lines in memory", unit="lines"
    ),
    Task("windows of tokens", "tokens/epyc-2cpu", "tokens", "whole batches by hand", unit="tokens"),
    Task("Parquet, shuffled rows", "tables/epyc-2cpu", "zstd", "a Hugging Face dataset", theirs=("hf",)),
    Task("HDF5, chunks of gzip", "arrays_on_disk/epyc-2cpu", "hdf5_gzip", "h5py in a dataset"),
]


@dataclass
class Found:
    """ours, theirs: the medians of the fastest entry of each side, a second; by: those of which machine."""

    task: Task
    ours: float
    theirs: float
    revision: str
    machine: str

    @property
    def factor(self) -> float:
        return self.ours / self.theirs


def rate_of(record: dict) -> float:
    return next(
        value for key, value in record.items() if key.endswith("_per_s") and not key.startswith("memcpy")
    )


def found(task: Task) -> Found:
    records = read_results(RESULTS / f"{task.file}.jsonl")
    records = [
        r for r in records if r.get("scenario") == task.scenario and r["kind"] in ("epoch", "python_workers")
    ]
    if task.file == PHOTOS:
        records = [r for r in records if r["workers"] == 2]
    records = [r for r in records if r["run"] == records[-1]["run"]]

    def best(names: tuple[str, ...]) -> float:
        entries = {r["loader"] for r in records if r["loader"].startswith(names)}
        if not entries:
            raise ValueError(f"{task.file}.jsonl has no {names} of {task.scenario}")
        return max(statistics.median(rates(entry)) for entry in entries)

    def rates(entry: str) -> list[float]:
        rounds = [r for r in records if r["loader"] == entry]
        return [rate_of(r) for r in [r for r in rounds if r.get("quiet", True)] or rounds]

    return Found(
        task, best(task.ours), best(task.theirs), records[-1]["revision"], task.file.rpartition("/")[2]
    )


def draw(all_found: list[Found]) -> str:
    """Bars on a logarithmic scale, the largest factor on top."""
    order = sorted(all_found, key=lambda f: -f.factor)
    most = max(f.factor for f in order)
    scale = (WIDTH - LEFT - RIGHT) / math.log10(most)
    height = TOP + ROW * len(order) + 12
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}"'
        f' viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="13">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="10" y="22" font-size="16" fill="{TEXT}">Times as fast as torch\'s loader</text>',
        f'<text x="10" y="40" font-size="11" fill="{GREY}">two CPUs; each at its best; logarithmic</text>',
    ]
    for mark in (1, 3, 10, 30, 100):
        if mark <= most:
            x = f"{LEFT + scale * math.log10(mark):.1f}"
            ends = f'y1="{TOP - 4}" y2="{height - 8}"'
            parts.append(f'<line x1="{x}" x2="{x}" {ends} stroke="#d7dde3"/>')
            middle = f'x="{x}" y="{TOP - 8}" text-anchor="middle"'
            parts.append(f'<text {middle} font-size="10" fill="{GREY}">{mark}</text>')
    for number, each in enumerate(order):
        y, width = TOP + ROW * number, max(scale * math.log10(max(each.factor, 1)), 1)
        end = f'x="{LEFT - 8}" y="{y + 14}" text-anchor="end"'
        parts.append(f'<text {end} fill="{TEXT}">{escape(each.task.title)}</text>')
        size = f'width="{width:.1f}" height="{ROW - 8}"'
        parts.append(f'<rect x="{LEFT}" y="{y}" {size} rx="2" fill="{OURS}"/>')
        parts.append(
            f'<text x="{LEFT + width + 6:.1f}" y="{y + 14}" fill="{TEXT}">{shown(each.factor)}</text>'
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


def shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 20 else f"{value:.1f}"


def table(all_found: list[Found]) -> str:
    """Markdown, in the order of the figure."""
    lines = [
        "| data | compared with | torch's loader, a second | millrace, a second | times as fast | results |"
    ]
    lines.append("|---|---|---:|---:|---:|---|")
    for each in sorted(all_found, key=lambda f: -f.factor):
        unit = each.task.unit
        results = f"[{each.machine}](../benchmarks/results/{each.task.file}.jsonl), {each.revision[:7]}"
        cells = [each.task.title, each.task.against, f"{each.theirs:,.0f} {unit}", f"{each.ours:,.0f} {unit}"]
        lines.append(f"| {' | '.join(cells)} | **{shown(each.factor)}** | {results} |")
    return "\n".join(lines)


def page_with(text: str, rows: str) -> str:
    before, _, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"the page has no lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{rows}\n{END}{after}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args().check
    all_found = [found(task) for task in TASKS]
    made = {FIGURE: draw(all_found), PAGE: page_with(PAGE.read_text(), table(all_found))}
    stale = [path for path, text in made.items() if not path.exists() or path.read_text() != text]
    for path in stale:
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(made[path])
        print(path.relative_to(ROOT), "is not what the results say" if check else "is written")
    return int(check and bool(stale))


if __name__ == "__main__":
    raise SystemExit(main())
