"""Resizing, cutting, padding and turning of pictures."""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Sequence
from typing import Any, Union

import numpy as np
import torch
from PIL import Image, ImageOps

from .interpolation import Interpolation, InterpolationMode, interpolation_mode, pillow_resampling
from .picture import P, by_torchvision, get_size, on_tensor

Fill = Union[int, float, Sequence[float], None]

PADDING_MODES = ("constant", "edge", "reflect", "symmetric")


# -- sizes


def resized_size(
    height: int, width: int, size: Sequence[int] | None, max_size: int | None
) -> tuple[int, int]:
    """The (height, width) that Resize(size, max_size=max_size) makes of a picture; fractions are cut off, as
    torchvision does.
    """
    if size is not None and len(size) == 2:
        if max_size is not None:
            raise ValueError(
                "max_size should only be passed if size is None or specifies the length of the smaller edge, "
                "i.e. size should be an int or a sequence of length 1 in torchscript mode."
            )
        return size[0], size[1]
    short, long = min(height, width), max(height, width)
    if size is None:
        if max_size is None:
            raise TypeError("a picture is resized to a size, or to a max_size; both are None")
        new_short, new_long = int(max_size * short / long), max_size
    else:
        new_short, new_long = size[0], int(size[0] * long / short)
        if max_size is not None:
            if max_size <= size[0]:
                raise ValueError(
                    f"max_size = {max_size} must be strictly greater than the requested "
                    f"size for the smaller edge size = {list(size)}"
                )
            if new_long > max_size:
                new_short, new_long = int(max_size * new_short / new_long), max_size
    return (new_long, new_short) if width <= height else (new_short, new_long)


def resize(
    picture: P,
    size: int | Sequence[int] | None,
    interpolation: Interpolation = InterpolationMode.BILINEAR,
    max_size: int | None = None,
    antialias: bool | None = True,
) -> P:
    """`picture` in the given (height, width), or with its shorter side `size` long."""
    mode = interpolation_mode(interpolation)
    height, width = get_size(picture)
    target = resized_size(height, width, [size] if isinstance(size, int) else size, max_size)
    if isinstance(picture, Image.Image):
        if antialias is False:
            warnings.warn(
                "Anti-alias option is always applied for PIL Image input. Argument antialias is ignored.",
                stacklevel=2,
            )
        return picture if target == (height, width) else picture.resize(target[::-1], pillow_resampling(mode))
    if target == (height, width):
        return picture
    return by_torchvision("resize", picture, size=list(target), interpolation=mode, antialias=antialias)


# -- cutting, padding, turning


def crop(picture: P, top: int, left: int, height: int, width: int) -> P:
    """The rectangle of `picture`; places outside of the picture are 0.

    Tensors and arrays come back as views where possible.
    """
    if isinstance(picture, Image.Image):
        return picture.crop((left, top, left + width, top + height))
    full_height, full_width = get_size(picture)
    bottom, right = top + height, left + width
    inside = (slice(max(top, 0), max(bottom, 0)), slice(max(left, 0), max(right, 0)))
    part = picture[(..., *inside)] if isinstance(picture, torch.Tensor) else picture[inside]
    borders = [min(max(-left, 0), width), min(max(-top, 0), height)]
    borders += [min(max(right - full_width, 0), width), min(max(bottom - full_height, 0), height)]
    return pad(part, borders) if any(borders) else part


