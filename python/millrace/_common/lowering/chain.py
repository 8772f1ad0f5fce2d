"""A chain of transforms as the engine takes it, built transform by transform, with their arguments as the
engine has them. What it does not know is refused.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from .as_shipped import check_class, check_object, check_transforms, container_parts, family_of, policy_class
from .crops import CropOf, OfEach
from .grey import check_grey
from .read_source import read_or_place
from .read_values import Called, Maybe, Op, Picture, Steps
from .recognising import OURS, TIMM, V1, V2, NotLowered, held_directly, holder_name, loaded
from .tensor_resize import rounds_as_torch

FLOATS = {getattr(torch, name): name for name in ("float16", "bfloat16", "float32", "float64")}
MOST_NESTED = 32
_OF_THREE_CHANNELS = ("RandomErasing", "GaussianNoise")
# What may follow RandomErasing.
_AFTER_ERASING = ("RandomErasing", "Identity", "RGB", "ToPureTensor", "MaybeToTensor", "MaybePILToTensor")

_OF_ARRAYS = "ToTensor", "ToImage"

_FIXED = {"resize", "center_crop", "exif_transpose", "grayscale", "to_tensor", "normalize"}
_FLIPS = ("horizontal_flip", "vertical_flip")

Rule = Callable[["Chain", Any, str], None]


def is_fixed(op: dict[str, Any]) -> bool:
    """Whether it decides nothing by chance."""
    if op["op"] == "frame":
        return op["kind"] in ("pad", "center")
    if op["op"] == "drawn_resize" and op["kind"] == "keep_ratio":
        return op["scale_p"] == op["aspect_p"] == 0 and len(op["interpolations"]) == 1
    return op["op"] in _FIXED or (op["op"] in _FLIPS and op["p"] in (0, 1))


# By torchvision's values and Pillow's numbers. Of pictures, "nearest-exact" is Pillow's nearest, too.
_INTERPOLATIONS = {
    "nearest": "nearest",
    "nearest-exact": "nearest",
    "bilinear": "bilinear",
    "bicubic": "bicubic",
    "lanczos": "lanczos",
    "box": "box",
    "hamming": "hamming",
    0: "nearest",
    1: "lanczos",
    2: "bilinear",
    3: "bicubic",
    4: "box",
    5: "hamming",
}
_OF_MAPS = ("nearest", "bilinear", "bicubic")


def pair(name: str, size: Any) -> tuple[int, int]:
    values = [size] if isinstance(size, int) else list(size) if isinstance(size, Sequence) else []
    if len(values) not in (1, 2) or not all(isinstance(v, int) for v in values):
        raise NotLowered(f"{name}(size={size!r}) is not one or two ints")
    return values[0], values[-1]


def interpolation_name(name: str, mode: Any) -> str:
    """`mode`: an enum's member, its value, or Pillow's number."""
    value = getattr(mode, "value", mode)
    if value not in _INTERPOLATIONS:
        known = ", ".join(name for name in _INTERPOLATIONS if isinstance(name, str))
        raise NotLowered(f"{name}(interpolation={mode!r}) is none of {known}")
    return _INTERPOLATIONS[value]


def map_interpolation(name: str, mode: Any) -> str:
    """As interpolation_name(), of what turns and tilts pictures."""
    found = interpolation_name(name, mode)
    if found not in _OF_MAPS:
        raise NotLowered(f"{name} with {found} interpolation is none of {', '.join(_OF_MAPS)}")
    return found


def padding(padding: Any, family: str) -> tuple[int, int, int, int]:
    """(left, top, right, bottom) from None, one, two or four ints."""
    if padding is None:
        return 0, 0, 0, 0
    borders = [padding] if isinstance(padding, int) else list(padding)
    left, top, right, bottom = borders if len(borders) == 4 else (borders[0], borders[-1]) * 2
    if len(borders) == 4 and family != V1:
        top, right = right, top  # v2, and we with it, keep torch's order of borders
    return left, top, right, bottom


def fill(name: str, fill: Any) -> tuple[int, int, int]:
    values = [fill or 0] if fill is None or isinstance(fill, (int, float)) else fill
    known = isinstance(values, Sequence) and len(values) in (1, 3)
    if not known or any(v != int(v) or not 0 <= v <= 255 for v in values):
        raise NotLowered(f"{name}(fill={fill!r}) is not one or three whole numbers from 0 to 255")
    red, green, blue = ([int(v) for v in values] * 3)[:3]
    return red, green, blue


def picture_fill(name: str, value: Any) -> tuple[int, int, int]:
    """As fill(), of what only runs on PIL images, for which v2's dicts may have an entry of their own."""
    if isinstance(value, dict):
        value = value.get(loaded("PIL.Image", "Image"), value.get("others"))
    return fill(name, value)


