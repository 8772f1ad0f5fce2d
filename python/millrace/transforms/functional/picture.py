"""What a picture is: a PIL image, a tensor (..., C, H, W), or a numpy array (H, W, C) or (H, W)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, Union

import numpy as np
import torch
from PIL import Image

from ...errors import UnavailableError

Picture = Union[Image.Image, np.ndarray, torch.Tensor]
P = TypeVar("P", bound=Picture)


def get_dimensions(picture: Picture) -> list[int]:
    """[channels, height, width] of `picture`.

    Raises:
        TypeError: if `picture` is no picture.
    """
    if isinstance(picture, Image.Image):
        return [len(picture.getbands()), picture.height, picture.width]
    if isinstance(picture, torch.Tensor) and picture.ndim >= 2:
        return [picture.shape[-3] if picture.ndim > 2 else 1, picture.shape[-2], picture.shape[-1]]
    if isinstance(picture, np.ndarray) and picture.ndim in (2, 3):
        return [picture.shape[2] if picture.ndim == 3 else 1, picture.shape[0], picture.shape[1]]
    shape = f" of shape {tuple(picture.shape)}" if isinstance(picture, (torch.Tensor, np.ndarray)) else ""
    raise TypeError(
        f"Unexpected type {type(picture)}{shape}: a picture is a PIL image, a tensor (..., C, H, W) or a"
        " numpy array (H, W, C)"
    )


def get_size(picture: Picture) -> list[int]:
    """[height, width] of `picture`."""
    return get_dimensions(picture)[1:]


def array_to_tensor(array: np.ndarray) -> torch.Tensor:
    """A (C, H, W) copy of an array (H, W, C) or (H, W)."""
    get_dimensions(array)
    # A copy always: torch warns about arrays that may not be written to, which is what Pillow hands out.
    return torch.from_numpy(np.array(np.atleast_3d(array).transpose(2, 0, 1), order="C", copy=True))


def on_tensor(kernel: Callable[[torch.Tensor], torch.Tensor], picture: np.ndarray | torch.Tensor) -> Any:
    """Runs `kernel` on a tensor, or on an array as a tensor (C, H, W) that is turned back afterwards."""
    if isinstance(picture, torch.Tensor):
        return kernel(picture)
    result = kernel(array_to_tensor(picture)).permute(1, 2, 0).contiguous().numpy()
    return result[..., 0] if picture.ndim == 2 else result


def by_library(name: str, picture: P, pillows: Callable[..., Image.Image], **arguments: Any) -> Any:
    """What `pillows` makes of a PIL image and these arguments, or torchvision's function of this name of
    another picture.
    """
    if isinstance(picture, Image.Image):
        return pillows(picture, *arguments.values())
    return by_torchvision(name, picture, **arguments)


def enhancing(enhancer: Callable[..., Any]) -> Callable[[Image.Image, float], Image.Image]:
    """`enhancer`: one of Pillow's classes in ImageEnhance."""
    return lambda image, factor: enhancer(image).enhance(factor)


def by_torchvision(name: str, picture: np.ndarray | torch.Tensor, **arguments: Any) -> Any:
    """What torchvision's v2 function of this name makes of a tensor, or of an array as a tensor."""
    try:
        from torchvision.transforms.v2 import functional
    except ImportError as error:
        raise UnavailableError(
            f"{name} of a tensor or an array is torchvision's: pip install torchvision; of a PIL image it"
            " needs nothing more"
        ) from error
    if "interpolation" in arguments:  # of torchvision's own class, which has the same values
        arguments["interpolation"] = functional.InterpolationMode(arguments["interpolation"].value)
    kernel = getattr(functional, name)
    return on_tensor(lambda tensor: kernel(tensor, **arguments), picture)
