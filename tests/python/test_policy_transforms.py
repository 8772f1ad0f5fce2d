"""AutoAugment, RandomChoice, RandomOrder, tables of subclasses: torchvision's v2 from the same draws."""

import pickle

import millrace
import numpy as np
import pytest
import torch
from millrace import transforms as ours
from millrace.transforms import functional as F
from transform_cases import IMAGE, PICTURES, TENSOR, close, outcome, same

SEEDS = range(40)


def draws_alike(mine, theirs, picture, seeds=SEEDS):
    results = set()
    for seed in seeds:
        a = outcome(mine, picture, seed)
        state = torch.get_rng_state()
        b = outcome(theirs, picture, seed)
        assert torch.equal(state, torch.get_rng_state()), "another number of draws"
        assert not isinstance(b, Exception), b
        assert same(a, b) if picture is IMAGE else close(a, b)
        results.add(np.asarray(a).tobytes())
    return len(results)


@pytest.mark.parametrize("kind", ["pil", "bytes", "float32"])
@pytest.mark.parametrize("name", ["IMAGENET", "CIFAR10", "SVHN"])
def test_auto_augment(v2, name, kind):
    options = {"interpolation": "bilinear", "fill": 9}
    mine = ours.AutoAugment(ours.AutoAugmentPolicy[name], **options)
    theirs = v2.AutoAugment(v2.AutoAugmentPolicy[name], **options)
    assert draws_alike(mine, theirs, PICTURES[kind]) > 10
    assert repr(mine) == repr(theirs)
    assert mine._policies == theirs._policies
    same_policy = ours.AutoAugment(v2.AutoAugmentPolicy[name], **options)
    assert same_policy._policies == mine._policies
    assert repr(pickle.loads(pickle.dumps(mine))) == repr(mine)


@pytest.mark.parametrize("name", ["RandAugment", "TrivialAugmentWide"])
@pytest.mark.parametrize("kind", ["pil", "bytes", "int16"])
def test_every_operation_is_drawn(v2, name, kind):
    mine, theirs = getattr(ours, name)(), getattr(v2, name)()
    assert draws_alike(mine, theirs, PICTURES[kind], range(120)) > 15


@pytest.mark.parametrize("name", ["RandAugment", "TrivialAugmentWide", "AutoAugment"])
def test_tables_equal_torchvisions(v2, name):
    mine, theirs = getattr(ours, name)._AUGMENTATION_SPACE, getattr(v2, name)._AUGMENTATION_SPACE
    assert list(mine) == list(theirs)
    for operation, (make, signed) in mine.items():
        for bins, height, width in ((31, 47, 61), (10, 1, 4000), (2, 3, 2)):
            made, expected = make(bins, height, width), theirs[operation][0](bins, height, width)
            assert (made is None) == (expected is None) and signed == theirs[operation][1]
            assert made is None or torch.equal(made, expected)


@pytest.mark.parametrize("name", ["AutoAugment", "RandAugment", "TrivialAugmentWide"])
def test_moves_with_the_model_around_it(name):
    policy = getattr(ours, name)()
    assert torch.nn.Sequential(policy).to(torch.float64).share_memory()[0] is policy


def test_own_tables(v2):
    table = {"Rotate": (lambda bins, height, width: torch.linspace(0, height, bins), True)}
    table |= {"Invert": (lambda *_: None, False)}
    mine, theirs = (type("Own", (m.RandAugment,), {"_AUGMENTATION_SPACE": table})(1) for m in (ours, v2))
    assert draws_alike(mine, theirs, IMAGE) == 3
    unknown = type("Own", (ours.RandAugment,), {"_AUGMENTATION_SPACE": {"Cutout": table["Invert"]}})
    with pytest.raises(ValueError, match="No transform available for Cutout"):
        unknown()(IMAGE)


def test_fill_by_type(v2):
    for fill in ({torch.Tensor: 5, "others": 200}, {"others": [1, 2, 3]}):
        table = {"_AUGMENTATION_SPACE": {"TranslateX": (lambda *_: torch.tensor([20.0]), False)}}
        mine, theirs = (type("Own", (m.RandAugment,), table)(1, 0, 1, fill=dict(fill)) for m in (ours, v2))
        for picture in (IMAGE, TENSOR):
            draws_alike(mine, theirs, picture, [1])


def held(m):
    return [m.RandomInvert(0.5), m.RandomRotation(30), m.RandomHorizontalFlip(1.0), m.ColorJitter(0.5)]


@pytest.mark.parametrize("kind", ["pil", "bytes"])
def test_choices_and_orders(v2, kind):
    for make in (
        lambda m: m.RandomChoice(held(m)),
        lambda m: m.RandomChoice(held(m), p=[1, 0, 3, 0.5]),
        lambda m: m.RandomOrder(held(m)),
    ):
        mine, theirs = make(ours), make(v2)
        assert draws_alike(mine, theirs, PICTURES[kind]) > 3
        assert repr(mine) == repr(theirs)
        assert getattr(mine, "p", None) == getattr(theirs, "p", None)


def test_pictures_need_no_torchvision(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "torchvision.transforms.v2", None)
    torch.manual_seed(0)
    for transform in (ours.RandAugment(9), ours.AutoAugment(), ours.TrivialAugmentWide()):
        assert transform(IMAGE).size == IMAGE.size
    for function in (F.invert, F.equalize, F.autocontrast):
        assert function(IMAGE).size == IMAGE.size
        with pytest.raises(millrace.UnavailableError, match="pip install torchvision"):
            function(TENSOR)


@pytest.mark.parametrize("name", ["RandAugment", "TrivialAugmentWide", "AutoAugment"])
def test_what_is_no_picture_is_refused(name):
    with pytest.raises(TypeError, match="a picture is a PIL image"):
        getattr(ours, name)()("x.jpg")
    with pytest.raises(ValueError, match="Invalid interpolation mode: 'cubic'"):
        getattr(ours, name)(interpolation="cubic")
