"""Datasets put together by chance, as people write them: each of millrace's loaders gives torch's batches
from equal seeds, leaves the generators where torch leaves them, and changes no batch after it was delivered.
"""

from __future__ import annotations

import io
import random
from typing import Any

import millrace
import numpy as np
import pytest
import torch
from lazy_cases import WAYS, written
from loader_data import torchvision_or_skip
from pictures import jpeg_bytes, make_picture
from PIL import Image

torchvision = torchvision_or_skip()
from torchvision.transforms import v2  # noqa: E402

T = torchvision.transforms
COUNT, QUICK, ALL = 10, 30, 500
MEAN, STD = [0.5, 0.4, 0.3], [0.2, 0.3, 0.25]


def inverted(picture: Any) -> Any:
    """A step that nobody knows, of a picture, an array or a tensor."""
    if isinstance(picture, Image.Image):
        return Image.fromarray(255 - np.asarray(picture))
    return picture.flip(0) if isinstance(picture, torch.Tensor) else picture[::-1].copy()


CHANCE_V1 = (
    *(T.RandomHorizontalFlip(), T.RandomCrop(20, padding=2), T.ColorJitter(0.3, 0.2, 0.2, 0.1)),
    *(T.RandomRotation(20), T.RandAugment(), T.RandomApply([T.Grayscale(3)], 0.5)),
)
CHANCE_V2 = (
    *(v2.RandomHorizontalFlip(), v2.RandomCrop(20), v2.RandomPhotometricDistort()),
    *(v2.TrivialAugmentWide(), v2.RandomVerticalFlip()),
)
STEPS_V1 = T.CenterCrop(22), T.Pad(2), inverted, lambda picture: picture.transpose(0)
STEPS_V2 = v2.CenterCrop(22), v2.Pad(1), inverted


class Made(torch.utils.data.Dataset):
    """What `seed` decides. `is_certain`: nothing in it is drawn."""

    def __init__(self, files: list[str], seed: int, is_certain: bool) -> None:
        choose = random.Random(seed)
        self.files = files
        self.opener = choose.choice(("open", "with", "bytes", "array"))
        is_v2 = choose.random() < 0.4
        sizes = T.Resize((24, 24)) if is_certain else T.RandomResizedCrop(24)
        changes = (
            list(STEPS_V2 if is_v2 else STEPS_V1) if is_certain else [*(CHANCE_V2 if is_v2 else CHANCE_V1)]
        )
        if not is_certain:
            changes.append(inverted)
        steps: list[Any] = [sizes, *choose.sample(changes, choose.randrange(3))]
        if steps[-1] is not sizes:
            steps.append(T.CenterCrop(20))
        self.as_array = choose.random() < 0.15
        if not self.as_array:
            steps += [v2.ToImage(), v2.ToDtype(torch.float32, scale=True)] if is_v2 else [T.ToTensor()]
            if choose.random() < 0.2:
                steps[-2 if is_v2 else -1 :] = [T.PILToTensor()]
            elif choose.random() < 0.6:
                steps.append((v2 if is_v2 else T).Normalize(MEAN, STD))
            if choose.random() < 0.2:
                steps.append(inverted)
        if self.opener == "array":
            steps.insert(0, T.ToPILImage())
        self.chain = T.Compose(steps)
        self.form = choose.choice(("pair", "dict", "alone", "two views", "strided", "numpy", "view kept"))
        self.keeping = choose.choice(("no", "no", "cache", "last", "twice"))
        self.kept: dict[int, Any] = {}

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> Any:
        key = index // 2 if self.keeping == "twice" else index
        if self.keeping in ("cache", "twice") and key in self.kept:
            return self.kept[key]
        sample = self.made(key)
        if self.keeping == "last":
            self.kept = {0: sample}
        elif self.keeping != "no":
            self.kept[key] = sample
        return sample

    def opened(self, key: int) -> Any:
        path = self.files[key]
        if self.opener == "with":
            with open(path, "rb") as file:
                return Image.open(file).convert("RGB")
        if self.opener == "bytes":
            with open(path, "rb") as file:
                return Image.open(io.BytesIO(file.read())).convert("RGB")
        picture = Image.open(path).convert("RGB")
        return np.asarray(picture) if self.opener == "array" else picture

    def made(self, key: int) -> Any:
        picture = self.opened(key)
        value = self.chain(picture)
        if self.as_array:
            value = np.array(value)
        if self.form == "two views":
            other = self.chain(picture)
            return value, np.array(other) if self.as_array else other
        if self.form == "dict":
            return {"image": value, "label": key, "name": self.files[key][-5:]}
        if self.form == "alone":
            return value
        if self.form == "strided":
            return value[..., ::2].copy() if self.as_array else value[..., ::2]
        if self.form == "numpy" and not self.as_array:
            return value.numpy(), key
        if self.form == "view kept":
            self.view = value[:1]
        return value, key


