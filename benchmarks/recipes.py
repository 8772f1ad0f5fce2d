"""Recipes that people train with, from files to batches: torch's loader over torchvision's or timm's
transforms, and millrace's over the same objects, the sides taking turns.

    python -m benchmarks.recipes [--images DIR] [--photos 1000] [--rounds 15] [--out FILE.jsonl]
    [scenario ...]

The two draw other crops and operations. What is compared before anything is timed are the batches' nesting,
shapes and types, and that the pictures are as bright; that single operations have the same pixels is tested
in tests/parity. `millrace` must run all of a recipe natively (native="require"). Of `unknown_step` and
`albumentations` it cannot: one step is Python behind known ones; there millrace in Python alone
(native="never") is a third side, and behind steps that draw nothing the batches must be torch's. Recipes are
left out where their package is not installed.
"""

from __future__ import annotations

import functools
import random
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import ImageFilter, ImageOps

from benchmarks import photo_runs
from benchmarks.harness import run_facts
from benchmarks.lazy_pictures import MEAN, SIDE, STD
from benchmarks.loaders._torchvision import import_torchvision
from benchmarks.photo_runs import WORKERS
from benchmarks.picture_datasets import PACKAGES, class_folders
from benchmarks.runs import Sides, rows_in_turns

BATCH = 32
BATCHES = {"mixup_128": 128}  # as recipes with MixUp have it; what the function itself takes is one batch's

# ------------------------------------------------------------------ classes as scripts have them


class GaussianBlur:
    """Pillow's, of a random radius, with probability p."""

    def __init__(self, p: float, radius_min: float = 0.1, radius_max: float = 2.0) -> None:
        self.p, self.radius_min, self.radius_max = p, radius_min, radius_max

    def __call__(self, image: Any) -> Any:
        if random.random() > self.p:
            return image
        radius = random.uniform(self.radius_min, self.radius_max)
        return image.filter(ImageFilter.GaussianBlur(radius=radius))


class Solarization:
    def __init__(self, p: float) -> None:
        self.p = p

    def __call__(self, image: Any) -> Any:
        if random.random() < self.p:
            return ImageOps.solarize(image)
        return image


class ManyCrops:
    """Two large crops, each by a transform of its own, and `count` small ones (DINO)."""

    def __init__(self, first: Any, second: Any, small: Any, count: int) -> None:
        self.first, self.second, self.small, self.count = first, second, small, count

    def __call__(self, image: Any) -> list[Any]:
        crops = [self.first(image), self.second(image)]
        for _ in range(self.count):
            crops.append(self.small(image))
        return crops


class Pair:
    """Two views by the same transform (SimCLR)."""

    def __init__(self, transform: Any) -> None:
        self.transform = transform

    def __call__(self, image: Any) -> list[Any]:
        return [self.transform(image) for _ in range(2)]


class Step:
    """Of a user's own: leaves the picture as it is, and takes so much of a CPU's time."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __call__(self, image: Any) -> Any:
        until = time.thread_time() + self.seconds
        while time.thread_time() < until:
            pass
        return image


class Colours:
    """Albumentations' of a PIL image."""

    def __init__(self, p: float = 1.0) -> None:
        import albumentations

        self.steps = albumentations.Compose([albumentations.RandomBrightnessContrast(p=p)])

    def __call__(self, image: Any) -> Any:
        return self.steps(image=np.asarray(image))["image"]


# ------------------------------------------------------------------ recipes


def _supervised(policy: Callable[[Any], list[Any]], erasing: float = 0.1) -> Any:
    """torchvision's reference for classification."""
    from torchvision import transforms as t

    return t.Compose(
        [
            t.RandomResizedCrop(SIDE, antialias=True),
            t.RandomHorizontalFlip(),
            *policy(t),
            t.PILToTensor(),
            t.ConvertImageDtype(torch.float),
            t.Normalize(MEAN, STD),
            *([t.RandomErasing(p=erasing)] if erasing else []),
        ]
    )


