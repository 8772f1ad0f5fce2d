"""What the engine makes of pictures with colour, affine, blur and erasing transforms, against torchvision on
PIL images with the same parameters (from `draw`).

Asked for: identical pixels, in any order of transforms; behind a blur one level, rarely.
"""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from loader_data import torchvision_or_skip
from millrace import _core
from millrace import transforms as t
from pictures import make_picture
from PIL import Image
from transform_cases import lower_transform


@pytest.fixture(scope="module")
def F():
    torchvision_or_skip()
    import torchvision.transforms.v2.functional

    return torchvision.transforms.v2.functional


def pipeline_of(*transforms):
    return _core.ImagePipeline(lower_transform(t.Compose(list(transforms)))[0])


def levels_apart(F, transforms, picture, index):
    """How many levels the engine's bytes are away from torchvision's: an array."""
    pipeline = pipeline_of(*transforms, t.PILToTensor())
    decisions = pipeline.draw(*picture.size, 5, 0, index)
    got = pipeline.apply(np.asarray(picture), 5, 0, index).numpy()
    from by_libraries import by_libraries  # where torchvision is

    decided, made = iter(decisions), picture
    for transform in transforms:
        made = by_libraries(made, transform, decided)
    assert next(decided, None) is None
    expected = np.atleast_3d(np.asarray(made)).transpose(2, 0, 1)
    assert got.shape == expected.shape
    return np.abs(got.astype(int) - expected.astype(int))


JITTER = t.ColorJitter(0.5, 0.6, 0.7, 0.5)
EXACT = {
    "brightness": [t.ColorJitter(brightness=(0, 2.5))],
    "contrast": [t.ColorJitter(contrast=(0, 2.5))],
    "saturation": [t.ColorJitter(saturation=(0, 2.5))],
    "hue": [t.ColorJitter(hue=0.5)],
    "jitter": [JITTER],
    "nothing": [t.ColorJitter()],
    "random_grey": [t.RandomGrayscale(0.5)],
    "grey": [t.Grayscale(3)],
    "one_channel": [t.Grayscale()],
    "one_channel_changed": [
        t.RandomResizedCrop((32, 40)),
        t.Grayscale(1),
        JITTER,
        t.RandomAffine(40, (0.3, 0.2), fill=9),
        t.RandomGrayscale(0.5),
        t.Resize((20, 33)),
        t.RandomCrop(30, padding=9, fill=200),
        t.RandomEqualize(),
        t.GaussianBlur(3),
    ],
    "one_channel_made_three": [t.Grayscale(1), t.RandomHorizontalFlip(), t.Grayscale(3)],
    **{
        f"rotation_{mode}": [t.RandomRotation(180, mode, fill=(9, 99, 200))]
        for mode in ("nearest", "bilinear", "bicubic")
    },
    **{
        f"rotation_{angle}": [t.RandomRotation((angle, angle), "bilinear")]
        for angle in (-90, 0, 90, 180, 270, 360)
    },
    "half_turn_nearest": [t.RandomRotation((180, 180))],
    "rotation_around": [t.RandomRotation(40, "bilinear", center=(3, 70.5), fill=7)],
    **{
        f"affine_{mode}": [
            t.RandomAffine(40, (0.3, 0.2), (0.5, 2.0), (-20, 20, -10, 10), mode, fill=(9, 8, 7))
        ]
        for mode in ("nearest", "bilinear", "bicubic")
    },
    "affine_scale_only": [t.RandomAffine(0, (0.3, 0.2), (0.5, 2.0), fill=50)],
    "affine_around": [t.RandomAffine(30, shear=15, center=(0, 0), interpolation="bilinear")],
    "out_of_sight": [
        t.RandomAffine(0, (1.0, 1.0), (0.01, 0.02), center=(-500, -500), interpolation="bilinear", fill=3)
    ],
    "crop_jitter": [t.RandomResizedCrop((32, 40)), t.RandomHorizontalFlip(), JITTER, t.RandomGrayscale(0.5)],
    "jitter_crop": [JITTER, t.RandomResizedCrop((32, 40))],
    "padding_is_coloured": [
        t.RandomCrop(50, padding=9, fill=(200, 100, 50)),
        JITTER,
        t.RandomHorizontalFlip(),
    ],
    "padding_stays": [JITTER, t.RandomCrop(50, padding=9, fill=(200, 100, 50))],
    "two_means": [JITTER, t.CenterCrop((30, 50)), JITTER, t.Resize((20, 33))],
    "padding_between": [JITTER, t.RandomCrop(50, padding=9, fill=8), JITTER, t.Resize((30, 20)), JITTER],
    "rotation_crop": [
        t.RandomHorizontalFlip(),
        t.RandomRotation(30, "bilinear"),
        t.CenterCrop(30),
        t.RandomVerticalFlip(),
    ],
    "rotation_padding": [t.RandomRotation(30, fill=200), t.CenterCrop((90, 80)), JITTER],
    "resize_rotation_resize": [t.Resize((70, 50)), t.RandomRotation(30, "bilinear"), t.RandomResizedCrop(32)],
    "sometimes": [
        t.RandomApply([JITTER]),
        t.RandomApply([t.RandomApply([t.Grayscale(3)])]),
        t.RandomApply([t.RandomVerticalFlip()]),
    ],
    "two_maps": [
        t.RandomRotation(30, "bilinear"),
        JITTER,
        t.RandomAffine(20, interpolation="bicubic"),
        t.Grayscale(3),
    ],
}
BLURRED = {
    "blur": [t.GaussianBlur((5, 7), (0.1, 3.0))],
    "wide": [t.GaussianBlur((23, 3))],
    "one_pixel": [t.GaussianBlur(1)],
    "crop_blur": [t.RandomCrop(50, padding=9, fill=8), t.GaussianBlur(5), t.RandomHorizontalFlip()],
    "blur_crop": [t.GaussianBlur(5), t.RandomCrop(30), t.RandomVerticalFlip()],
    "simclr": [
        t.RandomResizedCrop(32),
        t.RandomHorizontalFlip(),
        JITTER,
        t.RandomGrayscale(0.2),
        t.GaussianBlur(5),
    ],
    "sometimes": [
        t.RandomApply([t.GaussianBlur(5)]),
        t.RandomResizedCrop(32),
        t.RandomApply([t.GaussianBlur(7)], 0.3),
    ],
    "blur_padding": [t.GaussianBlur(5), t.CenterCrop((90, 100))],
    "rotation_blur": [t.RandomRotation(30), t.GaussianBlur(3), t.CenterCrop(20)],
}


