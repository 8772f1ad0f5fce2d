"""timm's resize and crops in the engine: pixels with the engine's decisions, and how those are drawn."""

import random

import numpy as np
import pytest
from pictures import make_picture
from policy_draws import same_distribution
from test_frames_and_maps import check, pipeline_of, v2


def timm_transforms():
    pytest.importorskip("timm")
    return pytest.importorskip("timm.data.transforms")


def timm_cases(timm):
    modes = ("constant", "edge", "reflect", "symmetric")
    return [
        *([timm.CenterCropOrPad((70, 40), 9, mode)] for mode in modes),
        *([timm.RandomCropOrPad((70, 40), (9, 8, 7), mode)] for mode in modes),
        [timm.RandomCropOrPad(100)],
        [timm.RandomCropOrPad(20), timm.RandomCropOrPad((50, 10), 200)],
        [timm.TrimBorder(4)],
        [timm.ResizeKeepRatio(40)],
        [timm.ResizeKeepRatio((40, 30), 1.0, "lanczos"), timm.CenterCropOrPad(40)],
        [timm.ResizeKeepRatio((40, 30), 0.4, "random", 0.7, (0.5, 1.5), False, 0.6, (0.7, 1.4))],
        [timm.ResizeKeepRatio((30, 30), 0.0, "bicubic", 1.0, (0.4, 1.5), True), timm.RandomCropOrPad(30, 3)],
    ]


@pytest.mark.parametrize("number", range(15))
def test_pixels_are_timms(number):
    steps = timm_cases(timm_transforms())[number]
    for index in range(6):
        check(steps, (61 + 5 * index, 83 - 3 * index), index)


@pytest.mark.parametrize("which", [-2, -1, 11])
def test_sizes_are_drawn_as_timms(which):
    resize = timm_cases(timm_transforms())[which][0]
    size = (120, 90)
    pipeline, picture = pipeline_of(resize, v2.PILToTensor()), make_picture(*size)
    random.seed(4)
    arguments = [resize.random_scale_prob, resize.random_scale_range, resize.random_scale_area]
    arguments += [resize.random_aspect_prob, resize.random_aspect_range]
    theirs = [resize.get_params(picture, resize.size, resize.longest, *arguments) for _ in range(2500)]
    draws = [pipeline.draw(*size, 3, 0, index)[0] for index in range(2500)]
    mine = [[d["height"], d["width"]] for d in draws]
    if which == 11:
        assert mine == theirs
    for a, b in zip(np.array(mine).T, np.array(theirs).T, strict=True):
        same_distribution(a, b)


def test_places_are_drawn_as_timms():
    crop = timm_transforms().RandomCropOrPad((100, 40))
    pipeline, picture = pipeline_of(crop, v2.PILToTensor()), make_picture(60, 50)
    random.seed(4)
    theirs = np.array([crop.get_params(picture, crop.size) for _ in range(2500)])
    draws = [pipeline.draw(60, 50, 3, 0, index)[0] for index in range(2500)]
    mine = np.array([[d["top"], d["left"]] for d in draws])
    for a, b in zip(mine.T, theirs.T, strict=True):
        same_distribution(a, b)
