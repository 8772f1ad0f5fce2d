"""timm's augmentation policies in the engine against its own on PIL images: the same pixels, drawn alike."""

import functools
import itertools
import random
import re
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from loader_data import torchvision_or_skip
from millrace import _core, transforms
from millrace._common.lowering.policies import least_bits
from millrace._common.lowering.recognising import NotLowered
from pictures import make_picture
from PIL import Image
from policy_draws import drawn, same_counts, same_distribution
from transform_cases import lower_transform

torchvision_or_skip()
pytest.importorskip("timm")
timm = pytest.importorskip("timm.data.auto_augment")
from by_libraries import FILL, by_timm  # noqa: E402

DRAWS = 20_000
SIZES = [(1, 1), (2, 3), (33, 17), (64, 48), (61, 47)]
HPARAMS = {"translate_const": 100, "img_mean": FILL}


def lowered(*steps):
    return lower_transform(transforms.Compose([*steps, transforms.PILToTensor()]))[0]


def pipeline_of(*steps):
    return _core.ImagePipeline(lowered(*steps))


def refused(*steps):
    with pytest.raises(NotLowered) as caught:
        lowered(*steps)
    return str(caught.value)


def operation(name, magnitude, **hparams):
    (made,) = lowered(timm.AugmentOp(name, 1.0, magnitude, HPARAMS | hparams))[0]["branches"]
    (op,) = made["ops"]
    return op


class Signs:
    """In the place of Python's random in timm's module: both signs in turn."""

    def __init__(self, monkeypatch):
        self.minus = False
        monkeypatch.setattr(timm, "random", self)

    def random(self):
        return 1.0 if self.minus else 0.0

    def choice(self, values):
        return values[0]

    def both(self, function, *args):
        found = []
        for self.minus in (False, True):
            found += [v for v in function(*args) if v not in found]
        return found


def as_drawn(name, value):
    """timm's argument as the engine's value."""
    return min(1.0, max(0.0, 1.0 - value)) if name == "Desaturate" else float(value)


@pytest.mark.parametrize("name", timm.NAME_TO_OP)
def test_fixed_levels_are_timms_to_the_last_bit(name, monkeypatch):
    signs = Signs(monkeypatch)
    for magnitude, most in [*((m, None) for m in (0, 1, 2.5, 3, 4, 5, 6, 7, 8.5, 9, 10, 30, -1)), (25, 30)]:
        hparams = {} if most is None else {"magnitude_max": most}
        op = operation(name, magnitude, **hparams)
        if name == "GaussianBlurRand":
            continue  # is drawn even then
        op_of_timm = timm.AugmentOp(name, 1.0, magnitude, HPARAMS | hparams)
        level = max(0.0, min(magnitude, most or 10))
        if op_of_timm.level_fn is None:
            assert op["values"] == [0.0] and "level" not in op
            continue
        expected = [as_drawn(name, v) for v in signs.both(op_of_timm.level_fn, level, op_of_timm.hparams)]
        if op["kind"] == "posterize":  # less than no bits are none
            expected = [min(8.0, max(0.0, bits)) for bits in expected]
        found = op["values"]
        assert sorted(found) == sorted(expected) and op["signed"] is False
        assert op["share"] == (1.0 if name.endswith("Rel") else 0.0)


@pytest.mark.parametrize(
    "name", [n for n in timm.NAME_TO_OP if timm.LEVEL_TO_ARG[n] and n != "GaussianBlurRand"]
)
@pytest.mark.parametrize("most", [None, 30])
def test_drawn_levels_are_timms_function_of_them(name, most, monkeypatch):
    signs = Signs(monkeypatch)
    hparams = {"magnitude_std": 0.5} | ({} if most is None else {"magnitude_max": most})
    op = operation(name, 9, **hparams)
    level = op["level"]
    assert (level["mean"], level["std"], level["uniform"], level["most"]) == (9.0, 0.5, False, most or 10.0)
    for at in np.linspace(0, most or 10, 301) + 1e-9:  # just above where whole numbers change
        part = level["scale"] * at
        part = float(int(part)) if level["truncated"] else part
        values = [level["offset"] + part, *([level["offset"] - part] if op["signed"] else [])]
        found = {min(level["most_value"], max(level["least"], v)) for v in values}
        op_of_timm = timm.AugmentOp(name, 1.0, 9, HPARAMS | hparams)
        expected = [as_drawn(name, v) for v in signs.both(op_of_timm.level_fn, at, op_of_timm.hparams)]
        if op["kind"] == "posterize":
            expected = {min(8.0, max(0.0, bits)) for bits in expected}
        assert sorted(found) == pytest.approx(sorted(set(expected)), rel=1e-12, abs=1e-12)


