"""What the tests of millrace.transforms share: pictures of all kinds, transforms with arguments, and how
results are compared.
"""

from typing import Any

import numpy as np
import torch
from millrace._common.lowering.transforms import lowered
from pictures import make_picture
from PIL import Image

IMAGE = make_picture(61, 47, seed=5)
TENSOR = torch.from_numpy(np.array(IMAGE)).permute(2, 0, 1).contiguous()
PICTURES = {
    "pil": IMAGE,
    "pil_grey": IMAGE.convert("L"),
    "pil_palette": IMAGE.convert("P"),
    "pil_alpha": IMAGE.convert("RGBA"),
    "pil_float": IMAGE.convert("F"),
    "bytes": TENSOR,
    "bytes_hwc": torch.from_numpy(np.array(IMAGE)).permute(2, 0, 1),
    "bytes_batch": torch.stack([TENSOR, TENSOR.flip(-1)]).expand(2, 2, 3, 47, 61),
    "float32": TENSOR / 255,
    "float64": TENSOR.double() / 255,
    "float16": (TENSOR / 255).half(),
    "int16": TENSOR.to(torch.int16) * 100,
    "one_channel": TENSOR[:1],
}

GEOMETRY = [
    ("Resize", (20,), {}),
    ("Resize", ([20],), {}),
    ("Resize", ((20, 33),), {}),
    ("Resize", (80,), {"interpolation": "bicubic"}),
    ("Resize", (20,), {"interpolation": 0}),
    ("Resize", ((25, 18),), {"interpolation": Image.BICUBIC}),
    ("Resize", (30,), {"interpolation": "nearest-exact", "max_size": 35}),
    ("Resize", (None,), {"max_size": 30}),
    ("Resize", ((25, 18),), {"antialias": False}),
    ("Resize", ((25, 18),), {"antialias": None, "interpolation": "bicubic"}),
    ("Resize", ((47, 61),), {}),
    ("CenterCrop", (20,), {}),
    ("CenterCrop", ((21, 34),), {}),
    ("CenterCrop", ((60, 34),), {}),
    ("CenterCrop", (70,), {}),
    ("CenterCrop", ((47, 61),), {}),
    ("RandomResizedCrop", (24,), {}),
    (
        "RandomResizedCrop",
        ((24, 13),),
        {"scale": (0.3, 0.9), "ratio": (0.5, 2.0), "interpolation": "bicubic"},
    ),
    ("RandomResizedCrop", (24,), {"ratio": (5.0, 6.0), "scale": (0.9, 1.0)}),
    ("RandomResizedCrop", (24,), {"ratio": (0.1, 0.2), "scale": (0.9, 1.0)}),
    ("RandomResizedCrop", (24,), {"scale": (1.5, 1.6)}),
    ("RandomResizedCrop", ([24],), {"interpolation": "nearest", "antialias": False}),
    ("RandomCrop", (20,), {}),
    ("RandomCrop", ((47, 20),), {}),
    ("RandomCrop", ((47, 61),), {}),
    ("RandomCrop", (20,), {"padding": 4}),
    ("RandomCrop", (45,), {"padding": [3, 5]}),
    ("RandomCrop", ((50, 66),), {"padding": (1, 2, 5, 3), "fill": 9}),
    ("RandomCrop", (64,), {"pad_if_needed": True}),
    ("RandomCrop", (70,), {"pad_if_needed": True, "padding": 2, "padding_mode": "edge"}),
    ("RandomCrop", (50,), {"padding": 6, "padding_mode": "reflect"}),
    ("RandomCrop", (50,), {"padding": 6, "padding_mode": "symmetric"}),
    ("Pad", (3,), {}),
    ("Pad", ([3],), {"fill": 7}),
    ("Pad", ((3, 5),), {"padding_mode": "reflect"}),
    ("Pad", ([1, 2, 3, 4],), {"fill": 9}),
    ("Pad", ([1, 2, 3, 4],), {"padding_mode": "edge"}),
    ("Pad", (6,), {"padding_mode": "symmetric"}),
    ("RandomZoomOut", (), {"p": 1.0}),
    ("RandomZoomOut", (), {"fill": 9, "side_range": (1.5, 1.6), "p": 0.7}),
    ("RandomShortestSize", (20,), {}),
    ("RandomShortestSize", ([20, 30, 40],), {"max_size": 45, "interpolation": "bicubic"}),
    ("ScaleJitter", ((30, 40),), {}),
    ("ScaleJitter", ((60, 40),), {"scale_range": (0.5, 0.9), "antialias": False}),
    ("RandomResize", (20, 40), {}),
    ("RandomHorizontalFlip", (), {}),
    ("RandomHorizontalFlip", (1.0,), {}),
    ("RandomVerticalFlip", (), {"p": 0.5}),
]

