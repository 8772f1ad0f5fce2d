"""Pictures that Python datasets open, in training chains as scripts have them: torch's loader, and millrace's
with pictures="lazy" and "pillow", the sides taking turns.

    python -m benchmarks.lazy_pictures [--images DIR] [--photos 1000] [--rounds 15] [--out FILE.jsonl]
    [scenario ...]

All sides have the same dataset object and the same seed. Before anything is timed, the batches of an epoch
must be equal in value and type; `cv2` decodes with OpenCV, and is left out where that is not installed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.utils.data import Dataset

from benchmarks import photo_runs
from benchmarks.harness import run_facts
from benchmarks.loaders._torchvision import import_torchvision
from benchmarks.runs import rows_in_turns

BATCH, SIDE = 32, 224
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class Pictures(Dataset):
    """`read(path)` of each path."""

    def __init__(self, paths: list[str], read: Callable[[str], Any]) -> None:
        self.paths, self.read = paths, read

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        return self.read(self.paths[index])


def _opened(paths: list[str], transform: Callable[[Any], Any]) -> Dataset:
    return Pictures(paths, lambda path: transform(Image.open(path).convert("RGB")))


def train(paths: list[str]) -> Dataset:
    from torchvision import transforms as t

    steps = [
        t.RandomResizedCrop(SIDE),
        t.RandomHorizontalFlip(),
        t.ToTensor(),
        t.Normalize(MEAN, STD),
    ]
    return _opened(paths, t.Compose(steps))


def train_v2(paths: list[str]) -> Dataset:
    from torchvision.transforms import v2

    steps = [
        v2.RandomResizedCrop(SIDE),
        v2.RandomHorizontalFlip(),
        v2.ToImage(),
        v2.ToDtype(torch.float32, scale=True),
        v2.Normalize(MEAN, STD),
    ]
    return _opened(paths, v2.Compose(steps))


def validation(paths: list[str]) -> Dataset:
    from torchvision import transforms as t

    steps = [t.Resize(256), t.CenterCrop(SIDE), t.ToTensor(), t.Normalize(MEAN, STD)]
    return _opened(paths, t.Compose(steps))


def whole_array(paths: list[str]) -> Dataset:
    """All pixels as an array, whose sample is a number: colour and grey photos go into one batch."""
    return Pictures(paths, lambda path: int(np.asarray(Image.open(path))[::8, ::8].sum()))


def webp(paths: list[str]) -> Dataset:
    """The same photos as WebPs, made once."""
    folder = Path(tempfile.gettempdir()) / "millrace-webp-photos"
    folder.mkdir(exist_ok=True)
    copies = []
    for number, path in enumerate(paths):
        copy = folder / f"{number:05d}-{Path(path).stem}.webp"
        if not copy.exists():
            Image.open(path).convert("RGB").save(copy, quality=90)
        copies.append(str(copy))
    return train(copies)


def thumbnail(paths: list[str]) -> Dataset:
    from torchvision import transforms as t

    steps = t.Compose([t.CenterCrop(160), t.ToTensor(), t.Normalize(MEAN, STD)])

    def small(path: str) -> Any:
        image = Image.open(path)
        image.thumbnail((256, 256))
        return steps(image.convert("RGB"))

    return Pictures(paths, small)


def with_cv2(paths: list[str]) -> Dataset:
    import cv2

    cv2.setNumThreads(0)
    return Pictures(paths, lambda path: cv2.resize(cv2.imread(path), (SIDE, SIDE)))


def imagefolder(paths: list[str]) -> Dataset:
    """Hugging Face's, of the same files, with a transform of rows."""
    import datasets
    from torchvision import transforms as t

    datasets.disable_progress_bars()
    dataset = datasets.Dataset.from_dict({"image": paths}).cast_column("image", datasets.Image())
    chain = t.Compose([t.RandomResizedCrop(SIDE), t.RandomHorizontalFlip(), t.ToTensor()])
    dataset.set_transform(
        lambda rows: {"image": [chain(picture.convert("RGB")) for picture in rows["image"]]}
    )
    return dataset


# name -> (what makes the dataset of paths, workers, the package it needs)
SCENARIOS: dict[str, tuple[Callable[[list[str]], Any], int, str]] = {
    "train": (train, 2, "torchvision"),
    "train_v2": (train_v2, 2, "torchvision"),
    "validation": (validation, 2, "torchvision"),
    "whole_array": (whole_array, 2, "PIL"),
    "webp": (webp, 2, "torchvision"),
    "thumbnail": (thumbnail, 2, "torchvision"),
    "cv2": (with_cv2, 2, "cv2"),
    "huggingface": (imagefolder, 2, "datasets"),
    # the last one, since it replaces functions in this process, from which other workers are forked
    "train_inline": (train, 0, "torchvision"),
}


def loaders(scenario: str, paths: list[str]) -> dict[str, Iterable]:
    import millrace

    make, workers, _ = SCENARIOS[scenario]
    import_torchvision()
    dataset = make(paths)
    common: dict[str, Any] = {
        "batch_size": BATCH,
        "num_workers": workers,
        "persistent_workers": workers > 0,
    }
    return {
        "torch": torch.utils.data.DataLoader(dataset, **common),
        "millrace": millrace.DataLoader(dataset, native="never", pictures="lazy", **common),
        "pillow": millrace.DataLoader(dataset, native="never", pictures="pillow", **common),
    }


def check(sides: dict[str, Iterable]) -> None:
    """SystemExit when the batches of an epoch differ."""
    batches = {}
    for name, loader in sides.items():
        torch.manual_seed(0)
        batches[name] = list(loader)
    for name in sides:
        try:
            torch.testing.assert_close(batches[name], batches["torch"], rtol=0, atol=0)
        except AssertionError as error:
            raise SystemExit(f"{name}: other batches than torch's: {error}") from None


def measure(scenario: str, paths: list[str], rounds: int, cpus: list[int]) -> Iterator[dict]:
    """One record per epoch: at least `rounds` quiet rounds, at most twice as many in all."""
    made = loaders(scenario, paths)
    check(made)
    sides = {
        name: (SCENARIOS[scenario][1], lambda loader=loader: loader)  # type: ignore[misc]
        for name, loader in made.items()
    }
    facts = run_facts(("torch", "torchvision", "pillow", "numpy", "opencv-python-headless", "datasets"))
    common = {"scenario": scenario, "cpus": len(cpus), "pictures": len(paths), **facts}
    yield from rows_in_turns(sides, rounds, cpus, common, rows_in)


def rows_in(batch: Any) -> int:
    return len(batch["image"] if isinstance(batch, dict) else batch)


def main() -> None:
    packages = {name: package for name, (*_, package) in SCENARIOS.items()}
    photo_runs.run(__doc__, "lazy_pictures", packages, measure)


if __name__ == "__main__":
    main()