def test_uniform_levels():
    op = operation("Rotate", 7, magnitude_std=float("inf"))
    assert op["level"]["uniform"] is True and op["level"]["mean"] == 7.0 and op["level"]["std"] == 0.0
    found = [
        ops[0][1]
        for ops in drawn(
            pipeline_of(timm.AugmentOp("Rotate", 1.0, 7, HPARAMS | {"magnitude_std": float("inf")})), 4000
        )
    ]
    same_distribution(np.array(found), np.random.default_rng(0).uniform(-21, 21, 4000))


def test_a_blur_is_a_range_of_radii():
    """Of Pillow's own blur, which is another than torchvision's."""
    level = operation("GaussianBlurRand", 10)["level"]
    assert (
        operation("GaussianBlurRand", 10)["kind"] == operation("GaussianBlur", 5)["kind"] == "gaussian_blur"
    )
    assert (level["mean"], level["most"], level["uniform"], level["offset"]) == (1.0, 1.0, True, 0.1)
    assert level["offset"] + level["scale"] == pytest.approx(2.0)
    assert "draws the bounds between which it draws" in refused(
        timm.AugmentOp("GaussianBlurRand", 1.0, 5, HPARAMS | {"magnitude_std": 1})
    )


@pytest.mark.parametrize("interpolation", [None, "nearest", "bilinear", "bicubic"])
@pytest.mark.parametrize("name", timm.NAME_TO_OP)
def test_each_operation_has_timms_pixels(name, interpolation):
    hparams = dict(HPARAMS)
    if interpolation is not None:
        if name not in ("Rotate",) and not name.startswith(("Shear", "Translate")):
            return  # it interpolates nothing
        hparams["interpolation"] = Image.Resampling[interpolation.upper()]
    modes = set()
    for magnitude, std in ((9, 0), (3, 0), (5, 0.7)):
        if name.startswith("Posterize") and std and least_bits():
            magnitude, std = 6, 0.1  # not where Pillow refuses to keep no bits
        if name == "GaussianBlurRand":
            std = 0  # draws its radius even then
        if name == "Posterize" and magnitude == 3:
            magnitude = 8
        op = timm.AugmentOp(name, 1.0, magnitude, hparams | {"magnitude_std": std})
        pipeline = pipeline_of(op)
        for number in range(12):
            picture = make_picture(*SIZES[number % 5], seed=number)
            (decided,) = pipeline.draw(*picture.size, 3, 0, number)
            (step,) = decided["ops"]
            modes.add(step.get("interpolation"))
            expected = by_timm(picture, step["kind"], step["value"], step.get("interpolation", "nearest"))
            found = pipeline.apply(np.asarray(picture), 3, 0, number)
            assert torch.equal(found, transforms.PILToTensor()(expected)), (step, picture.size)
    if interpolation is None and (name.startswith(("Shear", "Translate")) or name == "Rotate"):
        assert modes - {None} == {"bilinear", "bicubic"}, "timm draws one"


# -- policies


CONFIGS = {
    "rand-m9-n3-inc1": (3, True),
    "rand-m9-mstd0.5-inc1": (2, True),
    "rand-m7-mstd101-p0.3": (2, True),
    "rand-m20-mmax30-inc1": (2, True),
    "rand-m5-n3-tweights": (3, False),
}