AUGMENTING = [
    ("ColorJitter", (), {}),
    ("ColorJitter", (0.4,), {"contrast": (0.2, 1.9), "saturation": 1.5, "hue": 0.2}),
    ("ColorJitter", (), {"hue": (-0.5, 0.5), "brightness": 1.2}),
    ("Grayscale", (), {}),
    ("Grayscale", (3,), {}),
    ("RandomGrayscale", (), {"p": 0.7}),
    ("RandomPhotometricDistort", (), {}),
    ("RandomPhotometricDistort", ((0.3, 0.9), (0.2, 2.0), (0.1, 1.9), (-0.5, 0.5), 1.0), {}),
    ("RandomPerspective", (), {"p": 1.0}),
    ("RandomPerspective", (0.8, 0.7), {"interpolation": "nearest", "fill": 20}),
    ("RandomPerspective", (0.0,), {"p": 1.0}),
    ("GaussianNoise", (), {}),
    ("GaussianNoise", (0.2, 0.5), {"clip": False}),
    ("RandomRotation", (30,), {}),
    ("RandomRotation", ((20, 70), "bilinear"), {"expand": True, "fill": 9}),
    ("RandomRotation", (180,), {"center": (3, 9), "interpolation": "bilinear"}),
    ("RandomRotation", ((90, 90),), {"expand": True}),
    ("RandomRotation", ((180, 180),), {}),
    ("RandomRotation", ((90, 90), "bilinear"), {}),
    ("RandomAffine", (30,), {}),
    (
        "RandomAffine",
        ((-5, 60), (0.3, 0.1), (0.5, 1.6), (-9, 9, 4, 12)),
        {"interpolation": "bilinear", "fill": 30},
    ),
    ("RandomAffine", (0,), {"shear": 20, "center": [4.0, 5.0], "interpolation": 2, "fill": None}),
    ("GaussianBlur", (3,), {}),
    ("GaussianBlur", ([5, 9],), {"sigma": 1.5}),
    ("GaussianBlur", ([7],), {"sigma": (0.5, 3)}),
    ("RandomErasing", (), {}),
    ("RandomErasing", (1.0,), {"value": "random"}),
    ("RandomErasing", (1.0, (0.1, 0.9), (0.5, 2.0), 7), {}),
    ("RandomErasing", (), {"p": 1.0, "scale": (1.0, 1.0)}),
    ("RandAugment", (), {}),
    ("RandAugment", (5, 25), {"interpolation": "bilinear", "fill": 9}),
    ("RandAugment", (3, 4, 7), {"fill": (1, 2, 3)}),
    ("TrivialAugmentWide", (), {}),
    ("TrivialAugmentWide", (5, "bilinear", [7]), {}),
    ("RandomInvert", (), {}),
    ("RandomPosterize", (2,), {}),
    ("RandomSolarize", (0.5, 1.0), {}),
    ("RandomAdjustSharpness", (0,), {"p": 0.7}),
    ("RandomAdjustSharpness", (2.5, 1.0), {}),
    ("RandomAutocontrast", (), {}),
    ("RandomEqualize", (1.0,), {}),
]

