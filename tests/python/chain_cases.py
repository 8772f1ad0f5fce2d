"""Chains whose steps a device makes behind the resize, for the tests on the CPU and those that compare CUDA
with it; for the benchmark, too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from millrace import _core, transforms
from millrace.transforms.batch.fused import by_pipeline
from transform_cases import lower_transform

KINDS = [
    *("shear_x", "shear_y", "translate_x", "translate_y", "rotate"),
    *("brightness", "contrast", "saturation", "sharpness", "posterize", "solarize", "solarize_add"),
    *("autocontrast", "equalize", "invert", "gaussian_blur"),
]
VALUES = {
    "shear_x": [0.1, 0.93],
    "shear_y": [0.3, 0.6],
    "translate_x": [3, 7.4],
    "translate_y": [0.5, 20],
    "rotate": [30, 135.5],
    "posterize": [2, 4, 7],
    "solarize": [100.5, 200],
    "solarize_add": [30, 110],
    "gaussian_blur": [0.4, 1.5, 9],
}


def operation(kind: str) -> dict[str, Any]:
    common = {"p": 1.0, "signed": kind in KINDS[:5], "whole": False, "share": 0.0, "bins": 0, "base": 0.0}
    return {"kind": kind, **common, "values": VALUES.get(kind, [0.1, 0.7, 1.9])}


def policy(
    kinds: list[str], count: int = 1, interpolations: tuple[str, ...] = ("bicubic",)
) -> dict[str, Any]:
    branches = [{"weight": 1.0, "ops": [operation(kind)]} for kind in kinds]
    chain = lowered(transforms.RandAugment())
    made: dict[str, Any] = next(op for op in chain if op["op"] == "augment_policy")
    return {
        **made,
        "count": count,
        "branches": branches,
        "interpolations": list(interpolations),
        "fill": [9, 99, 199],
    }


def lowered(*steps: Any, tensor: Any = None) -> list[dict[str, Any]]:
    """As the engine takes them, a tensor of bytes at the end."""
    chain = transforms.Compose([*steps, tensor or transforms.PILToTensor()])
    return lower_transform(chain)[0]


def with_op(op: dict[str, Any], size: tuple[int, int]) -> list[dict[str, Any]]:
    start = lowered(transforms.RandomResizedCrop(size), transforms.RandomHorizontalFlip())
    return [*start[:-1], op, start[-1]]


def chains(size: tuple[int, int] = (40, 52)) -> dict[str, list[dict[str, Any]]]:
    """name -> a chain that ends in uint8 pictures of `size`."""
    t = transforms
    crop = t.RandomResizedCrop(size)
    mix = {"op": "augmix", "policy": policy(KINDS), "width": 3, "depth": -1, "alpha": 1.0}
    made = {kind: with_op(policy([kind]), size) for kind in KINDS}
    for interpolation in ("nearest", "bilinear"):
        made[f"maps, {interpolation}"] = with_op(policy(KINDS[:5], 2, (interpolation,)), size)
    made |= {
        "RandAugment": lowered(crop, t.RandAugment()),
        "TrivialAugmentWide": lowered(crop, t.TrivialAugmentWide()),
        "policy of all": with_op(policy(KINDS, 4, ("nearest", "bilinear", "bicubic")), size),
        "AugMix": with_op(mix | {"blended": False}, size),
        "AugMix, blended": with_op(mix | {"blended": True}, size),
        "RandomRotation": lowered(crop, t.RandomRotation(40, t.InterpolationMode.BILINEAR, fill=(1, 2, 3))),
        "RandomAffine": lowered(crop, t.RandomAffine(20, (0.1, 0.2), (0.7, 1.3), 10)),
        "GaussianBlur": lowered(crop, t.GaussianBlur(9, (0.1, 2.0))),
        "SimCLR": lowered(
            crop,
            t.RandomHorizontalFlip(),
            t.ColorJitter(0.8, 0.8, 0.8, 0.2),
            t.RandomGrayscale(0.2),
            t.GaussianBlur(5),
        ),
        "Grayscale, then colours": lowered(crop, t.Grayscale(3), t.ColorJitter(0.4, 0.4, 0.4, 0.1)),
        "RandomCrop, reflect": lowered(
            t.Resize(min(size)), t.RandomCrop(size, 4, True, padding_mode="reflect"), t.RandAugment()
        ),
    }
    made |= _other_chains(size)
    return made


def _other_chains(size: tuple[int, int]) -> dict[str, list[dict[str, Any]]]:
    """Perspectives, distortions, borders, choices, and resizes by all filters, one behind the other."""
    t = transforms
    crop, bicubic = t.RandomResizedCrop(size), t.InterpolationMode.BICUBIC
    turn = t.RandomRotation(30, t.InterpolationMode.BILINEAR, fill=(9, 8, 7))
    again = t.RandomResizedCrop(size, interpolation=bicubic)
    smaller = t.Resize((size[0] // 2, size[1] // 3), t.InterpolationMode.LANCZOS)
    made = {
        **{
            f"RandomPerspective, {mode}": lowered(
                crop, t.RandomPerspective(0.6, 0.9, mode, fill=(3, 200, 50))
            )
            for mode in ("nearest", "bilinear", "bicubic")
        },
        "RandomPhotometricDistort": lowered(
            crop, t.RandomPhotometricDistort((0.3, 1.9), (0.1, 2), (0.1, 2), (-0.5, 0.5), 0.8)
        ),
        "Pad, RandomZoomOut": lowered(
            t.Resize((31, 23)), t.Pad([2, 5], 40), t.RandomZoomOut((1, 2, 3), (1.0, 1.6)), t.Resize(size)
        ),
        "RandomChoice": lowered(
            crop,
            t.RandomChoice([t.Compose([turn, t.RandomEqualize(1.0)]), t.RandomPerspective(0.5, 1.0), again]),
        ),
        "RandomApply": lowered(crop, t.RandomApply([again, t.ColorJitter(hue=0.4), turn], 0.6)),
        "two resizes": lowered(crop, smaller, t.ColorJitter(0.5, 0.5), again, t.RandomHorizontalFlip()),
        "colours before the crop": lowered(t.Resize(60), t.ColorJitter(0.5, 0.5, 0.5, 0.2), again),
    }
    for mode in ("lanczos", "box", "hamming", "nearest"):
        made[f"RandomResizedCrop, {mode}"] = lowered(t.RandomResizedCrop(size, interpolation=mode))
        made[f"Resize, {mode}, behind a crop"] = lowered(t.RandomCrop(40), t.Resize(size, mode))
    return made


def number_chains(size: tuple[int, int] = (40, 52)) -> dict[str, tuple[list[dict[str, Any]], dict[str, Any]]]:
    """name -> (a chain that ends in float32 pictures of `size`, the mean and std of its Normalize)."""
    t = transforms
    crop, flip = t.RandomResizedCrop(size), t.RandomHorizontalFlip()
    floats = t.Compose([t.ToImage(), t.ToDtype(torch.float32, scale=True)])
    noise, normal = t.GaussianNoise(0.1, 0.3), {"mean": [0.4, 0.5, 0.6], "std": [0.2, 0.25, 0.3]}
    erasing, erasing_by_noise = (
        t.RandomErasing(0.9, value=(1.5, -2, 0.1)),
        t.RandomErasing(0.9, value="random"),
    )
    ends = {
        "RandomErasing": (t.Compose([floats, erasing]), {}),
        "RandomErasing by noise": (t.Compose([floats, erasing_by_noise, erasing]), {}),
        "GaussianNoise": (t.Compose([floats, noise]), {}),
        "GaussianNoise of ToTensor": (t.Compose([t.ToTensor(), noise, erasing_by_noise]), {}),
        "GaussianNoise, Normalize": (t.Compose([floats, noise, t.Normalize(**normal), erasing]), normal),
    }
    return {name: (lowered(crop, flip, tensor=end), options) for name, (end, options) in ends.items()}


def pictures(n: int, device: str | torch.device = "cpu", seed: int = 0) -> list[torch.Tensor]:
    """(h, w, 3) of different sizes: edges, gradients and noise."""
    rng = np.random.default_rng(seed)
    made = []
    for i in range(n):
        h, w = rng.integers(40, 130, 2)
        y, x = np.mgrid[0:h, 0:w]
        values = (
            (x // 9 + y // 7)[..., None] % 3 * 70
            + x[..., None] * (i % 4) // 3
            + rng.integers(0, 20 + i % 60, (h, w, 3))
        )
        made.append(torch.from_numpy(values.clip(0, 255).astype(np.uint8)).to(device))
    return made


def on_device(
    chain: list[dict[str, Any]], device: str, n: int, seed: int = 5, **options: Any
) -> torch.Tensor:
    return by_pipeline(pictures(n, device), _core.ImagePipeline(chain), seed, **options)
