"""Borders, sizes, perspective, filters and choices of the engine, against torchvision and timm on PIL images
with the engine's decisions (from `draw`). Asked for: identical pixels.
"""

import numpy as np
import pytest
import torch
from loader_data import torchvision_or_skip
from millrace import _core
from millrace import transforms as t
from pictures import make_picture
from policy_draws import same_distribution
from transform_cases import lower_transform

torchvision = torchvision_or_skip()
import torchvision.transforms as v1  # noqa: E402
import torchvision.transforms.functional as F1  # noqa: E402
from by_libraries import by_libraries  # noqa: E402
from torchvision.transforms import v2  # noqa: E402
from torchvision.transforms.v2 import functional as F  # noqa: E402

FILTERS = ("nearest", "nearest-exact", "bilinear", "bicubic", "lanczos", "box", "hamming")
MAPS = ("nearest", "bilinear", "bicubic")
ADJUSTMENTS = ("brightness", "contrast", "saturation", "hue")


def pipeline_of(*transforms):
    return _core.ImagePipeline(lower_transform(v2.Compose(list(transforms)))[0])


def check(steps, size, index):
    """That the engine's bytes are the libraries', for one picture."""
    picture = make_picture(*size, seed=index)
    pipeline = pipeline_of(*steps, v2.PILToTensor())
    decided = iter(pipeline.draw(*size, 5, 0, index))
    found = pipeline.apply(np.asarray(picture), 5, 0, index).numpy()
    for step in steps:
        picture = by_libraries(picture, step, decided)
    assert next(decided, None) is None
    assert np.array_equal(found, np.asarray(picture).transpose(2, 0, 1)), (size, index)


