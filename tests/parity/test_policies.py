"""Augmentation policies in the engine against torchvision's on PIL images: the same pixels, drawn alike."""

import functools

import millrace
import numpy as np
import pytest
import torch
from loader_data import make_folder, torchvision_or_skip
from millrace import _core
from millrace._common.lowering.policies import KINDS, MAPS
from millrace._common.lowering.recognising import NotLowered
from millrace._common.lowering.transforms import lowered
from millrace._loader.plan.source import grey_chains
from pictures import make_picture
from policy_draws import drawn, same_counts
from transform_cases import lower_transform

DRAWS = 20_000
SIZES = [(1, 1), (1, 7), (9, 1), (2, 3), (3, 3), (33, 17), (64, 48), (61, 47)]
LARGEST = {"Rotate": 135.0, "ShearX": 0.3, "ShearY": -0.4, "TranslateX": 32.0, "TranslateY": -9.0}
LARGEST |= {"Brightness": 0.9, "Contrast": -0.9, "Color": 0.7, "Sharpness": 0.99}
PLAIN = ("Identity", "AutoContrast", "Equalize", "Invert")
SIDES = {"TranslateX": 1, "TranslateY": 0}  # of (height, width)


@pytest.fixture(scope="module", params=["v1", "v2"])
def t(request):
    torchvision_or_skip()
    import torchvision.transforms
    import torchvision.transforms.v2

    return torchvision.transforms if request.param == "v1" else torchvision.transforms.v2


def is_v1(t):
    return t.__name__ == "torchvision.transforms"


def pipeline_of(t, *transforms):
    return _core.ImagePipeline(lower_transform(t.Compose([*transforms, t.PILToTensor()]))[0])


def magnitudes(t, name, of_side):
    """As a function of (bins, height, width)."""
    if name in PLAIN:
        return lambda bins, *size: torch.tensor(0.0) if is_v1(t) else None
    if name == "Posterize":
        return lambda bins, *size: (8 - torch.arange(bins) / ((bins - 1) / 6)).round().int()
    if name == "Solarize":
        return lambda bins, *size: torch.linspace(255.0 if is_v1(t) else 1.0, 0.0, bins)
    if of_side:
        return lambda bins, *size: torch.linspace(0.0, 150 / 331 * size[SIDES[name]], bins)
    return lambda bins, *size: torch.linspace(0.0, LARGEST[name], bins)


def only(t, name, of_side=False, signed=False, **options):
    """A RandAugment of one operation."""
    made = magnitudes(t, name, of_side)
    table = {"_AUGMENTATION_SPACE": {name: (made, signed)}}
    if is_v1(t):
        table = {"_augmentation_space": lambda self, bins, size: {name: (made(bins, *size), signed)}}
    return type("Only", (t.RandAugment,), table)(num_ops=1, **options)


@pytest.mark.parametrize("name, of_side", [*((name, False) for name in KINDS), *((n, True) for n in SIDES)])
@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_each_operation_has_torchvisions_pixels(t, name, of_side, mode):
    if mode != "nearest" and KINDS[name] not in MAPS:
        return  # it interpolates nothing
    for magnitude in (0, 1, 9, 17, 30):
        options = {"magnitude": magnitude, "interpolation": t.InterpolationMode(mode), "fill": [1, 200, 77]}
        transform = only(t, name, of_side, **options)
        pipeline = pipeline_of(t, transform)
        for width, height in SIZES:
            picture = make_picture(width, height, seed=width * height + magnitude)
            expected = t.functional.pil_to_tensor(transform(picture))
            assert torch.equal(pipeline.apply(np.asarray(picture), 1, 0, magnitude), expected)


@pytest.mark.parametrize("name", KINDS)
def test_grey_pictures_have_torchvisions_pixels(t, name):
    """The engine has them as three equal channels, of which one reaches the batch."""
    for magnitude in (3, 17, 30):
        transform = only(t, name, magnitude=magnitude, interpolation=t.InterpolationMode.BILINEAR, fill=77)
        made = lowered(t.Compose([transform, t.PILToTensor()]))
        pipeline = _core.ImagePipeline(*grey_chains(made))
        for number, size in enumerate(SIZES):
            picture = make_picture(*size, seed=number).convert("L")
            expected = t.functional.pil_to_tensor(transform(picture))
            found = pipeline.apply(np.stack([np.asarray(picture)] * 3, -1), 1, 0, number)
            assert torch.equal(found, expected)


