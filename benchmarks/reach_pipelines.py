"""The pipelines of reach.py: datasets and loaders as people write them, each a function that makes its
loader.

A function gets the folder with the data that reach.py has made, the DataLoader class that the script imports,
and where the script imports webdataset from. Nothing else differs between the sides.
"""

from __future__ import annotations

import glob
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from PIL import Image
from torch.utils.data import Dataset, IterableDataset, TensorDataset, default_collate, get_worker_info

from benchmarks.lazy_pictures import MEAN, SIDE, STD
from benchmarks.loaders._torchvision import import_torchvision
from benchmarks.recipes import dino

import_torchvision()

from torchvision import datasets, tv_tensors  # noqa: E402
from torchvision import transforms as t  # noqa: E402
from torchvision.transforms import functional, v2  # noqa: E402

WORKERS = 2
END = [t.ToTensor(), t.Normalize(MEAN, STD)]
V2_END = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)]
Loader = Callable[..., Any]


def training(*policy: Any) -> Any:
    return t.Compose([t.RandomResizedCrop(SIDE), t.RandomHorizontalFlip(), *policy, *END])


def validation() -> Any:
    return t.Compose([t.Resize(256), t.CenterCrop(SIDE), *END])


def folder(root: Path, loader: Loader, transform: Any, **options: Any) -> Any:
    data = datasets.ImageFolder(str(root / "photos"), transform)
    return loader(data, 32, shuffle=True, num_workers=WORKERS, persistent_workers=True, **options)


def loaded(loader: Loader, data: Any, batch: int, workers: int = WORKERS, **options: Any) -> Any:
    return loader(data, batch, num_workers=workers, persistent_workers=workers > 0, **options)


# ------------------------------------------------------------------ pictures


class Preset:
    """A class that holds a chain, as torchvision's references have it."""

    def __init__(self) -> None:
        self.transforms = v2.Compose([v2.RandomResizedCrop(SIDE), v2.RandomHorizontalFlip(), *V2_END])

    def __call__(self, picture: Any) -> Any:
        return self.transforms(picture)


class Own(Dataset):
    """Files and labels in lists, opened by Pillow."""

    def __init__(self, root: Path, transform: Any) -> None:
        self.paths = sorted(glob.glob(f"{root}/photos/*/*.jpg"))
        self.transform = transform

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        picture = Image.open(self.paths[index]).convert("RGB")
        return self.transform(picture), index % 10


class Whole(Own):
    def __getitem__(self, index: int) -> Any:
        return torch.from_numpy(np.array(Image.open(self.paths[index]).convert("RGB"))), index % 10


class Detection(Own):
    """Boxes beside the picture, transformed together (SSD's preset)."""

    chain = v2.Compose(
        [
            v2.RandomPhotometricDistort(),
            v2.RandomZoomOut(fill=[123.0, 117.0, 104.0]),
            v2.RandomIoUCrop(),
            v2.RandomHorizontalFlip(),
            v2.Resize((300, 300)),
            v2.SanitizeBoundingBoxes(),
            v2.ToImage(),
            v2.ToDtype(torch.float32, scale=True),
        ]
    )

    def __getitem__(self, index: int) -> Any:
        picture = Image.open(self.paths[index]).convert("RGB")
        boxes = tv_tensors.BoundingBoxes(
            [[30, 40, 200, 300], [100, 120, 250, 240]],
            format="XYXY",
            canvas_size=(picture.height, picture.width),
        )
        return self.chain(picture, {"boxes": boxes, "labels": torch.tensor([1, 2])})


class Instances(Own):
    """A mask for each instance, and boxes around them (torchvision's tutorial of detection)."""

    def __getitem__(self, index: int) -> Any:
        path = Path(self.paths[index])
        picture = Image.open(path).convert("RGB")
        mask = np.array(Image.open(path.parents[2] / "masks" / f"{path.stem}.png"))
        objects = np.unique(mask)[1:]
        masks = mask == objects[:, None, None]
        boxes = [[x.min(), y.min(), x.max() + 1, y.max() + 1] for y, x in map(np.nonzero, masks)]
        target = {
            "boxes": torch.as_tensor(np.array(boxes), dtype=torch.float32),
            "masks": torch.as_tensor(masks, dtype=torch.uint8),
        }
        return functional.to_tensor(picture), target


class Segmentation(Own):
    """Picture and mask scaled, cropped and flipped by the same numbers."""

    def __getitem__(self, index: int) -> Any:
        path = Path(self.paths[index])
        picture = Image.open(path).convert("RGB")
        mask = Image.open(path.parents[2] / "masks" / f"{path.stem}.png")
        size = random.randint(SIDE, 2 * SIDE)
        picture = functional.resize(picture, size, t.InterpolationMode.BILINEAR)
        mask = functional.resize(mask, size, t.InterpolationMode.NEAREST)
        if random.random() < 0.5:
            picture, mask = functional.hflip(picture), functional.hflip(mask)
        box = t.RandomCrop.get_params(picture, (SIDE, SIDE))
        picture, mask = functional.crop(picture, *box), functional.crop(mask, *box)
        tensor = functional.normalize(functional.to_tensor(picture), MEAN, STD)
        return tensor, torch.as_tensor(np.array(mask), dtype=torch.int64)


