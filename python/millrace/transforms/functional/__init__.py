"""The arithmetic behind the transforms, as functions with torchvision's names and arguments.

A picture is one of three things, and comes back as the same thing unless a function says otherwise:

- a PIL image: worked on by Pillow itself;
- a tensor of shape (..., C, H, W): worked on by torch, leading dimensions are batches;
- a numpy array of shape (H, W, C) or (H, W): worked on as the tensor it would become.

Boxes are (top, left, height, width) in pixels, sizes (height, width), borders [left, top, right, bottom].
"""

from .geometry import center_crop, crop, horizontal_flip, pad, resize, resized_crop, vertical_flip
from .interpolation import InterpolationMode
from .picture import get_dimensions, get_size
from .values import convert_image_dtype, normalize, pil_to_tensor, to_dtype, to_image, to_tensor

__all__ = [
    "InterpolationMode",
    "center_crop",
    "convert_image_dtype",
    "crop",
    "get_dimensions",
    "get_size",
    "horizontal_flip",
    "normalize",
    "pad",
    "pil_to_tensor",
    "resize",
    "resized_crop",
    "to_dtype",
    "to_image",
    "to_tensor",
    "vertical_flip",
]
