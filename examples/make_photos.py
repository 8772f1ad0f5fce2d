"""Makes a class-folder data set of real photos: crops of the sample photos that scikit-image and scikit-learn
ship.

    python examples/make_photos.py demo_data/photos --count 3000

One class per photo. Sizes, bytes and chroma sampling follow ImageNet's training set, because they decide what
decoding costs: mostly 500 x 375, sides of 300 to 700 pixels, about 200,000 pixels and 110 kB in the mean,
baseline 4:2:0, a few greys.
Photo i depends on i alone: an interrupted run is continued, a finished one is left as it is, a larger count
adds photos.
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import json
import math
import multiprocessing
import os
import random
import sys
from functools import partial
from pathlib import Path

from PIL import Image

RECIPE = {"recipe": "millrace photos", "version": 1}  # a new version whenever the pixels of a photo change
SOURCES = {  # class: (package, files)
    "astronaut": ("skimage", ["data/astronaut.png"]),
    "cat": ("skimage", ["data/chelsea.png"]),
    "coffee": ("skimage", ["data/coffee.png"]),
    "flower": ("sklearn", ["datasets/images/flower.jpg"]),
    "galaxies": ("skimage", ["data/hubble_deep_field.jpg"]),
    "motorcycle": ("skimage", ["data/motorcycle_left.png", "data/motorcycle_right.png"]),
    "retina": ("skimage", ["data/retina.jpg"]),
    "rocket": ("skimage", ["data/rocket.jpg"]),
    "temple": ("sklearn", ["datasets/images/china.jpg"]),
    "tissue": ("skimage", ["data/ihc.png"]),
}
CLASSES = sorted(SOURCES)


def sources_installed() -> bool:
    return all(importlib.util.find_spec(package) for package in ("skimage", "sklearn"))


_loaded: dict[str, list[Image.Image]] = {}


def source_photos(name: str) -> list[Image.Image]:
    """The photos that class `name` is cut from, decoded once per process."""
    if name not in _loaded:
        package, files = SOURCES[name]
        spec = importlib.util.find_spec(
            package
        )  # finds the folder without importing the package and all it needs
        if spec is None or not spec.submodule_search_locations:
            raise FileNotFoundError(
                f"the sample photos of {package} are not installed: "
                "pip install --no-deps scikit-image scikit-learn"
            )
        folder = Path(spec.submodule_search_locations[0])
        _loaded[name] = [Image.open(folder / file).convert("RGB") for file in files]
    return _loaded[name]


def draw_size(rng: random.Random) -> tuple[int, int]:
    """Width and height of one photo, as ImageNet mixes them."""
    if rng.random() < 0.6:
        long, short = 500, rng.choice([375, 375, 375, 333, 332])
    else:
        long = min(700, max(400, round(rng.gauss(530, 80))))
        short = min(long, max(300, round(long / rng.uniform(1.0, 1.5))))
    return (long, short) if rng.random() < 0.75 else (short, long)


def encode(image: Image.Image, quality: int) -> bytes:
    out = io.BytesIO()
    image.save(out, "JPEG", quality=quality, subsampling="4:2:0" if image.mode == "RGB" else -1)
    return out.getvalue()


def make_photo(index: int) -> bytes:
    """The JPEG bytes of photo `index`; its class is CLASSES[index % len(CLASSES)]."""
    rng = random.Random(f"{RECIPE['version']}/{index}")
    source = rng.choice(source_photos(CLASSES[index % len(CLASSES)]))
    width, height = draw_size(rng)
    scale = min(source.width / width, source.height / height) * math.sqrt(rng.uniform(0.5, 1.0))
    left = rng.uniform(0, source.width - width * scale)
    top = rng.uniform(0, source.height - height * scale)
    box = (left, top, left + width * scale, top + height * scale)
    image = source.resize((width, height), Image.Resampling.BICUBIC, box=box)
    if rng.random() < 0.02:
        image = image.convert("L")

    # Bytes grow close to exponentially with quality here, so two trials say which quality gives the bytes
    # wanted.
    wanted = width * height * min(1.2, max(0.25, rng.lognormvariate(math.log(0.63), 0.35)))
    low, high = 90, 98
    low_bytes, high_bytes = len(encode(image, low)), len(encode(image, high))
    slope = (high - low) / math.log(high_bytes / low_bytes)
    quality = round(low + slope * math.log(wanted / low_bytes))
    return encode(image, min(99, max(60, quality)))


def photo_path(root: Path, index: int) -> Path:
    return root / CLASSES[index % len(CLASSES)] / f"{index:06d}.jpg"


def write_photo(root: Path, index: int) -> None:
    path = photo_path(root, index)
    part = path.with_suffix(".part")
    part.write_bytes(make_photo(index))
    part.rename(path)  # a photo is there whole or not at all


def make_photos(
    root: str | os.PathLike[str], count: int, workers: int | None = None, quiet: bool = False
) -> Path:
    """Fills `root` with `count` photos in class folders and returns it.

    Raises FileNotFoundError when the sample photos are not installed, FileExistsError when `root` holds
    anything else.
    """
    root = Path(root)
    note = root / "recipe.json"
    if (
        root.is_dir()
        and any(root.iterdir())
        and (not note.is_file() or json.loads(note.read_text()) != RECIPE)
    ):
        raise FileExistsError(
            f"{root}: not a folder of photos made by this version: name another folder or delete this one"
        )
    missing = [i for i in range(count) if not photo_path(root, i).exists()]
    if not missing:
        return root
    for name in CLASSES:
        source_photos(name)  # fails here, with its sentence, rather than in a worker
        (root / name).mkdir(parents=True, exist_ok=True)
    note.write_text(json.dumps(RECIPE) + "\n")
    with multiprocessing.Pool(
        workers or len(os.sched_getaffinity(0))
    ) as pool:  # leaving the block stops the workers at once
        for done, _ in enumerate(pool.imap_unordered(partial(write_photo, root), missing, chunksize=8), 1):
            if not quiet:
                show_progress("making photos", done, len(missing))
    return root


def show_progress(label: str, done: int, total: int, note: str = "") -> None:
    """A bar that is redrawn on a terminal; in a log file one line per tenth."""
    if not sys.stderr.isatty():
        if done * 10 // total > (done - 1) * 10 // total:
            print(f"{label}: {done} of {total} {note}", file=sys.stderr, flush=True)
        return
    filled = round(30 * done / total)
    print(
        f"\r{label} [{'#' * filled}{'.' * (30 - filled)}] {done}/{total} {note}\033[K",
        end="\n" if done == total else "",
        file=sys.stderr,
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("root", help="folder to fill")
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--workers", type=int, help="processes (default: one per CPU)")
    arguments = parser.parse_args()
    make_photos(arguments.root, arguments.count, arguments.workers)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
