"""Every native operation with arguments drawn at random, for operations_against_libraries.py: torchvision's
and timm's own objects. Needs both libraries, and tests/python and tests/parity on the path.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import timm.data.auto_augment as timm
import timm.data.transforms as timm_transforms
import torch
import torchvision.transforms as v1
from millrace._common.lowering.policies import KINDS, MAPS
from test_policies import only
from test_timm_policies import HPARAMS
from timm.data.random_erasing import RandomErasing
from torchvision.transforms import v2

Make = Callable[[random.Random], list[Any]]

FILTERS = ("nearest", "nearest-exact", "bilinear", "bicubic", "lanczos", "box", "hamming")
OF_MAPS = ("nearest", "bilinear", "bicubic")
PADDINGS = ("constant", "edge", "reflect", "symmetric")
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
BYTES = v2.PILToTensor()  # ends a chain that has no conversion of its own


def _mode(rng: random.Random, names: tuple[str, ...] = FILTERS) -> Any:
    return v1.InterpolationMode(rng.choice(names))


def _size(rng: random.Random, least: int = 1, most: int = 150) -> list[int]:
    return [rng.randint(least, most), rng.randint(least, most)]


def _fill(rng: random.Random) -> Any:
    return rng.choice([0, rng.randint(0, 255), [rng.randint(0, 255) for _ in range(3)]])


def _range(rng: random.Random, low: float, high: float) -> tuple[float, float]:
    a, b = sorted((rng.uniform(low, high), rng.uniform(low, high)))
    return a, b


def _of(rng: random.Random, name: str) -> Any:
    """torchvision's class, of v1 or v2."""
    return getattr(rng.choice([v1, v2]), name)


def _resized_crop(rng: random.Random) -> list[Any]:
    options = {"scale": _range(rng, 0.01, 1.0), "ratio": _range(rng, 0.3, 3.0)}
    return [_of(rng, "RandomResizedCrop")(_size(rng), interpolation=_mode(rng), **options)]


def _timms_resized_crop(rng: random.Random) -> list[Any]:
    mode = rng.choice(["random", "bilinear", "bicubic", "lanczos"])
    make = timm_transforms.RandomResizedCropAndInterpolation
    return [make(tuple(_size(rng)), _range(rng, 0.05, 1.0), _range(rng, 0.4, 2.5), mode)]


def _resize(rng: random.Random) -> list[Any]:
    side = rng.randint(1, 200)
    forms: list[tuple[Any, dict[str, Any]]] = [(_size(rng), {}), (side, {})]
    forms += [(side, {"max_size": side + rng.randint(1, 90)}), (None, {"max_size": side})]
    size, options = rng.choice(forms)
    family = v2 if size is None else rng.choice([v1, v2])  # v1 asks for a size
    return [family.Resize(size, _mode(rng), **options)]


def _resize_of_tensors(rng: random.Random) -> list[Any]:
    size = _size(rng, 2)  # to one pixel torch resizes in a way of its own, which has no native form
    made = v2.Resize(size, _mode(rng, ("bilinear", "bicubic")), antialias=True)
    if rng.random() < 0.5:
        made = v2.RandomResizedCrop(size, interpolation=made.interpolation, antialias=True)
    return [v2.ToImage(), made]


def _crop(rng: random.Random) -> list[Any]:
    options: dict[str, Any] = {"padding_mode": rng.choice(PADDINGS), "pad_if_needed": True}
    if rng.random() < 0.5:
        options["padding"] = [rng.randint(0, 20) for _ in range(rng.choice([1, 2, 4]))]
    if options["padding_mode"] == "constant":
        options["fill"] = rng.choice([rng.randint(0, 255), tuple(rng.randint(0, 255) for _ in range(3))])
    return [_of(rng, "RandomCrop")(_size(rng), **options)]


def _pad(rng: random.Random) -> list[Any]:
    sides = [rng.randint(0, 60) for _ in range(rng.choice([1, 2, 4]))]
    mode = rng.choice(PADDINGS)
    fill = rng.choice([rng.randint(0, 255), tuple(rng.randint(0, 255) for _ in range(3))])
    return [_of(rng, "Pad")(sides[0] if len(sides) == 1 else sides, fill, mode)]


