"""millrace.transforms.batch on CPU tensors: its functions against torchvision's with the same parameters."""

import numpy as np
import pytest
import torch
from batch_cases import CASES, DTYPES, FACTORS, FLOAT_CASES, LAYOUTS, ORDERS, images, repeated
from millrace.transforms import batch
from millrace.transforms.batch import functional as F
from millrace.transforms.batch.geometry import inverse_affine


@pytest.fixture(scope="module")
def TF(torchvision):
    from torchvision.transforms.v2 import functional

    return functional


def levels(a, b, dtype):
    """The largest difference, in levels of 255."""
    return ((a.double() - b.double()).abs() * (1 if dtype == torch.uint8 else 255)).max().item()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", CASES)
def test_results_have_the_images_form(name, layout):
    for dtype in DTYPES:
        x = images(dtype=dtype, layout=layout)
        before = x.clone()
        out = CASES[name](x)
        assert out.shape == x.shape and out.data_ptr() != x.data_ptr() and torch.equal(x, before)
        if not name.startswith("normalize"):
            assert out.dtype == dtype and out.is_contiguous(memory_format=layout)
        contiguous = CASES[name](x.contiguous())
        assert torch.equal(out.contiguous(), contiguous.contiguous()), "another layout, other values"
        strided = torch.stack([x, x], dim=-1)[..., 0]
        assert torch.equal(CASES[name](strided).contiguous(), contiguous.contiguous())


def test_normalize(TF):
    mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    x = images()
    wanted = TF.normalize(TF.to_dtype(x, torch.float32, scale=True), mean, std)
    assert (F.normalize(x, mean, std) - wanted).abs().max() <= 1e-6
    assert (
        F.normalize(x, mean, std, torch.bfloat16).float() - wanted
    ).abs().max() <= 2**-7  # half a step of bfloat16 at 2
    floats = images(dtype=torch.float32)
    assert (F.normalize(floats, mean, std) - TF.normalize(floats, mean, std)).abs().max() <= 1e-6
    out = F.normalize(x, mean, std, torch.float16, channels_last=True)
    assert (
        out.is_contiguous(memory_format=torch.channels_last) and (out.float() - wanted).abs().max() <= 2**-10
    )


def test_horizontal_flip(TF):
    for dtype in DTYPES:
        x = images(dtype=dtype)
        out = F.horizontal_flip(x, [True, False, True, False, False])
        assert all(torch.equal(out[i], TF.horizontal_flip(x[i]) if i in (0, 2) else x[i]) for i in range(5))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
@pytest.mark.parametrize("channels", [1, 3])
def test_color_jitter(TF, dtype, channels):
    """Float32 to 1e-5; uint8 to a level per operation, where a factor multiplies the level of the one
    before.
    """
    x = images(c=channels, dtype=dtype)
    functions = [TF.adjust_brightness, TF.adjust_contrast, TF.adjust_saturation, TF.adjust_hue]
    for op, adjust in enumerate(functions):
        order = np.full((5, 4), F.NO_ORDER)
        order[:, 0] = op
        factors = repeated(FACTORS, 5)
        out = F.color_jitter(x, order, factors)
        for i in range(5):
            assert levels(out[i], adjust(x[i], float(factors[i, op])), dtype) <= (
                1 if dtype == torch.uint8 else 255e-5
            )
    out = F.color_jitter(x, ORDERS, FACTORS)
    for i, (order, factors) in enumerate(zip(ORDERS, FACTORS)):
        wanted = x[i]
        for op in order:
            wanted = wanted if op == F.NO_ORDER else functions[op](wanted, factors[op])
        assert levels(out[i], wanted, dtype) <= (4 if dtype == torch.uint8 else 0.01), i


def test_grayscale(TF):
    for dtype in (torch.uint8, torch.float32):
        x = images(dtype=dtype)
        out = F.color_jitter(x, np.full((5, 4), F.NO_ORDER), np.tile([1, 1, 1, 0], (5, 1)), [1, 0, 1, 0, 1])
        wanted = TF.rgb_to_grayscale(x, num_output_channels=3)
        assert levels(out[::2], wanted[::2], dtype) <= (1 if dtype == torch.uint8 else 1e-3)
        assert torch.equal(out[1::2], x[1::2])


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_affine(TF, dtype, mode):
    """Coordinates are computed in another order of f32 operations: nearest may pick the neighbour where two
    are equally near.
    """
    from torchvision.transforms.v2 import InterpolationMode

    x = images(dtype=dtype)
    fill = [17.0, 3.0, 200.0] if dtype == torch.uint8 else [0.1, 0.9, 0.4]
    angle, scale = np.array([0.0, 33.0, -120.0, 7.5, 180.0]), np.array([1.0, 1.3, 0.7, 1.0, 0.9])
    translate, shear = (
        np.array([[0, 0], [3, -2], [-7, 11], [0, 4], [90, 0]]),
        np.array([[0, 0], [10, 0], [0, -12], [5, 5], [0, 0]]),
    )
    for center in (None, [4.0, 11.0]):
        maps = inverse_affine(angle, translate, scale, shear.astype(float), center=center, size=(41, 30))
        out = F.affine(x, maps, mode, fill)
        for i in range(5):
            arguments = dict(interpolation=InterpolationMode(mode), fill=fill, center=center)
            wanted = TF.affine(
                x[i], float(angle[i]), translate[i].tolist(), float(scale[i]), shear[i].tolist(), **arguments
            )
            if mode == "nearest":
                assert (out[i] != wanted).any(dim=0).float().mean() <= 0.005, i
            else:
                assert levels(out[i], wanted, dtype) <= (1 if dtype == torch.uint8 else 0.05), i


