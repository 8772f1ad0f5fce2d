"""RandomApply, RandomChoice and RandomOrder as branches of a policy, or as a choice among lists of steps."""

import re

import pytest
import torch
from millrace import _core
from millrace._common.lowering.recognising import NotLowered
from millrace._common.lowering.transforms import lowered
from policy_cases import branches, drawn, policy_of, step
from test_lowering_transforms import FAMILIES, family, refused
from transform_cases import lower_transform


@pytest.fixture(params=FAMILIES)
def t(request):
    return family(request.param)


def test_several_steps_that_happen_or_not(t):
    inner = [t.ColorJitter(0.5), t.RandomGrayscale(0.25), t.RandomRotation((-10, 30), fill=9)]
    steps = [drawn("brightness", 0.5, 1.5), step("saturation", p=0.25), drawn("rotate", -10.0, 30.0)]
    op = policy_of(t, t.RandomApply(inner, 0.75))
    assert op["branches"] == branches(steps, [], weights=[0.75, 0.25])
    assert (op["name"], op["fill"]) == ("RandomApply", (9, 9, 9))
    always = policy_of(t, t.RandomApply(torch.nn.ModuleList(inner), 1.0))
    assert always["branches"] == branches(steps)
    several = policy_of(t, t.RandomApply([t.RandAugment(3)], 0.25))
    assert (several["p"], several["count"]) == (0.25, 3)
    twice = policy_of(t, t.RandomApply([t.RandomApply([t.RandAugment(3)], 0.25)], 0.5))
    assert twice["p"] == 0.125
    (alone,) = policy_of(t, t.RandomApply([t.RandomInvert(0.5)], 0.5))["branches"]
    assert alone["ops"] == [step("invert", p=0.25)]
    nested = policy_of(t, t.RandomApply([t.RandomApply([t.RandomInvert(1.0), t.Grayscale(3)])], 0.5))
    assert nested["branches"] == branches(
        [step("invert"), step("saturation")], [], [], weights=[0.25, 0.25, 0.5]
    )


def test_orders_of_a_jitters_properties(t):
    op = policy_of(t, t.RandomApply([t.ColorJitter(0.5, 0.5, (1.5, 1.5)), t.RandomEqualize(1.0)], 1.0))
    assert len(op["branches"]) == 6 and {made["weight"] for made in op["branches"]} == {1 / 6}
    orders = [[s["kind"] for s in made["ops"]] for made in op["branches"]]
    assert all(order.pop() == "equalize" for order in orders)
    assert len(set(map(tuple, orders))) == 6
    assert all(set(order) == {"brightness", "contrast", "saturation"} for order in orders)
    assert step("saturation", 1.5) in op["branches"][0]["ops"]


def test_a_choice(t):
    inner = [t.RandomInvert(1.0), t.RandomRotation(30), t.AutoAugment(), t.Compose([t.Grayscale(3)])]
    op = policy_of(t, t.RandomChoice(inner))
    assert (op["name"], op["count"]) == ("RandomChoice", 1) and len(op["branches"]) == 3 + 25
    assert [made["ops"] for made in op["branches"][:2]] == [[step("invert")], [drawn("rotate", -30.0, 30.0)]]
    weights = [made["weight"] for made in op["branches"]]
    one = weights[0]  # v2 divides by their sum
    assert weights == pytest.approx([one, one, *[one / 25] * 25, one])
    op = policy_of(t, t.RandomChoice([t.RandomInvert(1.0), t.RandomEqualize(1.0)], p=[3, 1]))
    first, second = (made["weight"] for made in op["branches"])
    assert first == pytest.approx(3 * second)


def test_an_order(t):
    op = policy_of(t, t.RandomOrder([t.RandomInvert(), t.ColorJitter(contrast=0.5), t.RandomSolarize(9)]))
    assert (op["name"], op["count"], op["replace"]) == ("RandomOrder", 3, False)
    assert op["branches"] == branches(
        [step("invert", p=0.5)], [drawn("contrast", 0.5, 1.5)], [step("solarize", 9, p=0.5)]
    )


@pytest.mark.parametrize(
    "make, weights, lists",
    [
        (
            lambda t: t.RandomApply([t.RandAugment(), t.RandomInvert()]),
            [0.5, 0.5],
            [["augment_policy"] * 2, []],
        ),
        (
            lambda t: t.RandomApply([t.ColorJitter(hue=0.1), t.Grayscale(3)], 0.25),
            [0.25, 0.75],
            [["color_jitter", "grayscale"], []],
        ),
        (lambda t: t.RandomApply([t.RandomCrop(8)]), [0.5, 0.5], [["random_crop"], []]),
        (
            lambda t: t.RandomChoice([t.RandomRotation(9, fill=1), t.RandomRotation(9)]),
            [1, 1],
            [["random_rotation"]] * 2,
        ),
        (
            lambda t: t.RandomChoice([t.RandomHorizontalFlip(), t.Compose([t.Resize(9), t.GaussianBlur(3)])]),
            [1, 1],
            [["horizontal_flip"], ["resize", "gaussian_blur"]],
        ),
        (lambda t: t.RandomChoice([t.RandomRotation(9, center=(1, 2))]), [1], [["random_rotation"]]),
        (lambda t: t.RandomApply([t.ColorJitter(1, 1, 1)] * 3, 0.5), [1, 1], [["color_jitter"] * 3, []]),
        (lambda t: t.RandomOrder([t.AutoAugment()]), [1], [["augment_policy"]]),
        (
            lambda t: t.RandomOrder([t.RandomCrop(9), t.RandomVerticalFlip()]),
            [1, 1],
            [["random_crop", "vertical_flip"], ["vertical_flip", "random_crop"]],
        ),
    ],
)
def test_what_is_no_policy_is_a_choice_among_lists(t, make, weights, lists):
    chain, _ = lower_transform(t.Compose([make(t), t.PILToTensor()]))
    assert chain[0]["op"] == "random_choice"
    assert [[op["op"] for op in ops] for ops in chain[0]["branches"]] == lists
    total = sum(chain[0]["weights"])
    assert [weight / total for weight in chain[0]["weights"]] == pytest.approx(
        [weight / sum(weights) for weight in weights]
    )
    _core.ImagePipeline(chain)


@pytest.mark.parametrize(
    "make, reason",
    [
        (
            lambda t: t.RandomOrder([t.RandomCrop(9)] * 5),
            r"RandomOrder of \[RandomCrop, .* has no native form; the engine knows it around 4 transforms",
        ),
        (lambda t: t.RandomChoice([t.PILToTensor()]), "may or may not be applied, and does more than change"),
    ],
)
def test_refusals_say_what_to_change(t, make, reason):
    assert re.search(reason, refused(t, make(t), t.PILToTensor()))


def test_a_holder_of_itself_is_refused(t):
    transforms = [t.RandomInvert()]
    apply = t.RandomApply(transforms)
    transforms.append(apply)
    with pytest.raises(NotLowered, match="nested 32 deep"):
        lower_transform(apply)


def test_grey_pictures_stay_grey_where_nothing_makes_them_rgb(t):
    def made(*inner):
        return lowered(t.Compose([t.RandomChoice(list(inner)), t.PILToTensor()])).makes_rgb

    assert made(t.RandomInvert(), t.RandomGrayscale()) is False
    assert made(t.RandomInvert(), t.Grayscale(3)) is None
