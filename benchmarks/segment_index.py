"""What cutting JPEGs into segments gains: tar → RandomResizedCrop(224) → batches, from shards of plain and of
transcoded files.

    python -m benchmarks.segment_index [--images DIR] [--count 1500] [--rounds 9] [--out FILE.jsonl]

The same photos are packed three times by `millrace pack`: `plain` (--jpeg keep), `segments` (the default),
`own_tables` (smaller files). First all sides must give the same batches, to the last bit. Then they take
turns, one epoch each in alternating direction, on one CPU with one thread. Each repeat is one line of JSON.
The ratio that counts is of CPU seconds, round by round.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Iterable, Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any

import torch
from millrace import DataLoader, pack, transforms
from millrace.datasets import WebDataset

from benchmarks import probes
from benchmarks.compare import factors, kept_epochs, told
from benchmarks.harness import quiet_rounds, run_facts
from benchmarks.runs import hold_to_cpus, options, rounds_told, stored

SIDES: dict[str, dict[str, Any]] = {
    "plain": {"jpeg": "keep"},
    "segments": {},
    "own_tables": {"own_tables": True},
}
BATCH, SIZE = 128, 224
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def make_loader(shards: list[str], size: int = SIZE) -> DataLoader:
    chain = transforms.Compose(
        [
            transforms.RandomResizedCrop(size),
            transforms.RandomHorizontalFlip(),
            transforms.ToTensor(),
            transforms.Normalize(MEAN, STD),
        ]
    )
    dataset = WebDataset(shards).decode("pil").to_tuple("jpg", "cls").map_tuple(chain).indexed()
    return DataLoader(
        dataset,
        BATCH,
        shuffle=True,
        num_workers=1,
        native="require",
        generator=torch.Generator().manual_seed(0),
    )


def packed(
    photos: Path, folder: Path, names: Iterable[str] = tuple(SIDES)
) -> dict[str, tuple[list[str], int]]:
    """Shards and bytes of JPEG of each side."""
    result = {}
    for name in names:
        report = pack(photos, folder / name, progress=False, **SIDES[name])
        shards = [str(folder / name / shard["name"]) for shard in report["shards"]]
        result[name] = shards, report["fields"]["jpg"]["bytes"]
    return result


def check(sides: dict[str, tuple[list[str], int]], size: int = SIZE) -> None:
    """The same batches from all sides. Raises AssertionError."""
    loaders = [make_loader(shards, size) for shards, _ in sides.values()]
    for batches in zip(*loaders, strict=True):
        first, *others = batches
        assert all(torch.equal(mine, theirs) for batch in others for mine, theirs in zip(first, batch)), (
            "the sides give other pixels"
        )


def measure(
    sides: dict[str, tuple[list[str], int]], rounds: int, cpus: list[int], size: int = SIZE
) -> Iterator[dict]:
    """One record per epoch: at least `rounds` quiet rounds, at most twice as many in all."""
    common = {"scenario": "segment_index", "cpus": len(cpus), **run_facts(("torch", "numpy", "pillow"))}
    loaders = {name: make_loader(shards, size) for name, (shards, _) in sides.items()}
    for loader in loaders.values():
        for _ in loader:
            pass

    def one_round(repeat: int) -> list[dict]:
        records = []
        for name in list(sides)[:: -1 if repeat % 2 else 1]:
            timer, images = probes.Epoch(cpus), 0
            for batch, _ in loaders[name]:
                images += len(batch)
            times = timer.stop()
            records.append(
                {
                    **common,
                    "loader": name,
                    "kind": "epoch",
                    "repeat": repeat,
                    "images": images,
                    **times,
                    "jpeg_bytes": sides[name][1],
                    "images_per_s": images / times["seconds"],
                    "cpu_s_per_1000": times["cpu_seconds"] / images * 1000,
                }
            )
        return records

    yield from quiet_rounds(rounds, one_round)


def table(records: list[dict]) -> str:
    """A row per side; the factors are plain's CPU seconds and bytes over the row's, round by round."""
    cpu = itemgetter("cpu_s_per_1000")
    lines = [
        "| shards | CPU s per 1,000 | images/s | less CPU than plain by | bytes |",
        "|---|---:|---:|---:|---:|",
    ]
    plain_bytes = kept_epochs(records, "plain")[0]["jpeg_bytes"]
    for name in SIDES:
        epochs = kept_epochs(records, name)
        factor = "" if name == "plain" else told(factors(records, name, "plain", cpu), ".3f")
        rate = statistics.median(r["images_per_s"] for r in epochs)
        size = epochs[0]["jpeg_bytes"] / plain_bytes
        lines.append(
            f"| {name} | {statistics.median(map(cpu, epochs)):.4f} | {rate:,.0f} | {factor} |"
            f" {(size - 1) * 100:+.1f} % |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = options(__doc__, "segment_index", 9)
    parser.add_argument(
        "--images", type=Path, help="a folder with one folder of JPEGs per class (default: the demo's photos)"
    )
    parser.add_argument("--count", type=int, default=1500, help="of the demo's photos")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        images = arguments.images
        if images is None:
            sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))
            from make_photos import make_photos

            images = make_photos(Path(folder) / "photos", arguments.count)
        sides = packed(images, Path(folder))
        cpus = hold_to_cpus(1)
        print("checking", file=sys.stderr, flush=True)
        check(sides)
        records = stored(measure(sides, arguments.rounds, cpus), arguments.out)
    print(f"{rounds_told(records)}\n\n{table(records)}")


if __name__ == "__main__":
    main()