def test_rotation(TF):
    from millrace.transforms.batch import RandomRotation
    from torchvision.transforms.v2 import InterpolationMode

    x = images(h=32, w=32, dtype=torch.float32)
    angles = np.array([0.0, 20.0, -45.0, 90.0, 180.0])
    out = RandomRotation(180, "bilinear").transform(x, {"angle": angles})
    for i, angle in enumerate(angles):
        wanted = TF.rotate(x[i], float(angle), interpolation=InterpolationMode.BILINEAR, fill=[0.0])
        difference = (out[i] - wanted).abs()
        assert difference[:, 1:-1, 1:-1].max() <= 1e-3, (
            angle
        )  # torchvision turns by 90 degrees without interpolation


def test_erase(TF):
    x = images(dtype=torch.float32)
    out = F.erase(x, repeated([[5, 3, 10, 7], [0, 0, 0, 0]], 5), [0.1, 0.2, 0.3])
    wanted = TF.erase(x, 3, 5, 7, 10, torch.tensor([0.1, 0.2, 0.3])[:, None, None])
    assert torch.equal(out[::2], wanted[::2]) and torch.equal(out[1::2], x[1::2])
    inplace = x.clone()
    assert (
        F.erase(inplace, repeated([[5, 3, 10, 7]], 5), 0, inplace=True) is inplace
        and (inplace[:, :, 3:10, 5:15] == 0).all()
    )


def test_mixing():
    x = images(dtype=torch.float32)
    share = torch.tensor([0.0, 0.25, 0.5, 0.9, 1.0])
    out = F.mix(x, [4, 0, 1, 2, 3], share.numpy())
    wanted = x * share[:, None, None, None] + x.roll(1, 0) * (1 - share[:, None, None, None])
    assert (out - wanted).abs().max() <= 1e-6
    x = images()
    out = F.mix(x, [4, 0, 1, 2, 3], np.ones(5), repeated([[5, 3, 10, 7]], 5))
    wanted = x.clone()
    wanted[:, :, 3:10, 5:15] = x.roll(1, 0)[:, :, 3:10, 5:15]
    assert torch.equal(out, wanted)


@pytest.mark.parametrize("name", FLOAT_CASES)
def test_uint8_is_refused_where_it_does_not_fit(name):
    with pytest.raises(ValueError, match="normalise them first"):
        FLOAT_CASES[name](images())


def test_bad_images():
    bad = [
        (torch.zeros(3, 4, 4), ValueError, "shape"),
        (torch.zeros(1, 2, 4, 4), ValueError, "1 or 3 channels"),
        (torch.zeros(1, 3, 4, 4, dtype=torch.float64), TypeError, "float64"),
        (torch.zeros(1, 3, 4, 4, device="meta"), ValueError, "meta"),
        (torch.zeros(1, 3, 4, 4, requires_grad=True), ValueError, "detach"),
        (np.zeros((1, 3, 4, 4)), TypeError, "ndarray"),
    ]
    for value, error, words in bad:
        with pytest.raises(error, match=words):
            F.horizontal_flip(value, [True])
    x = images()
    with pytest.raises(ValueError, match="3 decisions to flip were given for 5 images"):
        F.horizontal_flip(x, [True] * 3)
    with pytest.raises(ValueError, match="columns"):
        F.affine(x, np.zeros((5, 4)))
    with pytest.raises(ValueError, match="'nearest' or 'bilinear'"):
        F.affine(x, np.zeros((5, 6)), "bicubic")
    with pytest.raises(ValueError, match="std is zero"):
        F.normalize(x, 0, 0)
    with pytest.raises(ValueError, match="not torch.uint8"):
        F.normalize(x, 0, 1, torch.uint8)
    with pytest.raises(ValueError, match="hue"):
        F.color_jitter(x, ORDERS, [[1, 1, 1, 0.6]] * 5)


def test_empty_batches():
    for name, case in CASES.items():
        assert case(images()[:0]).shape == (0, 3, 30, 41), name


def test_a_model_that_holds_them_is_torchs_model():
    """Module.apply(), to() and the like go through all parts, with methods of torch's names and arguments."""
    seen = []
    model = torch.nn.Sequential(
        batch.Compose([batch.RandomRotation(10), batch.MixUp(num_classes=3)]), torch.nn.Linear(1, 1)
    )
    assert model.apply(lambda part: seen.append(type(part).__name__)).to(torch.float64) is model
    assert {"RandomRotation", "MixUp", "Compose", "Linear"} <= set(seen)