def _timm(policy: str) -> Any:
    import_torchvision()
    from timm.data import create_transform

    return create_transform(
        SIDE,
        is_training=True,
        auto_augment=policy,
        interpolation="bicubic",
        re_prob=0.25,
        re_mode="pixel",
    )


def _jittered(t: Any, strength: float, p: float) -> list[Any]:
    jitter = t.ColorJitter(0.8 * strength, 0.8 * strength, 0.4 * strength, 0.2 * strength)
    return [t.RandomHorizontalFlip(), t.RandomApply([jitter], p=p), t.RandomGrayscale(0.2)]


def dino() -> Any:
    from torchvision import transforms as t

    def crop(size: int, scale: tuple[float, float], *more: Any) -> Any:
        begin = t.RandomResizedCrop(size, scale=scale, interpolation=t.InterpolationMode.BICUBIC)
        return t.Compose([begin, *_jittered(t, 0.5, 0.8), *more, t.ToTensor(), t.Normalize(MEAN, STD)])

    return ManyCrops(
        crop(224, (0.4, 1.0), GaussianBlur(1.0)),
        crop(224, (0.4, 1.0), GaussianBlur(0.1), Solarization(0.2)),
        crop(96, (0.05, 0.4), GaussianBlur(0.5)),
        8,
    )


def _simclr() -> Any:
    from torchvision import transforms as t

    blur = t.RandomApply([t.GaussianBlur(23)], p=0.5)
    return Pair(t.Compose([t.RandomResizedCrop(SIDE), *_jittered(t, 1.0, 0.8), blur, t.ToTensor()]))


def _mixup() -> Callable[[Any], Any]:
    from torch.utils.data import default_collate
    from torchvision.transforms import v2

    mix = v2.MixUp(num_classes=10)
    return lambda samples: mix(*default_collate(samples))


def _partly(step: Callable[[], Any], certain: bool = False) -> Any:
    """A step that the engine does not know, behind known ones, which draw unless `certain`."""
    from torchvision import transforms as t

    drawn = [t.RandomResizedCrop(SIDE), t.RandomHorizontalFlip()]
    known = [t.Resize(256), t.CenterCrop(SIDE)] if certain else drawn
    return t.Compose([*known, step(), t.ToTensor(), t.Normalize(MEAN, STD)])


# name -> (its step, the same without chance)
PARTLY: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "unknown_step": (lambda: Step(0.2e-3), lambda: Step(0.0)),
    "albumentations": (Colours, lambda: Colours(p=0.0)),
}
# name -> (what makes the transform, what makes the collate_fn, the package it needs)
SCENARIOS: dict[str, tuple[Callable[[], Any], Callable[[], Any] | None, str]] = {
    "plain": (lambda: _supervised(lambda t: []), None, "torchvision"),
    "mixup": (lambda: _supervised(lambda t: []), _mixup, "torchvision"),
    "mixup_128": (lambda: _supervised(lambda t: []), _mixup, "torchvision"),
    "rand_augment": (lambda: _supervised(lambda t: [t.RandAugment()]), None, "torchvision"),
    "auto_augment": (lambda: _supervised(lambda t: [t.AutoAugment()]), None, "torchvision"),
    "trivial_augment": (lambda: _supervised(lambda t: [t.TrivialAugmentWide()]), None, "torchvision"),
    "timm_rand_augment": (lambda: _timm("rand-m9-inc1"), None, "timm"),
    "timm_auto_augment": (lambda: _timm("original-mstd0.5"), None, "timm"),
    "timm_augmix": (lambda: _timm("augmix-m5-w4-d2"), None, "timm"),
    "simclr": (_simclr, None, "torchvision"),
    "dino": (dino, None, "torchvision"),
    "unknown_step": (lambda: _partly(PARTLY["unknown_step"][0]), None, "torchvision"),
    "albumentations": (lambda: _partly(PARTLY["albumentations"][0]), None, "albumentations"),
}

# ------------------------------------------------------------------ loaders


