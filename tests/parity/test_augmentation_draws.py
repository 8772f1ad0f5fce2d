"""The distributions of what colour, affine, blur and erasing transforms draw, against torchvision's own."""

import numpy as np
import policy_draws
import pytest
import torch
from millrace import transforms as t
from test_augmentation import JITTER, F, pipeline_of  # noqa: F401

DRAWS = 3000


def ours_and_theirs(transform, theirs, fields, size=(200, 100)):
    """[DRAWS, numbers] of our decisions, as `fields` reads them, and of torchvision's make_params."""
    steps = [transform, t.ToTensor()]
    pipeline = pipeline_of(*(reversed(steps) if isinstance(transform, t.RandomErasing) else steps))
    mine = [fields(pipeline.draw(*size, 11, 0, i)[0]) for i in range(DRAWS)]
    torch.manual_seed(0)
    picture = torch.zeros(3, size[1], size[0])
    return np.array(mine, float), np.array([theirs(picture) for _ in range(DRAWS)], float)


def same_distribution(mine, theirs):
    """Column by column."""
    for a, b in zip(mine.T, theirs.T, strict=True):
        policy_draws.same_distribution(a, b)


@pytest.fixture(scope="module")
def v2(F):
    import torchvision.transforms.v2

    return torchvision.transforms.v2


def test_jitter_is_drawn_as_torchvisions(v2):
    arguments = dict(brightness=0.4, contrast=(0.2, 3.0), saturation=1.5, hue=(-0.1, 0.3))
    names = list(arguments)
    reference = v2.ColorJitter(**arguments)

    def theirs(picture):
        params = reference.make_params([picture])
        return [params[f"{name}_factor"] for name in names] + [
            params["fn_idx"].tolist().index(i) for i in range(4)
        ]

    def fields(d):
        return [d[name] for name in names] + [d["order"].index(name) for name in names]

    mine, expected = ours_and_theirs(t.ColorJitter(**arguments), theirs, fields)
    same_distribution(mine, expected)
    orders, counts = np.unique(mine[:, 4:], axis=0, return_counts=True)
    assert len(orders) == 24 and counts.min() > 0.6 * DRAWS / 24
    assert np.abs(np.corrcoef(mine[:, :4].T) - np.eye(4)).max() < 0.08


def test_affine_is_drawn_as_torchvisions(v2):
    arguments = dict(degrees=(-10, 50), translate=(0.5, 0.03), scale=(0.2, 0.9), shear=(-5, 5, 10, 12))
    reference = v2.RandomAffine(**arguments)

    def fields(d):
        return [d["angle"], *d["translate"], d["scale"], *d["shear"]]

    same_distribution(
        *ours_and_theirs(t.RandomAffine(**arguments), lambda p: fields(reference.make_params([p])), fields)
    )


def test_rotation_and_blur_are_drawn_as_torchvisions(v2):
    rotation, blur = v2.RandomRotation((20, 70)), v2.GaussianBlur(3, (0.3, 4.0))
    same_distribution(
        *ours_and_theirs(
            t.RandomRotation((20, 70)), lambda p: [rotation.make_params([p])["angle"]], lambda d: [d["angle"]]
        )
    )
    same_distribution(
        *ours_and_theirs(
            t.GaussianBlur(3, (0.3, 4.0)),
            lambda p: [blur.make_params([p])["sigma"][0]],
            lambda d: [d["sigma"]],
        )
    )


@pytest.mark.parametrize("scale", [(0.02, 0.33), (0.5, 1.0)])
def test_erasing_is_drawn_as_torchvisions(v2, scale):
    reference = v2.RandomErasing(1.0, scale=scale)

    def theirs(picture):
        params = reference.make_params([picture])
        return [params[name] for name in "ijhw"] if params["v"] is not None else [0] * 4

    mine = t.RandomErasing(1.0, scale=scale)
    same_distribution(
        *ours_and_theirs(mine, theirs, lambda d: [d[name] for name in ("top", "left", "height", "width")])
    )


def test_chances():
    sometimes = [
        t.RandomApply([JITTER], 0.8),
        t.RandomApply([t.GaussianBlur(3)], 0.1),
        t.RandomApply([t.RandomGrayscale(0.5)], 0.5),
    ]
    pipeline = pipeline_of(t.RandomGrayscale(0.3), *sometimes, t.ToTensor(), t.RandomErasing(0.7))
    decisions = [pipeline.draw(200, 200, 2, 0, i) for i in range(DRAWS)]
    for place, p in enumerate([0.3, 0.8, 0.1, 0.25, 0.7]):
        assert abs(np.mean([d[place]["applied"] for d in decisions]) - p) < 0.03
