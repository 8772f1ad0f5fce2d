"""Pipelines of reach.py as tutorials have them, each without workers and with two: HDF5, memmap, text and
tables read in __getitem__, pictures behind a chain, and steps that nobody but the script knows.

    python -m benchmarks.reach --out benchmarks/results/tutorials/local.jsonl "workers"
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.utils.data import IterableDataset, get_worker_info

from benchmarks.latest import latest
from benchmarks.lazy_pictures import SIDE
from benchmarks.reach_items import Manifest, Views
from benchmarks.reach_pipelines import Own, Patches, Whole, in_lists, loaded, t, training, validation

UNKNOWN_ROWS = 400
WORKERS = 0, 2


# About 0.2 ms each: what a script may do that no loader knows.
def blurred_tensor(tensor: torch.Tensor) -> torch.Tensor:
    values = tensor.numpy()
    return torch.from_numpy((values + np.roll(values, 1, 2)) / 2)


def blurred_picture(picture: Any) -> Any:
    values = np.asarray(picture)
    sides = (np.roll(values, 1, 1) >> 2) + (np.roll(values, -1, 1) >> 2)
    return Image.fromarray((values >> 1) + sides)


def at_the_end() -> Any:
    return t.Compose([*training().transforms, blurred_tensor])


def in_the_middle() -> Any:
    crop, flip, *end = training().transforms
    return t.Compose([crop, flip, blurred_picture, *end])


class Repeated(Own):
    """An epoch of `UNKNOWN_ROWS` pictures, worker start included."""

    def __len__(self) -> int:
        return UNKNOWN_ROWS

    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(index % len(self.paths))


class GzipPatches(Patches):
    """`key`: rows in chunks of one row ("row"), as h5py cuts them by itself ("auto"), and more of these than
    our cache of 64 MiB holds ("large").
    """

    def __init__(self, path: Path, key: str) -> None:
        import h5py

        self.path, self.key, self.file = path, key, None
        with h5py.File(path) as file:
            self.length = len(file[key])

    def __getitem__(self, index: int) -> Any:
        import h5py

        if self.file is None:
            self.file = h5py.File(self.path)
        row = self.file[self.key][index]
        return torch.from_numpy(row).float() / 255, int(self.file["y"][index])


class ReopenedPatches(Patches):
    """Opened and closed for each sample."""

    def __getitem__(self, index: int) -> Any:
        import h5py

        with h5py.File(self.path, "r") as file:
            return torch.from_numpy(file["x"][index]), int(file["y"][index])


class Zarr(Patches):
    def __init__(self, root: Path) -> None:
        import zarr

        self.file = zarr.open_group(str(root / "patches.zarr"), mode="r")
        self.length = self.file["y"].shape[0]


class Memmap(torch.utils.data.Dataset):
    """Rows of a file, as floats."""

    def __init__(self, path: Path) -> None:
        self.x = np.load(path, mmap_mode="r")
        self.y = np.arange(len(self.x)) % 10

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> Any:
        return torch.from_numpy(np.array(self.x[index])).float(), int(self.y[index])


class Albumented(Own):
    """cv2.imread and Albumentations."""

    def __init__(self, root: Path, transform: Any) -> None:
        import albumentations
        import cv2  # noqa: F401
        from albumentations.pytorch import ToTensorV2

        parts = [albumentations.RandomResizedCrop((SIDE, SIDE)), albumentations.HorizontalFlip()]
        super().__init__(root, albumentations.Compose([*parts, albumentations.Normalize(), ToTensorV2()]))

    def __getitem__(self, index: int) -> Any:
        import cv2

        picture = cv2.cvtColor(cv2.imread(self.paths[index]), cv2.COLOR_BGR2RGB)
        return self.transform(image=picture)["image"], index % 10


class Text(IterableDataset):
    """Lines of a file through a fast tokenizer. `pads`: to one length; else lists of numbers."""

    def __init__(self, path: Path, pads: bool) -> None:
        from tokenizers import Tokenizer, models, pre_tokenizers, trainers

        self.path = str(path)
        self.tokenizer = Tokenizer(models.WordLevel(unk_token="[UNK]"))
        self.tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
        trainer = trainers.WordLevelTrainer(special_tokens=["[UNK]", "[PAD]"])
        self.tokenizer.train([self.path], trainer)
        if pads:
            self.tokenizer.enable_padding(length=128, pad_id=1)
            self.tokenizer.enable_truncation(128)
        self.pads = pads

    def __iter__(self) -> Iterator[Any]:
        worker = get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker else (0, 1)
        with open(self.path) as file:
            for number, line in enumerate(file):
                if number % step == first:
                    ids = self.tokenizer.encode(line).ids
                    yield {"input_ids": torch.tensor(ids) if self.pads else ids, "label": number % 2}


def padded_lists(samples: Any) -> Any:
    rows = [torch.tensor(sample["input_ids"]) for sample in samples]
    padded = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=1)
    return {"input_ids": padded, "labels": torch.tensor([sample["label"] for sample in samples])}


def tars(loader: Any, webdataset: Any, root: Path, workers: int, decode: str) -> Any:
    data = webdataset.WebDataset(f"{root}/shards/{{0..1}}.tar", shardshuffle=False)
    if decode == "pil":
        chain = validation()
        data = data.decode("pil").map(lambda sample: (chain(sample["jpg"]), int(sample["cls"])))
    else:
        data = data.decode("torchrgb").to_tuple("jpg", "cls").map(lambda s: (s[0][:, :SIDE, :SIDE], s[1]))
    return loaded(loader, data, 32, workers)


def make_data(root: Path) -> None:
    """What reach.py's data lacks, made of its photos and of random numbers."""
    import h5py
    import zarr

    random = np.random.default_rng(3)
    photos = sorted(root.glob("photos/*/*.jpg"))
    small = [np.asarray(Image.open(path).convert("RGB").resize((64, 64))) for path in photos]
    pixels = np.stack([small[i % len(small)].transpose(2, 0, 1) for i in range(3000)])
    with h5py.File(root / "gzip.h5", "w") as file:
        file.create_dataset("row", data=pixels, compression="gzip", chunks=(1, 3, 64, 64))
        file.create_dataset("auto", data=pixels, compression="gzip")
        large = (4 * len(pixels), *pixels.shape[1:])
        file.create_dataset("large", large, np.uint8, compression="gzip")
        for first in range(0, large[0], len(pixels)):
            file["large"][first : first + len(pixels)] = pixels
        file["y"] = np.arange(large[0]) % 10
    group = zarr.open_group(str(root / "patches.zarr"), mode="w")
    group.create_array("x", data=pixels, chunks=(1, 3, 64, 64))
    group.create_array("y", data=np.arange(3000) % 10, chunks=(3000,))
    np.save(root / "rows.npy", random.random((4000, 3, 48, 48)).astype(np.float16))
    words = [f"w{number}" for number in range(500)]
    lines = [" ".join(random.choice(words, random.integers(10, 150))) for _ in range(4000)]
    (root / "lines.txt").write_text("\n".join(lines))


