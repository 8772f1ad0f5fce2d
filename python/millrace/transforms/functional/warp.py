"""Rotation and affine maps.

PIL images are mapped by Pillow (nearest, bilinear, bicubic), tensors and arrays by torch's grid_sample
(nearest, bilinear). A matrix is six numbers that map the centre (x, y) of an output pixel to a place in the
input, both in pixels from the upper left corner.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from PIL import Image

from .geometry import Fill, pillow_fill
from .interpolation import Interpolation, InterpolationMode, interpolation_mode, pillow_resampling
from .picture import P, get_size, on_tensor

Matrix = tuple[float, float, float, float, float, float]


def rotate(
    picture: P,
    angle: float,
    interpolation: Interpolation = InterpolationMode.NEAREST,
    expand: bool = False,
    center: Sequence[float] | None = None,
    fill: Fill = None,
) -> P:
    """Turned counter-clockwise by `angle` degrees around `center` (x, y), which is the middle if not given.

    With `expand` the result is as large as needed to show all of a picture that turns around its middle.
    """
    mode = interpolation_mode(interpolation)
    if isinstance(picture, Image.Image):
        center = None if center is None else tuple(center)
        return picture.rotate(
            angle, pillow_resampling(mode), expand, center, fillcolor=pillow_fill(picture, fill)
        )
    angle %= 360
    height, width = get_size(picture)
    if center is None and (angle in (0, 180) or (angle in (90, 270) and (expand or height == width))):
        return on_tensor(lambda image: torch.rot90(image, int(angle) // 90, (-2, -1)), picture)
    matrix = affine_matrix(width, height, -angle, (0, 0), 1.0, (0.0, 0.0), center)
    size = (height, width)
    if expand:
        size, matrix = _expanded(matrix, width, height)
    return on_tensor(lambda image: _map_tensor(image, matrix, size, mode, fill), picture)


def affine(
    picture: P,
    angle: float,
    translate: Sequence[float],
    scale: float,
    shear: Sequence[float],
    interpolation: Interpolation = InterpolationMode.NEAREST,
    fill: Fill = None,
    center: Sequence[float] | None = None,
) -> P:
    """Turned clockwise by `angle` degrees, scaled, sheared by `shear` (x, y) degrees and moved by `translate`
    (x, y) pixels.
    """
    mode = interpolation_mode(interpolation)
    if scale <= 0:
        raise ValueError("Argument scale should be positive")
    height, width = get_size(picture)
    matrix = affine_matrix(width, height, angle, translate, scale, shear, center)
    if isinstance(picture, Image.Image):
        fill = pillow_fill(picture, fill)
        return picture.transform(
            picture.size, Image.Transform.AFFINE, matrix, pillow_resampling(mode), fillcolor=fill
        )
    return on_tensor(lambda image: _map_tensor(image, matrix, (height, width), mode, fill), picture)


def affine_matrix(
    width: int,
    height: int,
    angle: float,
    translate: Sequence[float],
    scale: float,
    shear: Sequence[float],
    center: Sequence[float] | None,
) -> Matrix:
    """The matrix of affine()."""
    turn, shear_x, shear_y = (math.radians(degrees) for degrees in (angle, *shear))
    a, c = math.cos(turn - shear_y) / math.cos(shear_y), math.sin(turn - shear_y) / math.cos(shear_y)
    b, d = -(a * math.tan(shear_x) + math.sin(turn)), math.cos(turn) - c * math.tan(shear_x)
    # [[a, b], [c, d]] turns and shears without changing areas, so its inverse is this:
    xx, xy, yx, yy = d / scale, -b / scale, -c / scale, a / scale
    x, y = (width * 0.5, height * 0.5) if center is None else center
    moved_x, moved_y = x + translate[0], y + translate[1]
    return xx, xy, x - xx * moved_x - xy * moved_y, yx, yy, y - yx * moved_x - yy * moved_y


def _expanded(matrix: Matrix, width: int, height: int) -> tuple[tuple[int, int], Matrix]:
    """((height, width), matrix) that show all of a picture that turns around its middle."""
    a, b, c, d, e, f = matrix
    # How far the four corners are from the middle, with some tolerance for what should be whole.
    reach_x, reach_y = (abs(p) * width / 2 + abs(q) * height / 2 for p, q in ((a, b), (d, e)))

    def length(side: int, reach: float) -> int:
        low, high = side / 2 - reach, side / 2 + reach
        return math.ceil(math.trunc(high * 1e4) / 1e4) - math.floor(math.trunc(low * 1e4) / 1e4)

    new_width, new_height = length(width, reach_x), length(height, reach_y)
    x, y = (width - new_width) / 2, (height - new_height) / 2
    return (new_height, new_width), (a, b, a * x + b * y + c, d, e, d * x + e * y + f)


def _map_tensor(
    image: torch.Tensor, matrix: Matrix, size: tuple[int, int], mode: InterpolationMode, fill: Fill
) -> torch.Tensor:
    channels, height, width = image.shape[-3:]
    if mode not in (InterpolationMode.NEAREST, InterpolationMode.BILINEAR):
        raise ValueError(f"Interpolation mode '{mode.value}' is unsupported with Tensor input")
    fills = None if fill is None else [fill] if isinstance(fill, (int, float)) else list(fill)
    if fills is not None and len(fills) not in (1, channels):
        raise ValueError(
            "The number of elements in 'fill' cannot broadcast to match the number of "
            f"channels of the image ({len(fills)} != {channels})"
        )
    shape = (*image.shape[:-2], *size)
    if image.numel() == 0:
        return image.reshape(shape)
    exact = image.is_floating_point()
    pixels = image.reshape(-1, channels, height, width).to(image.dtype if exact else torch.float32)
    a, b, c, d, e, f = matrix
    xs, ys = (torch.arange(n, dtype=torch.float64, device=image.device).add_(0.5) for n in reversed(size))
    x = a * xs + (b * ys + c)[:, None]
    y = d * xs + (e * ys + f)[:, None]
    # grid_sample's coordinates run from -1 to 1 between the picture's outer edges.
    grid = torch.stack([x * (2 / width) - 1, y * (2 / height) - 1], dim=-1).to(pixels.dtype)
    grid = grid.expand(len(pixels), *grid.shape)
    if fills is not None:  # one more channel tells how much of a pixel lies inside
        pixels = torch.cat([pixels, pixels.new_ones(len(pixels), 1, height, width)], dim=1)
    mapped = torch.nn.functional.grid_sample(
        pixels, grid, mode=mode.value, padding_mode="zeros", align_corners=False
    )
    if fills is not None:
        mapped, inside = mapped[:, :-1], mapped[:, -1:]
        colour = torch.tensor(fills, dtype=mapped.dtype, device=mapped.device).reshape(1, -1, 1, 1)
        mapped = (
            torch.where(inside < 0.5, colour, mapped)
            if mode is InterpolationMode.NEAREST
            else (mapped - colour) * inside + colour
        )
    return (mapped if exact else mapped.round()).to(image.dtype).reshape(shape)