@pytest.mark.parametrize("config", CONFIGS)
def test_rand_augment(config):
    policy = timm.rand_augment_transform(config, dict(HPARAMS))
    op = lowered(policy)[0]
    assert (op["count"], op["replace"]) == CONFIGS[config]
    assert (op["geometry"], op["fill"]) == ("pillow", FILL)
    assert op["interpolations"] == ["bilinear", "bicubic"]
    weights = [1.0] * 15 if policy.choice_weights is None else list(policy.choice_weights)
    assert [made["weight"] for made in op["branches"]] == weights
    prob = 0.3 if "p0.3" in config else 0.5
    assert all(made["ops"][0]["p"] == prob and len(made["ops"]) == 1 for made in op["branches"])


@pytest.mark.parametrize("name", ["original", "originalr", "v0", "v0r", "3a", "original-mstd0.5"])
def test_auto_augment(name):
    policy = timm.auto_augment_transform(name, dict(HPARAMS))
    op = lowered(policy)[0]
    assert (op["count"], op["name"], op["geometry"]) == (1, "AutoAugment", "pillow")
    assert [[s["p"] for s in made["ops"]] for made in op["branches"]] == [
        [s.prob for s in steps] for steps in policy.policy
    ]
    assert {made["weight"] for made in op["branches"]} == {1.0}


def drawn_radius(function, factor):
    """That timm's function, which draws it, gives to Pillow's filter."""
    filters = []
    function(SimpleNamespace(filter=filters.append), factor)
    return float(filters[0].radius)


def recorded(policy, ops, draws, kinds):
    """What timm's own policy applies, as drawn() gives it."""
    seen, size = [], (331, 200)

    def record(name, function, kind, picture, *args, **options):
        value = as_drawn(name, args[0]) if args else 0.0
        if name == "GaussianBlurRand":
            value = drawn_radius(function, *args)
        if name.endswith("Rel"):
            value *= size["XY".index(name[9])]
        seen.append((kind, value))
        return picture

    picture, found = make_picture(*size), []
    for op in ops:
        op.aug_fn = functools.partial(record, op.name, op.aug_fn, kinds[op.name])
    random.seed(5)
    np.random.seed(5)
    for _ in range(draws):
        seen.clear()
        policy(picture)
        found.append(tuple(seen))
    return found


def kinds_of(policy_op, ops):
    steps = itertools.chain.from_iterable(made["ops"] for made in policy_op["branches"])
    return {op.name: step["kind"] for op, step in zip(ops, steps, strict=True)}


def drawing(chain):
    """The pipeline, which draws as older Pillows keep no bits: what is drawn is compared, no picture."""
    for step in itertools.chain.from_iterable(made["ops"] for made in chain[0]["branches"]):
        if step["kind"] == "posterize":
            step["least_bits"] = 0
    return _core.ImagePipeline(chain)


RAND = ["rand-m9-inc1", "rand-m9-mstd0.5-inc1", "rand-m5-n3-tweights", "rand-m4-mstd1-p1.0-inc1"]


@pytest.mark.parametrize("config", RAND)
def test_rand_augment_is_drawn_as_timms(config):
    policy = timm.rand_augment_transform(config, dict(HPARAMS))
    mine = drawn(drawing(lowered(policy)), DRAWS)
    theirs = recorded(policy, policy.ops, DRAWS, kinds_of(lowered(policy)[0], policy.ops))
    same_counts(*([tuple(kind for kind, _ in ops) for ops in found] for found in (mine, theirs)))
    by_kind = [{}, {}]
    for values, found in zip(by_kind, (mine, theirs)):
        for kind, value in itertools.chain.from_iterable(found):
            values.setdefault(kind, []).append(value)
    for kind, values in by_kind[0].items():
        same_distribution(np.array(values), np.array(by_kind[1][kind]))


