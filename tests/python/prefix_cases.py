"""Steps that the engine does not know, and chains with one of them, in the manner of users' own."""

import random

import numpy as np
import torch
from millrace import transforms
from millrace.datasets import ImageFolder
from PIL import Image, ImageFilter, ImageOps

SIZE = 32
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


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