def center_crop(picture: P, output_size: int | Sequence[int]) -> P:
    """The middle of `picture`; a picture that is too small gets a border of 0 first."""
    height, width = two_sides(output_size)
    full_height, full_width = get_size(picture)
    missing_y, missing_x = max(height - full_height, 0), max(width - full_width, 0)
    if missing_y or missing_x:
        picture = pad(picture, [missing_x // 2, missing_y // 2, (missing_x + 1) // 2, (missing_y + 1) // 2])
    # round() goes to the even neighbour, as torchvision's does.
    top, left = round((full_height + missing_y - height) / 2), round((full_width + missing_x - width) / 2)
    return picture if [height, width] == get_size(picture) else crop(picture, top, left, height, width)


def resized_crop(
    picture: P,
    top: int,
    left: int,
    height: int,
    width: int,
    size: int | Sequence[int],
    interpolation: Interpolation = InterpolationMode.BILINEAR,
    antialias: bool | None = True,
) -> P:
    """The rectangle of `picture`, resized."""
    return resize(crop(picture, top, left, height, width), size, interpolation, antialias=antialias)


def horizontal_flip(picture: P) -> P:
    """`picture` with left and right exchanged."""
    if isinstance(picture, Image.Image):
        return picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return on_tensor(lambda tensor: tensor.flip(-1), picture)


def vertical_flip(picture: P) -> P:
    """`picture` with top and bottom exchanged."""
    if isinstance(picture, Image.Image):
        return picture.transpose(Image.Transpose.FLIP_TOP_BOTTOM)
    return on_tensor(lambda tensor: tensor.flip(-2), picture)


_upside_down = vertical_flip  # an argument of ten_crop() has its name


def five_crop(picture: P, size: int | Sequence[int]) -> tuple[P, P, P, P, P]:
    """Crops of `size` (height, width): the corners top left, top right, bottom left and bottom right, and the
    middle.

    Raises:
        ValueError: if the picture is smaller than `size`.
    """
    height, width = two_sides(size)
    full_height, full_width = get_size(picture)
    if width > full_width or height > full_height:
        raise ValueError(
            f"Requested crop size {[height, width]} is bigger than input size {(full_height, full_width)}"
        )
    bottom, right = full_height - height, full_width - width
    places = ((0, 0), (0, right), (bottom, 0), (bottom, right))
    first, second, third, fourth = (crop(picture, top, left, height, width) for top, left in places)
    return first, second, third, fourth, center_crop(picture, [height, width])


def ten_crop(picture: P, size: int | Sequence[int], vertical_flip: bool = False) -> tuple[P, ...]:
    """five_crop() of `picture`, and then of the picture with left and right exchanged, or top and bottom."""
    turned = _upside_down(picture) if vertical_flip else horizontal_flip(picture)
    return (*five_crop(picture, size), *five_crop(turned, size))


def pad(picture: P, padding: int | Sequence[int], fill: Fill = 0, padding_mode: str = "constant") -> P:
    """`picture` with a border.

    Args:
        padding: the border's width: one number for all sides, [x, y], or [left, top, right, bottom].
        fill: the border's colour in mode "constant": a number, or one per channel.
        padding_mode: "constant", or a mode that repeats the inside: "edge" the last pixel, "reflect" the
            picture mirrored at that pixel, "symmetric" mirrored past that pixel.
    """
    left, right, top, bottom = four_borders(padding)
    mode: Any = padding_mode  # one of numpy's literals
    if padding_mode not in PADDING_MODES:
        raise ValueError("Padding mode should be either constant, edge, reflect or symmetric")
    if isinstance(picture, Image.Image):
        if padding_mode == "constant":
            return ImageOps.expand(
                picture, border=(left, top, right, bottom), fill=pillow_fill(picture, fill)
            )
        pixels = np.asarray(picture)
        widths = [(top, bottom), (left, right)] + [(0, 0)] * (pixels.ndim - 2)
        padded = Image.fromarray(np.pad(pixels, widths, mode=mode))
        palette = picture.getpalette()
        if picture.mode == "P" and palette is not None:
            padded.putpalette(palette)
        return padded
    if padding_mode == "constant":
        values = [fill or 0] if fill is None or isinstance(fill, (int, float)) else list(fill)
        if len(values) > 1:
            return by_torchvision("pad", picture, padding=[left, top, right, bottom], fill=values)
        value, borders = float(values[0]), [left, right, top, bottom]
        return on_tensor(lambda tensor: torch.nn.functional.pad(tensor, borders, value=value), picture)
    if not (fill is None or isinstance(fill, (int, float)) or len(fill) == 1):
        raise ValueError(f"Padding mode '{padding_mode}' is not supported if fill is not scalar")
    # Rows and columns are picked by number: exact for every dtype, and numpy knows what the modes mean.
    height, width = get_size(picture)
    rows = torch.from_numpy(np.pad(np.arange(height), (top, bottom), mode=mode))
    columns = torch.from_numpy(np.pad(np.arange(width), (left, right), mode=mode))
    return on_tensor(
        lambda tensor: tensor[..., rows[:, None].to(tensor.device), columns.to(tensor.device)], picture
    )


def pillow_fill(image: Image.Image, fill: Fill) -> Any:
    """`fill` as the colour that Pillow takes for an image of this mode."""
    channels = len(image.getbands())
    values = [0] if fill is None else [fill] if isinstance(fill, (int, float)) else list(fill)
    if len(values) == 1:
        values *= channels
    if len(values) != channels:
        raise ValueError(
            "The number of elements in 'fill' does not match the number of channels of the image"
            f" ({len(values)} != {channels})"
        )
    if image.mode != "F":
        values = [int(value) for value in values]
    return values[0] if channels == 1 else tuple(values)


# -- arguments


def two_sides(size: int | Sequence[int]) -> Sequence[int]:
    """(height, width) from a number, [number] or a pair, which is kept as it is. ValueError in torchvision's
    words.
    """
    given: Any = size
    if isinstance(given, numbers.Number):
        return int(given), int(given)  # type: ignore[call-overload]
    if len(given) == 1:
        return given[0], given[0]
    if len(given) != 2:
        raise ValueError("Please provide only two dimensions (h, w) for size.")
    return given


def four_borders(padding: int | Sequence[int]) -> list[int]:
    """[left, right, top, bottom], the order torch pads in, from an int, [int], [x, y] or [left, top, right,
    bottom].
    """
    sides = (
        [padding] if isinstance(padding, int) else list(padding) if isinstance(padding, (tuple, list)) else []
    )
    if len(sides) not in (1, 2, 4) or not all(isinstance(side, int) for side in sides):
        raise ValueError(f"Padding must be an int or a 1, 2, or 4 element of tuple or list, got {padding}.")
    left, top, right, bottom = sides if len(sides) == 4 else sides * (4 // len(sides))
    return [left, right, top, bottom]
