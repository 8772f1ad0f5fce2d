"""Datasets of torchvision, timm and Hugging Face that run natively, in training chains: torch's loader and
millrace's, the sides taking turns.

    python -m benchmarks.picture_datasets [--images DIR] [--photos 1000] [--pictures 50000] [--rounds 15]
    [--out FILE.jsonl] [scenario ...]

The photos are laid out as each dataset wants them; CIFAR10 and FashionMNIST get files of noise in their own
formats, since no step of their chain looks at what is on a picture. Random crops of the two loaders are not
the same, so what must be equal before anything is timed are the batches of an epoch in order, of the same
dataset with a chain that draws nothing. `timm` and `hugging_face` are left out where these are not installed.
"""

from __future__ import annotations

import functools
import itertools
import json
import pickle
import struct
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import torch
from torch.utils.data import ConcatDataset, Dataset

from benchmarks import photo_runs
from benchmarks.harness import run_facts
from benchmarks.lazy_pictures import MEAN, SIDE, STD
from benchmarks.loaders._torchvision import import_torchvision
from benchmarks.photo_runs import WORKERS, photos
from benchmarks.runs import Sides, rows_in_turns

CLASSES = 10
PACKAGES = ("torch", "torchvision", "timm", "datasets", "pillow", "numpy")

# ------------------------------------------------------------------ files, as the datasets want them


