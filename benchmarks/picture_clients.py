"""The datasets of tests/clients that open pictures themselves, in the manner of public training scripts:
torch's loader, and millrace's with pictures="lazy" and "pillow", the sides taking turns.

    python -m benchmarks.picture_clients [--images DIR] [--photos 192] [--rounds 7] [--out FILE.jsonl]
    [scenario ...]

The definitions are the tests' own, seven times as large (pictures of 224 pixels where the tests have 32),
over real photos. Before anything is timed, a shuffled epoch must be equal on all sides, value by value.
Datasets whose packages are not installed are left out.
"""

from __future__ import annotations

import io
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # and not in tests, which share a process with those of the datasets
    os.environ["MILLRACE_CLIENT_PICTURES"] = "7"
_TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path[:0] = [str(_TESTS / "clients"), str(_TESTS / "python")]

import picture_files  # noqa: E402
import test_picture_datasets as own  # noqa: E402
import test_picture_sources as sources  # noqa: E402
import torch  # noqa: E402
from lazy_cases import epochs  # noqa: E402
from PIL import Image  # noqa: E402

from benchmarks import photo_runs  # noqa: E402
from benchmarks.harness import run_facts  # noqa: E402
from benchmarks.photo_runs import WORKERS  # noqa: E402
from benchmarks.runs import rows_in_turns  # noqa: E402

BATCH = 16
PACKAGES = ("torch", "torchvision", "pillow", "numpy", "timm", "datasets", "lmdb", "opencv-python-headless")
PACKAGES += ("albumentations",)

Make = Callable[[Path, Path], Any]  # of a gallery and an empty folder


def _hugging_face(gallery: Path, folder: Path) -> Any:
    dataset = sources.hugging_face_images(gallery)
    dataset.set_transform(sources.of_columns)
    return dataset


def _tar(gallery: Path, folder: Path) -> Any:
    sources.make_archives(gallery, folder)
    return sources.TarMembers(gallery, folder / "a.tar")


def _zip(gallery: Path, folder: Path) -> Any:
    sources.make_archives(gallery, folder)
    return sources.ZipMembers(gallery, folder / "a.zip")


def _timm(training: bool) -> Make:
    return lambda gallery, folder: own.FromCsv(gallery, sources.timms_transform(training))


# name -> (what makes the dataset, the package it needs, further arguments of the loaders)
SCENARIOS: dict[str, tuple[Make, str, dict[str, Any]]] = {
    "csv": (lambda gallery, _: own.FromCsv(gallery, picture_files.TRAINING), "torchvision", {}),
    "folder_subclass": (
        lambda gallery, _: own.WithPath(gallery / "classes", picture_files.TRAINING),
        "torchvision",
        {},
    ),
    "upright": (lambda gallery, _: own.Upright(gallery), "torchvision", {}),
    "masks": (lambda gallery, _: own.Segmentation(gallery), "torchvision", {}),
    "boxes": (lambda gallery, _: own.Detection(gallery), "torchvision", {"collate_fn": own.in_lists}),
    "pairs": (lambda gallery, _: own.Pairs(gallery), "torchvision", {}),
    "triplets": (lambda gallery, _: own.Triplets(gallery), "torchvision", {}),
    "many_crops": (lambda gallery, _: own.MultiCrop(gallery), "torchvision", {}),
    "mosaics": (lambda gallery, _: own.Mosaic(gallery), "torchvision", {}),
    "own_generators": (lambda gallery, _: own.ByWorker(gallery), "torchvision", {}),
    "collate_fn": (lambda gallery, _: own.Raw(gallery), "torchvision", {"collate_fn": own.processed}),
    "stream": (lambda gallery, _: own.Streamed(gallery), "torchvision", {"shuffle": None}),
    "bytes": (lambda gallery, _: own.Bytes(gallery), "torchvision", {}),
    "tar": (_tar, "torchvision", {}),
    "zip": (_zip, "torchvision", {}),
    "lmdb": (
        lambda gallery, folder: sources.Lmdb(gallery, sources.make_lmdb(gallery, folder / "db")),
        "lmdb",
        {},
    ),
    "hugging_face": (_hugging_face, "datasets", {}),
    "timm_evaluation": (_timm(False), "timm", {}),
    "timm_training": (_timm(True), "timm", {}),
    "albumentations": (
        lambda gallery, _: sources.Albumentations(gallery, sources.albumentations_chain()),
        "albumentations",
        {},
    ),
    "cv2": (lambda gallery, _: sources.ByCv2(gallery), "cv2", {}),
}


def loaders(dataset: Any, batch: int, options: dict[str, Any]) -> dict[str, Iterable]:
    import millrace

    common: dict[str, Any] = {
        "batch_size": batch,
        "shuffle": True,
        "num_workers": WORKERS,
        "persistent_workers": True,
        "multiprocessing_context": "fork",
        **options,
    }
    return {
        "torch": torch.utils.data.DataLoader(dataset, **common),
        "millrace": millrace.DataLoader(dataset, native="never", pictures="lazy", **common),
        "pillow": millrace.DataLoader(dataset, native="never", pictures="pillow", **common),
    }


def check(sides: dict[str, Iterable]) -> None:
    """SystemExit when the batches of a first epoch differ."""
    expected = epochs(sides["torch"])
    for name, loader in sides.items():
        if name != "torch" and epochs(loader) != expected:
            raise SystemExit(f"{name}: other batches than torch's")


def gallery_of(paths: list[str], folder: Path) -> Path:
    files = []
    for path in paths:
        data = Path(path).read_bytes()
        files.append((data, picture_files.mask_of(Image.open(io.BytesIO(data)))))
    return picture_files.make_gallery(folder, files)


def measure(scenario: str, paths: list[str], rounds: int, cpus: list[int]) -> Iterator[dict]:
    """One record per epoch: at least `rounds` quiet rounds, at most twice as many in all."""
    make, _, options = SCENARIOS[scenario]
    paths = paths[: len(paths) // (BATCH * WORKERS) * BATCH * WORKERS] or paths  # whole batches
    batch = min(BATCH, len(paths) // WORKERS)
    with tempfile.TemporaryDirectory() as folder:
        root, scratch = Path(folder) / "gallery", Path(folder) / "scratch"
        scratch.mkdir()
        made = loaders(make(gallery_of(paths, root), scratch), batch, options)
        check(made)
        sides = {name: (WORKERS, lambda loader=loader: loader) for name, loader in made.items()}
        common = {"scenario": scenario, "cpus": len(cpus), "pictures": len(paths), **run_facts(PACKAGES)}
        yield from rows_in_turns(sides, rounds, cpus, common, lambda _: batch)  # type: ignore[arg-type]


def main() -> None:
    packages = {name: package for name, (_, package, _) in SCENARIOS.items()}
    photo_runs.run(__doc__ or "", "picture_clients", packages, measure)


if __name__ == "__main__":
    main()
