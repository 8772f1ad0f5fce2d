"""Transform and Compose: what all transforms share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

import torch

from .functional.picture import Picture, get_dimensions


class Transform(torch.nn.Module):
    """One step on one picture: a PIL image, a tensor (..., C, H, W) or a numpy array (H, W, C).

    To write your own, override `transform(picture, params)` and, if it is random, `make_params([picture])`,
    which draws from torch's global generator. The engine runs only millrace's and torchvision's own
    transforms; yours runs in Python.
    """

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """The random decisions for the picture in `flat_inputs`."""
        return {}

    def transform(self, inpt: Picture, params: dict[str, Any]) -> Any:
        """The picture after this step, given the decisions."""
        raise NotImplementedError

    def forward(self, inpt: Picture) -> Any:
        get_dimensions(inpt)  # refuses what is no picture, here rather than somewhere inside a kernel
        return self.transform(inpt, self.make_params([inpt]))

    def extra_repr(self) -> str:
        shown = (bool, int, float, str, tuple, list, Enum)
        arguments = {k: v for k, v in vars(self).items() if not k.startswith("_") and k != "training"}
        return ", ".join(f"{name}={value}" for name, value in arguments.items() if isinstance(value, shown))


class RandomApplyTransform(Transform):
    """A step that happens with probability `p`; decided by one torch.rand(1)."""

    def __init__(self, p: float = 0.5) -> None:
        if not 0.0 <= p <= 1.0:
            raise ValueError("`p` should be a floating point value in the interval [0.0, 1.0].")
        super().__init__()
        self.p = p

    def forward(self, inpt: Picture) -> Any:
        get_dimensions(inpt)
        if torch.rand(1) >= self.p:
            return inpt
        return self.transform(inpt, self.make_params([inpt]))


class RandomApply(Transform):
    """All of several transforms (any callables) in turn with probability `p`, else none; decided by one
    torch.rand(1).

    The engine runs it natively around one ColorJitter, GaussianBlur, Grayscale, RandomGrayscale or flip.
    """

    def __init__(self, transforms: Sequence[Callable] | torch.nn.ModuleList, p: float = 0.5) -> None:
        super().__init__()
        if not isinstance(transforms, (Sequence, torch.nn.ModuleList)):
            raise TypeError("Argument transforms should be a sequence of callables or a `nn.ModuleList`")
        if not 0.0 <= p <= 1.0:
            raise ValueError("`p` should be a floating point value in the interval [0.0, 1.0].")
        self.transforms = transforms
        self.p = p

    def forward(self, inpt: Any) -> Any:
        if torch.rand(1) >= self.p:
            return inpt
        for transform in self.transforms:
            inpt = transform(inpt)
        return inpt

    def extra_repr(self) -> str:
        return "\n".join([f"    p={self.p}", *(f"    {transform}" for transform in self.transforms)])


class Compose(Transform):
    """Several transforms (any callables), one after the other."""

    def __init__(self, transforms: Sequence[Callable]) -> None:
        super().__init__()
        if not isinstance(transforms, Sequence):
            raise TypeError("Argument transforms should be a sequence of callables")
        if not transforms:
            raise ValueError("Pass at least one transform")
        self.transforms = transforms

    def forward(self, inpt: Any) -> Any:
        for transform in self.transforms:
            inpt = transform(inpt)
        return inpt

    def extra_repr(self) -> str:
        return "\n".join(f"    {transform}" for transform in self.transforms)
