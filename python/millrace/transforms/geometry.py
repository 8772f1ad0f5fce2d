"""Transforms that change where pixels are: Resize, crops, flips."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Union

import torch

from . import functional as F
from .arguments import Fills, check_fill, fill_for
from .base import RandomApplyTransform, Transform, drawn_sides
from .batch_size import RandomBatchSize, size_now
from .functional.geometry import PADDING_MODES, four_borders, two_sides
from .functional.interpolation import Interpolation, interpolation_mode
from .functional.picture import Picture

Size = Union[int, Sequence[int], RandomBatchSize]


def crop_size(size: Size) -> Sequence[int] | RandomBatchSize:
    """As transforms that crop keep it."""
    return size if isinstance(size, RandomBatchSize) else two_sides(size)


class Resize(Transform):
    """Resize to `size`.

    Args:
        size: (height, width), or an int for the shorter side.
        interpolation: "nearest", "bilinear" or "bicubic".
        max_size: the limit of the longer side, for int sizes only; with size=None it is that side itself.
        antialias: concerns tensors and arrays; Pillow always smooths when it shrinks, and so does the engine.
    """

    def __init__(
        self,
        size: Size | None,
        interpolation: Interpolation = "bilinear",
        max_size: int | None = None,
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        if size is None:
            if not isinstance(max_size, int):
                raise ValueError(
                    f"max_size must be an integer when size is None, but got {max_size} instead."
                )
        elif isinstance(size, int):
            size = [size]
        elif isinstance(size, Sequence) and len(size) in (1, 2):
            size = list(size)
        elif not isinstance(size, RandomBatchSize):
            raise ValueError(
                f"size can be an integer, a sequence of one or two integers, or None, but got {size} instead."
            )
        interpolation_mode(interpolation)
        self.size = size
        self.interpolation = interpolation
        self.max_size = max_size
        self.antialias = antialias

    def transform(self, inpt: Picture, params: dict[str, Any]) -> Picture:
        return F.resize(inpt, size_now(self.size), self.interpolation, self.max_size, self.antialias)


class CenterCrop(Transform):
    """Cut out the middle, `size` large; a picture that is too small gets a border of 0 first."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.size = crop_size(size)

    def transform(self, inpt: Picture, params: dict[str, Any]) -> Picture:
        return F.center_crop(inpt, size_now(self.size))


