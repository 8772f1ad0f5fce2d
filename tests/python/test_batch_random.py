"""millrace.transforms.batch: what is drawn, from which generator, and what labels become."""

import numpy as np
import pytest
import torch
from batch_cases import images
from millrace.transforms import batch

EVERY = [
    batch.RandomHorizontalFlip(),
    batch.RandomRotation(20),
    batch.RandomAffine(10, (0.1, 0.2), (0.8, 1.2), (-5, 5, -3, 3), "bilinear"),
    batch.ColorJitter(0.4, 0.4, 0.4, 0.1),
    batch.RandomGrayscale(0.5),
    batch.RandomErasing(0.9),
    batch.Normalize([0.5] * 3, [0.25] * 3),
    batch.RandomErasing(0.9, value="random"),
]


def draw(transform, n=2000, key=1, h=64, w=48):
    return transform.draw(batch.base.draws_of(key), torch.empty(n, 3, h, w))


def test_a_key_decides_everything():
    x = images()
    chain = batch.Compose(EVERY)
    assert torch.equal(chain(x, key=5), chain(x, key=5)) and not torch.equal(chain(x, key=5), chain(x, key=6))
    torch.manual_seed(1)
    first, second = chain(x), chain(x)
    torch.manual_seed(1)
    assert torch.equal(chain(x), first) and torch.equal(chain(x), second) and not torch.equal(first, second)


def test_a_generator_of_ones_own_leaves_torchs_alone():
    x = images()
    flip = batch.RandomHorizontalFlip(generator=torch.Generator().manual_seed(3))
    before = torch.get_rng_state()
    results = [flip(x) for _ in range(8)]
    assert torch.equal(torch.get_rng_state(), before) and any(not torch.equal(results[0], r) for r in results)
    batch.Normalize(0.5, 0.5)(x)
    assert torch.equal(torch.get_rng_state(), before)


def test_samples_differ():
    x = images()[:1].expand(64, -1, -1, -1).contiguous()
    for transform in [t for t in EVERY[:-1] if not isinstance(t, batch.Normalize)]:
        assert len({bytes(sample.numpy()) for sample in transform(x, key=1)}) > 1, transform


def test_probabilities_and_ranges():
    assert abs(draw(batch.RandomHorizontalFlip(0.3))["flipped"].mean() - 0.3) < 0.05
    assert (
        not draw(batch.RandomGrayscale(0.0))["to_grey"].any()
        and draw(batch.RandomGrayscale(1.0))["to_grey"].all()
    )
    jitter = draw(batch.ColorJitter((0.5, 0.8), 0.4, None, 0.1))
    assert 0.5 <= jitter["factors"][:, 0].min() < 0.51 and 0.79 < jitter["factors"][:, 0].max() <= 0.8
    assert jitter["factors"][:, 1].min() >= 0.6 and np.abs(jitter["factors"][:, 3]).max() <= 0.1
    assert (np.sort(jitter["order"], axis=1) == [0, 1, 3, 4]).all() and len(
        np.unique(jitter["order"], axis=0)
    ) == 24
    affine = draw(batch.RandomAffine((5, 10), (0.25, 0.5), (2, 3), 7))
    assert affine["angle"].min() >= 5 and affine["angle"].max() <= 10 and affine["scale"].min() >= 2
    assert (
        np.abs(affine["translate"]).max(axis=0).tolist() == [12, 32] and (affine["translate"] % 1 == 0).all()
    )
    assert np.abs(affine["shear"][:, 0]).max() <= 7 and (affine["shear"][:, 1] == 0).all()


def test_erased_boxes():
    boxes = draw(batch.RandomErasing(0.7, (0.02, 0.33), (0.3, 3.3)))["boxes"]
    erased = boxes[boxes[:, 2] > 0]
    left, top, width, height = erased.T
    assert abs(len(erased) / 2000 - 0.7) < 0.05
    assert (
        (left >= 0).all() and (top >= 0).all() and (left + width <= 48).all() and (top + height <= 64).all()
    )
    area, ratio = width * height / (48 * 64), height / width
    assert 0.01 < area.min() < 0.04 and 0.28 < area.max() < 0.36 and ratio.min() < 0.5 and ratio.max() > 2.5
    assert not draw(batch.RandomErasing(1.0, (1.0, 1.0), (1.0, 1.0)))["boxes"].any(), (
        "nothing fits: nothing is erased, as in torchvision"
    )