def in_lists(samples: Any) -> Any:
    return tuple(zip(*samples))


def mixing(mix: type) -> Callable[[Any], Any]:
    mixed = mix(num_classes=10)
    return lambda samples: mixed(*default_collate(samples))


def timm_loader(root: Path, loader: Loader, **options: Any) -> Any:
    from timm.data import create_dataset, create_loader

    data = create_dataset("", root=str(root / "photos"))
    with mock.patch("torch.utils.data.DataLoader", loader):
        made = create_loader(
            data,
            (3, SIDE, SIDE),
            32,
            is_training=True,
            num_workers=WORKERS,
            device=torch.device("cpu"),
            **options,
        )
    return made


def timm_recipe(root: Path, loader: Loader) -> Any:
    from timm.data import FastCollateMixup

    mixup = FastCollateMixup(mixup_alpha=0.8, cutmix_alpha=1.0, num_classes=10)
    return timm_loader(root, loader, auto_augment="rand-m9-inc1", re_prob=0.25, collate_fn=mixup)


def hugging_face_pictures(root: Path, loader: Loader) -> Any:
    import datasets as hugging_face

    chain = training()

    def transformed(rows: Any) -> Any:
        rows["pixel_values"] = [chain(picture.convert("RGB")) for picture in rows.pop("image")]
        return rows

    files = sorted(glob.glob(f"{root}/photos/*/*.jpg"))
    data = hugging_face.Dataset.from_dict({"image": files, "label": [i % 10 for i in range(len(files))]})
    data = data.cast_column("image", hugging_face.Image()).with_transform(transformed)
    return loaded(loader, data, 32, shuffle=True)


def tar_shards(root: Path, loader: Loader, webdataset: Any) -> Any:
    data = webdataset.WebDataset(f"{root}/shards/{{0..1}}.tar", shardshuffle=False)
    return loaded(loader, data.decode("pil").to_tuple("jpg", "cls").map_tuple(training(), int), 32)


# ------------------------------------------------------------------ numbers


def hugging_face_numbers(root: Path, loader: Loader, workers: int) -> Any:
    import datasets as hugging_face

    numbers = {"x": np.arange(160_000, dtype=np.float32).reshape(-1, 16), "y": np.arange(10_000)}
    data = hugging_face.Dataset.from_dict(numbers).with_format("torch")
    return loaded(loader, data, 64, workers, shuffle=True)


class Windows(Dataset):
    """Windows of a file of tokens, as nanoGPT takes them."""

    def __init__(self, path: Path, length: int = 1024) -> None:
        self.tokens, self.length = np.memmap(path, np.uint16, "r"), length

    def __len__(self) -> int:
        return len(self.tokens) // self.length - 1

    def __getitem__(self, index: int) -> Any:
        at = index * self.length
        x = torch.from_numpy(self.tokens[at : at + self.length].astype(np.int64))
        return x, torch.from_numpy(self.tokens[at + 1 : at + 1 + self.length].astype(np.int64))


class Rows(Dataset):
    """A table in memory, a row a sample."""

    def __init__(self) -> None:
        self.x, self.y = np.random.default_rng(0).random((20_000, 32), np.float32), np.arange(20_000) % 10

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> Any:
        return torch.tensor(self.x[index]), torch.tensor(self.y[index])


class Parquet(IterableDataset):
    """Row groups of files, divided over the workers."""

    def __init__(self, root: Path) -> None:
        self.paths = sorted(glob.glob(f"{root}/*.parquet"))

    def __iter__(self) -> Iterator[Any]:
        import pyarrow.parquet as parquet

        worker = get_worker_info()
        for path in self.paths[worker.id :: worker.num_workers] if worker else self.paths:
            for group in parquet.ParquetFile(path).iter_batches(1024):
                columns = [column.to_numpy() for column in group.columns]
                for row in zip(*columns):
                    yield dict(zip(group.schema.names, row))


def column_major(loader: Loader) -> Any:
    import pandas

    frame = pandas.DataFrame({f"c{i}": np.random.default_rng(i).random(50_000) for i in range(16)})
    data = TensorDataset(torch.from_numpy(frame.values), torch.arange(50_000))
    return loaded(loader, data, 256, shuffle=True)


class Sounds(Dataset):
    """Wave files; `crop`: a piece of so many samples, from a random place."""

    def __init__(self, root: Path, crop: int | None = None) -> None:
        self.paths, self.crop = sorted(glob.glob(f"{root}/*.wav")), crop

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        from scipy.io import wavfile

        _, wave = wavfile.read(self.paths[index])
        sound = torch.from_numpy(wave.astype(np.float32) / 32768)
        if self.crop is None:
            return sound, index % 10
        begin = torch.randint(0, len(sound) - self.crop, ()).item()
        return sound[begin : begin + self.crop], index % 10


