"""Which transforms become which native chain, and what is said about those that do not."""

import millrace.transforms
import pytest
import torch
from loader_data import torchvision_or_skip
from millrace._common.lowering.recognising import NotLowered
from transform_cases import lower_transform

FAMILIES = ["millrace", "v1", "v2"]


def family(name):
    if name == "millrace":
        return millrace.transforms
    torchvision_or_skip()
    import torchvision.transforms
    import torchvision.transforms.v2

    return torchvision.transforms if name == "v1" else torchvision.transforms.v2


@pytest.fixture(params=FAMILIES)
def t(request):
    return family(request.param)


@pytest.fixture(params=["millrace", "v2"])
def v2(request):
    return family(request.param)


def compose(t, *transforms):
    return lower_transform(t.Compose(list(transforms)))[0]


def refused(t, *transforms):
    with pytest.raises(NotLowered) as caught:
        compose(t, *transforms)
    return str(caught.value)


TO_FLOAT = {"op": "to_tensor", "dtype": "float32"}
TO_BYTES = {"op": "to_tensor", "dtype": "uint8"}


@pytest.mark.filterwarnings("ignore:The transform `ToTensor")
def test_training_chain(t):
    transforms = [
        t.RandomResizedCrop(224),
        t.RandomHorizontalFlip(0.3),
        t.ToTensor(),
        t.Normalize((0.5, 0.4, 0.3), [0.1, 0.2, 0.3]),
    ]
    resized = {
        "op": "random_resized_crop",
        "height": 224,
        "width": 224,
        "scale": (0.08, 1.0),
        "ratio": (3 / 4, 4 / 3),
    }
    assert compose(t, *transforms) == [
        {**resized, "interpolation": "bilinear"},
        {"op": "horizontal_flip", "p": 0.3},
        TO_FLOAT,
        {"op": "normalize", "mean": [0.5, 0.4, 0.3], "std": [0.1, 0.2, 0.3]},
    ]
    assert lower_transform(t.Compose(transforms))[1] == [
        "RandomResizedCrop",
        "RandomHorizontalFlip",
        "ToTensor",
        "Normalize",
    ]


@pytest.mark.parametrize(
    "size, max_size, height, width",
    [(256, None, 256, 0), ([256], None, 256, 0), ((256, 200), None, 256, 200), (256, 300, 256, 0)],
)
def test_resize_sizes(t, size, max_size, height, width):
    op = {
        "op": "resize",
        "height": height,
        "width": width,
        "max_size": max_size or 0,
        "interpolation": "bicubic",
    }
    mode = t.InterpolationMode.BICUBIC
    assert compose(t, t.Resize(size, mode, max_size), t.PILToTensor()) == [op, TO_BYTES]


@pytest.mark.parametrize(
    "padding, expected",
    [(None, (0, 0, 0, 0)), (4, (4, 4, 4, 4)), ((1, 2), (1, 2, 1, 2)), ((1, 2, 3, 4), (1, 2, 3, 4))],
)
def test_random_crop_borders_are_left_top_right_bottom(t, padding, expected):
    *frame, op, _ = compose(
        t,
        t.RandomCrop((30, 20), padding, pad_if_needed=True, fill=7, padding_mode="reflect"),
        t.PILToTensor(),
    )
    look = {"fill": (7, 7, 7), "padding_mode": "reflect"}
    if frame:  # v1 pads, and then pads what it has padded, where that reflects
        assert frame == [{"op": "frame", "kind": "pad", "padding": expected, **look}]
        assert t.__name__ == "torchvision.transforms" and expected != (0, 0, 0, 0)
        expected = (0, 0, 0, 0)
    assert op == {
        "op": "random_crop",
        "height": 30,
        "width": 20,
        "padding": expected,
        "pad_if_needed": True,
        **look,
    }


def test_crops_and_flips(t):
    transforms = [
        t.CenterCrop((9, 8)),
        t.RandomVerticalFlip(1.0),
        t.RandomCrop(4, fill=(1, 2, 3)),
        t.PILToTensor(),
    ]
    center, flip, crop, end = compose(t, *transforms)
    assert center == {"op": "center_crop", "height": 9, "width": 8}
    assert flip == {"op": "vertical_flip", "p": 1.0}
    assert (crop["fill"], crop["padding_mode"], end) == ((1, 2, 3), "constant", TO_BYTES)