def loaders(root: Path, scenario: str) -> dict[str, Iterable]:
    import millrace

    make, collate, _ = SCENARIOS[scenario]
    dataset = import_torchvision().datasets.ImageFolder(root, make())
    options: dict[str, Any] = {
        "batch_size": BATCHES.get(scenario, BATCH),
        "num_workers": WORKERS,
        "shuffle": True,
        "persistent_workers": True,
        "collate_fn": None if collate is None else collate(),
    }
    how = "auto" if scenario in PARTLY else "require"
    made = {
        "torch": torch.utils.data.DataLoader(dataset, **options),
        "millrace": millrace.DataLoader(dataset, native=how, **options),
    }
    if scenario in PARTLY:
        made["millrace, all in Python"] = millrace.DataLoader(dataset, native="never", **options)
    if collate is not None:  # what the collate_fn adds
        made["millrace, default_collate"] = millrace.DataLoader(
            dataset, native="require", **options | {"collate_fn": None}
        )
    return made


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    parts = value.values() if isinstance(value, dict) else value
    return [tensor for part in parts for tensor in _tensors(part)]


def _form(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return tuple(value.shape[1:]), value.dtype, value.is_contiguous()
    if isinstance(value, dict):
        return {key: _form(part) for key, part in value.items()}
    return [_form(part) for part in value]


def check(sides: dict[str, Iterable]) -> None:
    """SystemExit when the batches of an epoch have other forms, or pictures of another brightness."""
    forms = {name: _form(next(iter(loader))) for name, loader in sides.items()}
    if forms["millrace"] != forms["torch"]:
        raise SystemExit(f"batches of the form {forms['millrace']}, torch's {forms['torch']}")
    means = {
        name: torch.cat([_tensors(batch)[0].mean((1, 2, 3)) for batch in loader])
        for name, loader in sides.items()
    }
    apart = means["millrace"].mean() - means["torch"].mean()
    error = (sum(values.var() / len(values) for values in means.values())) ** 0.5
    if abs(apart) > 5 * error:
        raise SystemExit(f"other pictures than torch's: brighter by {apart:.3f}, within {error:.3f}")


def check_partly(root: Path, scenario: str) -> None:
    """SystemExit when its step does not run behind native ones, or gives other batches than torch's behind
    such as draw nothing.
    """
    import millrace

    step = PARTLY[scenario][1]
    dataset = import_torchvision().datasets.ImageFolder(root, _partly(step, certain=True))
    loader = millrace.DataLoader(dataset, BATCH, num_workers=WORKERS)
    if "transform: native — Resize, CenterCrop" not in loader.explain():
        raise SystemExit(f"nothing runs natively:\n{loader.explain()}")
    theirs = torch.utils.data.DataLoader(dataset, BATCH, num_workers=WORKERS)
    for batch, expected in zip(loader, theirs, strict=True):
        if not all(map(torch.equal, batch, expected)):
            raise SystemExit("other batches than torch's behind Resize and CenterCrop")


def measure(name: str, paths: list[str], rounds: int, cpus: list[int]) -> Iterator[dict]:
    """One record per epoch: at least `rounds` quiet rounds, at most twice as many in all."""
    import_torchvision()
    with tempfile.TemporaryDirectory() as folder:
        class_folders(Path(folder), paths)
        made = loaders(Path(folder), name)
        check(made)
        if name in PARTLY:
            check_partly(Path(folder), name)
        sides: Sides = {side: (WORKERS, functools.partial(iter, loader)) for side, loader in made.items()}
        common = {
            "scenario": name,
            "cpus": len(cpus),
            "pictures": len(paths),
            **run_facts((*PACKAGES, "albumentations")),
        }
        yield from rows_in_turns(sides, rounds, cpus, common, lambda batch: len(_tensors(batch)[-1]))


def main() -> None:
    packages = {name: package for name, (*_, package) in SCENARIOS.items()}
    photo_runs.run(__doc__, "recipes", packages, measure)


if __name__ == "__main__":
    main()
