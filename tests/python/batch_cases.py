"""Calls of millrace.transforms.batch with fixed parameters, for the tests on the CPU and those that compare
CUDA with it.
"""

import math

import numpy as np
import torch
from millrace.transforms.batch import Augmentation, augment
from millrace.transforms.batch import functional as F

DTYPES = [torch.uint8, torch.float16, torch.bfloat16, torch.float32]
LAYOUTS = [torch.contiguous_format, torch.channels_last]
ORDERS = [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2], [4, 1, 4, 4], [2, 0, 4, 4]]
FACTORS = [
    [1.3, 0.7, 1.5, 0.1],
    [0.6, 1.4, 0.3, -0.3],
    [1.0, 2.5, 0.0, 0.5],
    [1.0, 0.0, 1.0, 0.0],
    [2.0, 1.0, 1.7, 0.0],
]


def images(n=5, c=3, h=30, w=41, dtype=torch.uint8, layout=torch.contiguous_format, seed=0, device="cpu"):
    """Smooth pictures with some noise: 0..255, or 0..1 for floats."""
    generator = torch.Generator().manual_seed(seed)
    y, x = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
    waves = torch.stack([torch.sin(x / (4 + i)) * torch.cos(y / (7 + i)) for i in range(n * c)]).view(
        n, c, h, w
    )
    values = (
        (128 + 110 * waves + torch.randint(-15, 16, (n, c, h, w), generator=generator))
        .clamp(0, 255)
        .to(torch.uint8)
    )
    if dtype.is_floating_point:
        values = values.to(torch.float32).div(255).to(dtype)
    return values.to(device).contiguous(memory_format=layout)


def affine_maps(n):
    """Turned, scaled and moved, out to one that shows hardly anything."""
    angles = np.linspace(0, 2.5, n)
    maps = [[math.cos(a), -math.sin(a), 3 * a, math.sin(a), 0.8 * math.cos(a), -9 * a] for a in angles]
    return np.array(maps).reshape(n, 6)


def repeated(rows, n):
    return np.resize(np.array(rows), (n, len(rows[0])))


# name -> function of the images; floats only where noted
CASES = {
    "normalize": lambda x: F.normalize(x, [0.4, 0.5, 0.6][: x.shape[1]], [0.2, 0.3, 0.25][: x.shape[1]]),
    "normalize_half": lambda x: F.normalize(x, 0.5, 0.25, torch.float16, channels_last=True),
    "normalize_brain": lambda x: F.normalize(x, 0.5, 0.25, torch.bfloat16, channels_last=False),
    "flip": lambda x: F.horizontal_flip(x, np.arange(len(x)) % 2),
    "affine_nearest": lambda x: F.affine(x, affine_maps(len(x)), "nearest", 0),
    "affine_bilinear": lambda x: F.affine(x, affine_maps(len(x)), "bilinear", 0.5),
    "color": lambda x: F.color_jitter(x, repeated(ORDERS, len(x)), repeated(FACTORS, len(x))),
    "grey": lambda x: F.color_jitter(
        x, np.full((len(x), 4), 4), np.ones((len(x), 4)) * [1, 1, 1, 0], np.arange(len(x)) % 2 == 0
    ),
    "erase": lambda x: F.erase(x, repeated([[1, 2, 5, 7], [0, 0, 0, 0], [-3, 9, 90, 3]], len(x)), 1.0),
    "cutmix": lambda x: F.mix(x, np.arange(len(x))[::-1], np.ones(len(x)), repeated([[2, 3, 11, 9]], len(x))),
}
FLOAT_CASES = {
    "erase_noise": lambda x: F.erase(x, repeated([[1, 2, 9, 7]], len(x)), None, seed=3),
    "mixup": lambda x: F.mix(x, np.arange(len(x))[::-1], np.linspace(0, 1, len(x))),
}


def pictures(device="cpu", channels=3):
    """(h, w, channels) uint8 pictures of different sizes, one of them a view with a pitch of its own."""
    sizes = [(60, 80), (301, 200), (33, 517), (16, 16), (700, 900)]
    made = [
        images(1, channels, h, w, seed=i)[0].permute(1, 2, 0).contiguous().to(device)
        for i, (h, w) in enumerate(sizes)
    ]
    return made + [made[1][:, 17:150]]


def augmentations():
    return [
        Augmentation(flip_horizontal=True),
        Augmentation(crop=(3, 5, 150, 220), order=ORDERS[0], factors=FACTORS[0]),
        Augmentation(size=(64, 200), offset=(4, 100), order=ORDERS[1], factors=FACTORS[1], grayscale=True),
        Augmentation(size=(40, 40), offset=(-5, -9), flip_vertical=True),
        Augmentation(crop=(100, 50, 700, 600), order=ORDERS[4], factors=FACTORS[4]),
        Augmentation(crop=(1, 1, 131, 290), grayscale=True, flip_horizontal=True, flip_vertical=True),
    ]


def augmented(device="cpu", channels=3, **options):
    return augment(pictures(device, channels), augmentations(), (56, 70), **options)
