"""Which augmentation policies of torchvision become which op of the engine, and what is said about those that
do not.
"""

import re

import pytest
import torch
from millrace import _core
from PIL import Image
from policy_cases import SHARE, branches, policy_of, step, subclass
from test_lowering_transforms import FAMILIES, compose, family, refused
from transform_cases import lower_transform


@pytest.fixture(params=FAMILIES)
def t(request):
    return family(request.param)


@pytest.fixture(params=["v1", "v2"])
def library(request):
    return family(request.param)


def enhanced(value):
    names = ("brightness", "saturation", "contrast", "sharpness")
    return [[step(name, value, signed=True, base=1.0)] for name in names]


def test_rand_augment(t):
    moved = {"signed": True, "whole": True, "share": SHARE, "bins": 31}
    assert policy_of(t, t.RandAugment()) == {
        "op": "augment_policy",
        "name": "RandAugment",
        "count": 2,
        "replace": True,
        "interpolations": ["nearest"],
        "fill": (0, 0, 0),
        "geometry": "torchvision",
        "branches": branches(
            [step("identity")],
            [step("shear_x", 0.09, signed=True)],
            [step("shear_y", 0.09, signed=True)],
            [step("translate_x", 9, **moved)],
            [step("translate_y", 9, **moved)],
            [step("rotate", 9.0, signed=True)],
            *enhanced(0.27),
            [step("posterize", 7)],
            [step("solarize", 178.5)],
            [step("autocontrast")],
            [step("equalize")],
        ),
    }


def test_arguments_of_rand_augment(t):
    mode = t.InterpolationMode.BICUBIC
    op = policy_of(t, t.RandAugment(3, -1, 11, mode, fill=[1, 2.0, 3]))
    assert (op["count"], op["interpolations"], op["fill"]) == (3, ["bicubic"], (1, 2, 3))
    assert op["branches"][5]["ops"] == [step("rotate", 30.0, signed=True)]
    moved = {"signed": True, "whole": True, "share": SHARE, "bins": 11}
    assert op["branches"][4]["ops"] == [step("translate_y", 10, **moved)]
    assert policy_of(t, t.RandAugment(fill=7))["fill"] == (7, 7, 7)
    assert lower_transform(t.Compose([t.RandAugment(0), t.PILToTensor()])) == (
        [{"op": "to_tensor", "dtype": "uint8"}],
        ["RandAugment", "PILToTensor"],
    )


@pytest.mark.parametrize("name", ["millrace", "v2"])
def test_fill_by_type(name):
    t = family(name)
    for fill, expected in (
        ({Image.Image: 3, "others": 4}, 3),
        ({torch.Tensor: 3, "others": 4}, 4),
        ({torch.Tensor: 3}, 0),
        ({Image.Image: [3, 3, 3]}, 3),
    ):
        assert policy_of(t, t.TrivialAugmentWide(fill=fill))["fill"] == (expected,) * 3
        assert compose(t, t.RandomRotation(9, fill=fill), t.PILToTensor())[0]["fill"] == (expected,) * 3


def test_trivial_augment(t):
    op = policy_of(t, t.TrivialAugmentWide(5))
    quarters = [0.0, 0.25, 0.5, 0.75, 1.0]
    assert (op["name"], op["count"], op["replace"]) == ("TrivialAugmentWide", 1, True)
    assert op["branches"] == branches(
        [step("identity")],
        [step("shear_x", *(0.99 * v for v in quarters), signed=True)],
        [step("shear_y", *(0.99 * v for v in quarters), signed=True)],
        [step("translate_x", 0, 8, 16, 24, 32, signed=True, whole=True)],
        [step("translate_y", 0, 8, 16, 24, 32, signed=True, whole=True)],
        [step("rotate", *(135 * v for v in quarters), signed=True)],
        *[
            [step(name, *(0.99 * v for v in quarters), signed=True, base=1.0)]
            for name in ("brightness", "saturation", "contrast", "sharpness")
        ],
        [step("posterize", 8, 6, 5, 4, 2)],
        [step("solarize", 255, 191.25, 127.5, 63.75, 0)],
        [step("autocontrast")],
        [step("equalize")],
    )


