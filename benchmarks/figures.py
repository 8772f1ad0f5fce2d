"""Draws docs/figures/factors.svg, and makes the table of docs/measured.md, from stored results: how much
faster millrace is than torch's loader, for each kind of data.

    python -m benchmarks.figures    # draws it; python -m benchmarks.pages writes the table

Each side counts with its fastest entry: the number of workers, and of torch's side the way to write the
dataset, that is best for it. The factor is that of the medians over the quiet rounds of the latest run,
whichever machine it was on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from pathlib import Path

from benchmarks.latest import Run, latest

FIGURE = Path(__file__).resolve().parents[1] / "docs/figures/factors.svg"
WIDTH, LEFT, RIGHT, ROW, TOP = 760, 330, 60, 28, 60
OURS, TEXT, GREY = "#c2571a", "#1d2733", "#5b6875"


@dataclass
class Task:
    """What is compared: the folder of its results, "" for those beside the folders, and how the names of
    each side begin.
    """

    title: str
    folder: str
    scenario: str
    against: str  # in words
    ours: tuple[str, ...] = ("millrace",)
    theirs: tuple[str, ...] = ("torch",)
    unit: str = "rows"


LISTS, RECIPES, MEMORY, WORKERS = "picture_datasets", "recipes", "in_memory", "python_workers"
PILLOW, SAME, ROWS = "torchvision on Pillow", "the same dataset", "TensorDataset"
TENSORS = ("torch_0", "torch_2")

TASKS = [
    Task("photos in folders, random crops", "", "imagenet_train", PILLOW, theirs=("torch_",), unit="photos"),
    Task("Food101, a list of files", LISTS, "food101", PILLOW, unit="photos"),
    Task("CIFAR10, pictures in memory", LISTS, "cifar10", PILLOW, unit="pictures"),
    Task("photos with RandAugment", RECIPES, "rand_augment", PILLOW, unit="photos"),
    Task("SimCLR's pair of views", RECIPES, "simclr", PILLOW, unit="photos"),
    Task("photos that your own dataset opens", "lazy_pictures", "train", SAME, unit="photos"),
    Task(
        "photos in tar shards",
        "tar_shards",
        "train_crops",
        "webdataset in torch's loader",
        theirs=("webdataset_torch",),
        unit="photos",
    ),
    Task("tensors in memory, 64 bytes a row", MEMORY, "tiny_rows", ROWS, theirs=TENSORS),
    Task("tensors in memory, 602 kB a row", MEMORY, "wide_rows", ROWS, theirs=TENSORS),
    Task("Python dataset, 602 kB a sample, all read", WORKERS, "wide_rows_read", SAME, unit="batches"),
    Task("Python dataset, lists that are pickled", WORKERS, "lists", SAME, unit="batches"),
    Task("lines of JSON, shuffled", "jsonl", "numbers", "json.loads, lines in memory", unit="lines"),
    Task("windows of tokens", "tokens", "tokens", "whole batches by hand", unit="tokens"),
    Task("Parquet, shuffled rows", "tables", "zstd", "a Hugging Face dataset", theirs=("hf",)),
    Task("HDF5, chunks of gzip", "arrays_on_disk", "hdf5_gzip", "h5py in a dataset"),
]


@dataclass
class Found:
    """ours, theirs: the medians of the fastest entry of each side, a second."""

    task: Task
    run: Run
    ours: float
    theirs: float

    @property
    def factor(self) -> float:
        return self.ours / self.theirs


def found(task: Task) -> Found:
    run = latest(task.folder, task.scenario, **({} if task.folder else {"workers": 2}))
    return Found(task, run, *(run.median(run.fastest(side)) for side in (task.ours, task.theirs)))


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
        unit, run = each.task.unit, each.run
        results = f"[{run.machine}]({run.link}), {run.revision[:7]}"
        cells = [each.task.title, each.task.against, f"{each.theirs:,.0f} {unit}", f"{each.ours:,.0f} {unit}"]
        lines.append(f"| {' | '.join(cells)} | **{shown(each.factor)}** | {results} |")
    return "\n".join(lines)


if __name__ == "__main__":
    FIGURE.write_text(draw([found(task) for task in TASKS]))