def test_colours(t):
    transforms = [
        t.ColorJitter(0.5, contrast=(0.25, 3), hue=0.125),
        t.RandomGrayscale(0.25),
        t.Grayscale(3),
        t.PILToTensor(),
    ]
    assert compose(t, *transforms) == [
        {
            "op": "color_jitter",
            "brightness": (0.5, 1.5),
            "contrast": (0.25, 3.0),
            "saturation": None,
            "hue": (-0.125, 0.125),
            "p": 1.0,
        },
        {"op": "random_grayscale", "p": 0.25},
        {"op": "grayscale"},
        TO_BYTES,
    ]


def test_steps_that_happen_or_not(t):
    inner = [
        t.ColorJitter(0.5),
        t.GaussianBlur(3),
        t.Grayscale(3),
        t.RandomGrayscale(0.5),
        t.RandomHorizontalFlip(0.25),
    ]
    *steps, _ = compose(t, *[t.RandomApply([step], 0.5) for step in inner], t.PILToTensor())
    ops = ["color_jitter", "gaussian_blur", "random_grayscale", "random_grayscale", "horizontal_flip"]
    assert [(step["op"], step["p"]) for step in steps] == list(zip(ops, [0.5, 0.5, 0.5, 0.25, 0.125]))
    modules = compose(
        t, t.RandomApply(torch.nn.ModuleList([t.RandomVerticalFlip(1.0)]), 0.75), t.PILToTensor()
    )
    assert modules[0] == {"op": "vertical_flip", "p": 0.75}


def test_maps(t):
    rotation = t.RandomRotation((-10, 30), t.InterpolationMode.BICUBIC, center=(3, 4), fill=(1, 2, 3))
    affine = t.RandomAffine(
        30, (0.5, 0.25), (1, 2), shear=7, interpolation=t.InterpolationMode.BILINEAR, fill=9
    )
    plain = t.RandomAffine((1, 2), shear=(1, 2, 3, 4))
    turned = {"degrees": (-10.0, 30.0), "interpolation": "bicubic", "center": (3.0, 4.0), "fill": (1, 2, 3)}
    sheared = {"degrees": (-30.0, 30.0), "interpolation": "bilinear", "center": None, "fill": (9, 9, 9)}
    bare = {"degrees": (1.0, 2.0), "interpolation": "nearest", "center": None, "fill": (0, 0, 0)}
    assert compose(t, rotation, affine, plain, t.PILToTensor()) == [
        {"op": "random_rotation", **turned},
        {
            "op": "random_affine",
            **sheared,
            "translate": (0.5, 0.25),
            "scale": (1.0, 2.0),
            "shear": (-7.0, 7.0, 0.0, 0.0),
        },
        {"op": "random_affine", **bare, "translate": None, "scale": None, "shear": (1.0, 2.0, 3.0, 4.0)},
        TO_BYTES,
    ]


def test_blurs_of_pictures_and_bytes(t):
    blur = {"op": "gaussian_blur", "kernel_size": (3, 5)}
    transforms = [
        t.GaussianBlur((3, 5)),
        t.PILToTensor(),
        t.GaussianBlur([3, 5], (1, 2)),
        t.GaussianBlur((3, 5), 1.5),
    ]
    sigmas = [(0.1, 2.0), (1.0, 2.0), (1.5, 1.5)]
    assert compose(t, *transforms) == [*({**blur, "sigma": sigma, "p": 1.0} for sigma in sigmas), TO_BYTES]


@pytest.mark.filterwarnings("ignore:The transform `ToTensor")
@pytest.mark.parametrize(
    "value, expected", [(0, [0.0]), (2.5, [2.5]), ((1, 2, 3), [1.0, 2.0, 3.0]), ("random", [])]
)
def test_erasing_comes_last(t, value, expected):
    normalize = {"op": "normalize", "mean": [0.5], "std": [0.5]}
    erasing = {
        "op": "random_erasing",
        "p": 0.25,
        "scale": (0.02, 0.33),
        "ratio": (0.3, 3.3),
        "value": expected,
    }
    transforms = [
        t.ToTensor(),
        t.RandomHorizontalFlip(),
        t.Normalize([0.5], [0.5]),
        t.RandomErasing(0.25, value=value),
    ]
    assert compose(t, *transforms) == [{"op": "horizontal_flip", "p": 0.5}, TO_FLOAT, normalize, erasing]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_dtypes(v2, dtype):
    name = str(dtype).removeprefix("torch.")
    assert compose(v2, v2.ToImage(), v2.ToDtype(dtype, scale=True)) == [
        {"op": "to_tensor", "dtype": name, "multiply": True}
    ]
    assert compose(v2, v2.PILToTensor(), v2.ConvertImageDtype(dtype)) == [
        {"op": "to_tensor", "dtype": name, "multiply": True}
    ]
    assert (
        compose(v2, v2.ToImage(), v2.ToDtype(torch.uint8, scale=True), v2.ToDtype(dtype, scale=True))[-1][
            "dtype"
        ]
        == name
    )