@pytest.mark.parametrize("name", ["IMAGENET", "CIFAR10", "SVHN"])
def test_auto_augment(t, name):
    transform = t.AutoAugment(t.AutoAugmentPolicy[name])
    op = policy_of(t, transform)
    policies = getattr(transform, "policies", None) or transform._policies
    assert len(op["branches"]) == len(policies) == 25
    assert op["count"] == 1 and {made["weight"] for made in op["branches"]} == {1.0}
    assert [[s["p"] for s in made["ops"]] for made in op["branches"]] == [
        [p for _, p, _ in steps] for steps in policies
    ]
    moved = {"signed": True, "whole": True, "share": SHARE, "bins": 10}
    first = {
        "IMAGENET": [step("posterize", 4, p=0.4), step("rotate", 30.0, p=0.6, signed=True)],
        "CIFAR10": [step("invert", p=0.1), step("contrast", 0.6, p=0.2, signed=True, base=1.0)],
        "SVHN": [step("shear_x", 0.4 / 3, p=0.9, signed=True), step("invert", p=0.2)],
    }[name]
    assert op["branches"][0]["ops"] == first
    if name == "CIFAR10":
        assert op["branches"][1]["ops"][1] == step("translate_x", 9, p=0.3, **moved)


def test_single_operations(t):
    transforms = [
        t.RandomInvert(0.25),
        t.RandomPosterize(3),
        t.RandomSolarize(99.5, p=1.0),
        t.RandomAdjustSharpness(2, 0.75),
        t.RandomAutocontrast(),
        t.RandomEqualize(0.0),
    ]
    *ops, _ = compose(t, *transforms, t.PILToTensor())
    assert [op["name"] for op in ops] == [type(transform).__name__ for transform in transforms]
    assert [op["branches"] for op in ops] == [
        branches([step("invert", p=0.25)]),
        branches([step("posterize", 3, p=0.5)]),
        branches([step("solarize", 99.5)]),
        branches([step("sharpness", 2, p=0.75)]),
        branches([step("autocontrast", p=0.5)]),
        branches([step("equalize", p=0.0)]),
    ]
    _core.ImagePipeline([*ops, {"op": "to_tensor", "dtype": "uint8"}])


# -- tables of users


@pytest.mark.parametrize("base", ["RandAugment", "TrivialAugmentWide"])
def test_tables_of_subclasses_count(t, base):
    table = {
        "Rotate": lambda bins, height, width: torch.linspace(0.0, 60.0, bins),
        "Equalize": lambda *_: None,
    }
    which = {"RandAugment": [1], "TrivialAugmentWide": range(3)}[base]
    options = {"magnitude": 1} if base == "RandAugment" else {}
    mine = subclass(t, base, table)(num_magnitude_bins=3, **options)
    op = policy_of(t, mine)
    assert op["name"] == "Mine"
    rotation, equalized = (made["ops"] for made in op["branches"])
    assert rotation == [step("rotate", *(30.0 * i for i in which), signed=True)]
    assert [s["kind"] for s in equalized] == ["equalize"]


@pytest.mark.parametrize("share", [0.45, 1 / 3, 0.5, 7 / 4096])
def test_shares_of_a_side_are_found(t, share):
    table = {
        "TranslateX": lambda bins, height, width: torch.linspace(0.0, share * width, bins),
        "TranslateY": lambda bins, height, width: torch.linspace(0.0, share * height, bins),
    }
    across, down = policy_of(t, subclass(t, "RandAugment", table)())["branches"]
    for made, kind in ((across, "translate_x"), (down, "translate_y")):
        (op,) = made["ops"]
        assert op == step(kind, 9, signed=True, whole=True, share=pytest.approx(share, rel=1e-15), bins=31)


def test_magnitudes_of_operations_without_any(library):
    """An enhancement by nothing is the picture, whose factor is 1."""
    op = policy_of(library, subclass(library, "RandAugment", {"Brightness": lambda *_: None})())
    assert op["branches"] == branches([step("brightness", base=1.0)])


def test_policies_of_subclasses_count(library):
    def mine(self, policy):
        return [(("Rotate", 0.5, 3), ("Invert", 1.0, None))]

    cls = type("Mine", (library.AutoAugment,), {"_get_policies": mine})
    assert policy_of(library, cls())["branches"] == branches(
        [step("rotate", 10.0, p=0.5, signed=True), step("invert")]
    )