def _cut(rng: random.Random) -> list[Any]:
    """Borders of less than nothing, of a picture that is large enough."""
    sides = [rng.randint(-9, 9) for _ in range(4)]
    trim = timm_transforms.TrimBorder(rng.randint(1, 9))
    return [v2.Resize([20, 30]), rng.choice([v2.Pad(sides, rng.randint(0, 255)), trim])]


def _frame_of_timm(name: str) -> Make:
    def make(rng: random.Random) -> list[Any]:
        fill = rng.choice([rng.randint(0, 255), tuple(rng.randint(0, 255) for _ in range(3))])
        return [getattr(timm_transforms, name)(tuple(_size(rng)), fill, rng.choice(PADDINGS))]

    return make


def _zoom_out(rng: random.Random) -> list[Any]:
    return [v2.RandomZoomOut(_fill(rng), _range(rng, 1.0, 3.0), 0.9)]


def _keep_ratio(rng: random.Random) -> list[Any]:
    mode = rng.choice(["bilinear", "bicubic", "lanczos", "random"])
    drawn = [0.7, _range(rng, 0.5, 1.5), rng.random() < 0.5, 0.7, _range(rng, 0.6, 1.6)]
    return [timm_transforms.ResizeKeepRatio(tuple(_size(rng, 20)), rng.choice([0.0, 0.4, 1.0]), mode, *drawn)]


def _drawn_resize(rng: random.Random) -> list[Any]:
    mode = _mode(rng)
    sizes = [rng.randint(5, 120) for _ in range(3)]
    return [
        rng.choice(
            [
                v2.RandomShortestSize(sizes, rng.choice([None, 150]), mode),
                v2.ScaleJitter(_size(rng, 30), (0.4, 1.6), mode),
                v2.RandomResize(20, 90, mode),
            ]
        )
    ]


def _jitter(rng: random.Random) -> list[Any]:
    names = ("brightness", "contrast", "saturation", "hue")
    given = {name: rng.uniform(0, 0.5 if name == "hue" else 2) for name in names if rng.random() < 0.7}
    return [_of(rng, "ColorJitter")(**given)]


def _distort(rng: random.Random) -> list[Any]:
    ranges = [_range(rng, 0.1, 2), _range(rng, 0, 2), _range(rng, 0, 2), _range(rng, -0.5, 0.5)]
    return [v2.RandomPhotometricDistort(*ranges, p=0.7)]


def _rotation(rng: random.Random) -> list[Any]:
    options = {"center": rng.choice([None, _size(rng)]), "fill": _fill(rng)}
    degrees = rng.choice([_range(rng, -180, 180), (0, 0), (90, 90), (180, 180), (-90, -90)])
    return [_of(rng, "RandomRotation")(degrees, _mode(rng, OF_MAPS), **options)]


def _affine(rng: random.Random) -> list[Any]:
    options = {"center": rng.choice([None, _size(rng)]), "fill": _fill(rng)}
    shear = rng.choice([None, rng.uniform(0, 40), [-20, 20, -10, 10]])
    numbers = rng.choice([None, (0.4, 0.3)]), rng.choice([None, _range(rng, 0.3, 2.5)]), shear
    degrees = rng.choice([0, rng.uniform(0, 180)])
    return [_of(rng, "RandomAffine")(degrees, *numbers, interpolation=_mode(rng, OF_MAPS), **options)]


def _perspective(rng: random.Random) -> list[Any]:
    make = _of(rng, "RandomPerspective")
    return [make(rng.uniform(0.05, 1), 0.95, _mode(rng, OF_MAPS), _fill(rng))]


def _blur(rng: random.Random) -> list[Any]:
    kernel = [2 * rng.randint(0, 8) + 1 for _ in range(2)]
    return [v2.Resize(_size(rng, 20)), _of(rng, "GaussianBlur")(kernel, _range(rng, 0.1, 4))]


def _of_torchvision(name: str) -> Make:
    """An operation of a policy, at any magnitude of its table, with both signs."""

    def make(rng: random.Random) -> list[Any]:
        t = rng.choice([v1, v2])
        options: dict[str, Any] = {"magnitude": rng.randint(0, 30), "fill": _fill(rng)}
        options["interpolation"] = _mode(rng, OF_MAPS)
        of_side = name.startswith("Translate") and rng.random() < 0.5
        signed = KINDS[name] in MAPS or name in ("Brightness", "Contrast", "Color", "Sharpness")
        return [only(t, name, of_side, signed=signed, **options)]

    return make


