"""The arithmetic of the transforms, as functions with torchvision's names and arguments.

A picture is one of three things, and comes back as the same thing unless a function says otherwise:

- a PIL image: worked on by Pillow itself;
- a tensor of shape (..., C, H, W): worked on by torch, and where that is no single call (resizing, colours,
  rotation and other maps, most changes of dtype) by torchvision; leading dimensions are batches;
- a numpy array of shape (H, W, C) or (H, W): worked on as the tensor it would become.

Boxes are (top, left, height, width) in pixels, sizes (height, width), borders [left, top, right, bottom].
"""

from . import color
from .color import *
from .geometry import (
    center_crop,
    crop,
    five_crop,
    horizontal_flip,
    pad,
    resize,
    resized_crop,
    ten_crop,
    vertical_flip,
)
from .interpolation import InterpolationMode
from .neighbours import erase, gaussian_blur, gaussian_noise
from .picture import get_dimensions, get_size
from .values import convert_image_dtype, normalize, pil_to_tensor, to_dtype, to_image, to_tensor
from .warp import affine, perspective, rotate

__all__ = [
    *color.__all__,
    "InterpolationMode",
    "affine",
    "center_crop",
    "convert_image_dtype",
    "crop",
    "erase",
    "five_crop",
    "gaussian_blur",
    "gaussian_noise",
    "get_dimensions",
    "get_size",
    "horizontal_flip",
    "normalize",
    "pad",
    "perspective",
    "pil_to_tensor",
    "resize",
    "resized_crop",
    "rotate",
    "ten_crop",
    "to_dtype",
    "to_image",
    "to_tensor",
    "vertical_flip",
]
