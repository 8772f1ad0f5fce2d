"""Transforms on either side of the conversion to a tensor: the engine makes of them what torchvision makes,
or leaves them.

Pillow and torch compute many operations in different ways, so each pair of an operation and a conversion is
tried in both orders.
"""

import sys

import numpy as np
import pytest
import torch
from loader_data import torchvision_or_skip
from millrace import _core
from millrace._common.lowering.recognising import NotLowered
from pictures import make_picture
from thinned import thinned
from transform_cases import lower_transform

FAMILIES = ["v1", "v2"]
SIZES = [(61, 47), (40, 90), (33, 33), (128, 57)]
HEIGHT, WIDTH = 44, 52


def module(family):
    torchvision_or_skip()
    import torchvision.transforms
    import torchvision.transforms.v2

    return torchvision.transforms if family == "v1" else torchvision.transforms.v2


# Each without chance. Sizes are those of the picture, (width, height).
OPERATIONS = {
    "resize": lambda t, size: t.Resize((25, 31), antialias=True),
    "resize_cubic": lambda t, size: t.Resize((25, 31), t.InterpolationMode.BICUBIC, antialias=True),
    "resize_larger": lambda t, size: t.Resize((150, 170), t.InterpolationMode.BICUBIC, antialias=True),
    "resize_plain": lambda t, size: t.Resize((25, 31), antialias=False),
    "resize_nearest": lambda t, size: t.Resize((25, 31), t.InterpolationMode.NEAREST),
    "resize_shorter_side": lambda t, size: t.Resize(24, antialias=True),
    "resized_crop": lambda t, size: t.RandomResizedCrop(
        (29, 23), (1, 1), (size[0] / size[1],) * 2, antialias=True
    ),
    "center_crop": lambda t, size: t.CenterCrop(20),
    "center_padding": lambda t, size: t.CenterCrop((150, 131)),
    "crop": lambda t, size: t.RandomCrop((size[1], size[0])),
    "padded_crop": lambda t, size: t.RandomCrop((size[1] + 6, size[0] + 6), padding=3),
    "filled_crop": lambda t, size: t.RandomCrop((size[1] + 6, size[0] + 6), padding=3, fill=7),
    "reflected_crop": lambda t, size: t.RandomCrop(
        (size[1] + 6, size[0] + 6), padding=3, padding_mode="reflect"
    ),
    "edge_crop": lambda t, size: t.RandomCrop((size[1] + 6, size[0] + 6), padding=3, padding_mode="edge"),
    "flip": lambda t, size: t.RandomHorizontalFlip(1.0),
    "vertical_flip": lambda t, size: t.RandomVerticalFlip(1.0),
    "brightness": lambda t, size: t.ColorJitter(brightness=(1.3, 1.3)),
    "contrast": lambda t, size: t.ColorJitter(contrast=(1.3, 1.3)),
    "saturation": lambda t, size: t.ColorJitter(saturation=(1.3, 1.3)),
    "hue": lambda t, size: t.ColorJitter(hue=(0.2, 0.2)),
    "grayscale": lambda t, size: t.Grayscale(3),
    "random_grayscale": lambda t, size: t.RandomGrayscale(1.0),
    "rotation": lambda t, size: t.RandomRotation((20, 20), t.InterpolationMode.BILINEAR),
    "affine": lambda t, size: t.RandomAffine(
        (15, 15), scale=(1.2, 1.2), interpolation=t.InterpolationMode.BILINEAR
    ),
    "blur": lambda t, size: t.GaussianBlur(5, (1.5, 1.5)),
    "applied_blur": lambda t, size: t.RandomApply([t.GaussianBlur(5, (1.5, 1.5))], 1.0),
    "applied_jitter": lambda t, size: t.RandomApply([t.ColorJitter(saturation=(1.3, 1.3))], 1.0),
    "pad": lambda t, size: t.Pad(4),
    "reflected_pad": lambda t, size: t.Pad((3, 1, 2, 4), padding_mode="reflect"),
    "filled_pad": lambda t, size: t.Pad(4, 7),
    "elastic": lambda t, size: t.ElasticTransform(),
    "sharpness": lambda t, size: t.RandomAdjustSharpness(2, 1.0),
    "posterize": lambda t, size: t.RandomPosterize(3, 1.0),
    "solarize": lambda t, size: t.RandomSolarize(100, 1.0),
    "invert": lambda t, size: t.RandomInvert(1.0),
    "equalize": lambda t, size: t.RandomEqualize(1.0),
    "autocontrast": lambda t, size: t.RandomAutocontrast(1.0),
    "lambda": lambda t, size: t.Lambda(lambda picture: picture[:]),
}
CONVERSIONS = {
    "to_tensor": lambda t: [t.ToTensor()],
    "pil_to_tensor": lambda t: [t.PILToTensor()],
    "pil_to_float": lambda t: [t.PILToTensor(), t.ConvertImageDtype(torch.float32)],
    "to_image": lambda t: [t.ToImage()],
    "to_image_to_float": lambda t: [t.ToImage(), t.ToDtype(torch.float32, scale=True)],
}
# Exactly these are native behind a conversion; the others must be refused there, with the reason.
BEHIND = {
    "center_crop",
    "center_padding",
    "pad",
    "reflected_pad",
    "crop",
    "padded_crop",
    "reflected_crop",
    "edge_crop",
    "flip",
    "vertical_flip",
}
BEHIND_BYTES = {"blur", "applied_blur"}
BEHIND_BYTES_OF_V2 = {"resize", "resize_cubic", "resize_larger", "resize_shorter_side", "resized_crop"}
UNKNOWN = {"elastic"}