SINGLE = {
    "RandomInvert": lambda rng: (),
    "RandomPosterize": lambda rng: (rng.randint(1, 8),),
    "RandomSolarize": lambda rng: (rng.uniform(0, 256),),
    "RandomAdjustSharpness": lambda rng: (rng.uniform(0, 3),),
    "RandomAutocontrast": lambda rng: (),
    "RandomEqualize": lambda rng: (),
}


def _single(rng: random.Random) -> list[Any]:
    name = rng.choice(list(SINGLE))
    return [_of(rng, name)(*SINGLE[name](rng), p=0.9)]


def _of_timm(name: str) -> Make:
    def make(rng: random.Random) -> list[Any]:
        magnitude, std = rng.uniform(0, 10), rng.choice([0, 0.5, float("inf")])
        if name.startswith("Posterize"):  # where Pillow keeps bits
            magnitude, std = rng.uniform(*((0, 6) if name == "PosterizeIncreasing" else (4, 10))), 0
        if name == "GaussianBlurRand":
            std = 0  # timm draws its radius even then
        options = HPARAMS | {"magnitude_std": std}
        if rng.random() < 0.7:
            mode = rng.choice([timm.Image.NEAREST, timm.Image.BILINEAR, timm.Image.BICUBIC])
            options["interpolation"] = mode
        return [timm.AugmentOp(name, 1.0, magnitude, options)]

    return make


def _policy(rng: random.Random) -> list[Any]:
    t = rng.choice([v1, v2])
    options = {"interpolation": _mode(rng, OF_MAPS), "fill": _fill(rng)}
    return [
        rng.choice(
            [
                t.RandAugment(rng.randint(1, 4), rng.randint(0, 30), **options),
                t.TrivialAugmentWide(**options),
                t.AutoAugment(rng.choice(list(t.AutoAugmentPolicy)), **options),
            ]
        )
    ]


def _policy_of_timm(rng: random.Random) -> list[Any]:
    config = rng.choice(["rand-m9-mstd0.5-inc1", "rand-m7-n3-inc1", "rand-m3-mmax30-inc1", "original", "v0"])
    config = rng.choice([config, "3a", "originalr", "v0r"])
    make = timm.rand_augment_transform if config.startswith("rand") else timm.auto_augment_transform
    made = make(config, dict(HPARAMS))
    parts = made.ops if config.startswith("rand") else [op for steps in made.policy for op in steps]
    for op in parts:  # where Pillow refuses to keep no bits
        if op.name.startswith("Posterize"):
            op.magnitude, op.magnitude_std = (6 if op.name == "PosterizeIncreasing" else 8), 0
    return [made]


def _mix(rng: random.Random) -> list[Any]:
    config = f"augmix-m{rng.randint(1, 8)}-w{rng.randint(1, 5)}-d{rng.choice([-1, 1, 2, 3])}"
    config = config.replace("-d-1", "") + f"-b{rng.randint(0, 1)}"
    return [timm.augment_and_mix_transform(config, dict(HPARAMS))]


def _held(rng: random.Random) -> list[Any]:
    """Steps of all sorts, held by chance."""
    turn = v2.RandomRotation(40, _mode(rng, OF_MAPS), fill=9)
    makes = [_resized_crop, _pad, _jitter, _affine, _resize, _zoom_out]
    parts = [step for make in rng.sample(makes, 3) for step in make(rng)]
    holders = [v2.RandomChoice([*parts, turn], [1, 2, 3, 4]), v2.RandomApply([*parts, turn], 0.7)]
    holders += [v2.RandomOrder([parts[0], parts[1], v2.CenterCrop(_size(rng, 20))])]
    return [rng.choice(holders), v2.RandomHorizontalFlip()]


def _to_tensor(rng: random.Random) -> list[Any]:
    kinds = [[v1.ToTensor()], [v1.PILToTensor()], [v1.PILToTensor(), v1.ConvertImageDtype(torch.float16)]]
    kinds += [[v2.ToImage(), v2.ToDtype(dtype, scale=True)] for dtype in FLOATS]
    return rng.choice(kinds)


def _normalize(rng: random.Random) -> list[Any]:
    mean, std = ([rng.uniform(low, 1) for _ in range(3)] for low in (0, 0.1))
    dtype = rng.choice(FLOATS)
    return [v2.ToImage(), v2.ToDtype(dtype, scale=True), _of(rng, "Normalize")(mean, std)]