WRONG = [
    ("Compose", (1,), {}),
    ("Compose", ([],), {}),
    ("Resize", ((1, 2, 3),), {}),
    ("Resize", (None,), {}),
    ("CenterCrop", ((1, 2, 3),), {}),
    ("RandomResizedCrop", ((1, 2, 3),), {}),
    ("RandomResizedCrop", (8,), {"scale": 0.5}),
    ("RandomResizedCrop", (8,), {"ratio": (1, 2, 3)}),
    ("RandomCrop", (8,), {"padding": (1, 2, 3)}),
    ("RandomCrop", (8,), {"padding": "2"}),
    ("RandomCrop", (8,), {"padding": 2, "padding_mode": "mirror"}),
    ("RandomCrop", (8,), {"fill": "red"}),
    ("Pad", ((1, 2, 3),), {}),
    ("Pad", ("2",), {}),
    ("Pad", (2,), {"padding_mode": "mirror"}),
    ("Pad", (2,), {"fill": "red"}),
    ("RandomZoomOut", (), {"side_range": 2.0}),
    ("RandomZoomOut", (), {"side_range": (0.5, 2.0)}),
    ("RandomZoomOut", (), {"side_range": (3.0, 2.0)}),
    ("RandomZoomOut", (), {"p": -1.0}),
    ("RandomPerspective", (1.5,), {}),
    ("RandomPerspective", (0.5, 2.0), {}),
    ("FiveCrop", ((1, 2, 3),), {}),
    ("TenCrop", ((1, 2, 3),), {}),
    ("RandomHorizontalFlip", (1.5,), {}),
    ("RandomVerticalFlip", (-0.1,), {}),
    ("ToDtype", ("float32",), {}),
    ("ColorJitter", (-0.1,), {}),
    ("ColorJitter", ("0.1",), {}),
    ("ColorJitter", ((0.5, 0.1),), {}),
    ("ColorJitter", (), {"contrast": (-0.5, 0.1)}),
    ("ColorJitter", (), {"hue": 0.6}),
    ("ColorJitter", (), {"hue": (0.1, 0.2, 0.3)}),
    ("RandomGrayscale", (1.5,), {}),
    ("RandomRotation", (-3,), {}),
    ("RandomRotation", ((1, 2, 3),), {}),
    ("RandomRotation", (3,), {"center": 5}),
    ("RandomRotation", (3,), {"center": (5,)}),
    ("RandomRotation", (3,), {"fill": "red"}),
    ("RandomAffine", (-3,), {}),
    ("RandomAffine", (3,), {"translate": (0.5, 1.5)}),
    ("RandomAffine", (3,), {"translate": 0.5}),
    ("RandomAffine", (3,), {"scale": (0, 1)}),
    ("RandomAffine", (3,), {"scale": (1, 2, 3)}),
    ("RandomAffine", (3,), {"shear": (1, 2, 3)}),
    ("RandomAffine", (3,), {"shear": -1}),
    ("RandomAffine", (3,), {"fill": "red"}),
    ("GaussianBlur", (4,), {}),
    ("GaussianBlur", ((3, 0),), {}),
    ("GaussianBlur", ((3, 3, 3),), {}),
    ("GaussianBlur", (3,), {"sigma": -1.0}),
    ("GaussianBlur", (3,), {"sigma": (2.0, 1.0)}),
    ("GaussianBlur", (3,), {"sigma": (1.0, 2.0, 3.0)}),
    ("GaussianBlur", (3,), {"sigma": "1"}),
    ("GaussianBlur", (3,), {"sigma": ("1", "2")}),
    ("RandAugment", (2.5,), {}),
    ("RandAugment", (-1,), {}),
    ("RandAugment", (), {"fill": "red"}),
    ("TrivialAugmentWide", (), {"fill": "red"}),
    ("AutoAugment", ("imagenet",), {}),
    ("RandomInvert", (1.5,), {}),
    ("RandomPosterize", (3, -0.5), {}),
    ("RandomChoice", (1,), {}),
    ("RandomChoice", ([],), {}),
    ("RandomChoice", ([abs], [1, 2]), {}),
    ("RandomOrder", (1,), {}),
    ("RandomOrder", ([],), {}),
    ("RandomErasing", (2.0,), {}),
    ("RandomErasing", (), {"value": "noise"}),
    ("RandomErasing", (), {"value": None}),
    ("RandomErasing", (), {"scale": 0.5}),
    ("RandomErasing", (), {"ratio": 0.5}),
    ("RandomErasing", (), {"scale": (0.5, 1.5)}),
]


def same(a, b):
    """Same kind, same pixels. torchvision's subclass of Tensor counts as a tensor."""
    if isinstance(b, Image.Image):
        return (
            isinstance(a, Image.Image)
            and a.mode == b.mode
            and a.size == b.size
            and a.tobytes() == b.tobytes()
        )
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b.as_subclass(torch.Tensor))


def outcome(transform, picture, seed):
    """The result, or the exception instead of it."""
    torch.manual_seed(seed)
    try:
        return transform(picture)
    except Exception as error:
        return error


def close(a, b):
    """Same kind; pixels apart by last bits: at most a level of bytes, but for a few pixels that are nearest
    to another one.
    """
    if isinstance(b, Image.Image):
        return isinstance(a, Image.Image) and a.mode == b.mode and close(np.asarray(a), np.asarray(b))
    if isinstance(b, torch.Tensor):
        return a.dtype == b.dtype and close(a.double().numpy(), b.as_subclass(torch.Tensor).double().numpy())
    step = 1 if np.abs(b.astype(float)).max() > 1.5 else 1e-3  # float16 has no more in it
    return a.shape == b.shape and (np.abs(a.astype(float) - b.astype(float)) > 1.01 * step).mean() < 5e-3


def lower_transform(transform: Any) -> tuple[list[dict[str, Any]], list[str]]:
    """(the only view's chain, the names of what is in it), as the engine takes it."""
    found = lowered(transform)
    (chain,) = found.chains
    return chain, found.names
