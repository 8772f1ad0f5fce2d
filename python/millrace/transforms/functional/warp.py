"""Rotation, affine maps and perspective: of PIL images by Pillow (nearest, bilinear, bicubic), of tensors
and arrays by torchvision (nearest, bilinear).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from PIL import Image

from .geometry import Fill, pillow_fill
from .interpolation import Interpolation, InterpolationMode, interpolation_mode, pillow_resampling
from .picture import P, by_torchvision

Matrix = tuple[float, float, float, float, float, float]


def rotate(
    picture: P,
    angle: float,
    interpolation: Interpolation = InterpolationMode.NEAREST,
    expand: bool = False,
    center: Sequence[float] | None = None,
    fill: Fill = None,
) -> P:
    """Turn the picture counter-clockwise by `angle` degrees around `center`.

    Args:
        angle: in degrees, counter-clockwise.
        expand: make the result as large as needed to show all of a picture that turns around its middle.
        center: (x, y); the middle if not given.
    """
    mode = interpolation_mode(interpolation)
    if isinstance(picture, Image.Image):
        middle: Any = None if center is None else tuple(center)
        return picture.rotate(
            angle, pillow_resampling(mode), expand, middle, fillcolor=pillow_fill(picture, fill)
        )
    return by_torchvision(
        "rotate",
        picture,
        angle=angle,
        interpolation=mode,
        expand=expand,
        center=center,
        fill=fill,
    )


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
    """Turn the picture clockwise, scale, shear and move it.

    Args:
        angle: of the turn, in degrees, clockwise.
        translate: of the move, (x, y) in pixels.
        scale: the factor by which the picture is scaled.
        shear: (x, y) in degrees.
    """
    mode = interpolation_mode(interpolation)
    if scale <= 0:
        raise ValueError("Argument scale should be positive")
    if isinstance(picture, Image.Image):
        matrix = affine_matrix(*picture.size, angle, translate, scale, shear, center)
        colour = pillow_fill(picture, fill)
        return picture.transform(
            picture.size, Image.Transform.AFFINE, matrix, pillow_resampling(mode), fillcolor=colour
        )
    return by_torchvision(
        "affine",
        picture,
        angle=angle,
        translate=list(translate),
        scale=scale,
        shear=list(shear),
        interpolation=mode,
        fill=fill,
        center=center,
    )


def perspective(
    picture: P,
    startpoints: Sequence[Sequence[int]] | None,
    endpoints: Sequence[Sequence[int]] | None,
    interpolation: Interpolation = InterpolationMode.BILINEAR,
    fill: Fill = None,
    coefficients: Sequence[float] | None = None,
) -> P:
    """Move four points (x, y) of the picture to four others, and everything else with them.

    Args:
        startpoints, endpoints: the four points, and the four others.
        coefficients: in place of the points: eight numbers a to h, with which the centre (x, y) of a pixel
            shows the place (a x + b y + c, d x + e y + f) / (g x + h y + 1).
    """
    mode = interpolation_mode(interpolation)
    if coefficients is None:
        if startpoints is None or endpoints is None:
            raise ValueError(
                "Either the startpoints/endpoints or the coefficients must have non `None` values."
            )
        coefficients = perspective_coefficients(startpoints, endpoints)
    elif startpoints is not None and endpoints is not None:
        raise ValueError("The startpoints/endpoints and the coefficients shouldn't be defined concurrently.")
    if len(coefficients) != 8:
        raise ValueError("Argument coefficients should have 8 float values")
    if isinstance(picture, Image.Image):
        return picture.transform(
            picture.size,
            Image.Transform.PERSPECTIVE,
            coefficients,
            pillow_resampling(mode),
            fillcolor=pillow_fill(picture, fill),
        )
    return by_torchvision(
        "perspective",
        picture,
        startpoints=None,
        endpoints=None,
        interpolation=mode,
        fill=fill,
        coefficients=list(coefficients),
    )


def perspective_coefficients(
    startpoints: Sequence[Sequence[int]], endpoints: Sequence[Sequence[int]]
) -> list[float]:
    """perspective()'s eight numbers, by least squares in float64, then rounded to float32, as torchvision has
    them. torch's LinAlgError where three points lie on a line.
    """
    if len(startpoints) != 4 or len(endpoints) != 4:
        raise ValueError(
            f"Please provide exactly four corners, got {len(startpoints)} startpoints and"
            f" {len(endpoints)} endpoints."
        )
    rows = []
    for (x, y), (to_x, to_y) in zip(endpoints, startpoints):
        rows.append([x, y, 1, 0, 0, 0, -to_x * x, -to_x * y])
        rows.append([0, 0, 0, x, y, 1, -to_y * x, -to_y * y])
    equations = torch.tensor(rows, dtype=torch.float64)
    wanted = torch.tensor([list(point) for point in startpoints], dtype=torch.float64).reshape(8)
    solved = torch.linalg.lstsq(equations, wanted, driver="gels").solution
    return solved.to(torch.float32).tolist()


def affine_matrix(
    width: int,
    height: int,
    angle: float,
    translate: Sequence[float],
    scale: float,
    shear: Sequence[float],
    center: Sequence[float] | None,
) -> Matrix:
    """Six numbers that map the centre (x, y) of an output pixel to a place in the input, both in pixels from
    the upper left corner.
    """
    turn, shear_x, shear_y = (math.radians(degrees) for degrees in (angle, *shear))
    a, c = math.cos(turn - shear_y) / math.cos(shear_y), math.sin(turn - shear_y) / math.cos(shear_y)
    b, d = -(a * math.tan(shear_x) + math.sin(turn)), math.cos(turn) - c * math.tan(shear_x)
    # [[a, b], [c, d]] turns and shears without changing areas, so its inverse is this:
    xx, xy, yx, yy = d / scale, -b / scale, -c / scale, a / scale
    x, y = (width * 0.5, height * 0.5) if center is None else center
    moved_x, moved_y = x + translate[0], y + translate[1]
    return xx, xy, x - xx * moved_x - xy * moved_y, yx, yy, y - yx * moved_x - yy * moved_y
