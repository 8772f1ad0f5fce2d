"""The GPU benchmarks that begin with JPEG files: `photos`, `crops` and `train`."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import millrace
import numpy as np
import torch
from torch.utils.data import DataLoader as TorchLoader

from benchmarks.gpu_machine import Machine, Repeated, moved, timed
from benchmarks.gpu_model import training_step

DECODERS = ["cpu", "gpu", "auto"]
MEAN, STD = (0.5,) * 3, (0.25,) * 3
Sides = dict[str, Callable[[], dict[str, float]]]
Made = Callable[[int], Iterable[Any]]  # so many batches


def make_files(folder: Path, count: int) -> None:
    """JPEGs of 500 x 375 with the detail of photos (110 kB each), in ten classes."""
    for number in range(10):
        (folder / f"class{number}").mkdir(parents=True, exist_ok=True)
    # Spawned: a process forked from one that holds a GPU may not use it, and need not carry it along.
    with multiprocessing.get_context("spawn").Pool(min(count, len(os.sched_getaffinity(0)))) as pool:
        pool.starmap(make_file, [(folder / f"class{i % 10}" / f"{i}.jpg", i) for i in range(count)])


def make_file(path: Path, seed: int) -> None:
    from PIL import Image

    rng = np.random.default_rng(seed)
    grains = [rng.integers(0, 256, (375 // size + 1, 500 // size + 1, 3), np.uint8) for size in (3, 9, 40)]
    detail = [Image.fromarray(grain).resize((500, 375), Image.Resampling.BICUBIC) for grain in grains]
    Image.blend(Image.blend(detail[0], detail[1], 0.6), detail[2], 0.6).save(path, quality=92)


def photos(here: Machine, folder: str) -> Sides:
    """One crop of each picture."""
    return measured(here, one_crop(here, folder), 3 * here.batches)


def training(here: Machine, folder: str) -> Sides:
    """A training step on one crop of each picture."""
    train = training_step(here)
    sides = one_crop(here, folder)
    resident = next(iter(next(iter(sides.values()))(1)))

    def run(make: Made) -> dict[str, float]:
        seconds, steps = timed(here, make(here.total), train)
        return {"ms_per_step": 1e3 * seconds / steps}

    sides = {"resident": lambda count: (resident for _ in range(count)), **sides}
    return {name: lambda make=make: run(make) for name, make in sides.items()}


def one_crop(here: Machine, folder: str) -> dict[str, Made]:
    t = millrace.transforms
    chain = [t.RandomResizedCrop(here.side), t.RandomHorizontalFlip(), t.ToTensor(), t.Normalize(MEAN, STD)]
    data = millrace.datasets.ImageFolder(folder, t.Compose(chain))
    return {**sides_of(here, data), **torchvision_sides(here, folder, data)}


def crops(here: Machine, folder: str) -> Sides:
    """Two large and six small ones, as self-supervised training takes them."""
    t = millrace.transforms

    def crop(side: int, scale: tuple[float, float], blur: float) -> Any:
        colours = t.RandomApply([t.ColorJitter(0.4, 0.4, 0.2, 0.1)], p=0.8)
        more = [t.RandomGrayscale(0.2), t.RandomApply([t.GaussianBlur(9)], p=blur)]
        first = [t.RandomResizedCrop(side, scale=scale), t.RandomHorizontalFlip(), colours]
        return t.Compose([*first, *more, t.ToTensor(), t.Normalize(MEAN, STD)])

    large, small = crop(here.side, (0.4, 1.0), 0.5), crop(here.side * 3 // 7, (0.05, 0.4), 0.1)
    views = t.MultiView([large] * 2 + [small] * 6)
    return measured(here, sides_of(here, millrace.datasets.ImageFolder(folder, views)), here.batches)


def sides_of(here: Machine, data: Any) -> dict[str, Made]:
    """A loader for each place where JPEGs may be decoded; all give the same labels, and pictures that differ
    as the decoders do.
    """

    def loader(decode: Any, count: int) -> Iterable[Any]:
        torch.manual_seed(0)
        arguments: dict[str, Any] = {"num_workers": here.workers, "native": "require", "decode": decode}
        sampler = Repeated(len(data), count * here.batch, shuffle=True)
        return millrace.DataLoader(data, here.batch, sampler=sampler, device="cuda", **arguments)

    pictures, labels = next(iter(loader("cpu", 1)))
    for decode in DECODERS[1:]:
        theirs, their_labels = next(iter(loader(decode, 1)))
        assert torch.equal(their_labels, labels), f"decode={decode}: other labels"
        for one, other in zip(views_of(theirs), views_of(pictures), strict=True):
            levels = (one - other).abs() * STD[0] * 255
            assert (levels <= 2).float().mean() >= 0.999, f"decode={decode}: other pixels"
    return {f"millrace, decode={decode}": partial(loader, decode) for decode in DECODERS}


def views_of(pictures: Any) -> list[torch.Tensor]:
    return [pictures] if isinstance(pictures, torch.Tensor) else list(pictures)


def measured(here: Machine, sides: dict[str, Made], count: int) -> Sides:
    def run(make: Made) -> dict[str, float]:
        seconds, batches = timed(here, make(here.warm + count))
        return {"pictures_per_s": batches * here.batch / seconds}

    return {name: lambda make=make: run(make) for name, make in sides.items()}


def torchvision_sides(here: Machine, folder: str, data: Any) -> dict[str, Made]:
    """torch's loader with torchvision: Pillow in worker processes, and torchvision's decoder on the GPU."""
    if here.fake:
        return {}
    try:
        from torchvision import datasets, transforms
        from torchvision.io import decode_jpeg, read_file
        from torchvision.transforms import v2
    except ImportError as error:
        print(f"torchvision is not here ({error})")
        return {}
    t = transforms
    chain = [t.RandomResizedCrop(here.side), t.RandomHorizontalFlip(), t.ToTensor(), t.Normalize(MEAN, STD)]

    def loader(dataset: Any, count: int, **arguments: Any) -> Any:
        sampler = Repeated(len(data), count * here.batch, shuffle=True)
        return TorchLoader(dataset, here.batch, sampler=sampler, num_workers=here.workers, **arguments)

    def by_pillow(count: int) -> Iterable[Any]:
        return moved(loader(datasets.ImageFolder(folder, t.Compose(chain)), count, pin_memory=True), here)

    crop = v2.Compose([v2.RandomResizedCrop(here.side, antialias=True), v2.RandomHorizontalFlip()])
    finish = v2.Compose([v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)])

    class Files(torch.utils.data.Dataset):
        def __len__(self) -> int:
            return len(data.samples)

        def __getitem__(self, index: int) -> Any:
            path, label = data.samples[index]
            # Bytes: each tensor would be a file descriptor in two processes while it waits.
            return Path(path).read_bytes(), label

    def by_cuda(count: int) -> Iterator[Any]:
        for files, labels in loader(Files(), count, collate_fn=lambda samples: tuple(zip(*samples))):
            encoded = [torch.frombuffer(bytearray(file), dtype=torch.uint8) for file in files]
            pictures = decode_jpeg(encoded, device=here.device)
            yield (
                finish(torch.stack([crop(picture) for picture in pictures])),
                torch.tensor(labels).to(here.device),
            )

    sides: dict[str, Made] = {"torch, torchvision": by_pillow}
    try:
        decode_jpeg([read_file(data.samples[0][0])], device=here.device)
        sides["torchvision, CUDA decode_jpeg"] = by_cuda
    except Exception as error:
        print(f"torchvision's CUDA decoder is not here ({error})")
    return sides
