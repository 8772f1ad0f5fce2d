"""Image transforms with the names, arguments and results of torchvision's v2, without needing torchvision.

Each works alone on PIL images, tensors (..., C, H, W) and numpy arrays (H, W, C), drawing from torch's global
generator. Of tensors and arrays, resizing, colours and maps are torchvision's own functions, which have to be
installed for that; PIL images, and everything in the engine, need nothing more. Inside a
`millrace.DataLoader` the same objects describe what the engine does natively; there every random decision is
a function of (seed, epoch, index, occurrence) instead.
"""

from . import batch, functional
from .base import Compose, RandomApply, Transform
from .color import ColorJitter, Grayscale, RandomGrayscale
from .functional import InterpolationMode
from .geometry import (
    CenterCrop,
    RandomCrop,
    RandomHorizontalFlip,
    RandomResizedCrop,
    RandomVerticalFlip,
    Resize,
)
from .neighbours import GaussianBlur, RandomErasing
from .values import ConvertImageDtype, Normalize, PILToTensor, ToDtype, ToImage, ToTensor
from .warp import RandomAffine, RandomRotation

__all__ = [
    "CenterCrop",
    "ColorJitter",
    "Compose",
    "ConvertImageDtype",
    "GaussianBlur",
    "Grayscale",
    "InterpolationMode",
    "Normalize",
    "PILToTensor",
    "RandomAffine",
    "RandomApply",
    "RandomCrop",
    "RandomErasing",
    "RandomGrayscale",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "RandomRotation",
    "RandomVerticalFlip",
    "Resize",
    "ToDtype",
    "ToImage",
    "ToTensor",
    "Transform",
    "batch",
    "functional",
]
