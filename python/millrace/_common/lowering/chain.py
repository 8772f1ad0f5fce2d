"""A chain of transforms as the engine takes it, built transform by transform."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from .arguments import OURS, V1, V2
from .holders import held_transforms, holder_name, shadowed_method
from .refusal import NotLowered, loaded
from .same_code import is_method_of_argument
from .tensor_resize import rounds_as_torch

FLOATS = {
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.float32: "float32",
    torch.float64: "float64",
}
_MOST_NESTED = 32
# timm's conversions, which leave tensors as they are, and torchvision's that they are on pictures.
_TIMM = "timm.data.transforms"
_TIMMS = {"MaybeToTensor": "ToTensor", "MaybePILToTensor": "PILToTensor"}
_AFTER_ERASING = ("RandomErasing", "Identity", "RGB")  # what may follow RandomErasing


def _family(transform: Any) -> str | None:
    module = type(transform).__module__
    for family in (OURS, V1, V2):
        if module == family or module.startswith(family + "."):
            return family
    return None


class Chain:
    """What the transforms seen so far come to. `dtype` is None while the sample is a PIL image, then the
    tensor's.
    """

    def __init__(self, rules: dict[str, Callable[[Chain, Any, str], None]]) -> None:
        self.rules = rules  # by the transforms' names
        self.names: list[str] = []
        self.depth = 0  # of callables that hold others
        self.row_type: type | None = torch.Tensor
        self.begins_with_rgb = False
        self.makes_rgb: bool | None = False
        self.picture: list[dict[str, Any]] = []
        self.dtype: torch.dtype | None = None
        self.multiply = False  # bytes become floats by * (1 / 255), not by / 255: they differ in the last bit
        self.normalize: list[dict[str, Any]] = []
        self.erasing: list[dict[str, Any]] = []

    def finish(self) -> list[dict[str, Any]]:
        if self.dtype is None:
            raise NotLowered(
                "the transforms return PIL images, which default_collate refuses; end with ToTensor() or"
                " ToImage()"
            )
        to_tensor: dict[str, Any] = {"op": "to_tensor", "dtype": FLOATS.get(self.dtype, "uint8")}
        if self.multiply:
            to_tensor["multiply"] = True
        return [*self.picture, to_tensor, *self.normalize, *self.erasing]

    def add(self, transform: Any) -> None:
        name, family = type(transform).__name__, _family(transform)
        if getattr(transform, "_forward_hooks", None) or getattr(transform, "_forward_pre_hooks", None):
            raise NotLowered(f"{name} has forward hooks; remove them")
        if (method := shadowed_method(transform)) is not None:
            raise NotLowered(
                f"this {name} has a {method} of its own, set on the object; leave that of its class"
            )
        if type(transform) is torch.nn.Sequential or (family is not None and name == "Compose"):
            for part in transform.transforms if name == "Compose" else transform:
                self.add(part)
            return
        if name in _TIMMS and type(transform) is loaded(_TIMM, name):
            if self.dtype is None:
                self.rules[_TIMMS[name]](self, transform, V1)
            self.names.append(name)
            return
        if family is None or name not in self.rules:
            if self.dtype is None and is_method_of_argument(transform, "convert", "RGB"):
                self.rules["RGB"](self, transform, V1)
                self.names.append('convert("RGB")')
                return
            if (parts := held_transforms(transform)) is not None:
                return self.add_held(transform, parts)
            raise NotLowered(
                f"{describe(transform)} has no native form; the engine knows "
                f"{', '.join(sorted(self.rules))}, "
                "Compose and nn.Sequential of these, and what only holds one, as a class whose __call__ is "
                "`return self.transforms(picture)` and no more"
            )
        lower = self.rules[name]
        if self.erasing and name not in _AFTER_ERASING:
            raise NotLowered(f"{name} follows RandomErasing; put RandomErasing last")
        lower(self, transform, family)
        self.names.append(name)
        if family != V2 and self.row_type is not torch.Tensor:
            self.row_type = None  # v1's functions on v2's class of tensors

    def add_held(self, holder: Any, parts: Sequence[Any]) -> None:
        before = len(self.names)
        self.depth += 1
        if self.depth > _MOST_NESTED:
            raise NotLowered(
                f"{holder_name(holder)} holds itself, or callables nested {_MOST_NESTED} deep; give the"
                " Compose itself"
            )
        for part in parts:
            self.add(part)
        self.depth -= 1
        inner = ", ".join(self.names[before:])
        self.names[before:] = [f"{holder_name(holder)}({inner})"]

    # -- what each kind of transform may follow
    # ----------------------------------------------------------------------------------

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
            if transform.antialias is not True or op["interpolation"] == "nearest":
                raise NotLowered(
                    f"{name} of a tensor is native only with antialias=True and bilinear or bicubic; put it"
                    " before the conversion"
                )
            if family == V1:
                raise NotLowered(
                    f"torchvision's v1 {name} computes with floats on a tensor, which rounds otherwise than"
                    " on a PIL image; put it before PILToTensor, or take both from torchvision.transforms.v2"
                )
            if 1 in (op["height"], op["width"]):
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
        if self.dtype is not None and any(op.get("fill", ())):
            raise NotLowered(
                f"{name} with a fill on a tensor fills in the tensor's range; put it before the conversion to"
                " a tensor"
            )
        self.change(op)

    def convert(self, name: str, dtype: torch.dtype) -> None:
        if self.dtype is not None:
            raise NotLowered(f"{name} follows another conversion to a tensor; keep one of them")
        self.dtype = dtype


def describe(transform: Any) -> str:
    name = getattr(transform, "__qualname__", None) or type(transform).__qualname__
    return f"{name} (of {getattr(transform, '__module__', None) or type(transform).__module__})"
