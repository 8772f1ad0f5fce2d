"""Image transforms with the names, arguments and results of torchvision's v2, without needing torchvision.

Each works alone on PIL images, tensors (..., C, H, W) and numpy arrays (H, W, C), drawing from torch's global generator. Inside a
`millrace.DataLoader` the same objects describe what the engine does natively; there every random decision is a function of
(seed, epoch, index, occurrence) instead.
"""

from . import batch, functional
from .base import Compose, Transform
from .functional import InterpolationMode
from .geometry import CenterCrop, RandomCrop, RandomHorizontalFlip, RandomResizedCrop, RandomVerticalFlip, Resize
from .values import ConvertImageDtype, Normalize, PILToTensor, ToDtype, ToImage, ToTensor

__all__ = [
    "CenterCrop",
    "Compose",
    "ConvertImageDtype",
    "InterpolationMode",
    "Normalize",
    "PILToTensor",
    "RandomCrop",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "RandomVerticalFlip",
    "Resize",
    "ToDtype",
    "ToImage",
    "ToTensor",
    "Transform",
    "batch",
    "functional",
]