class RandomResizedCrop(Transform):
    """Cut out a rectangle of random area and shape, and resize it to `size`.

    After ten draws that do not fit, the largest centred rectangle within `ratio` is taken.

    Args:
        scale: bounds of the rectangle's area, as a share of the picture's.
        ratio: bounds of the rectangle's width / height.
        interpolation, antialias: see `Resize`.
    """

    def __init__(
        self,
        size: Size,
        scale: tuple[float, float] = (0.08, 1.0),
        ratio: tuple[float, float] = (3.0 / 4.0, 4.0 / 3.0),
        interpolation: Interpolation = "bilinear",
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        self.size = crop_size(size)
        if not isinstance(scale, Sequence) or len(scale) != 2:
            raise TypeError("Scale should be a sequence of two floats.")
        if not isinstance(ratio, Sequence) or len(ratio) != 2:
            raise TypeError("Ratio should be a sequence of two floats.")
        if scale[0] > scale[1] or ratio[0] > ratio[1]:
            warnings.warn("Scale and ratio should be of kind (min, max)", stacklevel=2)
        interpolation_mode(interpolation)
        self.scale = scale
        self.ratio = ratio
        self.interpolation = interpolation
        self.antialias = antialias

    @staticmethod
    def get_params(img: Picture, scale: Sequence[float], ratio: Sequence[float]) -> tuple[int, int, int, int]:
        """A random (top, left, height, width) for `img`."""
        height, width = F.get_size(img)
        for w, h in drawn_sides(height * width, scale, ratio):
            if 0 < w <= width and 0 < h <= height:
                top = int(torch.randint(0, height - h + 1, size=(1,)))
                left = int(torch.randint(0, width - w + 1, size=(1,)))
                return top, left, h, w
        h, w = height, width
        if width / height < min(ratio):
            h = round(width / min(ratio))
        elif width / height > max(ratio):
            w = round(height * max(ratio))
        return (height - h) // 2, (width - w) // 2, h, w

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        box = self.get_params(flat_inputs[0], self.scale, self.ratio)
        return dict(zip(("top", "left", "height", "width"), box))

    def transform(self, inpt: Picture, params: dict[str, Any]) -> Picture:
        return F.resized_crop(
            inpt,
            **params,
            size=two_sides(size_now(self.size)),
            interpolation=self.interpolation,
            antialias=self.antialias,
        )


class RandomCrop(Transform):
    """Cut out a rectangle of `size` at a random place, after putting a border around the picture if asked.

    Args:
        padding: an int, [x, y] or [left, top, right, bottom]; kept as [left, right, top, bottom], as
            torchvision's v2 keeps it.
        pad_if_needed: widen a picture that is too small, on both sides.
        fill: see `functional.pad`; may also be a dict from picture type to fill, with "others" for the rest.
        padding_mode: see `functional.pad`.
    """

    def __init__(
        self,
        size: Size,
        padding: int | Sequence[int] | None = None,
        pad_if_needed: bool = False,
        fill: Fills = 0,
        padding_mode: str = "constant",
    ) -> None:
        super().__init__()
        self.size = crop_size(size)
        if padding_mode not in PADDING_MODES:
            raise ValueError("Padding mode should be either constant, edge, reflect or symmetric")
        check_fill(fill)
        borders = None if padding is None else four_borders(padding)
        self.padding = borders if padding else None
        self.pad_if_needed = pad_if_needed
        self.fill = fill
        self.padding_mode = padding_mode

    @staticmethod
    def get_params(img: Picture, output_size: tuple[int, int]) -> tuple[int, int, int, int]:
        """A random (top, left, height, width) inside `img`."""
        (height, width), (h, w) = F.get_size(img), output_size
        if height < h or width < w:
            raise ValueError(f"Required crop size {(h, w)} is larger than input image size {(height, width)}")
        if (height, width) == (h, w):
            return 0, 0, h, w
        top = int(torch.randint(0, height - h + 1, size=(1,)))
        left = int(torch.randint(0, width - w + 1, size=(1,)))
        return top, left, h, w

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        height, width = F.get_size(flat_inputs[0])
        h, w = two_sides(size_now(self.size))
        left, right, top, bottom = self.padding or (0, 0, 0, 0)
        if self.pad_if_needed:
            short_y, short_x = max(h - height - top - bottom, 0), max(w - width - left - right, 0)
            left, right, top, bottom = left + short_x, right + short_x, top + short_y, bottom + short_y
        height, width = height + top + bottom, width + left + right
        if height < h or width < w:
            padded = "padded " if self.padding is not None else ""
            raise ValueError(
                f"Required crop size {(h, w)} is larger than {padded}input image size {(height, width)}."
            )
        # A side that leaves no choice draws nothing: torchvision's v2 keeps the generator still there.
        y = int(torch.randint(0, height - h + 1, size=())) if height > h else 0
        x = int(torch.randint(0, width - w + 1, size=())) if width > w else 0
        return {"padding": [left, top, right, bottom], "top": y, "left": x, "height": h, "width": w}

    def transform(self, inpt: Picture, params: dict[str, Any]) -> Picture:
        box = dict(params)
        padding = box.pop("padding")
        if any(padding):
            inpt = F.pad(inpt, padding, fill_for(self.fill, inpt), self.padding_mode)
        size = list(two_sides(size_now(self.size)))
        return F.crop(inpt, **box) if F.get_size(inpt) != size else inpt


class RandomHorizontalFlip(RandomApplyTransform):
    """Exchange left and right with probability `p`."""

    def transform(self, inpt: Picture, params: dict[str, Any]) -> Picture:
        return F.horizontal_flip(inpt)


class RandomVerticalFlip(RandomApplyTransform):
    """Exchange top and bottom with probability `p`."""

    def transform(self, inpt: Picture, params: dict[str, Any]) -> Picture:
        return F.vertical_flip(inpt)
