"""make demo: photos, a network trained on them through millrace, and a measured comparison with torch's own
DataLoader.

    python examples/demo.py [--images DIR]      DIR: class folders with your own JPEGs

About two minutes on two CPUs. Ctrl-C stops at once.
"""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import closing
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "examples")]

from make_photos import make_photos  # noqa: E402

from benchmarks.harness import Plan, measure  # noqa: E402

PHOTOS = ROOT / "demo_data" / "photos"
ACCURACY, EPOCHS = 0.99, 8  # on the demo's photos; other folders are trained for EPOCHS whatever comes out


def say(text: str) -> None:
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n{text}", flush=True)


def train_a_network(images: str, workers: int, own_photos: bool) -> None:
    from train_image_folder import train

    result = train(images, EPOCHS, workers, ACCURACY if own_photos else 1.0)
    parts = result.stats["seconds"]
    total = sum(parts.values()) or 1.0
    print(f"{result.accuracy:.1%} of the validation photos right" + f" (wanted: {ACCURACY:.0%})" * own_photos)
    print(
        f"stall: {result.stats['wait_seconds']:.1f} of {result.seconds:.1f} s of training went into waiting"
        " for data; millrace's threads spent "
        + ", ".join(f"{seconds / total:.0%} on {name}" for name, seconds in parts.items())
    )
    if own_photos and result.accuracy < ACCURACY:
        raise SystemExit(f"the network did not reach {ACCURACY:.0%} in {EPOCHS} epochs")


def compare(images: str, workers: int, plan: Plan) -> None:
    """Both loaders as in benchmarks/, with fewer repeats: RandomResizedCrop(224), flip, normalise, batches of
    128.
    """
    from benchmarks.loaders._torchvision import import_torchvision

    try:
        import_torchvision()
        usual, described = "torch_tv2", "torch's DataLoader with Pillow and torchvision's transforms"
    except ImportError:
        usual, described = "torch_pil", "torch's DataLoader with Pillow"

    def tell(text: str) -> None:
        if sys.stderr.isatty():
            print(f"\r  {text}\033[K", end="", file=sys.stderr, flush=True)

    with closing(measure("imagenet_train", [usual, "millrace"], workers, images, plan, tell)) as measured:
        records = list(measured)
    tell("\r")
    for record in records:
        if record["kind"] == "left out":
            raise SystemExit(f"{record['loader']} could not be measured: {record['reason']}")

    def value(loader: str, kind: str, field: str) -> float:
        return median(
            float(r[field])
            for r in records
            if (r["loader"], r["kind"]) == (loader, kind) and not r.get("warmup")
        )

    def both(kind: str, field: str, scale: float = 1) -> tuple[float, float]:
        return value(usual, kind, field) * scale, value("millrace", kind, field) * scale

    def memory(loader: str) -> float:
        return (
            value(loader, "memory", "peak_pss_bytes") - value(loader, "memory", "import_torch_pss_bytes")
        ) / 1e6

    rows: list[tuple[str, float, float, str]] = [
        ("images per second", *both("epoch", "images_per_s"), "{:,.0f}"),
        ("first batch after iter(), ms", *both("first", "seconds", 1e3), "{:,.0f}"),
        ("CPU seconds per 1,000 images", *both("epoch", "cpu_s_per_1000"), "{:.2f}"),
        ("peak memory above import torch, MB", memory(usual), memory("millrace"), "{:,.0f}"),
    ]
    print(f"{described} against millrace, {workers} workers each on as many CPUs, same data, taking turns:\n")
    print(f"{'':36}{'torch':>10}{'millrace':>10}{'':>10}")
    for label, theirs, ours, form in rows:
        ratio = ours / theirs if label.startswith("images") else theirs / ours if ours > 0 else float("inf")
        print(f"{label:36}{form.format(theirs):>10}{form.format(ours):>10}{ratio:>8.1f} x")
    parts = [r["stats"]["seconds"] for r in records if r["loader"] == "millrace" and r["kind"] == "epoch"][-1]
    total = sum(parts.values()) or 1.0
    print(
        "\nwhere millrace's threads spent their time: "
        + ", ".join(f"{name} {s / total:.0%}" for name, s in parts.items())
    )
    noise = max(r["others_share"] for r in records if r["kind"] == "epoch")
    if noise > 0.15:
        print(
            f"other programs took up to {noise:.0%} of these CPUs meanwhile: on a quiet machine the numbers"
            " differ"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--images", help="a folder with one folder of JPEGs per class (default: photos made on the spot)"
    )
    parser.add_argument("--count", type=int, default=3000, help="how many photos are made (default: 3000)")
    arguments = parser.parse_args()
    workers = min(8, len(os.sched_getaffinity(0)))

    if arguments.images is None:
        say(f"1. {arguments.count:,} photos in {PHOTOS.relative_to(ROOT)}")
        make_photos(PHOTOS, arguments.count)
    images = arguments.images or str(PHOTOS)
    say("2. Training a small network on them")
    train_a_network(images, workers, own_photos=arguments.images is None)
    say("3. Measuring")
    compare(
        images,
        workers,
        Plan(rounds=3, first_batches=3, memory_epochs=1, images_per_worker=min(1000, 4000 // workers)),
    )


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        os._exit(130)  # at once: nothing here is worth a tidy end, and the children end with their pipes
