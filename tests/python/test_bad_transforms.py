"""Transforms with wrong arguments: the libraries' own errors, at construction where they have them there,
else where the transform is first called. The engine takes none of them for something else.
"""

import millrace
import numpy as np
import pytest
import torch
from loader_data import make_folder, torchvision_or_skip
from millrace import transforms as ours
from PIL import Image


def families():
    torchvision_or_skip()
    import torchvision.transforms as v1
    from torchvision.transforms import v2

    return v1, v2


def raised(function):
    with pytest.raises(Exception) as caught:
        function()
    return caught.type, str(caught.value)


# Construction: millrace's classes have torchvision's words.
WRONG = {
    "a policy by its name": lambda t: t.AutoAugment("imagenet"),
    "an unknown policy": lambda t: t.AutoAugment("cifar100"),
    "less than no operations": lambda t: t.RandAugment(-1),
    "a probability above 1": lambda t: t.RandomEqualize(1.5),
    "no transforms to choose from": lambda t: t.RandomChoice(3),
    "fills of text": lambda t: t.RandAugment(fill="red"),
    "a fill of text": lambda t: t.RandomRotation(9, fill="red"),
    "distortions above 1": lambda t: t.RandomPerspective(1.5),
    "a hue above half a turn": lambda t: t.ColorJitter(hue=0.6),
    "an even kernel": lambda t: t.GaussianBlur(4),
}


@pytest.mark.parametrize("what", WRONG)
def test_construction_has_torchvisions_error(what):
    assert raised(lambda: WRONG[what](ours)) == raised(lambda: WRONG[what](families()[1]))


# The call: torchvision looks at these only then.
LATER = {
    "a magnitude above the table": lambda t: t.RandAugment(4, 31),
    "a magnitude far below it": lambda t: t.RandAugment(4, -32),
    "a fill of two values": lambda t: t.RandomRotation((20, 30), fill=[1, 2]),
    "a fill of four values": lambda t: t.RandomAffine(0, (0.5, 0.5), fill=[1, 2, 3, 4]),
    "a border's fill of two values": lambda t: t.Pad(3, fill=(1, 2)),
}


@pytest.mark.parametrize("what", LATER)
@pytest.mark.parametrize("family", ["v1", "v2", "ours"])
def test_what_the_libraries_refuse_when_called_is_theirs(what, family, tmp_path):
    t = ours if family == "ours" else families()[family == "v2"]
    step = LATER[what](t)
    make_folder(tmp_path, 3)
    dataset = millrace.datasets.ImageFolder(
        str(tmp_path), ours.Compose([ours.Resize((20, 30)), step, ours.ToTensor()])
    )
    picture = Image.fromarray(np.zeros((20, 30, 3), np.uint8))
    torch.manual_seed(0)
    kind, text = raised(lambda: [step(picture) for _ in range(50)])
    loader = millrace.DataLoader(dataset, 3)
    assert "transform: python" in loader.explain()
    torch.manual_seed(0)
    found, message = raised(lambda: [list(loader) for _ in range(50)])
    assert issubclass(found, kind) and text in message
    with pytest.raises(millrace.UnavailableError):
        iter(millrace.DataLoader(dataset, 3, native="require"))


def timm_words():
    torchvision_or_skip()
    pytest.importorskip("timm")
    return pytest.importorskip("timm.data.auto_augment")


@pytest.mark.parametrize("policy", ["nothing", "rand9", "v3", "augment-m3"])
def test_policies_that_timm_does_not_know(policy):
    timm_words()
    from timm.data import create_transform

    with pytest.raises((AssertionError, KeyError, ValueError)):
        create_transform(24, is_training=True, auto_augment=policy)


@pytest.mark.parametrize("config", ["rand-m9x", "rand-m9-n2x", "augmix-m3x", "augmix-m3-w2x"])
def test_numbers_that_timm_cannot_read(config):
    timm = timm_words()
    make = timm.rand_augment_transform if "rand" in config else timm.augment_and_mix_transform
    with pytest.raises(ValueError, match="invalid literal|could not convert"):
        make(config, {})


def test_operations_that_timm_does_not_know():
    timm = timm_words()
    with pytest.raises(KeyError, match="Twirl"):
        timm.AugmentOp("Twirl")


def test_magnitudes_beyond_timms_range_are_its_largest():
    """timm bounds them, so does the engine."""
    timm = timm_words()
    from millrace import _core
    from transform_cases import lower_transform

    steps = [timm.AugmentOp("Rotate", 1.0, magnitude, {}) for magnitude in (10, 99, -5)]
    most, beyond, below = (
        lower_transform(ours.Compose([step, ours.PILToTensor()]))[0][0]["branches"][0]["ops"][0]["values"]
        for step in steps
    )
    assert most == beyond and {abs(value) for value in beyond} == {30.0} and set(below) == {0.0}
    assert _core.ImagePipeline(lower_transform(ours.Compose([steps[1], ours.PILToTensor()]))[0])


def test_policies_on_one_pixel(tmp_path):
    (tmp_path / "a").mkdir()
    Image.fromarray(np.full((1, 1, 3), (9, 100, 250), np.uint8)).save(tmp_path / "a" / "one.png")
    for policy in (ours.RandAugment(5), ours.TrivialAugmentWide(), ours.AutoAugment()):
        steps = ours.Compose([policy, ours.PILToTensor()])
        loader = millrace.DataLoader(millrace.datasets.ImageFolder(str(tmp_path), steps), native="require")
        for _ in range(20):
            ((pictures, _),) = list(loader)
            assert pictures.shape == (1, 3, 1, 1) and pictures.dtype == torch.uint8


def test_floats_of_bytes_are_torchvisions_error(tmp_path):
    make_folder(tmp_path, 3)
    _, v2 = families()
    steps = v2.Compose([v2.Resize((9, 9)), v2.ToImage(), v2.Normalize([0.5] * 3, [0.5] * 3)])
    loader = millrace.DataLoader(millrace.datasets.ImageFolder(str(tmp_path), steps), 3)
    assert "transform: python" in loader.explain()
    kind, text = raised(lambda: steps(Image.new("RGB", (9, 9))))
    found, message = raised(lambda: list(loader))
    assert issubclass(found, kind) and text in message