def _erasing(rng: random.Random) -> list[Any]:
    value = rng.choice([0, rng.uniform(-3, 3), [rng.uniform(-3, 3) for _ in range(3)]])
    scale, ratio = _range(rng, 0.02, 0.9), _range(rng, 0.3, 3.3)
    made = _of(rng, "RandomErasing")(0.9, scale, ratio, value)
    if rng.random() < 0.3:
        counts = {"min_count": 1, "max_count": rng.randint(1, 4)}
        made = RandomErasing(0.9, *scale, ratio[0], ratio[1], mode="const", **counts, device="cpu")
    return [v1.ToTensor(), made]


def _noise_of_no_deviation(rng: random.Random) -> list[Any]:
    dtype = v2.ToDtype(torch.float32, scale=True)
    return [v2.ToImage(), dtype, v2.GaussianNoise(rng.uniform(-0.3, 0.3), 0.0, rng.random() < 0.5)]


def _recipe(rng: random.Random) -> list[Any]:
    """Whole chains that people train with, and one that decides nothing."""
    mode, side = _mode(rng, ("bilinear", "bicubic")), rng.randint(16, 96)
    end = [v1.ToTensor(), v1.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]
    crop, flip = v1.RandomResizedCrop(side, interpolation=mode), v1.RandomHorizontalFlip()
    jitter = v1.RandomApply([v1.ColorJitter(0.8, 0.8, 0.8, 0.2)], 0.8)
    return rng.choice(
        [
            [v1.Resize(side + 10, mode), v1.CenterCrop(side), *end],
            [crop, flip, v1.RandAugment(interpolation=mode), *end, v1.RandomErasing(0.5)],
            [crop, flip, v1.TrivialAugmentWide(), *end],
            [crop, jitter, v1.RandomGrayscale(0.2), flip, *end],
            [v1.RandomCrop(side, 4, True, padding_mode="reflect"), flip, v1.AutoAugment(), *end],
        ]
    )


CASES: dict[str, Make] = {
    "RandomResizedCrop": _resized_crop,
    "RandomResizedCropAndInterpolation of timm": _timms_resized_crop,
    "Resize": _resize,
    "Resize, RandomResizedCrop of tensors of bytes": _resize_of_tensors,
    "CenterCrop": lambda rng: [_of(rng, "CenterCrop")(_size(rng))],
    "RandomCrop": _crop,
    "Pad": _pad,
    "Pad of less than 0, TrimBorder of timm": _cut,
    "CenterCropOrPad of timm": _frame_of_timm("CenterCropOrPad"),
    "RandomCropOrPad of timm": _frame_of_timm("RandomCropOrPad"),
    "RandomZoomOut": _zoom_out,
    "RandomHorizontalFlip": lambda rng: [_of(rng, "RandomHorizontalFlip")()],
    "RandomVerticalFlip": lambda rng: [_of(rng, "RandomVerticalFlip")()],
    "exif=True": lambda rng: [],
    "ResizeKeepRatio of timm": _keep_ratio,
    "RandomShortestSize, ScaleJitter, RandomResize": _drawn_resize,
    "ColorJitter": _jitter,
    "RandomPhotometricDistort": _distort,
    "Grayscale": lambda rng: [_of(rng, "Grayscale")(3)],
    "RandomGrayscale": lambda rng: [_of(rng, "RandomGrayscale")(0.7)],
    "RandomRotation": _rotation,
    "RandomAffine": _affine,
    "RandomPerspective": _perspective,
    "GaussianBlur": _blur,
    **{f"{name} of a policy": _of_torchvision(name) for name in KINDS},
    "RandomInvert, ... RandomEqualize": _single,
    **{f"{name} of timm": _of_timm(name) for name in timm.NAME_TO_OP},
    "RandAugment, TrivialAugmentWide, AutoAugment": _policy,
    "RandAugment, AutoAugment of timm": _policy_of_timm,
    "AugMix of timm": _mix,
    "RandomChoice, RandomApply, RandomOrder": _held,
    "ToTensor, ToDtype, ConvertImageDtype": _to_tensor,
    "Normalize": _normalize,
    "RandomErasing by values": _erasing,
    "GaussianNoise of no deviation": _noise_of_no_deviation,
    "recipes": _recipe,
}
