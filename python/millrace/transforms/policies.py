"""Augmentation policies: RandAugment, AutoAugment, TrivialAugmentWide.

A subclass may have another table, `_AUGMENTATION_SPACE`, as torchvision's v2 names it: by the name of each
operation (a function of (bins, height, width) that gives the magnitudes as a tensor, or None where there are
none; whether a magnitude's sign is drawn). The engine runs such subclasses, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import Enum
from typing import Any, ClassVar

import numpy as np
import torch
from PIL import Image

from . import functional as F
from .arguments import Fills, check_fill, fill_for
from .base import Transform
from .functional.interpolation import Interpolation, interpolation_mode
from .functional.picture import Picture

_Magnitudes = Callable[[int, int, int], "torch.Tensor | None"]
_Table = dict[str, tuple[_Magnitudes, bool]]

_Policy = tuple[tuple[str, float, "int | None"], ...]  # (operation, probability, index of its magnitude), ...

_BINS = 10  # of AutoAugment's magnitudes


class AutoAugmentPolicy(Enum):
    """The data set for which a policy was found."""

    IMAGENET = "imagenet"
    CIFAR10 = "cifar10"
    SVHN = "svhn"


def _none(bins: int, height: int, width: int) -> None:
    return None


def _up_to(most: float) -> _Magnitudes:
    return lambda bins, height, width: torch.linspace(0.0, most, bins)


def _of_side(side: int) -> _Magnitudes:
    """Up to 150 pixels of pictures of 331; `side`: 0 for the height, 1 for the width."""
    return lambda bins, *size: torch.linspace(0.0, 150.0 / 331.0 * size[side], bins)


def _bits(fewer: int) -> _Magnitudes:
    """From 8 bits to `fewer` less."""
    return lambda bins, height, width: (8 - torch.arange(bins) / ((bins - 1) / fewer)).round().int()


def _thresholds(bins: int, height: int, width: int) -> torch.Tensor:
    return torch.linspace(1.0, 0.0, bins)  # as shares of the largest value


def _table(
    shear: float, across: _Magnitudes, down: _Magnitudes, turn: float, more: float, fewer: int
) -> _Table:
    """`shear`: the largest tangent; `turn`: degrees; `more`: of an enhancement; `fewer`: bits."""
    enhanced = _up_to(more), True
    return {
        "Identity": (_none, False),
        "ShearX": (_up_to(shear), True),
        "ShearY": (_up_to(shear), True),
        "TranslateX": (across, True),
        "TranslateY": (down, True),
        "Rotate": (_up_to(turn), True),
        "Brightness": enhanced,
        "Color": enhanced,
        "Contrast": enhanced,
        "Sharpness": enhanced,
        "Posterize": (_bits(fewer), False),
        "Solarize": (_thresholds, False),
        "AutoContrast": (_none, False),
        "Equalize": (_none, False),
    }


_RAND = _table(0.3, _of_side(1), _of_side(0), 30.0, 0.9, 4)
_WIDE = _table(0.99, _up_to(32.0), _up_to(32.0), 135.0, 0.99, 6)


def _moved(picture: Picture, maps: dict[str, Any], x: float, y: float) -> Picture:
    return F.affine(picture, 0.0, (int(x), int(y)), 1.0, (0.0, 0.0), **maps)


def _sheared(picture: Picture, maps: dict[str, Any], x: float, y: float) -> Picture:
    """`x`, `y`: tangents."""
    shear = (math.degrees(math.atan(x)), math.degrees(math.atan(y)))
    return F.affine(picture, 0.0, (0, 0), 1.0, shear, center=(0, 0), **maps)


# What each operation makes of a picture by its magnitude; `maps`: interpolation and fill.
CHANGES: dict[str, Callable[[Picture, float, dict[str, Any]], Picture]] = {
    "Identity": lambda picture, nothing, maps: picture,
    "ShearX": lambda picture, tangent, maps: _sheared(picture, maps, tangent, 0.0),
    "ShearY": lambda picture, tangent, maps: _sheared(picture, maps, 0.0, tangent),
    "TranslateX": lambda picture, pixels, maps: _moved(picture, maps, pixels, 0),
    "TranslateY": lambda picture, pixels, maps: _moved(picture, maps, 0, pixels),
    "Rotate": lambda picture, degrees, maps: F.rotate(picture, degrees, **maps),
    "Brightness": lambda picture, more, maps: F.adjust_brightness(picture, 1.0 + more),
    "Contrast": lambda picture, more, maps: F.adjust_contrast(picture, 1.0 + more),
    "Color": lambda picture, more, maps: F.adjust_saturation(picture, 1.0 + more),
    "Sharpness": lambda picture, more, maps: F.adjust_sharpness(picture, 1.0 + more),
    "Posterize": lambda picture, bits, maps: F.posterize(picture, int(bits)),
    "Solarize": lambda picture, share, maps: F.solarize(picture, _largest(picture) * share),
    "AutoContrast": lambda picture, nothing, maps: F.autocontrast(picture),
    "Equalize": lambda picture, nothing, maps: F.equalize(picture),
    "Invert": lambda picture, nothing, maps: F.invert(picture),
}
SHARES_OF_LARGEST = ("Solarize",)  # their magnitudes are shares of the largest value; in v1, bytes


class _Augment(Transform):
    """What the policies share: how an operation is applied, and how its magnitude is drawn. They draw for an
    operation when it is its turn, in transform(), as torchvision does.
    """

    _AUGMENTATION_SPACE: ClassVar[_Table]

    def __init__(self, interpolation: Interpolation, fill: Fills) -> None:
        super().__init__()
        interpolation_mode(interpolation)
        check_fill(fill)
        self.interpolation, self.fill = interpolation, fill

    def _drawn_name(self) -> str:
        names = tuple(self._AUGMENTATION_SPACE)
        return names[int(torch.randint(len(names), ()))]

    def _operated(
        self, inpt: Picture, size: list[int], name: str, bins: int, which: Callable[[], Any]
    ) -> Picture:
        """`size`: (height, width) of the picture that the policy began with. `which`: gives the index of the
        magnitude, where there is one.
        """
        make, signed = self._AUGMENTATION_SPACE[name]
        magnitudes = make(bins, *size)
        if magnitudes is None:
            return self._changed(inpt, name, 0.0)
        magnitude = float(magnitudes[which()])
        if signed and torch.rand(()) <= 0.5:
            magnitude = -magnitude
        return self._changed(inpt, name, magnitude)

    def _changed(self, inpt: Picture, name: str, magnitude: float) -> Picture:
        if name not in CHANGES:
            raise ValueError(f"No transform available for {name}")
        maps: dict[str, Any] = {"interpolation": self.interpolation, "fill": fill_for(self.fill, inpt)}
        return CHANGES[name](inpt, magnitude, maps)


def _largest(picture: Picture) -> float:
    if isinstance(picture, Image.Image):
        return 255.0
    if isinstance(picture, np.ndarray):
        picture = torch.from_numpy(np.empty(0, picture.dtype))
    dtype = picture.dtype
    return 1 if dtype.is_floating_point or dtype is torch.bool else torch.iinfo(dtype).max


class RandAugment(_Augment):
    """`num_ops` operations, drawn one by one, all of the same magnitude (Cubuk et al., 2020).

    PIL images and the engine use Pillow's arithmetic, tensors torch's.

    Args:
        num_ops: a whole number from 0 on.
        magnitude: an index below `num_magnitude_bins`.
        num_magnitude_bins: the number of magnitudes.
        interpolation: of the shears, translations and rotations.
        fill: of the shears, translations and rotations: None for black, a number, one per channel, or a dict
            from picture type to these, with "others" for the rest.

    Raises:
        ValueError: if `num_ops` is no whole number from 0 on.
    """

    _AUGMENTATION_SPACE: ClassVar[_Table] = _RAND

    def __init__(
        self,
        num_ops: int = 2,
        magnitude: int = 9,
        num_magnitude_bins: int = 31,
        interpolation: Interpolation = "nearest",
        fill: Fills = None,
    ) -> None:
        super().__init__(interpolation, fill)
        if not isinstance(num_ops, int) or num_ops < 0:
            raise ValueError(f"num_ops should be a non-negative integer, but got {num_ops} instead.")
        self.num_ops, self.magnitude, self.num_magnitude_bins = num_ops, magnitude, num_magnitude_bins

    def transform(self, inpt: Picture, params: dict[str, Any]) -> Picture:
        size = F.get_size(inpt)
        for _ in range(self.num_ops):
            name = self._drawn_name()
            inpt = self._operated(inpt, size, name, self.num_magnitude_bins, lambda: self.magnitude)
        return inpt


class TrivialAugmentWide(_Augment):
    """One operation of any magnitude (Müller and Hutter, 2021).

    Arguments: see `RandAugment`.
    """

    _AUGMENTATION_SPACE: ClassVar[_Table] = _WIDE

    def __init__(
        self, num_magnitude_bins: int = 31, interpolation: Interpolation = "nearest", fill: Fills = None
    ) -> None:
        super().__init__(interpolation, fill)
        self.num_magnitude_bins = num_magnitude_bins

    def transform(self, inpt: Picture, params: dict[str, Any]) -> Picture:
        bins = self.num_magnitude_bins
        any_of_them = lambda: int(torch.randint(bins, ()))  # noqa: E731
        return self._operated(inpt, F.get_size(inpt), self._drawn_name(), bins, any_of_them)


class AutoAugment(_Augment):
    """One of 25 policies of two operations, each of which has its probability and magnitude.

    The policies are those of Cubuk et al., 2019. Other arguments: see `RandAugment`.

    Args:
        policy: ours or torchvision's AutoAugmentPolicy.
    """

    _AUGMENTATION_SPACE: ClassVar[_Table] = {
        **{name: made for name, made in _RAND.items() if name != "Identity"},
        "Invert": (_none, False),
    }

    def __init__(
        self,
        policy: AutoAugmentPolicy = AutoAugmentPolicy.IMAGENET,
        interpolation: Interpolation = "nearest",
        fill: Fills = None,
    ) -> None:
        super().__init__(interpolation, fill)
        self.policy = policy
        self._policies = self._get_policies(policy)

    def _get_policies(self, policy: Any) -> list[_Policy]:
        name = policy.value if isinstance(policy, Enum) else None
        if name not in _FOUND:
            raise ValueError(f"The provided policy {policy} is not recognized.")
        return _FOUND[name]

    def transform(self, inpt: Picture, params: dict[str, Any]) -> Picture:
        size = F.get_size(inpt)
        for name, p, which in self._policies[int(torch.randint(len(self._policies), ()))]:
            if torch.rand(()) <= p:
                inpt = self._operated(inpt, size, name, _BINS, lambda which=which: which)  # type: ignore[misc]
        return inpt


# AutoAugment's policies, as found for three data sets by Cubuk et al. (2019). A line is a policy: two
# operations, each with the probability that it happens and the index of its magnitude, if it has one.
_IMAGENET = """
Posterize 0.4 8, Rotate 0.6 9
Solarize 0.6 5, AutoContrast 0.6
Equalize 0.8, Equalize 0.6
Posterize 0.6 7, Posterize 0.6 6
Equalize 0.4, Solarize 0.2 4
Equalize 0.4, Rotate 0.8 8
Solarize 0.6 3, Equalize 0.6
Posterize 0.8 5, Equalize 1.0
Rotate 0.2 3, Solarize 0.6 8
Equalize 0.6, Posterize 0.4 6
Rotate 0.8 8, Color 0.4 0
Rotate 0.4 9, Equalize 0.6
Equalize 0.0, Equalize 0.8
Invert 0.6, Equalize 1.0
Color 0.6 4, Contrast 1.0 8
Rotate 0.8 8, Color 1.0 2
Color 0.8 8, Solarize 0.8 7
Sharpness 0.4 7, Invert 0.6
ShearX 0.6 5, Equalize 1.0
Color 0.4 0, Equalize 0.6
Equalize 0.4, Solarize 0.2 4
Solarize 0.6 5, AutoContrast 0.6
Invert 0.6, Equalize 1.0
Color 0.6 4, Contrast 1.0 8
Equalize 0.8, Equalize 0.6
"""

_CIFAR10 = """
Invert 0.1, Contrast 0.2 6
Rotate 0.7 2, TranslateX 0.3 9
Sharpness 0.8 1, Sharpness 0.9 3
ShearY 0.5 8, TranslateY 0.7 9
AutoContrast 0.5, Equalize 0.9
ShearY 0.2 7, Posterize 0.3 7
Color 0.4 3, Brightness 0.6 7
Sharpness 0.3 9, Brightness 0.7 9
Equalize 0.6, Equalize 0.5
Contrast 0.6 7, Sharpness 0.6 5
Color 0.7 7, TranslateX 0.5 8
Equalize 0.3, AutoContrast 0.4
TranslateY 0.4 3, Sharpness 0.2 6
Brightness 0.9 6, Color 0.2 8
Solarize 0.5 2, Invert 0.0
Equalize 0.2, AutoContrast 0.6
Equalize 0.2, Equalize 0.6
Color 0.9 9, Equalize 0.6
AutoContrast 0.8, Solarize 0.2 8
Brightness 0.1 3, Color 0.7 0
Solarize 0.4 5, AutoContrast 0.9
TranslateY 0.9 9, TranslateY 0.7 9
AutoContrast 0.9, Solarize 0.8 3
Equalize 0.8, Invert 0.1
TranslateY 0.7 9, AutoContrast 0.9
"""

_SVHN = """
ShearX 0.9 4, Invert 0.2
ShearY 0.9 8, Invert 0.7
Equalize 0.6, Solarize 0.6 6
Invert 0.9, Equalize 0.6
Equalize 0.6, Rotate 0.9 3
ShearX 0.9 4, AutoContrast 0.8
ShearY 0.9 8, Invert 0.4
ShearY 0.9 5, Solarize 0.2 6
Invert 0.9, AutoContrast 0.8
Equalize 0.6, Rotate 0.9 3
ShearX 0.9 4, Solarize 0.3 3
ShearY 0.8 8, Invert 0.7
Equalize 0.9, TranslateY 0.6 6
Invert 0.9, Equalize 0.6
Contrast 0.3 3, Rotate 0.8 4
Invert 0.8, TranslateY 0.0 2
ShearY 0.7 6, Solarize 0.4 8
Invert 0.6, Rotate 0.8 4
ShearY 0.3 7, TranslateX 0.9 3
ShearX 0.1 6, Invert 0.6
Solarize 0.7 2, TranslateY 0.6 7
ShearY 0.8 4, Invert 0.8
ShearX 0.7 9, TranslateY 0.8 3
ShearY 0.8 5, AutoContrast 0.7
ShearX 0.7 2, Invert 0.1
"""


def _parsed(table: str) -> list[_Policy]:
    policies = []
    for line in table.strip().splitlines():
        steps = (step.split() for step in line.split(", "))
        policies.append(tuple((name, float(p), int(i[0]) if i else None) for name, p, *i in steps))
    return policies


_FOUND = {"imagenet": _parsed(_IMAGENET), "cifar10": _parsed(_CIFAR10), "svhn": _parsed(_SVHN)}