def floats(values: Any) -> list[float]:
    return torch.as_tensor(values, dtype=torch.float64).reshape(-1).tolist()


class Chain:
    """What the transforms seen so far come to. `dtype` is None while the sample is a PIL image, then the
    tensor's.
    """

    def __init__(
        self,
        rules: dict[str, Rule],
        timm_rules: Callable[[], dict[str, Rule]],
        add_read: Callable[[Chain, Any], None],
    ) -> None:
        self.rules, self.timm_rules = rules, timm_rules  # by the transforms' names
        self.add_read = add_read  # what adds the steps that a callable's source says
        self.names: list[str] = []
        self.depth = 0  # of callables that hold others
        self.families: set[str] = set()  # of libraries that transforms are of
        self.row_type: type | None = torch.Tensor
        self.begins_with_rgb = False
        self.makes_rgb: bool | None = False
        self.picture: list[dict[str, Any]] = []
        self.grey_from: int | None = None  # the first op of `picture` that gets a picture of one channel
        self.dtype: torch.dtype | None = None
        self.conversion = ""  # what made it a tensor
        self.is_array = False  # the next transform gets an array of numpy in place of a PIL image
        self.multiply = False  # bytes become floats by * (1 / 255), not by / 255: they differ in the last bit
        self.normalize: list[dict[str, Any]] = []
        self.noise: list[dict[str, Any]] = []
        self.noise_first = False  # it is added before Normalize
        self.erasing: list[dict[str, Any]] = []
        self.batch_sizes: Any = None  # BatchSizes; None: such sizes are refused
        self.stacked_at: int | None = None  # number of ops of `picture` before torch.stack

    def copied(self) -> Chain:
        """A copy; adding to it does not change this chain."""
        twin = copy.copy(self)
        for name, value in vars(self).items():
            if isinstance(value, (list, set)):
                setattr(twin, name, value.copy())
        return twin

    def finish(self) -> list[dict[str, Any]]:
        if self.dtype is None:
            raise NotLowered(
                "the transforms return PIL images, which default_collate refuses; end with ToTensor() or"
                " ToImage()"
            )
        check_transforms(self.families)
        if self.stacked_at not in (None, len(self.picture)):
            raise NotLowered("pictures are changed behind torch.stack; do that before it")
        to_tensor: dict[str, Any] = {"op": "to_tensor", "dtype": FLOATS.get(self.dtype, "uint8")}
        if self.multiply:
            to_tensor["multiply"] = True
        if self.grey_from is not None:
            check_grey(self.picture[self.grey_from :])
            to_tensor["channels"] = 1  # of three that are equal
        floats = self.noise + self.normalize if self.noise_first else self.normalize + self.noise
        return [*self.picture, to_tensor, *floats, *self.erasing]

    def knows(self, transform: Any) -> bool:
        """Whether the class of `transform` is a library's, and has a rule or holds other transforms."""
        name, family = type(transform).__name__, family_of(type(transform))
        return (family is not None and name == "Compose") or self._rule(transform, name, family) is not None

    def add(self, transform: Any) -> None:
        if isinstance(transform, Called):
            raise NotLowered(f"{transform.name} is Python code")
        if isinstance(transform, (Op, Maybe, CropOf, OfEach)):
            return self.add_read(self, transform)
        if isinstance(transform, Steps):
            return self.add_held(transform.function, transform.steps)
        name, family = type(transform).__name__, family_of(type(transform))
        check_class(type(transform))
        if family in (V1, V2, TIMM) or type(transform).__module__.startswith("torchvision."):
            self.families.add(family or V1)
        check_object(transform)
        if (inner := container_parts(transform)) is not None:
            for part in inner:
                self.add(part)
            return
        if self.is_array and name == "ToPILImage" and family in (V1, V2) and transform.mode in (None, "RGB"):
            self.is_array = False
            self.names.append(name)
            return
        if (rule := self._rule(transform, name, family)) is None:
            if (parts := held_directly(transform)) is not None:
                return self.add_held(transform, parts)
            made, part = read_or_place(transform)
            if isinstance(made, Picture):
                return self.add_held(transform, made.steps())
            if made is not None:
                raise NotLowered(f"{describe(transform)} makes several views; give it as the whole transform")
            if isinstance(transform, (tuple, list)):
                raise NotLowered(
                    f"the transform is a {type(transform).__name__} of transforms, as timm's"
                    " create_transform(separate=True) makes it for its AugMixDataset; make one of them, by"
                    " Compose"
                )
            raise NotLowered(
                f"{describe(transform)} has no native form; the engine knows "
                f"{', '.join(sorted(self.rules))}, "
                "Compose and nn.Sequential of these, and what only holds one, as a class whose __call__ is "
                "`return self.transforms(picture)` and no more" + (f": not {part}" if part else "")
            )
        if self.erasing and name not in _AFTER_ERASING:
            raise NotLowered(f"{name} follows RandomErasing; put RandomErasing last")
        if self.grey_from is not None and name in _OF_THREE_CHANNELS:
            raise NotLowered(f"{name} of one channel has no native form; make three by Grayscale(3)")
        if self.row_type is np.ndarray:
            raise NotLowered(f"{name} follows ToNumpy and takes its array; put ToNumpy last")
        if self.is_array and name not in _OF_ARRAYS:
            raise NotLowered(f"{name} gets an array; give it a PIL image, or put ToTensor before it")
        lower, family = rule
        lower(self, transform, family)
        self.names.append(name)
        if family in (OURS, V1) and self.row_type is not torch.Tensor:
            self.row_type = None  # v1's functions on v2's class of tensors

    def _rule(self, transform: Any, name: str, family: str | None) -> tuple[Rule, str] | None:
        """What lowers `transform`, and the family that it is of; None: nothing does."""
        if family is None and (base := policy_class(type(transform))) is not None:
            name, family = base.__name__, family_of(base)
        rules = self.timm_rules() if family == TIMM else self.rules
        return None if family is None or name not in rules else (rules[name], family)

    def parts(self, transforms: Sequence[Any]) -> list[list[dict[str, Any]]]:
        """For each of `transforms`, which may or may not be applied: the ops of the picture that it comes to
        here. NotLowered where one does more than change the picture.
        """
        found, made_rgb = [], self.makes_rgb
        for transform in transforms:
            inner = self.copied()
            inner.picture, inner.makes_rgb, inner.depth = [], False, self.depth + 1
            if inner.depth > MOST_NESTED:
                raise NotLowered(f"transforms are nested {MOST_NESTED} deep")
            inner.add(transform)
            if inner._tensor_state() != self._tensor_state() or inner.erasing:
                raise NotLowered(
                    f"{describe(transform)} may or may not be applied, and does more than change the picture"
                )
            if inner.makes_rgb is not False and not made_rgb:
                self.makes_rgb = None
            self.row_type, self.families = inner.row_type, inner.families
            found.append(inner.picture)
        return found

    def _tensor_state(self) -> tuple[Any, ...]:
        return self.is_array, self.dtype, self.multiply, self.normalize, self.noise, self.grey_from

    def add_held(self, holder: Any, parts: Sequence[Any]) -> None:
        before = len(self.names)
        self.depth += 1
        if self.depth > MOST_NESTED:
            raise NotLowered(
                f"{holder_name(holder)} holds itself, or callables nested {MOST_NESTED} deep; give the"
                " Compose itself"
            )
        for part in parts:
            self.add(part)
        self.depth -= 1
        inner = ", ".join(self.names[before:])
        self.names[before:] = [f"{holder_name(holder)}({inner})"]

    # -- what each kind of transform may follow

    def change(self, op: dict[str, Any]) -> None:
        self.picture.append(op)

    def change_picture(self, op: dict[str, Any], name: str) -> None:
        """What Pillow and torch compute in different ways."""
        if self.dtype is not None:
            raise NotLowered(
                f"{name} of a tensor computes otherwise than of a PIL image; put it before the conversion to"
                " a tensor"
            )
        self.change(op)

    def resample(self, name: str, transform: Any, family: str, op: dict[str, Any]) -> None:
        """Pillow's own on images (always antialiased); on uint8 tensors torch's, where it does not depend on
        the CPU.
        """
        if self.dtype is not None:
            if self.dtype is not torch.uint8:
                raise NotLowered(
                    f"{name} of floats does not round to bytes; put it before ToTensor or ToDtype"
                )
            if transform.antialias is not True or op["interpolation"] not in ("bilinear", "bicubic"):
                raise NotLowered(
                    f"{name} of a tensor is native only with antialias=True and bilinear or bicubic; put it"
                    " before the conversion"
                )
            if family == V1:
                raise NotLowered(
                    f"torchvision's v1 {name} computes with floats on a tensor, which rounds otherwise than"
                    " on a PIL image; put it before PILToTensor, or take both from torchvision.transforms.v2"
                )
            if any(1 in pair for pair in op.get("per_batch", [(op.get("height"), op.get("width"))])):
                raise NotLowered(
                    f"torch resizes a tensor to one pixel in its own way; put {name} before the conversion"
                )
            if not rounds_as_torch(loaded(family, "Resize"), transform.interpolation):
                raise NotLowered(
                    f"torch's {op['interpolation']} resize of a tensor rounds otherwise on this CPU than the"
                    f" engine; put {name} before the conversion to a tensor"
                )
            op["of_tensor"] = True
        self.change(op)

    def crop(self, name: str, op: dict[str, Any]) -> None:
        """Cropping may pad: with zeros that are zeros before and after the conversion, but not before and
        after Normalize.
        """
        if self.normalize:
            raise NotLowered(f"{name} after Normalize pads with normalised zeros; put it before Normalize")
        if self.noise:
            raise NotLowered(
                f"{name} after GaussianNoise may pad, and what it pads has no noise; put it before"
                " GaussianNoise"
            )
        if self.dtype is not None and any(op.get("fill", ())):
            raise NotLowered(
                f"{name} with a fill on a tensor fills in the tensor's range; put it before the conversion to"
                " a tensor"
            )
        self.change(op)

    def convert(self, name: str, dtype: torch.dtype) -> None:
        self.is_array = False
        if self.dtype is not None:
            raise NotLowered(f"{name} follows another conversion to a tensor; keep one of them")
        self.dtype, self.conversion = dtype, name


def type_of(chain: list[dict[str, Any]]) -> str:
    return next(op["dtype"] for op in chain if op["op"] == "to_tensor")


def step_name(step: Any) -> str:
    return step.name if isinstance(step, Op) else holder_name(step)


def describe(transform: Any) -> str:
    name = getattr(transform, "__qualname__", None) or type(transform).__qualname__
    return f"{name} (of {getattr(transform, '__module__', None) or type(transform).__module__})"