TURN = v2.RandomRotation(40, "bilinear", fill=9)
CASES = {
    "pad": [v1.Pad(3, (9, 80, 200))],
    "pad_sides": [v2.Pad([1, 0, 7, 4], 30)],
    "pad_cuts": [v2.Pad([-4, 3, 2, -5], 30)],
    **{f"pad_{mode}": [v1.Pad((5, 9), padding_mode=mode)] for mode in ("edge", "reflect", "symmetric")},
    **{
        f"crop_{mode}_twice": [v1.RandomCrop((150, 140), [4, 9], pad_if_needed=True, padding_mode=mode)]
        for mode in ("constant", "edge", "reflect", "symmetric")
    },
    "crop_reflect_once": [v2.RandomCrop((150, 140), [4, 9], pad_if_needed=True, padding_mode="reflect")],
    "pad_far": [v2.Pad(150, padding_mode="reflect")],
    "pad_ours": [t.Pad([2, 3], 7), t.Pad(4, padding_mode="edge")],
    "pad_crop": [v2.Pad(4, fill=(1, 2, 3)), v2.RandomCrop((24, 20)), v2.RandomHorizontalFlip()],
    "pad_resize": [v2.Pad(8, 200), v2.Resize((31, 44)), v2.Pad(2, padding_mode="reflect"), v2.Resize(19)],
    "zoom_out": [v2.RandomZoomOut((1, 2, 3), (1.0, 2.5), 0.8)],
    "zoom_out_resize": [t.RandomZoomOut(90, p=1.0), t.Resize((33, 28))],
    "longest": [v2.Resize(None, max_size=40)],
    "longest_grows": [v2.Resize(None, "bicubic", 150)],
    **{f"resize_{mode}": [v2.Resize((37, 23), mode)] for mode in FILTERS},
    **{f"grow_{mode}": [v2.Resize((87, 123), mode)] for mode in FILTERS},
    **{
        f"crop_{mode}": [v1.RandomResizedCrop(32, interpolation=v1.InterpolationMode(mode))]
        for mode in FILTERS
    },
    "flipped_lanczos": [
        v2.RandomHorizontalFlip(1.0),
        v2.Resize((20, 90), "lanczos"),
        v2.RandomVerticalFlip(1.0),
    ],
    "shortest": [v2.RandomShortestSize([20, 30, 55], 60)],
    "shortest_lanczos": [t.RandomShortestSize(40, interpolation="lanczos")],
    "jitter": [v2.ScaleJitter((50, 70), (0.3, 1.5), "bicubic")],
    "between": [v2.RandomResize(20, 60), v2.RandomCrop(20)],
    **{f"perspective_{mode}": [v2.RandomPerspective(0.6, 0.9, mode, (5, 90, 200))] for mode in MAPS},
    "perspective_v1": [v1.RandomPerspective(0.3, 1.0, fill=7)],
    "perspective_crop": [v2.RandomPerspective(0.5, 1.0), v2.RandomCrop(17), v2.RandomHorizontalFlip()],
    "perspective_resize": [
        v2.Resize((50, 40)),
        v2.RandomPerspective(0.9, 1.0, "bicubic"),
        v2.Resize((30, 20)),
    ],
    "perspective_turn": [v2.RandomPerspective(0.5, 1.0), TURN, v2.Pad(4, 50), v2.RandomPerspective(0.5, 1.0)],
    "distort": [v2.RandomPhotometricDistort()],
    "distort_much": [
        v2.RandomPhotometricDistort((0.2, 2), (0, 2), (0, 2), (-0.5, 0.5), 0.9),
        v2.Resize((30, 20)),
    ],
    "flip_or": [v2.RandomChoice([v2.RandomHorizontalFlip(1.0), v2.RandomVerticalFlip(1.0), TURN], [1, 2, 3])],
    "crop_or": [v1.RandomChoice([v1.RandomCrop(20), v1.RandomResizedCrop(20), v1.Resize((20, 20))])],
    "sometimes": [v2.RandomApply([v2.RandomCrop(30), v2.ColorJitter(hue=0.3), v2.Pad(5, 99)], 0.6), TURN],
    "nested": [
        v2.Pad(2, 40),
        v2.RandomChoice(
            [
                v2.RandomApply([v2.RandomPerspective(0.5, 1.0), v2.RandomHorizontalFlip(0.5)], 0.7),
                v2.Compose([v2.Pad(3, 90), v2.RandomRotation(30, fill=3), v2.Grayscale(3)]),
                v2.ScaleJitter((40, 40)),
            ]
        ),
        v2.Pad(2, 200),
        v2.Resize((31, 29)),
    ],
}


@pytest.mark.parametrize("name", CASES)
def test_pixels_are_the_libraries(name):
    for index in range(8):
        check(CASES[name], (61 + 5 * index, 83 - 3 * index), index)


@pytest.mark.parametrize(
    "name, size, index",
    [
        ("grow_hamming", (137, 105), 979342),
        ("grow_hamming", (54, 105), 895301),
        ("crop_hamming", (113, 109), 464133),
    ],
)
def test_pictures_that_tell_pillows_floats_in_the_window_of_hamming(name, size, index):
    check(CASES[name], size, index)


def test_small_pictures():
    for index, (width, height) in enumerate([(1, 1), (1, 9), (9, 1), (2, 2), (3, 2), (5, 300), (300, 5)]):
        for steps in (
            [v2.Pad(2, padding_mode="reflect")],
            [v2.RandomZoomOut(p=1.0)],
            [v2.Resize((7, 7), "box")],
        ):
            check(steps, (width, height), index)
        check([v2.RandomShortestSize(40)], (width, height), index)


def test_coefficients_are_torchvisions():
    """To the last bit, but for 0, where least squares leave about 1e-16; rarely the neighbouring float."""
    pipeline = pipeline_of(v2.RandomPerspective(0.7, 1.0), v2.PILToTensor())
    apart = 0
    for index in range(300):
        width, height = 20 + 7 * index % 900, 30 + 11 * index % 700
        (d,) = pipeline.draw(width, height, 3, 0, index)
        starts = [[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]]
        expected = np.array(F1._get_perspective_coeffs(starts, [list(corner) for corner in d["corners"]]))
        found = np.array(d["coefficients"])
        zero = np.abs(found) < 1e-12
        assert np.abs(expected[zero]).max(initial=0) < 1e-9
        assert np.allclose(found, expected, rtol=2e-7, atol=1e-9)
        apart += int((found[~zero] != expected[~zero]).sum())
    assert apart <= 2


