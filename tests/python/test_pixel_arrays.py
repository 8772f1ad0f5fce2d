"""torchvision's pictures in memory: what is recognised, for an engine that takes pixels from there."""

import importlib

import millrace
import numpy as np
import pytest
import torch
from loader_data import torchvision_or_skip
from millrace import _core
from millrace._common.lowering.recognising import NotLowered
from millrace._loader.plan.pixel_arrays import LAYOUTS, recogniser_of_arrays

COUNT = 5


def pictures(files):
    """Of Files, as the engine sees them: (samples, height, width, 3)."""
    chain = _core.ImagePipeline([{"op": "to_tensor", "dtype": "uint8"}])
    images = _core.ImageDataset(files.files, files.labels, chain)
    return np.stack([images.row(number, 0, 0).permute(1, 2, 0).numpy() for number in range(len(images))])


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
def test_pixels_and_targets_are_the_datasets(name):
    dataset = DATASETS[name]()
    source = recogniser_of_arrays(dataset)(dataset)
    files = source.make_files()
    pixels = pictures(files)
    assert pixels.shape == (COUNT, 6, 7, 3)
    for number in range(COUNT):
        picture, target = dataset[number]
        assert source.grey == (picture.mode == "L")
        assert np.array_equal(pixels[number], np.asarray(picture.convert("RGB")))
        if files.targets is None:
            assert type(target) is int and files.labels[number] == target
        else:
            assert files.targets([files.labels[number]]) == [target]


def test_pixels_are_not_copied():
    dataset = DATASETS["SVHN"]()
    files = recogniser_of_arrays(dataset)(dataset).make_files()
    dataset.data[2, 1, 5, 6] ^= 255
    assert pictures(files)[2, 5, 6, 1] == dataset.data[2, 1, 5, 6]


def test_targets_that_are_more_than_numbers():
    dataset = DATASETS["QMNIST"]()
    dataset.compat, dataset.target_transform = False, torch.Tensor.sum
    files = recogniser_of_arrays(dataset)(dataset).make_files()
    assert [int(total) for total in files.targets(range(COUNT))] == [dataset[i][1] for i in range(COUNT)]


def test_what_is_refused():
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


# -- batches


def chain(*steps, size=5):
    from torchvision import transforms

    return transforms.Compose(
        [*steps, transforms.Resize(size), transforms.CenterCrop(4), transforms.ToTensor()]
    )


def check(dataset, **options):
    """Batches are torch's, made natively; their explain()."""
    options = {"batch_size": 2, "shuffle": True, **options}
    torch.manual_seed(1)
    expected = list(torch.utils.data.DataLoader(dataset, **options))
    torch.manual_seed(1)
    loader = millrace.DataLoader(dataset, num_workers=2, native="require", **options)
    for (images, targets), (wanted, labels) in zip(loader, expected, strict=True):
        assert torch.equal(images, wanted) and images.dtype == wanted.dtype
        assert torch.equal(targets, labels) and targets.dtype == labels.dtype
    assert loader.stats()["engine"] == "threads"
    return loader.explain()


LABELLED = [name for name in DATASETS if "unlabelled" not in name]


@pytest.mark.parametrize("name", LABELLED)
def test_batches(name):
    from torchvision import transforms
    from torchvision.transforms import v2

    dataset = DATASETS[name]()
    grey = dataset[0][0].mode == "L"
    dataset.transform = chain()
    explained = check(dataset)
    assert f"torchvision {type(dataset).__name__} of {COUNT} pictures in memory" in explained
    check(torch.utils.data.Subset(dataset, [4, -1, 0, 0]))
    values = [0.3] if grey else [0.3, 0.4, 0.5]
    normalize = transforms.Normalize(values, values)
    pad = transforms.RandomCrop((6, 7), padding=0, pad_if_needed=True, fill=9)
    for steps in (
        [chain(pad), normalize],
        [transforms.RandomHorizontalFlip(1), transforms.GaussianBlur(3, (0.7, 0.7)), transforms.ToTensor()],
        [chain(transforms.Grayscale(3)), transforms.Normalize([0.3, 0.4, 0.5], [0.2, 0.3, 0.4])],
        [chain(v2.RGB())],
        [v2.ToImage(), v2.ToDtype(torch.float32, scale=True)],
        [chain(lambda picture: picture.convert("RGB"))],
        [transforms.RandomGrayscale(1), transforms.PILToTensor()],
        [transforms.ColorJitter((0.6, 0.6), hue=(0.1, 0.1)), transforms.ToTensor()] if grey else [chain()],
    ):
        dataset.transform = transforms.Compose(steps)
        images = next(iter(torch.utils.data.DataLoader(dataset, 2)))[0]
        assert images.shape[1] in ((1, 3) if grey else (3,))
        check(dataset)
    dataset.target_transform = float
    check(dataset)


def test_grey_pictures_that_stay_in_python():
    from torchvision import transforms

    dataset = DATASETS["MNIST"]()
    for step, reason in (
        (transforms.RandomApply([transforms.Grayscale(3)]), "three channels of some grey pictures only"),
        (transforms.RandomRotation(3, fill=(1, 2, 3)), "the fill of random_rotation has colours"),
    ):
        dataset.transform = chain(step)
        assert reason in millrace.DataLoader(dataset).explain()
    dataset.transform = transforms.Compose([chain(), transforms.Normalize([0.1] * 3, [0.1] * 3)])
    assert "one value for the one channel" in millrace.DataLoader(dataset).explain()


def test_what_is_written_into_the_array_counts():
    dataset = DATASETS["CIFAR10"]()
    dataset.transform = chain()
    loader = millrace.DataLoader(dataset, COUNT, native="require")
    before = next(iter(loader))[0]
    dataset.data[:] = 255 - dataset.data
    assert not torch.equal(next(iter(loader))[0], before)
    check(dataset)