def padded(samples: Any) -> Any:
    sounds, labels = zip(*samples)
    lengths = torch.tensor([len(sound) for sound in sounds])
    return torch.nn.utils.rnn.pad_sequence(sounds, batch_first=True), lengths, torch.tensor(labels)


class Patches(Dataset):
    """An HDF5 file that each worker opens at its first sample."""

    def __init__(self, path: Path) -> None:
        import h5py

        self.path, self.file = path, None
        with h5py.File(path) as file:
            self.length = len(file["x"])

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        import h5py

        if self.file is None:
            self.file = h5py.File(self.path)
        return torch.from_numpy(self.file["x"][index]), int(self.file["y"][index])


def cifar(root: Path, loader: Loader) -> Any:
    chain = t.Compose([t.RandomCrop(32, padding=4), t.RandomHorizontalFlip(), *END])
    # The files are noise.
    patch = mock.patch("torchvision.datasets.cifar.check_integrity", return_value=True)
    with patch, mock.patch.object(datasets.CIFAR10, "_check_integrity", return_value=True):
        data = datasets.CIFAR10(str(root / "cifar"), train=True, transform=chain)
    return loaded(loader, data, 128, shuffle=True)


# name: (what makes the loader, whether both sides give the same batches)
PIPELINES: dict[str, tuple[Callable[[Path, Loader, Any], Any], bool]] = {
    "ImageFolder, v1, training": (lambda r, c, w: folder(r, c, training()), False),
    "ImageFolder, v2, training": (lambda r, c, w: folder(r, c, Preset().transforms), False),
    "ImageFolder, validation": (lambda r, c, w: folder(r, c, validation()), True),
    "a preset object that holds a chain": (lambda r, c, w: folder(r, c, Preset()), False),
    "weights' own transforms": (lambda r, c, w: folder(r, c, _weights()), True),
    "TrivialAugmentWide": (lambda r, c, w: folder(r, c, training(t.TrivialAugmentWide())), False),
    "RandAugment": (lambda r, c, w: folder(r, c, training(t.RandAugment())), False),
    "MixUp in collate_fn": (lambda r, c, w: folder(r, c, training(), collate_fn=mixing(v2.MixUp)), False),
    "CutMix in collate_fn": (lambda r, c, w: folder(r, c, training(), collate_fn=mixing(v2.CutMix)), False),
    "DINO, 2 + 8 crops": (lambda r, c, w: folder(r, c, dino()), False),
    "timm create_loader": (lambda r, c, w: timm_loader(r, c), False),
    "timm rand-m9, erasing, mixup": (lambda r, c, w: timm_recipe(r, c), False),
    "CIFAR10, training": (lambda r, c, w: cifar(r, c), False),
    "own Dataset, training": (lambda r, c, w: loaded(c, Own(r, training()), 32, shuffle=True), False),
    "own Dataset, whole arrays": (lambda r, c, w: loaded(c, Whole(r, None), 32, collate_fn=in_lists), True),
    "detection, SSD's preset": (
        lambda r, c, w: loaded(c, Detection(r, None), 16, shuffle=True, collate_fn=in_lists),
        False,
    ),
    "instance masks": (lambda r, c, w: loaded(c, Instances(r, None), 8, collate_fn=in_lists), True),
    "segmentation": (lambda r, c, w: loaded(c, Segmentation(r, None), 16, shuffle=True), False),
    "Hugging Face pictures, with_transform": (lambda r, c, w: hugging_face_pictures(r, c), False),
    "webdataset, tar shards": (tar_shards, False),
    "Hugging Face numbers, no workers": (lambda r, c, w: hugging_face_numbers(r, c, 0), True),
    "Hugging Face numbers": (lambda r, c, w: hugging_face_numbers(r, c, WORKERS), True),
    "windows of tokens": (lambda r, c, w: loaded(c, Windows(r / "tokens.bin"), 16, shuffle=True), True),
    "rows of a table, no workers": (lambda r, c, w: loaded(c, Rows(), 64, 0, shuffle=True), True),
    "rows of a table": (lambda r, c, w: loaded(c, Rows(), 64, shuffle=True), True),
    "Parquet, IterableDataset": (lambda r, c, w: loaded(c, Parquet(r / "tables"), 256), True),
    "TensorDataset of pandas' values": (lambda r, c, w: column_major(c), True),
    "sounds, padded": (lambda r, c, w: loaded(c, Sounds(r / "sounds"), 16, collate_fn=padded), True),
    "sounds, cropped": (lambda r, c, w: loaded(c, Sounds(r / "sounds", 16_000), 16, shuffle=True), True),
    "HDF5 patches": (lambda r, c, w: loaded(c, Patches(r / "patches.h5"), 32, shuffle=True), True),
}


def _weights() -> Any:
    from torchvision.models import ResNet18_Weights

    return ResNet18_Weights.DEFAULT.transforms()
