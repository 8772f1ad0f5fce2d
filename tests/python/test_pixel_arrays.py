"""torchvision's pictures in memory: what is recognised, for an engine that takes pixels from there."""

import importlib

import millrace
import numpy as np
import pytest
import torch
from loader_data import torchvision_or_skip
from millrace import _core
from millrace._common.lowering.refusal import NotLowered
from millrace._loader.plan.pixel_arrays import LAYOUTS, recogniser_of_arrays

COUNT = 5


class Taken:
    """In the place of the engine's source: what it would have been given."""

    def __init__(self, pixels):
        self.pixels = pixels


@pytest.fixture
def takes_pixels(monkeypatch):
    monkeypatch.setattr(_core, "PixelFiles", Taken, raising=False)


def filled(module, name, data, **columns):
    """A dataset without the files that its class would read."""
    torchvision_or_skip()
    cls = getattr(importlib.import_module(f"torchvision.datasets.{module}"), name)
    dataset = cls.__new__(cls)
    dataset.transform = dataset.target_transform = dataset.transforms = None
    dataset.data = data
    for key, value in columns.items():
        setattr(dataset, key, value)
    return dataset


def random_bytes(*shape):
    return np.random.default_rng(3).integers(0, 256, shape, dtype=np.uint8)


LABELS = [3, 0, 4, 4, 1]
DATASETS = {
    "CIFAR10": lambda: filled("cifar", "CIFAR10", random_bytes(COUNT, 6, 7, 3), targets=LABELS),
    "CIFAR100": lambda: filled("cifar", "CIFAR100", random_bytes(COUNT, 6, 7, 3), targets=LABELS),
    "MNIST": lambda: filled(
        "mnist", "MNIST", torch.tensor(random_bytes(COUNT, 6, 7)), targets=torch.tensor(LABELS)
    ),
    "FashionMNIST": lambda: filled(
        "mnist", "FashionMNIST", torch.tensor(random_bytes(COUNT, 6, 7)), targets=torch.tensor(LABELS)
    ),
    "QMNIST": lambda: filled(
        "mnist",
        "QMNIST",
        torch.tensor(random_bytes(COUNT, 6, 7)),
        targets=torch.tensor(LABELS)[:, None] + torch.arange(8),
        compat=True,
    ),
    "SVHN": lambda: filled("svhn", "SVHN", random_bytes(COUNT, 3, 6, 7), labels=np.array(LABELS)),
    "STL10": lambda: filled("stl10", "STL10", random_bytes(COUNT, 3, 6, 7), labels=np.array(LABELS)),
    "STL10 unlabelled": lambda: filled("stl10", "STL10", random_bytes(COUNT, 3, 6, 7), labels=None),
    "USPS": lambda: filled("usps", "USPS", random_bytes(COUNT, 6, 7), targets=LABELS),
}


@pytest.mark.parametrize("name", DATASETS)
def test_pixels_and_targets_are_the_datasets(name, takes_pixels):
    dataset = DATASETS[name]()
    source = recogniser_of_arrays(dataset)(dataset)
    files = source.make_files()
    assert files.files.pixels.shape == (COUNT, 6, 7, 3)
    for number in range(COUNT):
        picture, target = dataset[number]
        assert source.any_mode == (picture.mode == "L")
        assert np.array_equal(files.files.pixels[number], np.asarray(picture.convert("RGB")))
        if files.targets is None:
            assert type(target) is int and files.labels[number] == target
        else:
            assert files.targets([files.labels[number]]) == [target]


def test_pixels_are_not_copied(takes_pixels):
    dataset = DATASETS["SVHN"]()
    pixels = recogniser_of_arrays(dataset)(dataset).make_files().files.pixels
    dataset.data[2, 1, 5, 6] ^= 255
    assert pixels[2, 5, 6, 1] == dataset.data[2, 1, 5, 6]


def test_targets_that_are_more_than_numbers(takes_pixels):
    dataset = DATASETS["QMNIST"]()
    dataset.compat, dataset.target_transform = False, torch.Tensor.sum
    files = recogniser_of_arrays(dataset)(dataset).make_files()
    assert [int(total) for total in files.targets(range(COUNT))] == [dataset[i][1] for i in range(COUNT)]


def test_what_is_refused(takes_pixels, monkeypatch):
    def reason(dataset):
        with pytest.raises(NotLowered) as refusal:
            recogniser_of_arrays(dataset)(dataset).make_files()
        return str(refusal.value)

    dataset = DATASETS["CIFAR10"]()
    dataset.data = dataset.data.astype(np.float32)
    assert "no array of bytes with 4 dimensions" in reason(dataset)
    dataset.data = random_bytes(COUNT, 6, 7, 4)
    assert "its pictures have 4 channels" in reason(dataset)
    dataset = DATASETS["CIFAR10"]()
    dataset.targets = LABELS[1:]
    assert "there are 4 labels for 5 pictures" in reason(dataset)
    dataset.__class__ = type("Own", (type(dataset),), {"__getitem__": lambda self, index: index})
    assert "Own overrides __getitem__ of CIFAR10" in reason(dataset)


def test_the_classes_are_torchvisions():
    torchvision_or_skip()
    for module, name in LAYOUTS:
        assert hasattr(importlib.import_module(module), name)


@pytest.mark.skipif(hasattr(_core, "PixelFiles"), reason="the engine takes pixels from memory")
def test_without_such_an_engine_they_stay_in_python():
    from torchvision.transforms import ToTensor

    dataset = DATASETS["CIFAR10"]()
    dataset.transform = ToTensor()
    loader = millrace.DataLoader(dataset, 2)
    assert "torchvision CIFAR10 keeps its pictures in memory, as an array" in loader.explain()
    assert [labels.tolist() for _, labels in loader] == [[3, 0], [4, 4], [1]]
