"""Each row of docs/native.md on what has no native form is tried, and each transform that has one."""

import re
from pathlib import Path

import millrace
import native_table
import numpy as np
import pytest
import torch
from loader_data import make_folder, torchvision_or_skip
from millrace import _core
from millrace._common.lowering.transforms import _LOWERED, lowered
from pictures import make_picture

PAGE = (Path(__file__).parents[2] / "docs" / "native.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def v1():
    torchvision_or_skip()
    import torchvision.transforms

    return torchvision.transforms


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("limits")
    make_folder(root, 3)
    return str(root)


def timm():
    return pytest.importorskip("timm.data.transforms")


def erasing():
    return pytest.importorskip("timm.data.random_erasing")


HALF = ([0.5] * 3, [0.5] * 3)
# First words of the row: (chains, the reason of each contains this)
LIMITS = {
    "Resize(8, antialias=False)": [
        (
            lambda v1, v2: [v2.ToImage(), v2.Resize(8, antialias=False)],
            "only with antialias=True and bilinear or bicubic; put it before",
        ),
    ],
    "Resize(8)": [
        (
            lambda v1, v2: [v1.PILToTensor(), v1.Resize(8)],
            "v1 Resize computes with floats on a tensor.* put it before PILToTensor",
        ),
        (
            lambda v1, v2: [v1.ToTensor(), v1.Resize(8)],
            "Resize of floats does not round to bytes; put it before",
        ),
        (
            lambda v1, v2: [v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Resize(8)],
            "Resize of floats",
        ),
    ],
    "LANCZOS": [
        (
            lambda v1, v2, name=name: [v2.ToImage(), v2.Resize(8, v1.InterpolationMode[name])],
            "native only with antialias=True and bilinear or bicubic; put it before the conversion",
        )
        for name in ("LANCZOS", "BOX", "HAMMING")
    ],
    "RandomRotation(9, expand=True)": [
        (lambda v1, v2: [v1.RandomRotation(9, expand=True), v1.ToTensor()], "leave expand out"),
    ],
    'Pad(-2, padding_mode="reflect")': [
        (
            lambda v1, v2: [v2.Pad(-2, padding_mode="reflect"), v2.ToImage()],
            "padding must be >= 0 in this padding_mode; cut borders off in a step before",
        ),
    ],
    "GaussianNoise": [
        (
            lambda v1, v2: [v2.ToImage(), v2.GaussianNoise()],
            "GaussianNoise is native for tensors of float32; put",
        ),
        (
            lambda v1, v2: [v2.ToImage(), v2.ToDtype(torch.float16, scale=True), v2.GaussianNoise()],
            "GaussianNoise is native for tensors of float32",
        ),
        (
            lambda v1, v2: [
                v2.ToImage(),
                v2.ToDtype(torch.float32, scale=True),
                v2.GaussianNoise(),
                v2.CenterCrop(8),
            ],
            "put it before GaussianNoise",
        ),
    ],
    "ColorJitter": [
        (
            lambda v1, v2, make=make, end=end: [getattr(v2, end)(), make(v2)],
            f"{name} of a tensor computes otherwise .* put it before",
        )
        for name, make in {
            "ColorJitter": lambda t: t.ColorJitter(0.3),
            "RandomGrayscale": lambda t: t.RandomGrayscale(),
            "Grayscale": lambda t: t.Grayscale(3),
            "RandomRotation": lambda t: t.RandomRotation(9),
            "RandomAffine": lambda t: t.RandomAffine(9),
            "RandAugment": lambda t: t.RandAugment(),
            "TrivialAugmentWide": lambda t: t.TrivialAugmentWide(),
            "AutoAugment": lambda t: t.AutoAugment(),
            "RandomPerspective": lambda t: t.RandomPerspective(),
            "RandomPhotometricDistort": lambda t: t.RandomPhotometricDistort(),
            "RandomInvert": lambda t: t.RandomInvert(),
            "RandomEqualize": lambda t: t.RandomEqualize(),
        }.items()
        for end in ("ToImage", "PILToTensor", "ToTensor")
    ],
    "GaussianBlur": [
        (
            lambda v1, v2: [v1.ToTensor(), v1.GaussianBlur(3)],
            "GaussianBlur of floats .* put it before ToTensor",
        )
    ],
    "CenterCrop": [
        (lambda v1, v2: [v1.ToTensor(), v1.Normalize(*HALF), v1.CenterCrop(8)], "put it before Normalize"),
        (
            lambda v1, v2: [v2.ToImage(), v2.RandomCrop(8, 2, fill=9)],
            "put it before the conversion to a tensor",
        ),
        (
            lambda v1, v2: [v1.ToTensor(), v1.Normalize(*HALF), v1.Pad(2, fill=1)],
            "put it before Normalize",
        ),
        (lambda v1, v2: [v2.ToImage(), v2.Pad(2, fill=9)], "put it before the conversion to a tensor"),
    ],
    "ToDtype(torch.float32)": [(lambda v1, v2: [v2.ToImage(), v2.ToDtype(torch.float32)], "pass scale=True")],
    "ConvertImageDtype(torch.float64)": [
        (
            lambda v1, v2: [v1.ToTensor(), v1.ConvertImageDtype(torch.float64)],
            "widens torch.float32 to torch.float64; convert once",
        ),
    ],
    "ToDtype": [
        (
            lambda v1, v2, dtype=dtype, other=other: [
                v2.ToImage(),
                v2.ToDtype(dtype, scale=True),
                v2.ToDtype(other, scale=True),
            ],
            "",
        )
        for dtype, other in ((torch.float64, torch.float32), (torch.bfloat16, torch.float16))
    ],
    "ToDtype(torch.int32)": [
        (
            lambda v1, v2: [v2.ToImage(), v2.ToDtype(torch.int32, scale=True)],
            "the engine makes uint8, float16",
        )
    ],
    "Normalize": [
        (
            lambda v1, v2: [v1.ToTensor(), v1.Normalize(*HALF), v1.Normalize(*HALF)],
            "stands twice; fold both into one",
        )
    ],
    "RandomErasing": [
        (lambda v1, v2: [v2.ToImage(), v2.RandomErasing()], "RandomErasing is native for float tensors; put"),
        (lambda v1, v2: [v1.ToTensor(), v1.RandomErasing(), v1.Normalize(*HALF)], "put RandomErasing last"),
    ],
    "RandomOrder": [
        (
            lambda v1, v2: [
                v2.RandomOrder([v2.GaussianBlur(3), v2.RandomInvert(), *(v2.CenterCrop(9),) * 3]),
                v2.ToImage(),
            ],
            "knows it around 4 transforms",
        ),
    ],
    "timm": [
        (lambda v1, v2, make=make, last=last: [make(timm()), *last(timm())], reason)
        for make, last, reason in (
            (lambda t: t.RandomPad((9, 9)), lambda t: [t.MaybeToTensor()], "RandomPad .*no native form"),
            (lambda t: t.ToTensor(), lambda t: [], "ToTensor .*no native form"),
        )
    ],
    "FiveCrop": [
        (lambda v1, v2, make=make: make(v2), reason)
        for make, reason in (
            (lambda v2: [v2.TenCrop(8), lambda crops: crops.unknown], "TenCrop makes several pictures"),
            (lambda v2: [v2.FiveCrop(8), v2.RandomInvert(), v2.ToImage()], "draws once for several"),
            (lambda v2: [v2.PILToTensor(), v2.FiveCrop(8), v2.Normalize([0.5], [0.5])], "only the first"),
        )
    ],
    "AugMix": [
        (
            lambda v1, v2, name=name, args=args: [getattr(v2, name)(*args), v2.ToImage()],
            rf"{name} \(of torchvision.* has no native form",
        )
        for name, args in {
            "AugMix": (),
            "ElasticTransform": (),
            "RandomChannelPermutation": (),
        }.items()
    ],
}


def test_every_row_of_the_page_is_tried():
    rows = re.findall(r"^\| (?:`(.*?)`|(\w+)).*\|$", PAGE.partition("## What has no native form")[2], re.M)
    assert [code or word for code, word in rows if word != "transform"] == list(LIMITS)


@pytest.mark.filterwarnings("ignore:The transform `ToTensor")
@pytest.mark.parametrize("limit", LIMITS)
def test_what_the_page_refuses_is_refused_with_a_reason(v1, v2, root, limit):
    for make, reason in LIMITS[limit]:
        transforms = make(v1, v2)
        dataset = millrace.datasets.ImageFolder(root, v2.Compose(transforms))
        loader = millrace.DataLoader(dataset)
        told = dict(line.split(": ", 1) for line in loader.explain().splitlines())
        assert told["transform"].startswith("python — ") and re.search(reason, told["transform"]), told[
            "transform"
        ]
        assert told["dataset"] == "python — ready for the engine, but transform is not"


NATIVE = {
    "RandomResizedCrop": (8,),
    "Resize": (8,),
    "CenterCrop": (8,),
    "RandomCrop": (8,),
    "FiveCrop": (8,),
    "TenCrop": (8,),
    "Pad": (3,),
    "RandomZoomOut": (),
    "RandomShortestSize": (8,),
    "ScaleJitter": ((8, 8),),
    "RandomResize": (8, 12),
    "RandomHorizontalFlip": (),
    "RandomVerticalFlip": (),
    "RandomPerspective": (),
    "ColorJitter": (0.3,),
    "RandomGrayscale": (),
    "Grayscale": (3,),
    "RandomRotation": (9,),
    "RandomAffine": (9,),
    "GaussianBlur": (3,),
    "RandomPhotometricDistort": (),
    "GaussianNoise": (),
    "RandomApply": ([],),
    "RandomChoice": ([],),
    "RandomOrder": ([],),
    "RandAugment": (),
    "AutoAugment": (),
    "TrivialAugmentWide": (),
    "RandomInvert": (),
    "RandomPosterize": (3,),
    "RandomSolarize": (9,),
    "RandomAdjustSharpness": (2,),
    "RandomAutocontrast": (),
    "RandomEqualize": (),
    "ToTensor": (),
    "PILToTensor": (),
    "ToImage": (),
    "ToPureTensor": (),
    "ToDtype": (torch.float32,),
    "ConvertImageDtype": (torch.float32,),
    "Normalize": HALF,
    "RandomErasing": (),
    "Identity": (),
    "RGB": (),
}


def test_the_page_lists_what_is_native():
    """What the recognisers' registries have, by the script that writes the page's tables."""
    assert native_table.written(PAGE) == PAGE
    assert sorted(_LOWERED) == sorted(NATIVE)  # each of which is tried below
    dropped = PAGE.replace("RandomPosterize, ", "", 1).replace("Food101, ", "", 1)
    assert dropped != PAGE and native_table.written(dropped) == PAGE
    with pytest.raises(ValueError, match="no place for the table 'what runs natively'"):
        native_table.written(PAGE.replace("<!-- what runs", "<!-- what"))


@pytest.mark.filterwarnings("ignore:The transform `ToTensor")
@pytest.mark.parametrize("family", ["v1", "v2", "ours"])
@pytest.mark.parametrize("name", NATIVE)
def test_what_the_page_calls_native_is(v1, v2, family, name):
    t = {"v1": v1, "v2": v2, "ours": millrace.transforms}[family]
    if not hasattr(t, name):
        pytest.skip(f"{family} has no {name}")
    held = ("RandomApply", "RandomChoice", "RandomOrder")
    transform = getattr(t, name)([t.ColorJitter(0.3)]) if name in held else None
    if name == "ToDtype":
        transform = t.ToDtype(torch.float32, scale=True)
    transform = transform or getattr(t, name)(*NATIVE[name])
    conversion = {
        "ToTensor": [],
        "PILToTensor": [],
        "ToImage": [],
        "Normalize": [t.ToTensor()],
        "RandomErasing": [t.ToTensor()],
        "GaussianNoise": [t.ToTensor()],
        "FiveCrop": [t.ToTensor()],
        "TenCrop": [t.ToTensor()],
    }
    before = conversion.get(
        name, [t.PILToTensor()] if name in ("ToDtype", "ConvertImageDtype", "ToPureTensor") else []
    )
    behind = [] if before or name in conversion else [t.PILToTensor()]
    for chain in lowered(t.Compose([*before, transform, *behind])).chains:
        pipeline = _core.ImagePipeline(chain)
        assert pipeline.apply(np.asarray(make_picture(40, 30)), 1, 0, 0).dim() == 3