def test_asking_for_a_table_draws_nothing(library):
    table = {"Rotate": lambda bins, height, width: torch.rand(bins)}
    before = torch.get_rng_state()
    assert "Mine's table draws its magnitudes" in refused(
        library, subclass(library, "RandAugment", table)(), library.PILToTensor()
    )
    assert torch.equal(torch.get_rng_state(), before)


def raising(*_):
    raise RuntimeError("no table")


@pytest.mark.parametrize(
    "make, reason",
    [
        (
            lambda t: subclass(t, "RandAugment", {"Cutout": lambda *_: None})(),
            "'Cutout' is none of torchvision's",
        ),
        (lambda t: subclass(t, "RandAugment", {"Rotate": raising})(), r"raised RuntimeError\('no table'\)"),
        (
            lambda t: subclass(t, "RandAugment", {"Rotate": lambda b, h, w: torch.linspace(0, h, b)})(),
            "Rotate depends on the picture's size; the engine knows that of translations",
        ),
        (
            lambda t: subclass(t, "RandAugment", {"TranslateX": lambda b, h, w: torch.linspace(0, h, b)})(),
            "TranslateX is no even share",
        ),
        (
            lambda t: subclass(t, "RandAugment", {"TranslateX": lambda b, h, w: torch.linspace(1, w, b)})(),
            "TranslateX is no even share",
        ),
        (
            lambda t: subclass(t, "RandAugment", {"Posterize": lambda b, h, w: torch.full((b,), 9)})(),
            "keeps 9 bits; a byte has 0 to 8",
        ),
        (
            lambda t: subclass(t, "RandAugment", {}, forward=lambda self, picture: picture)(),
            "Mine has a forward of its own; the engine knows subclasses of RandAugment that",
        ),
        (
            lambda t: subclass(t, "RandAugment", {}, __call__=lambda self, picture: picture)(),
            "Mine has a __call__",
        ),
        (lambda t: t.RandAugment(magnitude=31), "magnitude 31 of ShearX is no index into its 31"),
        (lambda t: t.RandAugment(magnitude=None), "magnitude None of ShearX is no index"),
        (lambda t: t.RandAugment(num_magnitude_bins=0), "num_magnitude_bins=0.* no whole number above 0"),
        (lambda t: t.TrivialAugmentWide(num_magnitude_bins=2.5), "num_magnitude_bins=2.5"),
        (lambda t: t.RandAugment(num_magnitude_bins=1, magnitude=0), "bits; a byte has"),
        (lambda t: t.RandAugment(interpolation=t.InterpolationMode.LANCZOS), "lanczos interpolation"),
        (lambda t: t.AutoAugment(fill=(1, 2)), "AutoAugment.fill=.* whole numbers from 0 to 255"),
        (lambda t: t.RandomPosterize(9), "RandomPosterize keeps 9 bits; a byte has 0 to 8"),
        (lambda t: t.RandomPosterize(2.5), "RandomPosterize keeps 2.5 bits"),
    ],
)
def test_refusals_say_what_to_change(t, make, reason):
    assert re.search(reason, refused(t, make(t), t.PILToTensor()))


@pytest.mark.filterwarnings("ignore:The transform `ToTensor")
@pytest.mark.parametrize(
    "make",
    [
        lambda t: t.RandAugment(),
        lambda t: t.TrivialAugmentWide(),
        lambda t: t.AutoAugment(),
        lambda t: t.RandomInvert(),
        lambda t: t.RandomPosterize(3),
        lambda t: t.RandomSolarize(3),
        lambda t: t.RandomAdjustSharpness(3),
        lambda t: t.RandomAutocontrast(),
        lambda t: t.RandomEqualize(),
        lambda t: t.RandomChoice([t.RandomEqualize()]),
        lambda t: t.RandomOrder([t.RandomEqualize()]),
    ],
)
def test_behind_a_conversion_torch_computes_otherwise(t, make):
    for conversion in (t.PILToTensor(), t.ToTensor()):
        assert "of a tensor computes otherwise than of a PIL image; put it before" in refused(
            t, conversion, make(t)
        )
