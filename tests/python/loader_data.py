"""Small inputs for the loader's tests: a folder of tiny JPEGs, torch's view of its indices, torchvision where
it can be had.
"""

import random
import sys
import time
from pathlib import Path

import millrace
import numpy as np
import pytest
import torch
from millrace import transforms
from PIL import Image

SIZE = 16


def make_folder(root, count=21):
    """`count` JPEGs of different sizes in three class folders below `root`; the paths, sorted."""
    generator = np.random.default_rng(count)
    for i in range(count):
        folder = Path(root) / "abc"[i * 3 // count]
        folder.mkdir(parents=True, exist_ok=True)
        pixels = generator.integers(0, 256, (4, 5, 3), dtype=np.uint8)
        Image.fromarray(pixels).resize((30 + i, 40 - i % 7), Image.Resampling.BICUBIC).save(
            folder / f"{i:03}.jpg", quality=85
        )
    return sorted(str(path) for path in Path(root).rglob("*.jpg"))


def pictures(root, **options):
    """A millrace ImageFolder whose labels are its indices, so that a batch's labels tell its order."""
    options.setdefault(
        "transform", transforms.Compose([transforms.Resize((SIZE, SIZE)), transforms.ToTensor()])
    )
    dataset = millrace.datasets.ImageFolder(root, **options)
    dataset.samples = [(path, index) for index, (path, _) in enumerate(dataset.samples)]
    return dataset


class Indices(torch.utils.data.Dataset):
    """What torch's loader is given for comparison: the same length and labels, and no randomness."""

    def __init__(self, length):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        index = range(self.length)[index]
        return torch.full((3, SIZE, SIZE), float(index)), index


def generator_states():
    """The states of torch's, Python's and numpy's global generators, comparable with ==."""
    name, keys, *rest = np.random.get_state()
    return torch.get_rng_state().tolist(), random.getstate(), (name, keys.tolist(), *rest)


def outcome(function):
    """What a call comes to, comparable with ==: its value, or its exception's type and text."""
    try:
        return "returned", function()
    except Exception as error:
        return type(error), str(error)


def advanced(loader, count=1):
    """An iterator over it, `count` batches on."""
    iterator = iter(loader)
    for _ in range(count):
        next(iterator)
    return iterator


def going_on(loader, state):
    """The loader, or sampler, or dataset, with its state loaded."""
    loader.load_state_dict(state)
    return loader


def next_in_the_end(iterator):
    """The next batch, however long a busy machine takes for it: a loader goes on behind a timeout."""
    until = time.monotonic() + 240
    while True:
        try:
            return next(iterator)
        except RuntimeError as error:
            if "timed out" not in str(error) or time.monotonic() > until:
                raise


def torchvision_or_skip():
    """torchvision, also where its wheel is for another build of torch: the ops its import then misses are
    declared here.
    """
    pytest.importorskip("torch")
    if "torchvision" in sys.modules:
        return sys.modules["torchvision"]
    try:
        import torchvision
    except ImportError:
        pytest.skip("torchvision is not installed")
    except RuntimeError:
        for name in [name for name in sys.modules if name.startswith("torchvision")]:
            del sys.modules[name]
        library = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            library.define(name + "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        torchvision_or_skip.keep = library
        import torchvision
    return torchvision