@pytest.mark.parametrize("labels", [torch.tensor([0, 1, 2, 3, 1]), torch.eye(4)[[0, 1, 2, 3, 1]]])
def test_mixed_labels(labels):
    x = torch.arange(5.0)[:, None, None, None].expand(5, 3, 64, 48).contiguous()
    soft = torch.nn.functional.one_hot(labels, 4).float() if labels.ndim == 1 else labels
    out, mixed = batch.MixUp(num_classes=4)(x, labels, key=2)
    share = (out[:, 0, 0, 0] - x.roll(1, 0)[:, 0, 0, 0]) / (x - x.roll(1, 0))[:, 0, 0, 0]
    assert mixed.dtype == torch.float32 and mixed.shape == (5, 4) and len(share.unique()) == 5
    assert torch.allclose(mixed, soft * share[:, None] + soft.roll(1, 0) * (1 - share[:, None]), atol=1e-5)
    out, mixed = batch.CutMix(num_classes=4)(x, labels, key=2)
    share = (out == x).float().mean(dim=(1, 2, 3))
    assert torch.allclose(mixed, soft * share[:, None] + soft.roll(1, 0) * (1 - share[:, None]), atol=1e-5)


def test_shares_are_of_a_beta_distribution():
    shares = draw(batch.MixUp(alpha=0.2, num_classes=2))["shares"]
    assert abs(shares.mean() - 0.5) < 0.04 and abs(shares.var() - 1 / (4 * 1.4)) < 0.02


def test_labels_go_through_a_chain():
    chain = batch.Compose(
        [batch.RandomHorizontalFlip(), batch.Normalize(0.5, 0.5), batch.CutMix(num_classes=7)]
    )
    out, labels = chain(images(), torch.arange(5))
    assert out.dtype == torch.float32 and labels.shape == (5, 7)
    out, labels = batch.RandomHorizontalFlip()(images(), "any")
    assert labels == "any"


def test_bad_arguments():
    x = images(dtype=torch.float32)
    bad = [
        (lambda: batch.RandomHorizontalFlip(1.5), ValueError, "interval"),
        (lambda: batch.RandomRotation(30, expand=True), ValueError, "size of its own"),
        (lambda: batch.RandomRotation(-3), ValueError, "positive"),
        (lambda: batch.RandomAffine(0, translate=(2, 0)), ValueError, "translation"),
        (lambda: batch.RandomAffine(0, scale=(0, 1)), ValueError, "scale"),
        (lambda: batch.RandomAffine(0, interpolation="bicubic"), ValueError, "bilinear"),
        (lambda: batch.ColorJitter(hue=0.7), ValueError, "hue"),
        (lambda: batch.ColorJitter(brightness=-1), ValueError, "brightness"),
        (lambda: batch.RandomErasing(scale=(0.5, 0.1)), ValueError, "scale"),
        (lambda: batch.RandomErasing(value="noise"), ValueError, "random"),
        (lambda: batch.Normalize(0.5, 0.0), ValueError, "zero"),
        (lambda: batch.Normalize(0.5, 0.5, torch.int8), ValueError, "int8"),
        (lambda: batch.MixUp(alpha=0), ValueError, "alpha"),
        (lambda: batch.MixUp(num_classes=3)(x), ValueError, "labels"),
        (lambda: batch.MixUp()(x, torch.arange(5)), ValueError, "num_classes must be passed"),
        (lambda: batch.MixUp(num_classes=9)(x, torch.arange(4)), ValueError, "as many as images"),
        (lambda: batch.MixUp(num_classes=9)(images(), torch.arange(5)), TypeError, "Normalize"),
        (lambda: batch.CutMix(num_classes=9)(x, torch.eye(5)), ValueError, "5 classes"),
        (lambda: batch.Compose([]), TypeError, "at least one"),
        (lambda: batch.RandomHorizontalFlip()(x, 1, 2), TypeError, "3 things"),
    ]
    for call, error, words in bad:
        with pytest.raises(error, match=words):
            call()
