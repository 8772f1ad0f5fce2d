"""The GPU benchmarks that begin with JPEG files: `photos` and `crops`."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import millrace
import numpy as np
import torch
from torch.utils.data import DataLoader as TorchLoader

from benchmarks.gpu_machine import Machine, timed

DECODERS = ["cpu", "gpu", "auto"]
MEAN, STD = (0.5,) * 3, (0.25,) * 3
Sides = dict[str, Callable[[], dict[str, float]]]


def make_files(folder: Path, count: int) -> None:
    """JPEGs of 500 x 375 with the detail of photos (110 kB each), in ten classes."""
    from PIL import Image

    rng = np.random.default_rng(0)
    for i in range(count):
        path = folder / f"class{i % 10}" / f"{i}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        grains = [
            rng.integers(0, 256, (375 // size + 1, 500 // size + 1, 3), np.uint8) for size in (3, 9, 40)
        ]
        detail = [Image.fromarray(grain).resize((500, 375), Image.Resampling.BICUBIC) for grain in grains]
        picture = Image.blend(Image.blend(detail[0], detail[1], 0.6), detail[2], 0.6)
        buffer = io.BytesIO()
        picture.save(buffer, "JPEG", quality=92)
        path.write_bytes(buffer.getvalue())


def photos(here: Machine, folder: str) -> Sides:
    """One crop of each picture."""
    t = millrace.transforms
    chain = [t.RandomResizedCrop(here.side), t.RandomHorizontalFlip(), t.ToTensor(), t.Normalize(MEAN, STD)]
    data = millrace.datasets.ImageFolder(folder, t.Compose(chain))
    sides = sides_of(here, data)
    if not here.fake:
        sides |= torchvision_side(here, data)
    return measured(here, sides)


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
    return measured(here, sides_of(here, millrace.datasets.ImageFolder(folder, views)))


def sides_of(here: Machine, data: Any) -> dict[str, Callable[[], Iterable[Any]]]:
    """A loader for each place where JPEGs may be decoded; all give the same labels, and pictures that differ
    as the decoders do.
    """

    def loader(decode: Any) -> Iterable[Any]:
        torch.manual_seed(0)
        arguments: dict[str, Any] = {"num_workers": here.workers, "native": "require", "decode": decode}
        return millrace.DataLoader(data, here.batch, shuffle=True, device="cuda", **arguments)

    pictures, labels = next(iter(loader("cpu")))
    for decode in DECODERS[1:]:
        theirs, their_labels = next(iter(loader(decode)))
        assert torch.equal(their_labels, labels), f"decode={decode}: other labels"
        for one, other in zip(views_of(theirs), views_of(pictures), strict=True):
            levels = (one - other).abs() * STD[0] * 255
            assert (levels <= 2).float().mean() >= 0.999, f"decode={decode}: other pixels"
    return {f"millrace, decode={decode}": lambda decode=decode: loader(decode) for decode in DECODERS}


def views_of(pictures: Any) -> list[torch.Tensor]:
    return [pictures] if isinstance(pictures, torch.Tensor) else list(pictures)


def measured(here: Machine, sides: dict[str, Callable[[], Iterable[Any]]]) -> Sides:
    def run(make: Callable[[], Iterable[Any]]) -> dict[str, float]:
        seconds, count = timed(here, make(), warm=1)
        return {"pictures_per_s": count * here.batch / seconds}

    return {name: lambda make=make: run(make) for name, make in sides.items()}


def torchvision_side(here: Machine, data: Any) -> dict[str, Callable[[], Iterable[Any]]]:
    try:
        from torchvision.io import decode_jpeg, read_file
        from torchvision.transforms import v2

        decode_jpeg([read_file(data.samples[0][0])], device=here.device)
    except Exception as error:
        print(f"photos: torchvision's CUDA decoder is not here ({error})")
        return {}
    crop = v2.Compose([v2.RandomResizedCrop(here.side, antialias=True), v2.RandomHorizontalFlip()])
    finish = v2.Compose([v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)])

    class Files(torch.utils.data.Dataset):
        def __len__(self) -> int:
            return len(data.samples)

        def __getitem__(self, index: int) -> Any:
            path, label = data.samples[index]
            return read_file(path), label

    def batches() -> Iterator[Any]:
        loader = TorchLoader(
            Files(),
            here.batch,
            shuffle=True,
            num_workers=here.workers,
            collate_fn=lambda samples: tuple(zip(*samples)),
        )
        for files, labels in loader:
            pictures = decode_jpeg(list(files), device=here.device)
            yield (
                finish(torch.stack([crop(picture) for picture in pictures])),
                torch.tensor(labels).to(here.device),
            )

    return {"torchvision, CUDA decode_jpeg": batches}