def chain_or_reason(transforms):
    try:
        return lower_transform(transforms)[0], ""
    except NotLowered as refusal:
        return None, str(refusal)


def apart(t, transforms, size):
    """Largest difference in levels between the engine and torchvision; None: not native."""
    picture = make_picture(*size, seed=size[0])
    compose = t.Compose(transforms)
    chain, reason = chain_or_reason(compose)
    if chain is None:
        assert len(reason) > 20
        return None
    expected = compose(picture)
    got = _core.ImagePipeline(chain).apply(np.asarray(picture), 1, 0, 0)
    assert got.dtype == expected.dtype and got.shape == expected.shape
    scale = 255 if expected.dtype.is_floating_point else 1
    return float((got.double() - expected.double()).abs().max()) * scale


@pytest.mark.filterwarnings("ignore:The transform `ToTensor", "ignore:Anti-alias option")
@thinned(2, conversion=[*CONVERSIONS], name=[*OPERATIONS], family=FAMILIES)
def test_an_operation_before_and_behind_a_conversion(family, name, conversion):
    t = module(family)
    if conversion.startswith("to_image") and family == "v1":
        pytest.skip("ToImage is v2's")
    v2 = module("v2")
    to_tensor = CONVERSIONS[conversion](t if hasattr(t, "ToImage") or "image" not in conversion else v2)
    bytes_ = len(to_tensor) == 1 and conversion != "to_tensor"
    level = 1.01 if "blur" in name else 0
    for size in SIZES:
        operation = OPERATIONS[name](t, size)
        before = apart(t, [operation, *to_tensor], size)
        assert (before is None) == (name in UNKNOWN or (name == "lambda"))
        assert before is None or before <= level
        behind = apart(t, [*to_tensor, operation], size)
        native = (
            name in BEHIND
            or (bytes_ and name in BEHIND_BYTES)
            or (bytes_ and family == "v2" and name in BEHIND_BYTES_OF_V2)
        )
        assert (behind is not None) == native, f"native behind {conversion}: {behind is not None}"
        assert behind is None or behind <= level, (
            f"{name} behind {conversion}: {behind} levels apart at {size}"
        )
        if bytes_ and behind is not None:  # and then made floats
            floats = [t.ConvertImageDtype(torch.float32)]
            assert apart(t, [*to_tensor, operation, *floats], size) <= level + 1e-4


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
def test_resizing_tensors_of_any_size(interpolation):
    """Bit for bit torch's, and other pixels than Pillow's."""
    t = module("v2")
    random = np.random.default_rng(3)
    mode, differ = t.InterpolationMode(interpolation), 0
    for _ in range(150):
        width, height, new_width, new_height = (int(v) for v in random.integers(2, 140, 4))
        pixels = random.integers(0, 256, (height, width, 3), dtype=np.uint8)
        flips = [
            t.RandomHorizontalFlip(float(random.integers(0, 2))),
            t.RandomVerticalFlip(float(random.integers(0, 2))),
        ]
        resize = t.Resize((new_height, new_width), mode, antialias=True)
        compose = t.Compose(
            [t.ToImage(), *flips, resize, t.RandomHorizontalFlip(float(random.integers(0, 2)))]
        )
        chain = lower_transform(compose)[0]
        got = _core.ImagePipeline(chain).apply(pixels, 0, 0, 0)
        assert torch.equal(got, compose(pixels).as_subclass(torch.Tensor)), (
            height,
            width,
            new_height,
            new_width,
        )
        pillows = [{key: value for key, value in op.items() if key != "of_tensor"} for op in chain]
        differ += not torch.equal(got, _core.ImagePipeline(pillows).apply(pixels, 0, 0, 0))
    assert differ > 50


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
def test_random_crops_of_tensors(interpolation):
    t = module("v2")
    mode = t.InterpolationMode(interpolation)
    compose = t.Compose([t.ToImage(), t.RandomResizedCrop((40, 37), interpolation=mode, antialias=True)])
    pipeline = _core.ImagePipeline(lower_transform(compose)[0])
    for index in range(60):
        width, height = 50 + 7 * (index % 11), 120 - 5 * (index % 13)
        pixels = np.asarray(make_picture(width, height, seed=index))
        (box,) = pipeline.draw(width, height, 5, 0, index)
        place = [box[name] for name in ("top", "left", "height", "width")]
        expected = t.functional.resized_crop(
            t.functional.to_image(pixels), *place, (40, 37), mode, antialias=True
        )
        assert torch.equal(pipeline.apply(pixels, 5, 0, index), expected.as_subclass(torch.Tensor)), index