def _linked(path: Path, photo: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(Path(photo).resolve())


def class_folders(root: Path, paths: list[str]) -> None:
    for number, photo in enumerate(paths):
        _linked(root / f"class_{number % CLASSES}" / f"{number:05}.jpg", photo)


def _food(root: Path, paths: list[str]) -> None:
    base = root / "food-101"
    listed: dict[str, list[str]] = {f"dish_{label}": [] for label in range(CLASSES)}
    for number, photo in enumerate(paths):
        name = f"dish_{number % CLASSES}/{number}"
        _linked(base / "images" / f"{name}.jpg", photo)
        listed[name.partition("/")[0]].append(name)
    (base / "meta").mkdir()
    (base / "meta" / "train.json").write_text(json.dumps(listed))


def _pets(root: Path, paths: list[str]) -> None:
    """The first half is for training and validation, the second one for tests."""
    base, lines = root / "oxford-iiit-pet", []
    for number, photo in enumerate(paths):
        label = number % CLASSES
        _linked(base / "images" / f"Breed_{label}_{number}.jpg", photo)
        lines.append(f"Breed_{label}_{number} {label + 1} {label % 2 + 1} 1\n")
    (base / "annotations").mkdir()
    half = (len(lines) + 1) // 2
    (base / "annotations" / "trainval.txt").write_text("".join(lines[:half]))
    (base / "annotations" / "test.txt").write_text("".join(lines[half:]))


def make_cifar(root: Path, count: int) -> None:
    """The five files of training pictures, and the one with names of classes."""
    from torchvision.datasets import CIFAR10

    base, draw = root / CIFAR10.base_folder, np.random.default_rng(0)
    base.mkdir()
    (base / CIFAR10.meta["filename"]).write_bytes(
        pickle.dumps({CIFAR10.meta["key"]: [f"class {label}" for label in range(CLASSES)]})
    )
    for (name, _), part in zip(CIFAR10.train_list, np.array_split(np.arange(count), 5), strict=True):
        pixels = draw.integers(0, 256, (len(part), 3 * 32 * 32), np.uint8)
        (base / name).write_bytes(pickle.dumps({"data": pixels, "labels": (part % CLASSES).tolist()}))


def _fashion(root: Path, count: int) -> None:
    from torchvision.datasets import FashionMNIST

    base = root / FashionMNIST.__name__ / "raw"
    base.mkdir(parents=True)
    pixels = np.random.default_rng(0).integers(0, 256, (count, 28, 28), np.uint8)
    labels = (np.arange(count) % CLASSES).astype(np.uint8)
    for part in ("train", "t10k"):
        for name, array in (("images-idx3", pixels), ("labels-idx1", labels)):
            header = struct.pack(f">I{array.ndim}I", 0x800 + array.ndim, *array.shape)
            (base / f"{part}-{name}-ubyte").write_bytes(header + array.tobytes())


# ------------------------------------------------------------------ datasets over these files


def _named(name: str, *options: Any) -> Callable[[Path, Any], Dataset]:
    """The class of torchvision.datasets, with a root, what follows it, and a transform."""

    def opened(root: Path, transform: Any) -> Dataset:
        return getattr(import_torchvision().datasets, name)(root, *options, transform=transform)

    return opened


def _group(label: int) -> int:
    return label // 2


def _folder(root: Path, transform: Any) -> Dataset:
    folder = import_torchvision().datasets.folder
    return folder.DatasetFolder(root, folder.default_loader, (".jpg",), transform, _group)


def _both_halves(root: Path, transform: Any) -> Dataset:
    halves = [_named("OxfordIIITPet", split)(root, transform) for split in ("trainval", "test")]
    return ConcatDataset(halves)


def _timm(root: Path, transform: Any) -> Dataset:
    import_torchvision()
    from timm.data import ImageDataset

    return ImageDataset(str(root), transform=transform)


def _parquet(root: Path, paths: list[str]) -> None:
    """The photos' bytes in a table, as most of the Hub's datasets of pictures have them."""
    import datasets

    datasets.disable_progress_bars()
    features = datasets.Features(
        {"image": datasets.Image(), "label": datasets.ClassLabel(num_classes=CLASSES)}
    )
    images = [{"bytes": Path(photo).read_bytes(), "path": None} for photo in paths]
    labels = [number % CLASSES for number in range(len(paths))]
    table = datasets.Dataset.from_dict({"image": images, "label": labels}, features=features)
    table.to_parquet(root / "photos.parquet")


def _hugging_face(root: Path, transform: Any) -> Dataset:
    import datasets

    def transforms(examples: Any) -> Any:
        examples["pixel_values"] = [transform(image.convert("RGB")) for image in examples["image"]]
        del examples["image"]
        return examples

    options = {"split": "train", "cache_dir": str(root / "cache")}
    loaded: Any = datasets.load_dataset("parquet", data_files=str(root / "photos.parquet"), **options)
    return loaded.with_transform(transforms)


def _known_cifar(root: Path, transform: Any) -> Dataset:
    """Whose files are not those that CIFAR10 has checksums of."""
    cifar = import_torchvision().datasets.CIFAR10
    with (
        mock.patch.object(cifar, "_check_integrity", return_value=True),
        mock.patch("torchvision.datasets.cifar.check_integrity", return_value=True),
    ):
        return cifar(root, transform=transform)


# ------------------------------------------------------------------ chains


def _photo_chains() -> tuple[Any, Any]:
    """(one that draws, one that does not)"""
    from torchvision import transforms as t

    end = [t.ToTensor(), t.Normalize(MEAN, STD)]
    train = t.Compose([t.RandomResizedCrop(SIDE), t.RandomHorizontalFlip(), *end])
    return train, t.Compose([t.Resize(256), t.CenterCrop(SIDE), t.ToTensor()])


def _small_chains() -> tuple[Any, Any]:
    from torchvision import transforms as t

    end = [t.ToTensor(), t.Normalize((0.5,), (0.25,))]
    train = t.Compose([t.RandomCrop(32, padding=4), t.RandomHorizontalFlip(), *end])
    return train, t.Compose([t.Resize(40), t.CenterCrop(32), t.ToTensor()])


class Scenario(NamedTuple):
    write: Callable[[Path, Any], None]
    """Of a folder, and the photos' paths, or how many pictures there are to be in memory."""
    opened: Callable[[Path, Any], Dataset]
    chains: Callable[[], tuple[Any, Any]] = _photo_chains
    batch: int = 32
    package: str = "torchvision"
    in_memory: bool = False


SCENARIOS = {
    "food101": Scenario(_food, _named("Food101")),
    "pets": Scenario(_pets, _named("OxfordIIITPet")),
    "target_transform": Scenario(class_folders, _folder),
    "concat": Scenario(_pets, _both_halves),
    "timm": Scenario(class_folders, _timm, package="timm"),
    "hugging_face": Scenario(_parquet, _hugging_face, package="datasets"),
    "cifar10": Scenario(make_cifar, _known_cifar, _small_chains, 128, in_memory=True),
    "fashion_mnist": Scenario(_fashion, _named("FashionMNIST"), _small_chains, 128, in_memory=True),
}

# ------------------------------------------------------------------ loaders


def loaders(dataset: Dataset, batch: int, **options: Any) -> dict[str, Iterable]:
    """Both, of the same dataset; millrace.UnavailableError where it does not run natively."""
    import millrace

    options = {"batch_size": batch, "num_workers": WORKERS, **options}
    return {
        "torch": torch.utils.data.DataLoader(dataset, **options),
        "millrace": millrace.DataLoader(dataset, native="require", **options),
    }


def check(sides: dict[str, Iterable]) -> None:
    """SystemExit when the batches of an epoch differ."""
    for batch, expected in itertools.zip_longest(sides["millrace"], sides["torch"]):
        try:
            torch.testing.assert_close(batch, expected, rtol=0, atol=0)
        except (AssertionError, TypeError) as error:
            raise SystemExit(f"other batches than torch's: {error}") from None


def measure(name: str, files: list[str] | int, rounds: int, cpus: list[int]) -> Iterator[dict]:
    """One record per epoch: at least `rounds` quiet rounds, at most twice as many in all. `files`: paths of
    photos, or how many pictures in memory there are.
    """
    import_torchvision()
    scenario = SCENARIOS[name]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        scenario.write(root, files)
        train, plain = scenario.chains()
        check(loaders(scenario.opened(root, plain), scenario.batch))
        dataset = scenario.opened(root, train)
        made = loaders(dataset, scenario.batch, shuffle=True, persistent_workers=True)
        sides: Sides = {side: (WORKERS, functools.partial(iter, loader)) for side, loader in made.items()}
        common = {"scenario": name, "cpus": len(cpus), "pictures": len(dataset), **run_facts(PACKAGES)}  # type: ignore[arg-type]
        yield from rows_in_turns(sides, rounds, cpus, common, _rows)


def _rows(batch: Any) -> int:
    return len(batch["label"] if isinstance(batch, dict) else batch[1])


def main() -> None:
    photo_runs.run(
        __doc__,
        "picture_datasets",
        {name: scenario.package for name, scenario in SCENARIOS.items()},
        measure,
        lambda parser: parser.add_argument("--pictures", type=int, default=50000, help="in memory"),
        lambda name, given: (
            given.pictures if SCENARIOS[name].in_memory else photos(given.images, given.photos)
        ),
    )


if __name__ == "__main__":
    main()
