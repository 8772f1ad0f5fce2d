"""timm's AugMix in the engine: its own class mixes what the engine has drawn, and has the same pixels."""

import itertools

import numpy as np
import pytest
from loader_data import torchvision_or_skip
from millrace import _core, transforms
from millrace._common.lowering.recognising import NotLowered
from PIL import Image, ImageEnhance, ImageOps
from transform_cases import lower_transform

torchvision_or_skip()
pytest.importorskip("timm")
timm = pytest.importorskip("timm.data.auto_augment")

MODES = {"nearest": Image.NEAREST, "bilinear": Image.BILINEAR, "bicubic": Image.BICUBIC}
FILL = (124, 116, 104)


def pipeline_of(config):
    augmix = timm.augment_and_mix_transform(config, {"translate_const": 100, "img_mean": FILL})
    chain = lower_transform(transforms.Compose([augmix, transforms.PILToTensor()]))[0]
    return augmix, _core.ImagePipeline(chain)


def by_pillow(step):
    """A drawn operation as a function of pictures."""
    kind, value = step["kind"], step["value"]
    if "inverse" in step:
        mode = MODES[step["interpolation"]]
        return lambda image: image.transform(image.size, Image.AFFINE, step["inverse"], mode, fillcolor=FILL)
    enhance = {
        "brightness": "Brightness",
        "contrast": "Contrast",
        "saturation": "Color",
        "sharpness": "Sharpness",
    }
    if kind in enhance:
        return lambda image: getattr(ImageEnhance, enhance[kind])(image).enhance(value)
    if kind in ("posterize", "solarize"):
        return lambda image: getattr(ImageOps, kind)(image, int(value))
    if kind in ("autocontrast", "equalize"):
        return getattr(ImageOps, kind)
    # Nothing was drawn that moves a pixel.
    assert kind in ("identity", "rotate", "shear_x", "shear_y", "translate_x", "translate_y")
    return lambda image: image


@pytest.mark.parametrize(
    "config", ["augmix-m5-w4-d2", "augmix-m3-w3", "augmix-m9-w2-d3-b1", "augmix-m5-w4-b1-mstd0.5"]
)
def test_timm_mixes_what_was_drawn_alike(config, monkeypatch):
    augmix, pipeline = pipeline_of(config)
    random = np.random.default_rng(1)
    for index, side in enumerate(itertools.islice(itertools.cycle([1, 2, 7, 24, 50]), 60)):
        pixels = random.integers(0, 256, (side, side, 3), dtype=np.uint8)
        (drawn,) = pipeline.draw(side, side, 1, 0, index)
        copies = iter(drawn["copies"])
        monkeypatch.setattr(np.random, "randint", lambda *bounds: 1)
        monkeypatch.setattr(
            np.random,
            "choice",
            lambda ops, depth, replace, copies=copies: list(map(by_pillow, next(copies)["ops"])),
        )
        image, shares = Image.fromarray(pixels), np.float32([copy["share"] for copy in drawn["copies"]])
        if augmix.blended:  # whose shares the engine has worked out already
            monkeypatch.setattr(augmix, "_calc_blended_weights", lambda weights, share: weights)
            expected = augmix._apply_blended(image, shares, None)
        else:
            expected = augmix._apply_basic(image, shares, np.float32(drawn["share"]))
        monkeypatch.undo()
        got = pipeline.apply(pixels, 1, 0, index).numpy().transpose(1, 2, 0)
        np.testing.assert_array_equal(got, np.asarray(expected), err_msg=f"{config}, picture {index}")


def test_how_many_and_how_deep():
    for config, width, depths in (
        ("augmix-m3-w5", 5, {1, 2, 3}),
        ("augmix-m3-d4", 3, {4}),
        ("augmix-m3", 3, {1, 2, 3}),
    ):
        _, pipeline = pipeline_of(config)
        draws = [pipeline.draw(32, 32, 1, 0, index)[0] for index in range(200)]
        assert {len(drawn["copies"]) for drawn in draws} == {width}
        assert {len(copy["ops"]) for drawn in draws for copy in drawn["copies"]} == depths


def test_arguments_that_numpy_would_refuse_stay_in_python():
    augmix, _ = pipeline_of("augmix-m3")
    for name, value in (("width", 0), ("alpha", 0.0), ("ops", [])):
        before = getattr(augmix, name)
        setattr(augmix, name, value)
        with pytest.raises(NotLowered):
            lower_transform(transforms.Compose([augmix, transforms.PILToTensor()]))
        setattr(augmix, name, before)


def test_all_of_timms_transforms_for_training():
    chain = lower_transform(timm_transforms("augmix-m5-w4-d2"))[0]
    assert [op["op"] for op in chain] == [
        "random_resized_crop",
        "horizontal_flip",
        "augmix",
        "to_tensor",
        "normalize",
    ]


def timm_transforms(policy):
    from timm.data import create_transform

    return create_transform(64, is_training=True, auto_augment=policy, interpolation="bicubic")