@pytest.mark.parametrize("name", ["original", "originalr", "v0", "v0r", "3a"])
def test_auto_augment_is_drawn_as_timms(name):
    policy = timm.auto_augment_transform(name, dict(HPARAMS))
    chain = lowered(policy)
    ops = [op for steps in policy.policy for op in steps]
    kept = [
        min(s["values"]) for made in chain[0]["branches"] for s in made["ops"] if s["kind"] == "posterize"
    ]
    if min(kept, default=8) < least_bits():
        with pytest.raises(ValueError, match="bits must be between"):
            _core.ImagePipeline(chain)
    mine = drawn(drawing(chain), DRAWS)
    same_counts(*map(rounded, (mine, recorded(policy, ops, DRAWS, kinds_of(chain[0], ops)))))


def rounded(found):
    """What is drawn of a range, as the radii of blurs, counts by tenths."""
    return [tuple((k, round(v, 1) if k == "gaussian_blur" else v) for k, v in ops) for ops in found]


def test_too_few_bits_are_an_error_where_they_are_one_to_pillow():
    if not least_bits():
        pytest.skip("this Pillow keeps no bits without an error")
    pipeline = pipeline_of(timm.AugmentOp("Posterize", 1.0, 3, HPARAMS | {"magnitude_std": 1.0}))
    outcomes = []
    for number in range(50):
        try:
            pipeline.draw(9, 9, 1, 0, number)
        except ValueError as error:
            outcomes.append(str(error))
    assert 0 < len(outcomes) < 50 and "bits must be between or equal to 1 and 8" in outcomes[0]


def own(picture, *args, **options):
    return picture


def replaced(name="Rotate", magnitude=5, **attributes):
    op = timm.AugmentOp(name, 1.0, magnitude, HPARAMS)
    vars(op).update(attributes)
    return op


class OwnOp(timm.AugmentOp):
    pass


@pytest.mark.parametrize(
    "step, reason",
    [
        (replaced(aug_fn=own), r"AugmentOp\(Rotate\) has a function of pictures that is not timm's own"),
        (replaced(level_fn=own), r"AugmentOp\(Rotate\) has a function of levels that is not timm's own"),
        (replaced(level_fn=None), "function of levels that is not timm's own: None"),
        (replaced("Invert", level_fn=own), "function of levels that is not timm's own"),
        (replaced(kwargs={"thresh": 3}), "passes 'thresh' to its function"),
        (replaced(kwargs={"fillcolor": 2.5, "resample": 2}), "whole numbers from 0 to 255"),
        (
            replaced(kwargs={"resample": Image.Resampling.LANCZOS}),
            "with lanczos interpolation is none of nearest",
        ),
        (timm.RandAugment([own]), "policies are native of AugmentOps"),
        (timm.RandAugment([OwnOp("Rotate", hparams=HPARAMS)]), "policies are native of AugmentOps"),
        (timm.RandAugment([]), "of 0 operations draws none"),
        (timm.RandAugment([replaced()], 2, [1.0]), "no chances by which numpy can draw 2"),
        (timm.RandAugment([replaced()], 1, [0.5]), "no chances by which numpy can draw 1"),
        (timm.RandAugment([replaced(), replaced(kwargs={})]), "different interpolations or fills"),
        (timm.AutoAugment([]), "no policies to draw from"),
        (
            timm.RandAugment([timm.AugmentOp("TranslateX", hparams={"img_mean": FILL})]),
            r"AugmentOp\(TranslateX\) has a function of levels",
        ),
    ],
)
def test_refusals_say_why(step, reason):
    assert re.search(reason, refused(step))


def test_defaults_of_an_operation():
    op = lowered(replaced(kwargs={}))[0]
    assert (op["interpolations"], op["fill"]) == (["bicubic"], (0, 0, 0))
    assert lowered(timm.RandAugment([replaced()], 0)) == [{"op": "to_tensor", "dtype": "uint8"}]
    for conversion in (transforms.ToTensor(), transforms.PILToTensor()):
        with pytest.raises(NotLowered, match="AugmentOp of a tensor computes otherwise"):
            lower_transform(transforms.Compose([conversion, replaced()]))