def test_one_pixel_is_left_to_torch():
    """Its plain kernel, that of CPUs without AVX2, reads other pixels there."""
    t = module("v2")
    for size in (1, (20, 1), (1, 20)):
        chain, reason = chain_or_reason(t.Compose([t.ToImage(), t.Resize(size)]))
        assert chain is None and "to one pixel in its own way; put Resize before" in reason


def test_the_library_decides_whether_bytes_are_resized(monkeypatch):
    """Where torchvision takes floats for want of a fast kernel, as on old CPUs, the order stays in Python."""
    t = module("v2")
    from millrace._common.lowering import tensor_resize

    geometry = sys.modules["torchvision.transforms.v2.functional._geometry"]
    if not hasattr(geometry, "_do_native_uint8_resize_on_cpu"):
        pytest.skip("this torchvision decides in another way")
    tensor_resize.rounds_as_torch.cache_clear()
    monkeypatch.setattr(geometry, "_do_native_uint8_resize_on_cpu", lambda mode: False)
    try:
        for mode in (t.InterpolationMode.BILINEAR, t.InterpolationMode.BICUBIC):
            chain, reason = chain_or_reason(t.Compose([t.ToImage(), t.Resize((20, 20), mode)]))
            assert chain is None
            assert "rounds otherwise on this CPU" in reason
            assert "put Resize before the conversion" in reason
    finally:
        tensor_resize.rounds_as_torch.cache_clear()