def test_what_follows_the_conversion_moves_before_it(v2):
    """The order of torchvision's own v2 examples: bytes first, floats last."""
    transforms = [
        v2.ToImage(),
        v2.Resize((8, 8), antialias=True),
        v2.RandomHorizontalFlip(),
        v2.CenterCrop(6),
    ]
    transforms += [
        v2.ToDtype(torch.float32, scale=True),
        v2.RandomVerticalFlip(),
        v2.Normalize([0.5], [0.5]),
        v2.RandomHorizontalFlip(),
    ]
    ops = [op["op"] for op in compose(v2, *transforms)]
    assert ops == [
        "resize",
        "horizontal_flip",
        "center_crop",
        "vertical_flip",
        "horizontal_flip",
        "to_tensor",
        "normalize",
    ]


def test_sequential_and_nesting(t):
    inner = t.Compose([t.CenterCrop(4), t.PILToTensor()])
    nested = t.Compose([torch.nn.Sequential(t.Resize((8, 8))), inner])
    assert [op["op"] for op in lower_transform(nested)[0]] == ["resize", "center_crop", "to_tensor"]
    single = lower_transform(t.PILToTensor())[0]
    assert single == [TO_BYTES]


@pytest.mark.parametrize("antialias", [True, False, None])
def test_pictures_are_always_antialiased(t, antialias):
    assert compose(t, t.Resize(8, antialias=antialias), t.PILToTensor())[0]["op"] == "resize"


def test_torchvision_no_ops():
    t = family("v2")
    assert compose(t, t.RGB(), t.Identity(), t.ToImage(), t.ToPureTensor()) == [TO_BYTES]
    floats = [t.ToImage(), t.ToDtype(torch.float32, scale=True)]
    last = compose(t, *floats, t.RandomErasing(), t.ToPureTensor())  # as torchvision's reference ends
    assert [op["op"] for op in last] == ["to_tensor", "random_erasing"]