def test_perspective_of_a_line_is_torchvisions_error():
    pipeline = pipeline_of(v2.RandomPerspective(p=1.0), v2.PILToTensor())
    message = (
        "The least squares solution could not be computed because the input matrix does not have full rank"
    )
    with pytest.raises(RuntimeError, match=message):
        v2.RandomPerspective(p=1.0)(make_picture(1, 9))
    with pytest.raises(ValueError, match=message):
        pipeline.draw(1, 9, 0, 0, 0)


DRAWN = {
    "zoom_out": (v2.RandomZoomOut(side_range=(1.2, 3.0), p=1.0), ("left", "top", "width", "height")),
    "shortest": (v2.RandomShortestSize([20, 30, 55], 60), ("height", "width")),
    "jitter": (v2.ScaleJitter((50, 70), (0.3, 1.5)), ("height", "width")),
    "between": (v2.RandomResize(20, 60), ("height", "width")),
    "perspective": (v2.RandomPerspective(0.6, 1.0), range(8)),
    "distort": (v2.RandomPhotometricDistort(p=0.6), (*ADJUSTMENTS, "first", "order")),
}


def of_torchvision(name, params, size):
    match name:
        case "zoom_out":
            left, top, right, bottom = params["padding"]
            return [-left, -top, size[0] + left + right, size[1] + top + bottom]
        case "perspective":
            return params["coefficients"]
        case "between":
            return F._geometry._compute_resized_output_size(size[::-1], params["size"])
        case "distort":
            order = params["channel_permutation"]
            factors = [params[f"{step}_factor"] for step in ADJUSTMENTS]
            first = factors[1] is not None and params["contrast_before"] and factors[2] is not None
            return [*(1.0 if f is None else f for f in factors), first, 9 if order is None else int(order[0])]
    return params["size"]


def of_engine(name, decided):
    match name:
        case "perspective":
            return decided["coefficients"]
        case "distort":
            order = decided["order"]
            both = {"contrast", "saturation"} <= set(order)
            first = both and order.index("contrast") < order.index("saturation")
            permutation = decided["permutation"]
            factors = [decided.get(step, 1.0) for step in ADJUSTMENTS]
            return [*factors, first, 9 if permutation is None else permutation[0]]
    return [decided[field] for field in DRAWN[name][1]]


@pytest.mark.parametrize("name", DRAWN)
def test_draws_have_torchvisions_distribution(name):
    transform, size = DRAWN[name][0], (120, 90)
    pipeline, picture = pipeline_of(transform, v2.PILToTensor()), make_picture(*size)
    torch.manual_seed(3)
    mine = [of_engine(name, pipeline.draw(*size, 3, 0, index)[0]) for index in range(2500)]
    theirs = [of_torchvision(name, transform.make_params([picture]), size) for _ in range(2500)]
    for a, b in zip(np.array(mine, float).T, np.array(theirs, float).T, strict=True):
        same_distribution(a, b)


def test_choices_have_torchvisions_weights():
    flips = [v2.RandomHorizontalFlip(1.0), v2.RandomVerticalFlip(1.0), v2.Resize((9, 9))]
    pipeline = pipeline_of(v2.RandomChoice(flips, [1, 0, 3]), v2.PILToTensor())
    drawn = [pipeline.draw(9, 9, 3, 0, index)[0]["chosen"] for index in range(4000)]
    assert set(drawn) == {0, 2} and abs(drawn.count(2) - 3000) < 110