@pytest.mark.parametrize("name", EXACT)
def test_pixels_are_torchvisions(F, name):
    for i in range(8):
        assert levels_apart(F, EXACT[name], make_picture(61 + i, 83 - i, seed=i), i).max() == 0, (
            f"picture {i}"
        )


@pytest.mark.parametrize("name", BLURRED)
def test_blurred_pixels_are_torchvisions_but_for_last_bits(F, name):
    apart = np.concatenate(
        [levels_apart(F, BLURRED[name], make_picture(61 + i, 83 - i, seed=i), i).ravel() for i in range(8)]
    )
    assert apart.max() <= 1
    assert (apart > 0).mean() < 1e-3


ANY_STEP = st.sampled_from(
    [
        JITTER,
        t.ColorJitter(contrast=0.9),
        t.RandomGrayscale(0.5),
        t.RandomHorizontalFlip(),
        t.RandomVerticalFlip(),
        t.CenterCrop((40, 30)),
        t.CenterCrop((31, 70)),
        t.Resize((35, 44)),
        t.RandomResizedCrop((30, 20)),
        t.RandomRotation(180, "bilinear", fill=90),
        t.RandomRotation(20),
        t.RandomRotation((90, 90)),
        t.RandomAffine(9, (0.5, 0.5), (0.7, 3), 5, fill=(1, 2, 3)),
        t.RandomAffine(0, (0.5, 0.5), fill=77),
        t.RandomAffine(50, scale=(0.1, 0.5), interpolation="bicubic"),
    ]
)


@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    steps=st.lists(ANY_STEP, min_size=1, max_size=6),
    size=st.tuples(st.integers(1, 90), st.integers(1, 90)),
    index=st.integers(0, 999),
)
def test_any_order_gives_torchvisions_pixels(F, steps, size, index):
    assert levels_apart(F, steps, make_picture(*size, seed=index), index).max() == 0


def test_all_colours_turn_as_pillows():
    """All 2^24 colours by half a turn, and a sample of them by other turns."""
    every = np.arange(1 << 24, dtype=np.uint32)
    shuffled = np.random.default_rng(3).integers(0, 1 << 24, 1 << 20, dtype=np.uint32)
    for turns, colours in [(0.5, every), (0.0039, shuffled), (-0.13, shuffled), (0.31, shuffled)]:
        pixels = colours.view(np.uint8).reshape(-1, 1024, 4)[..., :3]
        pipeline = pipeline_of(t.ColorJitter(hue=(turns, turns)), t.PILToTensor())
        got = pipeline.apply(pixels, 0, 0, 0).permute(1, 2, 0).numpy()
        assert np.array_equal(
            got, np.asarray(t.functional.adjust_hue(Image.fromarray(np.ascontiguousarray(pixels)), turns))
        )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("value", [0.25, (1.5, -2.0, 1e-3), "random"], ids=str)
def test_erasing(dtype, value):
    base = [t.ToImage(), t.ToDtype(dtype, scale=True), t.Normalize([0.5], [0.25])]
    plain = pipeline_of(*base)
    erasing = pipeline_of(*base, t.RandomErasing(0.8, value=value), t.RandomErasing(0.5, value=7))
    picture = np.asarray(make_picture(60, 50))
    noise = []
    for i in range(40):
        expected, got = plain.apply(picture, 1, 0, i), erasing.apply(picture, 1, 0, i)
        first, second = erasing.draw(60, 50, 1, 0, i)
        if first["applied"]:
            rows = slice(first["top"], first["top"] + first["height"])
            columns = slice(first["left"], first["left"] + first["width"])
            if value == "random":
                noise.append(got[:, rows, columns].flatten())
                expected[:, rows, columns] = got[:, rows, columns]
            else:
                expected[:, rows, columns] = torch.tensor(value).reshape(-1, 1, 1)
        if second["applied"]:
            rows = slice(second["top"], second["top"] + second["height"])
            columns = slice(second["left"], second["left"] + second["width"])
            assert (got[:, rows, columns] == 7).all()
            expected[:, rows, columns] = 7
        assert torch.equal(got, expected)
    if value == "random":
        values = torch.cat(noise).double()
        values = values[values != 7]
        assert (
            abs(values.mean()) < 0.02 and abs(values.std() - 1) < 0.02 and abs((values**4).mean() - 3) < 0.2
        )
        assert len(values.unique()) > 1000
