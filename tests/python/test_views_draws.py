"""Draws of several views: each has its own, as the transform's Python would draw, done as Pillow does."""

import random

import numpy as np
import pytest
import seen_classes as seen
import torch
from loader_data import pictures
from millrace import transforms as t
from pictures import make_picture
from PIL import Image, ImageFilter, ImageOps

DRAWS = 2_000
SIZE = (61, 47)
THRESHOLDS = (-3, 0, 1, 127.5, 128, 255, 256, 300)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("one") / "class"
    root.mkdir()
    make_picture(*SIZE, seed=4).save(root / "picture.png")
    return root.parent


def draws(folder, transform, count=DRAWS):
    """[draw][view][transform] of one picture in `count` epochs."""
    native = pictures(folder, transform=transform).native()  # dataset.draw() would look at the transform anew
    return [native.draw(0, 7, epoch, 0) for epoch in range(count)]


def column(made, view, step, *keys):
    return np.array([[float(draw[view][step][key]) for key in keys] for draw in made])


def kinds(made, view, step):
    """The values of the operation that the step applies, NaN where it does not."""
    found = [draw[view][step]["ops"] for draw in made]
    return np.array([ops[0]["value"] if ops else np.nan for ops in found])


@pytest.fixture(scope="module")
def dino(folder):
    view = t.Compose(
        [
            t.RandomResizedCrop(16),
            t.RandomHorizontalFlip(),
            seen.Blur(None),
            seen.Solarize(None),
            t.ToTensor(),
        ]
    )
    return draws(folder, seen.Dino(view, view, local=2))


def test_views_share_no_draw(dino):
    """Correlations of 2,000 pairs have a standard deviation of 0.022 where there are none."""
    columns = [
        np.column_stack(
            [
                column(dino, view, 0, "top", "left", "height", "width"),
                column(dino, view, 1, "flip"),
                np.isnan(kinds(dino, view, 2)),
                np.isnan(kinds(dino, view, 3)),
            ]
        )
        for view in range(4)
    ]
    for one in range(4):
        for other in range(one):
            for a in range(7):
                for b in range(7):
                    r = np.corrcoef(columns[one][:, a], columns[other][:, b])[0, 1]
                    assert abs(r) < 0.1, (one, other, a, b, r)


def test_steps_of_one_view_share_no_draw(dino):
    blurred, solarized = (~np.isnan(kinds(dino, 0, step)) for step in (2, 3))
    flipped = column(dino, 0, 1, "flip")[:, 0]
    for one, other in ((blurred, solarized), (blurred, flipped), (solarized, flipped)):
        assert abs(np.corrcoef(one, other)[0, 1]) < 0.1


def test_crops_of_each_view_are_distributed_as_torchvisions(dino, torchvision):
    torch.manual_seed(2)
    picture = Image.new("RGB", SIZE)
    theirs = np.array(
        [
            torchvision.transforms.RandomResizedCrop.get_params(picture, [0.08, 1.0], [3 / 4, 4 / 3])
            for _ in range(DRAWS)
        ]
    )
    for view in range(4):
        ours = column(dino, view, 0, "top", "left", "height", "width")
        for a, b in zip(ours.T, theirs.T):
            error = np.sqrt(a.var() / len(a) + b.var() / len(b))
            assert abs(a.mean() - b.mean()) < 5 * error
            assert 0.85 < a.std() / b.std() < 1.18


def test_radii_are_distributed_as_the_script_draws_them(dino):
    """Against the script's own draws, by Kolmogorov's and Smirnov's distance, which 1 of 10,000 exceeds."""
    random.seed(3)
    for view in range(4):
        ours = kinds(dino, view, 2)
        ours = np.sort(ours[~np.isnan(ours)])
        theirs = np.sort([random.uniform(0.1, 2.0) for _ in range(DRAWS)])
        everywhere = np.concatenate([ours, theirs])
        distance = np.abs(
            np.searchsorted(ours, everywhere, "right") / len(ours)
            - np.searchsorted(theirs, everywhere, "right") / len(theirs)
        ).max()
        assert distance < 2.23 * np.sqrt(1 / len(ours) + 1 / len(theirs))


@pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 0.8, 1.0])
@pytest.mark.parametrize(
    "cls", [seen.Blur, seen.VicregBlur, seen.Solarize, seen.TorchCoin], ids=lambda cls: cls.__name__
)
def test_probabilities(cls, p, folder):
    step, count = cls(None), 5_000
    step.p = p
    made = draws(folder, t.Compose([step, t.ToTensor()]), count)
    applied = sum(bool(draw[0]["ops"]) for draw in made)
    assert abs(applied - count * p) <= 4.5 * np.sqrt(count * p * (1 - p))


def test_probabilities_of_two_coins(folder):
    made = draws(folder, t.Compose([seen.TwoCoins(None), t.ToTensor()]), 5_000)
    for step, share in ((0, 0.3), (1, 0.25)):
        applied = sum(bool(draw[step]["ops"]) for draw in made)
        assert abs(applied - 5_000 * share) < 4.5 * np.sqrt(5_000 * share * (1 - share))
    both = sum(all(step["ops"] for step in draw[:2]) for draw in made)
    assert abs(both - 5_000 * 0.075) < 4.5 * np.sqrt(5_000 * 0.075 * 0.925)


# ---------------------------------------------------------------- pixels


@pytest.mark.parametrize("radius", [0.1, 0.5, 1.0, 1.3, 2.0, 5.5])
def test_blurs_are_pillows_to_the_last_bit(radius, folder):
    expected = make_picture(*SIZE, seed=4).filter(ImageFilter.GaussianBlur(radius))
    moco, dino = seen.MocoBlur(None), seen.Blur(None)
    moco.sigma = dino.sigma = [radius, radius]
    dino.p = 1.0
    for step in (moco, dino):
        assert same_pixels(folder, step, expected)


def test_a_drawn_radius_is_the_one_that_is_told(folder):
    dataset = pictures(folder, transform=t.Compose([seen.MocoBlur(None), t.PILToTensor()]))
    for epoch in range(20):
        ((_op, ops), *_) = (draw.values() for draw in dataset.draw(0, 7, epoch))
        expected = make_picture(*SIZE, seed=4).filter(ImageFilter.GaussianBlur(ops[0]["value"]))
        assert torch.equal(dataset.at(0, 7, epoch)[0], t.PILToTensor()(expected))


@pytest.mark.parametrize(
    "step, expected",
    [
        *((seen.Threshold(value), lambda p, v=value: ImageOps.solarize(p, v)) for value in THRESHOLDS),
        *((seen.Bits(value), lambda p, v=value: ImageOps.posterize(p, v)) for value in range(1, 9)),
        (seen.autocontrast, ImageOps.autocontrast),
        (seen.equalize, ImageOps.equalize),
        (seen.invert, ImageOps.invert),
    ],
)  # fmt: skip
def test_operations_are_pillows_to_the_last_bit(step, expected, folder):
    assert same_pixels(folder, step, expected(make_picture(*SIZE, seed=4)))


def same_pixels(folder, step, expected):
    dataset = pictures(folder, transform=t.Compose([step, t.PILToTensor()]))
    return torch.equal(dataset.at(0, 1, 0)[0], t.PILToTensor()(expected))