def test_orders_are_all_drawn():
    transforms = [v2.RandomCrop(20), v2.Pad(3, 7), v2.Resize((40, 30))]
    pipeline = pipeline_of(v2.RandomOrder(transforms), v2.PILToTensor())
    picture = make_picture(50, 60)
    seen = {(tuple(pipeline.apply(np.asarray(picture), 3, 0, index).shape[1:])) for index in range(200)}
    assert seen == {(40, 30), (46, 36), (26, 26), (20, 20)}


def test_noise():
    base = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]
    normalize = v2.Normalize([0.4, 0.5, 0.6], [0.2, 0.3, 0.4])
    picture = np.full((50, 60, 3), (10, 128, 250), np.uint8)
    plain = pipeline_of(*base).apply(picture, 3, 0, 0)
    for noise in (v2.GaussianNoise(0.1, 0.2), v2.GaussianNoise(0.0, 0.3, clip=False)):
        first = pipeline_of(*base, noise).apply(picture, 3, 0, 0)
        torch.manual_seed(5)
        for channel in range(3):
            same_distribution(first[channel].flatten().numpy(), noise(plain)[channel].flatten().numpy())
        # The numbers are the same before and behind Normalize.
        between = pipeline_of(*base, noise, normalize).apply(picture, 3, 0, 0)
        assert torch.equal(between, normalize(first))
        assert not torch.equal(first, pipeline_of(*base, noise).apply(picture, 3, 0, 1))
    behind = pipeline_of(*base, normalize, v2.GaussianNoise(0.0, 0.3, clip=False)).apply(picture, 3, 0, 0)
    same_distribution((behind - normalize(plain)).flatten().numpy(), (first - plain).flatten().numpy())
    erased = pipeline_of(*base, noise, normalize, v2.RandomErasing(1.0, value=7)).apply(picture, 3, 0, 0)
    assert 0.01 < (erased == 7).float().mean() < 0.5
    assert torch.equal(erased[erased != 7], between[erased != 7])


def test_flips_behind_noise_and_in_choices_of_tensors():
    base = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]
    flip = v2.RandomChoice([v2.RandomHorizontalFlip(1.0), v2.RandomVerticalFlip(1.0)])
    pipeline = pipeline_of(*base, flip)
    picture = make_picture(30, 20)
    made = v2.Compose(base)(picture)
    for index in range(6):
        (chosen, _) = pipeline.draw(30, 20, 1, 0, index)
        expected = made.flip(-1 - chosen["chosen"])
        assert torch.equal(pipeline.apply(np.asarray(picture), 1, 0, index), expected)
    pipeline_of(*base, v2.GaussianNoise(), flip).apply(np.asarray(picture), 1, 0, 0)


def test_pictures_that_nothing_is_left_of_are_errors():
    for steps, message in (
        ([v2.Pad(-30)], "nothing is left of a picture of size"),
        ([v2.ScaleJitter((1, 1), (0.1, 0.2))], "height and width must be > 0"),
    ):
        with pytest.raises(ValueError, match=message):
            pipeline_of(*steps, v2.PILToTensor()).apply(np.asarray(make_picture(20, 30)), 0, 0, 0)


def test_the_size_of_every_picture_is_known_where_it_is_fixed():
    def shape(*steps):
        return pipeline_of(*steps, v2.PILToTensor()).fixed_shape

    assert shape(v2.Resize((9, 8)), v2.Pad([1, 2])) == (3, 13, 10)
    assert shape(v2.Pad(3)) is None and shape(v2.Resize((9, 8)), v2.RandomZoomOut()) is None
    choice = v2.RandomChoice([v2.RandomCrop(9), v2.Resize((9, 9))])
    assert shape(choice) == (3, 9, 9)
    assert shape(v2.RandomChoice([v2.RandomCrop(9), v2.Resize((9, 8))])) is None
    assert shape(v2.Resize((9, 8)), v2.RandomApply([v2.Pad(1)])) is None