class Collated:
    """A collate_fn of one's own. `kept`: of the batch before."""

    def __init__(self, seed: int) -> None:
        self.how, self.kept = random.Random(seed).choice(("list", "default", "kept")), None

    def __call__(self, samples: Any) -> Any:
        if self.how == "kept":
            self.kept = samples
        return samples if self.how == "list" else torch.utils.data.default_collate(samples)


def run(loader: Any, changes: bool) -> Any:
    """Two epochs as written(), and where the generators are; `changes`: the loop writes into its batches."""
    random.seed(3)
    np.random.seed(3)
    torch.manual_seed(3)
    told, batches = [], []
    for _ in range(2):
        for batch in loader:
            told.append(written(batch))
            if changes:
                change(batch)
                told[-1] = written(batch)
            batches.append(batch)
    assert changes or [written(batch) for batch in batches] == told, "a batch changed after its delivery"
    return told, float(torch.rand(())), random.random(), float(np.random.rand())


def change(batch: Any) -> None:
    if isinstance(batch, torch.Tensor):
        batch.add_(1)
    for part in (
        batch.values() if isinstance(batch, dict) else batch if isinstance(batch, (list, tuple)) else ()
    ):
        change(part)


@pytest.fixture(scope="module")
def files(tmp_path_factory: Any) -> list[str]:
    folder = tmp_path_factory.mktemp("random")
    for number in range(COUNT):
        picture = make_picture(40 + 3 * number, 60 - 2 * number, seed=number)
        (folder / f"{number}.jpg").write_bytes(jpeg_bytes(picture, quality=85))
    return [str(folder / f"{number}.jpg") for number in range(COUNT)]


def check(files: list[str], seed: int) -> None:
    choose = random.Random(f"loader {seed}")
    way = choose.choice(("inline", "inline", "fork", "threads"))
    is_certain = way == "threads" or choose.random() < 0.5
    pictures = choose.choice(("lazy", "native")) if is_certain else "lazy"
    options = {"batch_size": choose.choice((3, 4)), "shuffle": choose.random() < 0.5}
    # Threads share what each of torch's workers has alone.
    has_own, changes = (way != "threads" and choose.random() < 0.3 for _ in range(2))

    def made(cls: Any, **more: Any) -> Any:
        dataset = Made(files, seed, is_certain)
        dataset.keeping = "no" if way == "threads" else dataset.keeping
        own = {"collate_fn": Collated(seed)} if has_own else {}
        return dataset, cls(dataset, **options, **own, **more)

    theirs = {name: value for name, value in WAYS[way].items() if name != "worker_method"}
    if way == "threads":
        theirs = {"num_workers": 0}
    _, loader = made(torch.utils.data.DataLoader, **theirs)
    expected = run(loader, changes)
    dataset, ours = made(millrace.DataLoader, **WAYS[way], pictures=pictures)
    got = run(ours, changes)
    parts = way, pictures, dataset.opener, dataset.form, dataset.keeping, dataset.chain
    about = f"seed {seed}: {parts}"
    assert got[0] == expected[0], about
    assert way == "threads" or got[1:] == expected[1:], about


@pytest.mark.parametrize("tenth", range(10))
def test_some(files: list[str], tenth: int) -> None:
    for seed in range(tenth, QUICK, 10):
        check(files, seed)


@pytest.mark.slow
@pytest.mark.parametrize("tenth", range(10))
def test_all(files: list[str], tenth: int) -> None:
    for seed in range(QUICK + tenth, ALL, 10):
        check(files, seed)