def _each(make: Callable[..., Any], workers: int) -> Callable[..., Any]:
    return lambda root, loader, webdataset: make(root, loader, webdataset, workers)


def few(data: Any, count: int) -> Any:
    """Of a dataset that takes long: samples from all over it."""
    return torch.utils.data.Subset(data, range(0, len(data), len(data) // count)[:count])


def _starts(loader: Any, data: Any, workers: int) -> Any:
    return loader(data, 32, shuffle=True, num_workers=workers)


# name: (what makes the loader, whether both sides give the same batches)
KINDS: dict[str, tuple[Callable[..., Any], bool]] = {
    "training chain": (lambda r, c, w, n: loaded(c, Own(r, training()), 32, n, shuffle=True), False),
    "validation chain": (lambda r, c, w, n: loaded(c, Own(r, validation()), 32, n), True),
    "two views of each": (lambda r, c, w, n: loaded(c, Views(r, training()), 32, n, shuffle=True), False),
    "arrays of whole pictures": (
        lambda r, c, w, n: loaded(c, Whole(r, None), 32, n, collate_fn=in_lists),
        True,
    ),
    "unknown step at the end": (lambda r, c, w, n: _starts(c, Repeated(r, at_the_end()), n), False),
    "unknown step in the middle": (lambda r, c, w, n: _starts(c, Repeated(r, in_the_middle()), n), False),
    "paths in pandas": (lambda r, c, w, n: loaded(c, Manifest(r, training()), 32, n, shuffle=True), False),
    "Albumentations": (lambda r, c, w, n: loaded(c, Albumented(r, None), 32, n, shuffle=True), False),
    "HDF5": (lambda r, c, w, n: loaded(c, Patches(r / "patches.h5"), 32, n, shuffle=True), True),
    "HDF5, opened for each sample": (
        lambda r, c, w, n: loaded(c, few(ReopenedPatches(r / "patches.h5"), 800), 32, n, shuffle=True),
        True,
    ),
    "HDF5, gzip, a chunk a row": (
        lambda r, c, w, n: loaded(c, GzipPatches(r / "gzip.h5", "row"), 32, n, shuffle=True),
        True,
    ),
    "HDF5, gzip, h5py's chunks": (
        lambda r, c, w, n: loaded(c, few(GzipPatches(r / "gzip.h5", "auto"), 192), 32, n, shuffle=True),
        True,
    ),
    "HDF5, gzip, h5py's chunks, larger than the cache": (
        lambda r, c, w, n: loaded(c, few(GzipPatches(r / "gzip.h5", "large"), 192), 32, n, shuffle=True),
        True,
    ),
    "Zarr, a chunk a row": (lambda r, c, w, n: loaded(c, few(Zarr(r), 500), 32, n, shuffle=True), True),
    "memmap rows": (lambda r, c, w, n: loaded(c, Memmap(r / "rows.npy"), 64, n, shuffle=True), True),
    "tokenized lines": (lambda r, c, w, n: loaded(c, Text(r / "lines.txt", True), 32, n), True),
    "tokenized lines, own collate": (
        lambda r, c, w, n: loaded(c, Text(r / "lines.txt", False), 32, n, collate_fn=padded_lists),
        True,
    ),
    "WebDataset, map(lambda)": (lambda r, c, w, n: tars(c, w, r, n, "pil"), True),
    "WebDataset, torchrgb": (lambda r, c, w, n: tars(c, w, r, n, "torchrgb"), True),
}
PIPELINES = {
    f"{name}, {workers} workers": (_each(make, workers), equal)
    for name, (make, equal) in KINDS.items()
    for workers in WORKERS
}


def table() -> str:
    """Of docs/measured.md."""
    rows = ["| script | without workers | two workers |", "|---|---:|---:|"]
    for name in KINDS:
        runs = [latest("tutorials", f"{name}, {workers} workers") for workers in WORKERS]
        cells = [f"{each.factor():.1f} x, {each.records[0]['runs']}" for each in runs]
        rows.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(rows)
