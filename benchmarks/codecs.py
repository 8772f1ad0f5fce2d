"""Formats: pictures per second of one thread, millrace's codecs against Pillow, the sides taking turns within
one process.

    python -m benchmarks.codecs --images demo_data/photos [--format png webp ...] [--count 150] [--rounds 7]
    [--out FILE.jsonl]

The photos are written again in each format first. Then every picture must be the same, byte for byte, decoded
by both sides. Each repeat is one line of JSON: `kind` is `whole` (a file's bytes to pixels in RGB) or `crop`
(to 224 x 224 from a RandomResizedCrop's box, the same boxes on both sides; Pillow decodes the whole picture
for it).
"""

from __future__ import annotations

import io
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from millrace import _core, transforms
from millrace.datasets import ImageFolder
from PIL import Image, features

from benchmarks import probes
from benchmarks.compare import told
from benchmarks.harness import quiet_rounds, run_facts
from benchmarks.runs import hold_to_cpus, options, rounds_told, stored
from benchmarks.scenarios.imagenet import epoch_indices, list_samples

SIZE = 224
FORMATS = {
    "png": ("PNG", {}),
    "png_optimised": ("PNG", {"compress_level": 9}),
    "webp": ("WEBP", {"quality": 85}),
    "webp_lossless": ("WEBP", {"lossless": True, "method": 2}),
    "jpeg": ("JPEG", {"quality": 90}),
}
Epoch = Callable[[], None]


def write_pictures(images: str, name: str, count: int, folder: Path) -> list[Path]:
    """Photos of `images` in the format `name`, under folder/all."""
    kind, options = FORMATS[name]
    samples = list_samples(images)
    (folder / "all").mkdir(parents=True)
    paths = []
    for i, index in enumerate(epoch_indices(len(samples), min(count, len(samples)))):
        paths.append(folder / "all" / f"{i:05}.{kind.lower()}")
        with Image.open(samples[index][0]) as photo:
            photo.convert("RGB").save(paths[-1], kind, **options)
    return paths


def open_rgb(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data)).convert("RGB")


def check(files: list[bytes]) -> None:
    for number, data in enumerate(files):
        pixels = _core.decode_image(data)
        if pixels is None or not np.array_equal(pixels, np.asarray(open_rgb(data))):
            raise AssertionError(f"picture {number} is not the same, or was left to Pillow")


def sides(folder: Path, files: list[bytes]) -> dict[str, dict[str, Epoch]]:
    """For each kind, one epoch of each side."""
    dataset = ImageFolder(
        folder, transforms.Compose([transforms.RandomResizedCrop(SIZE), transforms.PILToTensor()])
    )
    boxes = [dataset.draw(i, 1, 0)[0] for i in range(len(dataset))]
    paths = [path for path, _ in dataset.samples]

    def whole_millrace() -> None:
        for data in files:
            _core.decode_image(data)

    def whole_pillow() -> None:
        for data in files:
            np.asarray(open_rgb(data))

    def crop_millrace() -> None:
        for i in range(len(files)):
            dataset.at(i, 1, 0)

    def crop_pillow() -> None:
        for path, box in zip(paths, boxes):
            with open(path, "rb") as file:
                picture = Image.open(file).convert("RGB")
            edges = (box["left"], box["top"], box["left"] + box["width"], box["top"] + box["height"])
            np.asarray(picture.resize((SIZE, SIZE), Image.Resampling.BILINEAR, box=edges))

    return {
        "whole": {"millrace": whole_millrace, "pillow": whole_pillow},
        "crop": {"millrace": crop_millrace, "pillow": crop_pillow},
    }


def measure(images: str, name: str, count: int, rounds: int, cpus: list[int]) -> Iterator[dict]:
    """At least `rounds` quiet rounds, at most twice as many."""
    with tempfile.TemporaryDirectory() as place:
        print(f"{name}: writing and checking", file=sys.stderr, flush=True)
        files = [path.read_bytes() for path in write_pictures(images, name, count, Path(place))]
        check(files)
        common = {
            "scenario": name,
            "cpus": len(cpus),
            **run_facts(("pillow", "numpy")),
            "data": {"pictures": len(files), "bytes": sum(map(len, files))},
        }
        common["versions"] |= {
            library: features.version(library) for library in ("zlib_ng", "zlib", "webp", "libjpeg_turbo")
        }
        epochs = sides(Path(place), files)
        for kinds in epochs.values():
            for epoch in kinds.values():
                epoch()

        def one_round(repeat: int) -> list[dict]:
            records = []
            for kind, both in epochs.items():
                for side in list(both)[:: -1 if repeat % 2 else 1]:
                    timer = probes.Epoch(cpus)
                    both[side]()
                    records.append({**common, "kind": kind, "loader": side, "repeat": repeat, **timer.stop()})
            return records

        yield from quiet_rounds(rounds, one_round)


def table(records: list[dict]) -> str:
    """Pictures per CPU second, and Pillow's CPU time over millrace's, round by round, with its 95 %
    interval.
    """
    lines = [
        "| format | kB | whole, pictures/s | Pillow's | ratio | crop, pictures/s | Pillow's | ratio |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name in dict.fromkeys(record["scenario"] for record in records):
        mine = [r for r in records if r["scenario"] == name]
        mine = [r for r in mine if r["quiet"]] or mine
        data = mine[0]["data"]
        cells = [name, f"{data['bytes'] / data['pictures'] / 1e3:.0f}"]
        for kind in ("whole", "crop"):
            took = {
                side: {
                    r["repeat"]: r["cpu_seconds"] for r in mine if (r["kind"], r["loader"]) == (kind, side)
                }
                for side in ("millrace", "pillow")
            }
            ratios = [took["pillow"][repeat] / seconds for repeat, seconds in took["millrace"].items()]
            cells += [f"{data['pictures'] / statistics.median(took[side].values()):,.0f}" for side in took]
            cells.append(told(ratios))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = options(__doc__, "codecs", 7)
    parser.add_argument(
        "--images", default="demo_data/photos", help="a folder with one folder of JPEGs per class"
    )
    parser.add_argument("--format", nargs="+", default=list(FORMATS), choices=list(FORMATS))
    parser.add_argument("--count", type=int, default=150, help="how many photos")
    arguments = parser.parse_args()
    cpus, records = hold_to_cpus(1), []
    for name in arguments.format:
        records += stored(
            measure(arguments.images, name, arguments.count, arguments.rounds, cpus), arguments.out
        )
    print(f"{rounds_told(records, 'whole')}\n\n{table(records)}")


if __name__ == "__main__":
    main()
