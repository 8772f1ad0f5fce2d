"""Steps of other packages behind known ones, which run natively; the package's run as under torch's."""

import random

import millrace
import numpy as np
import pytest
import torch
from millrace import transforms
from millrace._loader.engines.seeding import generators_seeded, seed_all
from pictures import make_jpeg_folder
from PIL import Image, ImageEnhance, ImageFilter

torchvision = pytest.importorskip("torchvision")
T = torchvision.transforms
v2 = pytest.importorskip("torchvision.transforms.v2")
SIDE, FLOATS = 48, v2.ToDtype(torch.float32, scale=True)


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return make_jpeg_folder(tmp_path_factory.mktemp("packages") / "photos", per_class=3)


def albumentations():
    a = pytest.importorskip("albumentations")
    steps = a.Compose(
        [a.CLAHE((2.0, 2.0), p=1.0), a.InvertImg(p=1.0), a.Sharpen((0.3, 0.3), (0.7, 0.7), p=1.0)]
    )
    return lambda picture: steps(image=np.asarray(picture))["image"]


def scikit_image():
    exposure = pytest.importorskip("skimage.exposure")
    return lambda picture: (exposure.equalize_adapthist(np.asarray(picture)) * 255).astype(np.uint8)


def scikit_image_noise():
    util = pytest.importorskip("skimage.util")
    return lambda picture: util.random_noise(np.array(picture), rng=np.random.randint(2**31)).astype(
        np.float32
    )


def opencv():
    cv2 = pytest.importorskip("cv2")

    def bilateral(picture):
        return cv2.cvtColor(cv2.bilateralFilter(np.asarray(picture), 5, 50, 50), cv2.COLOR_RGB2LAB)

    return bilateral


class OwnBlur(T.GaussianBlur):
    """A subclass that does more than its base."""

    def forward(self, img):
        return super().forward(super().forward(img))


def cutout(picture):
    """As imgaug's users write it."""
    pixels = np.array(picture)
    top, left = np.random.randint(SIDE, size=2)
    pixels[top : top + 8, left : left + 8] = random.randrange(256)
    return pixels


def of_arrays(make):
    """Behind it the array becomes a tensor."""
    return lambda: [make(), T.ToTensor()]


CERTAIN = {
    "albumentations": of_arrays(albumentations),
    "scikit-image": of_arrays(scikit_image),
    "opencv": of_arrays(opencv),
    "Pillow's filter": lambda: [lambda picture: picture.filter(ImageFilter.EDGE_ENHANCE), T.ToTensor()],
    "Pillow's colours": lambda: [T.Lambda(lambda p: ImageEnhance.Color(p).enhance(1.7)), T.ToTensor()],
    "a blur of a picture": lambda: [OwnBlur(5, (1.5, 1.5)), T.ToTensor(), T.Normalize([0.5] * 3, [0.2] * 3)],
    "a blur of a tensor": lambda: [
        v2.ToImage(),
        OwnBlur(5, (1.5, 1.5)),
        v2.ToDtype(torch.float32, scale=True),
    ],
    "a Lambda on a tensor": lambda: [
        T.ToTensor(),
        T.Lambda(lambda tensor: tensor.roll(3, 1).clamp(0.1, 0.9)),
    ],
    "five crops": lambda: [
        T.FiveCrop(24),
        lambda crops: torch.stack([T.functional.to_tensor(crop) for crop in crops]),
    ],
}
BY_CHANCE = {
    "ElasticTransform": lambda: [v2.ElasticTransform(20.0), v2.ToImage()],
    "ElasticTransform of a tensor": lambda: [v2.ToImage(), T.ElasticTransform(20.0)],
    "AugMix": lambda: [v2.AugMix(), T.PILToTensor()],
    "RandomOrder": lambda: [
        T.RandomOrder([T.Lambda(cutout), T.Lambda(np.fliplr)]),
        T.Lambda(np.copy),
        T.ToTensor(),
    ],
    "scikit-image's noise": lambda: [scikit_image_noise(), torch.from_numpy],
    "cutout": lambda: [cutout, T.ToTensor()],
}


def folder(root, *steps, kind=torchvision.datasets.ImageFolder, compose=T.Compose):
    return kind(root, compose(list(steps)))


def batches(kind, dataset, workers, **options):
    torch.manual_seed(3)
    return [batch[0].clone() for batch in kind(dataset, 4, num_workers=workers, **options)]


@pytest.mark.parametrize("name", CERTAIN)
def test_what_draws_nothing_gives_torchs_batches(photos, name):
    dataset = folder(photos, T.Resize(56), T.CenterCrop(SIDE), *CERTAIN[name]())
    assert "transform: native — Resize, CenterCrop" in millrace.DataLoader(dataset).explain()
    theirs = batches(torch.utils.data.DataLoader, dataset, 0)
    for workers in (0, 2):
        for ours, expected in zip(batches(millrace.DataLoader, dataset, workers), theirs, strict=True):
            assert ours.dtype == expected.dtype and torch.equal(ours, expected)


@pytest.mark.parametrize("name", BY_CHANCE)
def test_what_draws_is_a_function_of_the_samples_key(photos, name):
    rest = T.Compose(BY_CHANCE[name]())
    dataset = folder(photos, T.RandomResizedCrop(SIDE), T.RandomHorizontalFlip(), *rest.transforms)
    known = folder(
        photos,
        transforms.RandomResizedCrop(SIDE),
        transforms.RandomHorizontalFlip(),
        transforms.PILToTensor(),
        kind=millrace.datasets.ImageFolder,
        compose=transforms.Compose,
    )
    torch.manual_seed(3)
    loader = millrace.DataLoader(dataset, 4, num_workers=2)
    assert "transform: native — RandomResizedCrop, RandomHorizontalFlip" in loader.explain()
    made = [batch.clone() for batch, _ in loader]
    for workers in (0, 1, 3):
        again = batches(millrace.DataLoader, dataset, workers)
        assert all(map(torch.equal, again, made))
    for index, picture in enumerate(torch.cat(made)):
        tensor, _ = known.at(index, loader.seed, loader.epoch)
        with generators_seeded((0,), torch_alone=False):
            seed_all(repr((loader.seed, loader.epoch, index, 0)).encode())
            expected = rest(Image.fromarray(tensor.permute(1, 2, 0).numpy()))
        assert torch.equal(picture, expected)
