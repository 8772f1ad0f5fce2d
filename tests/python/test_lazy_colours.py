"""Colours and affine maps of pictures that wait are Pillow's and torchvision's, in any order with crops and
resizes.
"""

import importlib
import io

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lazy_cases import lazy_jpegs, lazy_pictures, same_lazily
from loader_data import torchvision_or_skip
from millrace._pictures.pillow import record_of
from PIL import Image, ImageEnhance, ImageOps

JPEGS = lazy_jpegs(61, 47)
FACTORS = st.floats(0, 3, width=32) | st.sampled_from([0.0, 1.0, 0.5])
BYTES = st.integers(0, 255)
CALLS = st.one_of(
    st.tuples(st.sampled_from(["Brightness", "Contrast", "Color"]), FACTORS).map(
        lambda drawn: lambda im: getattr(ImageEnhance, drawn[0])(im).enhance(drawn[1])
    ),
    st.just(ImageOps.invert),
    st.just(ImageOps.autocontrast),
    st.just(ImageOps.equalize),
    st.integers(1, 8).map(lambda bits: lambda im: ImageOps.posterize(im, bits)),
    st.integers(0, 256).map(lambda threshold: lambda im: ImageOps.solarize(im, threshold)),
    st.integers(0, 40).map(lambda cut: lambda im: ImageOps.autocontrast(im, cut)),
    st.integers(-3, 9).map(lambda by: lambda im: im.point(lambda v: v * by - 100)),
    st.tuples(st.floats(-400, 400), st.sampled_from([0, 2, 3]), st.none() | BYTES).map(
        lambda drawn: lambda im: im.rotate(drawn[0], drawn[1], fillcolor=_fill(drawn[2], im.mode))
    ),
    st.tuples(st.lists(st.floats(-2, 2), min_size=6, max_size=6), st.sampled_from([0, 2, 3])).map(
        lambda drawn: lambda im: im.transform(im.size, Image.Transform.AFFINE, drawn[0], drawn[1])
    ),
    st.tuples(
        st.integers(0, 9) | st.tuples(*[st.integers(0, 9)] * 2) | st.tuples(*[st.integers(-2, 9)] * 4),
        BYTES,
    ).map(lambda drawn: lambda im: ImageOps.expand(im, drawn[0], _fill(drawn[1], im.mode))),
    st.tuples(st.integers(1, 50), st.integers(1, 50)).map(lambda size: lambda im: im.resize(size)),
    st.tuples(st.integers(-4, 30), st.integers(-4, 30), st.integers(1, 40), st.integers(1, 40)).map(
        lambda box: lambda im: im.crop((box[0], box[1], box[0] + box[2], box[1] + box[3]))
    ),
    st.sampled_from(["RGB", "L"]).map(lambda mode: lambda im: im.convert(mode)),
    st.sampled_from(list(Image.Transpose)).map(lambda turn: lambda im: im.transpose(turn)),
)


@pytest.mark.parametrize(
    "border, fill",
    [
        (3, 0),
        ((1, 2), "red"),
        ((1, 2, 3, 4), (7, 8, 9)),
        (0, 0),
        (2, 300),
        (2.5, 0),
        ((1, 2, 3), 0),
    ]
    + [(2, (1, 2)), (2, 9), (-2, 0), ([1, 2, 3, 4], 0), (True, 0)],
)
def test_borders(border, fill):
    def run():
        return ImageOps.expand(Image.open(io.BytesIO(JPEGS["420"])), border, fill)

    same_lazily(run)


def test_a_border_that_nobody_writes_is_pillows():
    """Without a colour its memory has any values, so only what is not of them can be equal."""
    with lazy_pictures():
        source = Image.open(io.BytesIO(JPEGS["420"]))
        image = ImageOps.expand(source, 2, None)
        assert record_of(image) is None and image.size == (source.width + 4, source.height + 4)


def test_a_border_waits():
    with lazy_pictures():
        image = ImageOps.expand(Image.open(io.BytesIO(JPEGS["420"])), 5, (1, 2, 3)).crop((0, 0, 20, 20))
        assert record_of(image) is not None and not image.info


