"""timm's AugMix in the engine: its own class mixes what the engine has drawn, and has the same pixels."""

import functools
import itertools
import random
from unittest import mock

import numpy as np
import pytest
from loader_data import torchvision_or_skip
from millrace import _core, transforms
from millrace._common.lowering.recognising import NotLowered
from PIL import Image
from transform_cases import lower_transform

torchvision_or_skip()
pytest.importorskip("timm")
timm = pytest.importorskip("timm.data.auto_augment")
from by_libraries import FILL, mixed_by_timm  # noqa: E402
from policy_draws import same_counts, same_distribution  # noqa: E402
from test_timm_policies import as_drawn, kinds_of, lowered  # noqa: E402


def pipeline_of(config):
    augmix = timm.augment_and_mix_transform(config, {"translate_const": 100, "img_mean": FILL})
    chain = lower_transform(transforms.Compose([augmix, transforms.PILToTensor()]))[0]
    return augmix, _core.ImagePipeline(chain)


@pytest.mark.parametrize(
    "config", ["augmix-m5-w4-d2", "augmix-m3-w3", "augmix-m9-w2-d3-b1", "augmix-m5-w4-b1-mstd0.5"]
)
def test_timm_mixes_what_was_drawn_alike(config):
    augmix, pipeline = pipeline_of(config)
    generator = np.random.default_rng(1)
    for index, side in enumerate(itertools.islice(itertools.cycle([1, 2, 7, 24, 50]), 60)):
        pixels = generator.integers(0, 256, (side, side, 3), dtype=np.uint8)
        (drawn,) = pipeline.draw(side, side, 1, 0, index)
        expected = mixed_by_timm(Image.fromarray(pixels), augmix, drawn)
        got = pipeline.apply(pixels, 1, 0, index).numpy().transpose(1, 2, 0)
        np.testing.assert_array_equal(got, np.asarray(expected), err_msg=f"{config}, picture {index}")


DRAWS = 20_000


def drawn_by_timm(augmix, kinds):
    """Of each draw of timm's own class: the operations of its copies, and the shares."""
    copies, mixed, found = [], [], []
    choose, mix = np.random.choice, augmix._apply_basic

    def record(name, picture, *args, **options):
        copies[-1].append((kinds[name], as_drawn(name, args[0]) if args else 0.0))
        return picture

    def choice(*args, **options):
        copies.append([])
        return choose(*args, **options)

    def shares(picture, weights, share):
        mixed.append((*weights, share))
        return mix(picture, weights, share)

    for op in augmix.ops:
        op.aug_fn = functools.partial(record, op.name)
    picture = Image.new("RGB", (1, 1))
    np.random.seed(4)
    random.seed(4)
    with mock.patch.object(np.random, "choice", choice), mock.patch.object(augmix, "_apply_basic", shares):
        for _ in range(DRAWS):
            copies.clear()
            augmix(picture)
            found.append([tuple(ops) for ops in copies])
    return found, np.array(mixed)


@pytest.mark.slow
@pytest.mark.parametrize("config", ["augmix-m5-w4-d2", "augmix-m3-w3"])
def test_drawn_as_timms(config):
    augmix, pipeline = pipeline_of(config)
    theirs, their_shares = drawn_by_timm(augmix, kinds_of(lowered(augmix)[0]["policy"], augmix.ops))
    draws = [pipeline.draw(331, 200, 1, 0, index)[0] for index in range(DRAWS)]
    mine = [
        [tuple((op["kind"], op["value"]) for op in copy["ops"]) for copy in draw["copies"]] for draw in draws
    ]
    for number in range(augmix.width):
        same_counts(
            *([(len(copies[number]), copies[number][:1]) for copies in found] for found in (mine, theirs))
        )
        same_counts(*([copies[number][-2:] for copies in found] for found in (mine, theirs)))
    shares = np.array([[*(copy["share"] for copy in draw["copies"]), draw["share"]] for draw in draws])
    for a, b in zip(shares.T, their_shares.T, strict=True):
        same_distribution(a, b)


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
    assert [op["op"] for op in chain] == (
        "random_resized_crop horizontal_flip augmix to_tensor normalize"
    ).split()


def timm_transforms(policy):
    from timm.data import create_transform

    return create_transform(64, is_training=True, auto_augment=policy, interpolation="bicubic")