def test_fills_with_colours_are_none_of_grey_pictures(t):
    made = lowered(t.Compose([t.RandAugment(fill=[1, 2, 3]), t.PILToTensor()]))
    with pytest.raises(NotLowered, match="the fill of augment_policy has colours"):
        grey_chains(made)


SINGLE = [
    ("RandomInvert", ()),
    ("RandomPosterize", (1,)),
    ("RandomPosterize", (8,)),
    ("RandomSolarize", (0,)),
    ("RandomSolarize", (127.5,)),
    ("RandomSolarize", (256,)),
    ("RandomAdjustSharpness", (0,)),
    ("RandomAdjustSharpness", (1,)),
    ("RandomAdjustSharpness", (2.5,)),
    ("RandomAutocontrast", ()),
    ("RandomEqualize", ()),
]


@pytest.mark.parametrize("name, args", SINGLE, ids=str)
def test_single_operations_have_torchvisions_pixels(t, name, args):
    transform = getattr(t, name)(*args, p=1.0)
    pipeline, never = pipeline_of(t, transform), pipeline_of(t, getattr(t, name)(*args, p=0.0))
    for number, size in enumerate([*SIZES, (255, 256)]):
        picture = make_picture(*size, seed=number)
        pixels = np.asarray(picture)
        expected = t.functional.pil_to_tensor(transform(picture))
        assert torch.equal(pipeline.apply(pixels, 1, 0, number), expected)
        assert torch.equal(never.apply(pixels, 1, 0, number), t.functional.pil_to_tensor(picture))


def policies(t):
    names = t.AutoAugmentPolicy
    turned = t.RandomRotation(40, fill=9)
    return {
        "RandAugment": t.RandAugment(3, 20, fill=9),
        "TrivialAugmentWide": t.TrivialAugmentWide(fill=9),
        **{name.value: t.AutoAugment(name, fill=9) for name in names},
        "RandomOrder": t.RandomOrder(
            [turned, t.RandomEqualize(1.0), t.ColorJitter(0.9), t.RandomSolarize(90)]
        ),
        "RandomApply": t.RandomApply([t.ColorJitter(0.9, 0.9, 0.9), t.RandomGrayscale(0.3), turned], 0.8),
        "RandomChoice": t.RandomChoice([t.Grayscale(3), t.RandomInvert(0.5), turned, t.ColorJitter(0.5)]),
    }


AUTO_AUGMENT = ["imagenet", "cifar10", "svhn"]
HOLDERS = ["RandomOrder", "RandomApply", "RandomChoice"]


@pytest.mark.parametrize("name", ["RandAugment", "TrivialAugmentWide", *AUTO_AUGMENT, *HOLDERS])
def test_policies_have_torchvisions_pixels(t, name):
    """Of what the engine draws."""
    from by_libraries import operated  # where torchvision is

    pipeline, F = pipeline_of(t, policies(t)[name]), t.functional
    steps = 0
    for number in range(150):
        picture = expected = make_picture(*SIZES[3 + number % 5], seed=number)
        (decided,) = pipeline.draw(*picture.size, 3, 0, number)
        for op in decided["ops"]:
            mode = t.InterpolationMode(op.get("interpolation", "nearest"))
            expected = operated(F, expected, op["kind"], op["value"], mode, [9, 9, 9])
        steps += len(decided["ops"])
        found = pipeline.apply(np.asarray(picture), 3, 0, number)
        assert torch.equal(found, F.pil_to_tensor(expected)), decided
    assert steps > 50


# -- draws