def _fill(value, mode):
    return value if value is None or mode == "L" else (value, 255 - value, 7)


@settings(max_examples=400, deadline=None)
@given(kind=st.sampled_from(sorted(JPEGS)), calls=st.lists(CALLS, max_size=6))
def test_chains(kind, calls):
    def run():
        image = Image.open(io.BytesIO(JPEGS[kind]))
        for call in calls:
            image = call(image)
        return image

    same_lazily(run)


RECORDED = {
    "brightness": lambda im: ImageEnhance.Brightness(im).enhance(1.3),
    "contrast": lambda im: ImageEnhance.Contrast(im).enhance(0.4),
    "color": lambda im: ImageEnhance.Color(im).enhance(2.0),
    "invert": ImageOps.invert,
    "posterize": lambda im: ImageOps.posterize(im, 3),
    "solarize": lambda im: ImageOps.solarize(im, 100),
    "equalize": ImageOps.equalize,
    "autocontrast": ImageOps.autocontrast,
    "rotate": lambda im: im.rotate(17, Image.Resampling.BILINEAR, fillcolor=(1, 2, 3)),
}


@pytest.mark.parametrize("name", RECORDED)
def test_what_waits(name):
    with lazy_pictures():
        image = Image.open(io.BytesIO(JPEGS["420"])).convert("RGB").resize((30, 30))
        made = RECORDED[name](image)
        assert record_of(made) is not None and record_of(image) is not None


def test_an_enhancer_is_pillows_in_all_its_parts():
    def looked_into(cls, factor):
        image = Image.open(io.BytesIO(JPEGS["420"])).convert("RGB")
        enhancer = cls(image)
        first = enhancer.enhance(0.5)
        degenerate = enhancer.degenerate
        return first, degenerate, enhancer.enhance(factor), enhancer.image, sorted(vars(enhancer))

    for cls in (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color, ImageEnhance.Sharpness):
        for factor in (-0.5, 0, 1, 2):
            same_lazily(lambda cls=cls, factor=factor: looked_into(cls, factor))


def test_pixels_that_somebody_may_write_into_are_counted_as_they_are():
    def written_into():
        image = Image.open(io.BytesIO(JPEGS["420"]))
        pixels = image.load()
        counted = image.histogram()
        pixels[0, 0] = (1, 2, 3)
        return counted, image.histogram(), image.getpixel((0, 0))

    same_lazily(written_into)


POLICIES = ("RandAugment", "AutoAugment", "TrivialAugmentWide", "AugMix")


@pytest.mark.parametrize("version", ["v1", "v2"])
@pytest.mark.parametrize("policy", [*POLICIES, "ColorJitter", "RandomGrayscale"])
def test_torchvisions_policies(version, policy):
    """With the same draws, and the generator is left alike."""
    torchvision_or_skip()
    module = importlib.import_module(f"torchvision.transforms{'.v2' if version == 'v2' else ''}")
    arguments = {"ColorJitter": (0.4, 0.4, 0.4, 0.1), "RandomGrayscale": (0.5,)}.get(policy, ())
    chain = module.Compose(
        [module.RandomResizedCrop(40), getattr(module, policy)(*arguments), module.PILToTensor()]
    )

    def run():
        torch.manual_seed(3)
        made = [chain(Image.open(io.BytesIO(JPEGS["420"])).convert("RGB")) for _ in range(40)]
        return made, torch.rand(1)

    same_lazily(run, opened=40)


def test_what_detectors_do_waits():
    """Colours, channels, a frame, a crop and a size: SSD's preset, but for its boxes."""
    torchvision_or_skip()
    v2 = importlib.import_module("torchvision.transforms.v2")
    chain = v2.Compose(
        [
            v2.RandomPhotometricDistort(p=1),
            v2.RandomZoomOut(fill=[123.0, 117.0, 104.0], p=1),
            v2.RandomCrop(30),
            v2.Resize((300, 300)),
        ]
    )
    with lazy_pictures() as counts:
        image = chain(Image.open(io.BytesIO(JPEGS["420"])))
        assert record_of(image) is not None and counts.calls == {}