@pytest.mark.filterwarnings("ignore:The transform `ToTensor")
@pytest.mark.parametrize(
    "make, reason",
    [
        (lambda t: [t.RandomHorizontalFlip()], "end with ToTensor"),
        (lambda t: [t.Normalize([0.5], [0.5]), t.ToTensor()], "Normalize needs a float tensor; put ToTensor"),
        (lambda t: [t.PILToTensor(), t.Normalize([0.5], [0.5])], "Normalize needs a float tensor"),
        (lambda t: [t.ToTensor(), t.ToTensor()], "ToTensor follows another conversion"),
        (lambda t: [t.ToTensor(), t.Resize(8)], "put it before ToTensor or ToDtype"),
        (lambda t: [t.PILToTensor(), t.Resize(8, antialias=False)], "native only with antialias=True"),
        (lambda t: [t.PILToTensor(), t.Resize(8, t.InterpolationMode.NEAREST)], "bilinear or bicubic"),
        (
            lambda t: [t.RandomRotation(8, t.InterpolationMode.LANCZOS), t.ToTensor()],
            "RandomRotation with lanczos interpolation is none of nearest, bilinear, bicubic",
        ),
        (lambda t: [t.PILToTensor(), t.RandomCrop(8, 2, fill=3)], "put it before the conversion to a tensor"),
        (lambda t: [t.ToTensor(), t.Normalize([0.5], [0.5]), t.CenterCrop(8)], "put it before Normalize"),
        (
            lambda t: [t.ConvertImageDtype(torch.float32), t.ToTensor()],
            "put ToImage\\(\\) or PILToTensor\\(\\) before it",
        ),
        (lambda t: [t.PILToTensor(), t.ConvertImageDtype(torch.int32)], "torch.int32.* has no native form"),
        (lambda t: [t.RandomCrop(8, fill=2.5), t.ToTensor()], "whole numbers from 0 to 255"),
        (
            lambda t: [t.PILToTensor(), t.ColorJitter(0.5)],
            "ColorJitter of a tensor computes otherwise .* put it before",
        ),
        (lambda t: [t.PILToTensor(), t.RandomGrayscale()], "RandomGrayscale of a tensor"),
        (lambda t: [t.ToTensor(), t.RandomRotation(9)], "RandomRotation of a tensor"),
        (lambda t: [t.PILToTensor(), t.RandomAffine(9)], "RandomAffine of a tensor"),
        (lambda t: [t.Grayscale(2), t.ToTensor()], "neither one channel nor three"),
        (lambda t: [t.Grayscale(), t.ToTensor(), t.RandomErasing()], "of one channel .* make three by"),
        (lambda t: [t.RandomApply([t.Grayscale()]), t.ToTensor()], "does more than change the picture"),
        (
            lambda t: [t.Grayscale(), t.RandomRotation(9, fill=(1, 2, 3)), t.ToTensor()],
            "the fill of random_rotation has colours, and the pictures are grey",
        ),
        (lambda t: [t.RandomRotation(9, expand=True), t.ToTensor()], "leave expand out"),
        (
            lambda t: [t.RandomRotation(9, fill=(1, 2)), t.ToTensor()],
            "RandomRotation\\(fill=.* whole numbers",
        ),
        (
            lambda t: [t.RandomAffine(9, interpolation=t.InterpolationMode.LANCZOS), t.ToTensor()],
            "lanczos interpolation",
        ),
        (lambda t: [t.ToTensor(), t.GaussianBlur(3)], "GaussianBlur of floats"),
        (lambda t: [t.PILToTensor(), t.Resize(8, t.InterpolationMode.BOX)], "bilinear or bicubic"),
        (lambda t: [t.PILToTensor(), t.Pad(2, fill=3)], "put it before the conversion to a tensor"),
        (lambda t: [t.ToTensor(), t.Normalize([0.5], [0.5]), t.Pad(8)], "put it before Normalize"),
        (lambda t: [t.PILToTensor(), t.RandomPerspective()], "computes otherwise than of a PIL image"),
        (lambda t: [t.PILToTensor(), t.RandomErasing()], "RandomErasing is native for float tensors"),
        (
            lambda t: [t.ToTensor(), t.RandomErasing(), t.Normalize([0.5], [0.5])],
            "Normalize follows RandomErasing",
        ),
        (lambda t: [t.ToTensor(), t.RandomErasing(), t.RandomHorizontalFlip()], "put RandomErasing last"),
        (
            lambda t: [Mine(), t.ToTensor()],
            r"Mine \(of test_lowering_transforms\) has no native form; .* and no more: not"
            r" `picture.rotate\(1\)` in line \d+ of test_lowering_transforms.py$",
        ),
        (lambda t: [lambda picture: picture.rotate(1), t.ToTensor()], "<lambda> .*has no native form"),
        (
            lambda t: [type("Resize", (t.Resize,), {"__module__": __name__})(8), t.ToTensor()],
            "Resize \\(of test_lowering",
        ),
    ],
)
def test_refusals_say_what_to_change(t, make, reason):
    import re

    assert re.search(reason, refused(t, *make(t)))


class Mine:
    def __call__(self, picture):
        return picture.rotate(1)


def test_more_refusals():
    with pytest.raises(NotLowered, match="without a transform"):
        lower_transform(None)
    t = millrace.transforms
    assert "pass scale=True" in refused(t, t.ToImage(), t.ToDtype(torch.float32))
    assert "has forward hooks" in refused(t, hooked(t.Resize(4)), t.ToTensor())
    assert "widens" in refused(t, t.ToImage(), t.ToDtype(torch.float16, scale=True), t.ToDtype(torch.float32))
    assert "follows Normalize" in refused(
        t, t.ToTensor(), t.Normalize([0.5], [0.5]), t.ToDtype(torch.float16, scale=True)
    )
    for wide, narrow in ((torch.float64, torch.float32), (torch.float16, torch.bfloat16)):
        twice = t.ToDtype(wide, scale=True), t.ToDtype(narrow, scale=True)
        assert "convert once" in refused(t, t.ToImage(), *twice)
    assert "has no native form" in refused(
        t, t.ToImage(), t.ToDtype({torch.Tensor: torch.float32, "others": None}, scale=True)
    )


def hooked(module):
    module.register_forward_hook(lambda *args: None)
    return module