class Recorder:
    """Of a policy of torchvision: which operations it applies, with which values as the engine names them."""

    def __init__(self, t, monkeypatch):
        self.seen, self.bound = [], 1.0 if is_v1(t) else 255.0
        if is_v1(t):
            monkeypatch.setattr(t.autoaugment, "_apply_op", self)
        else:
            base = t.RandAugment.__mro__[1]
            record = lambda _, image, *args, **options: self(image, *args, **options)  # noqa: E731
            monkeypatch.setattr(base, "_apply_image_or_video_transform", record)

    def __call__(self, image, name, magnitude, interpolation, fill):
        kind = KINDS[name]
        if kind in ("brightness", "contrast", "saturation", "sharpness"):
            magnitude = 1.0 + magnitude
        elif kind.startswith("translate"):
            magnitude = int(magnitude)
        elif kind == "solarize":
            magnitude *= self.bound
        self.seen.append((kind, magnitude))
        return image

    def of(self, transform, picture):
        self.seen.clear()
        transform(picture)
        return tuple(self.seen)


@functools.cache
def cached(table, *args):
    return table(*args)


@pytest.mark.parametrize("name", ["RandAugment", "TrivialAugmentWide", *AUTO_AUGMENT])
def test_policies_are_drawn_as_torchvisions(t, name, monkeypatch):
    transform = policies(t)[name]
    mine = drawn(pipeline_of(t, transform), DRAWS)
    recorder = Recorder(t, monkeypatch)
    if is_v1(t):  # makes all magnitudes of all operations for each picture
        table = transform._augmentation_space
        monkeypatch.setattr(type(transform), "_augmentation_space", lambda self, *args: cached(table, *args))
    torch.manual_seed(7)
    picture = make_picture(331, 200)
    theirs = [recorder.of(transform, picture) for _ in range(DRAWS)]
    if name == "RandAugment":  # of three operations there are thousands; two of them, then
        same_counts([ops[:1] for ops in mine], [ops[:1] for ops in theirs])
        mine, theirs = ([ops[1:] for ops in found] for found in (mine, theirs))
    same_counts(mine, theirs)


@pytest.mark.parametrize(
    "name",
    ["RandomInvert", "RandomPosterize", "RandomSolarize", "RandomAdjustSharpness", "RandomAutocontrast"],
)
def test_single_operations_happen_as_often_as_they_should(t, name):
    args = {"RandomPosterize": (3,), "RandomSolarize": (9,), "RandomAdjustSharpness": (2,)}.get(name, ())
    found = drawn(pipeline_of(t, getattr(t, name)(*args, p=0.3)), DRAWS)
    assert abs(np.mean([len(ops) for ops in found]) - 0.3) < 4 * np.sqrt(0.21 / DRAWS)


def test_holders_are_drawn_as_they_should(t):
    inner = [t.RandomInvert(1.0), t.RandomEqualize(1.0), t.RandomAutocontrast(1.0)]

    def shares(transform):
        found = [tuple(kind for kind, _ in ops) for ops in drawn(pipeline_of(t, transform), DRAWS)]
        return {kinds: found.count(kinds) / DRAWS for kinds in set(found)}

    def near(share):
        return pytest.approx(share, abs=4 * np.sqrt(0.25 / DRAWS))

    assert shares(t.RandomChoice(inner, p=[1, 2, 5])) == {
        ("invert",): near(0.125),
        ("equalize",): near(0.25),
        ("autocontrast",): near(0.625),
    }
    orders = shares(t.RandomOrder(inner))
    assert len(orders) == 6 and all(share == near(1 / 6) for share in orders.values())
    both = tuple(("invert", "equalize", "autocontrast"))
    assert shares(t.RandomApply(inner, 0.2)) == {both: near(0.2), (): near(0.8)}


def test_loaders_give_what_the_data_set_gives(t, tmp_path):
    make_folder(tmp_path, 9)
    steps = [t.Resize((24, 20)), *policies(t).values(), t.PILToTensor()]
    dataset = millrace.datasets.ImageFolder(str(tmp_path), t.Compose(steps))
    for workers in (0, 2):
        loader = millrace.DataLoader(dataset, 4, num_workers=workers, native="require")
        for _ in range(2):
            found = torch.cat([pictures for pictures, _ in loader])
            expected = [dataset.at(i, loader.seed, loader.epoch)[0] for i in range(9)]
            assert torch.equal(found, torch.stack(expected))
