"""Steps that the engine does not know, and chains with one of them, in the manner of users' own."""

import random

import millrace
import numpy as np
import torch
from millrace import transforms
from millrace.datasets import ImageFolder
from PIL import Image, ImageFilter, ImageOps

SIZE = 32
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
COUNT = 24  # of the pictures of make_jpeg_folder()
TAIL = [transforms.ToTensor(), transforms.Normalize(MEAN, STD)]


class Solarised:
    """A PIL image, by no chance."""

    def __call__(self, picture):
        return ImageOps.solarize(picture.filter(ImageFilter.MaxFilter(3)), 100)


class Shaken:
    """A PIL image or tensor, by the three global generators."""

    def __call__(self, picture):
        pixels = np.asarray(picture).astype(np.int64)
        shift = random.randrange(50) + np.random.randint(50) + int(torch.randint(50, ()))
        made = ((pixels + shift) % 256).astype(np.uint8)
        return torch.from_numpy(made) if isinstance(picture, torch.Tensor) else Image.fromarray(made)


class Doubled:
    """A tensor of any kind."""

    def __call__(self, tensor):
        return tensor * 2


class Raises:
    def __call__(self, picture):
        raise ArithmeticError("this step fails")


def notes(picture):
    """What a step sees of its picture, as a tensor of text."""
    how = picture.stride() if isinstance(picture, torch.Tensor) else picture.mode
    text = f"{type(picture).__module__}.{type(picture).__name__} {how}"
    return torch.tensor(list(text.ljust(80).encode()))


class Notes:
    def __call__(self, picture):
        return notes(picture)


def random_steps():
    return [transforms.RandomResizedCrop(SIZE), transforms.RandomHorizontalFlip()]


def fixed_steps():
    return [transforms.Resize(40), transforms.CenterCrop(SIZE)]


def with_steps(root, *steps):
    return ImageFolder(root, transforms.Compose(list(steps)))


def loader_of(dataset, workers=0, seed=5, batch_size=5, **options):
    torch.manual_seed(seed)
    return millrace.DataLoader(dataset, batch_size, num_workers=workers, **options)


def batches(dataset, workers=0, **options):
    return [[part.clone() for part in batch] for batch in loader_of(dataset, workers, **options)]


def same(one, other):
    assert len(one) == len(other)
    for batch, expected in zip(one, other):
        for part, whole in zip(batch, expected):
            assert part.dtype == whole.dtype and torch.equal(part, whole)


def stages(dataset, **options):
    """[(stage, native or python, reason)] of explain()."""
    lines = millrace.DataLoader(dataset, **options).explain().splitlines()
    pairs = [line.split(": ", 1) for line in lines]
    return [(name, *rest.split(" — ", 1)) for name, rest in pairs if name != "pictures"]


def native_steps(dataset, **options):
    """What explain() says is native of the transform."""
    return [
        reason for name, how, reason in stages(dataset, **options) if (name, how) == ("transform", "native")
    ]


def picture_of(known, loader, index, occurrence=0):
    """The PIL image that `known`, a dataset of the known steps and PILToTensor, gives with that key."""
    tensor, _ = known.at(index, loader.seed, loader.epoch, occurrence)
    return Image.fromarray(tensor.permute(1, 2, 0).numpy())
