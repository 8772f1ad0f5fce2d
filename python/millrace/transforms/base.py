"""Transform, and what holds transforms: Compose, RandomApply, RandomChoice, RandomOrder."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Any

import torch

from .arguments import probability
from .batch_size import RandomBatchSize
from .functional.picture import Picture, get_dimensions


def uniform(low: float, high: float) -> float:
    """One number from torch's global generator, as torchvision draws it."""
    return torch.empty(1).uniform_(low, high).item()


def drawn_sides(area: int, scale: Sequence[float], ratio: Sequence[float]) -> Iterator[tuple[int, int]]:
    """Ten tries of two sides: their product is a share of `area` within `scale`, the first divided by the
    second within `ratio`.
    """
    # In float32, like torchvision: the same seed gives the same rectangle.
    low, high = torch.log(torch.tensor(ratio)).tolist()
    for _ in range(10):
        product = area * uniform(scale[0], scale[1])
        aspect = torch.exp(torch.empty(1).uniform_(low, high)).item()
        yield round(math.sqrt(product * aspect)), round(math.sqrt(product / aspect))


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
        get_dimensions(inpt)  # refuses other objects than pictures here, not inside a kernel
        return self.transform(inpt, self.make_params([inpt]))

    def extra_repr(self) -> str:
        shown = (bool, int, float, str, tuple, list, Enum, RandomBatchSize)
        arguments = {k: v for k, v in vars(self).items() if not k.startswith("_") and k != "training"}
        return ", ".join(f"{name}={value}" for name, value in arguments.items() if isinstance(value, shown))


class RandomApplyTransform(Transform):
    """A step that happens with probability `p`; decided by one torch.rand(1)."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = probability(p)

    def forward(self, inpt: Picture) -> Any:
        get_dimensions(inpt)
        return inpt if torch.rand(1) >= self.p else super().forward(inpt)


class _Several(Transform):
    transforms: Sequence[Callable] | torch.nn.ModuleList

    def forward(self, inpt: Any) -> Any:
        for transform in self.transforms:
            inpt = transform(inpt)
        return inpt

    def extra_repr(self) -> str:
        return "\n".join(f"    {transform}" for transform in self.transforms)


class RandomApply(_Several):
    """All of several transforms in turn with probability `p`, else none.

    One torch.rand(1) decides. The engine runs it natively around any number of transforms of pictures that it
    knows.

    Args:
        transforms: any callables.
        p: the probability.
    """

    def __init__(self, transforms: Sequence[Callable] | torch.nn.ModuleList, p: float = 0.5) -> None:
        super().__init__()
        if not isinstance(transforms, (Sequence, torch.nn.ModuleList)):
            raise TypeError("Argument transforms should be a sequence of callables or a `nn.ModuleList`")
        self.transforms, self.p = transforms, probability(p)

    def forward(self, inpt: Any) -> Any:
        return inpt if torch.rand(1) >= self.p else super().forward(inpt)

    def extra_repr(self) -> str:
        return f"    p={self.p}\n{super().extra_repr()}"


def _checked(transforms: Any) -> Sequence[Callable]:
    if not isinstance(transforms, Sequence):
        raise TypeError("Argument transforms should be a sequence of callables")
    if not transforms:
        raise ValueError("Pass at least one transform")
    return transforms


class RandomChoice(Transform):
    """One of several transforms, drawn by torch.multinomial.

    The engine runs it natively around transforms of pictures that it knows.

    Args:
        transforms: any callables.
        p: their weights, which need not sum to 1; None: each as often.
    """

    def __init__(self, transforms: Sequence[Callable], p: Sequence[float] | None = None) -> None:
        _checked(transforms)
        weights = [1] * len(transforms) if p is None else p
        if len(weights) != len(transforms):
            raise ValueError(
                f"Length of p doesn't match the number of transforms: {len(weights)} != {len(transforms)}"
            )
        super().__init__()
        self.transforms = transforms
        total = sum(weights)
        self.p = [weight / total for weight in weights]

    def forward(self, inpt: Any) -> Any:
        return self.transforms[int(torch.multinomial(torch.tensor(self.p), 1))](inpt)


class RandomOrder(Transform):
    """All of several transforms (any callables), in an order drawn by torch.randperm.

    The engine runs it natively around up to four transforms of pictures that it knows, and around any number
    of some: docs/native.md lists them.
    """

    def __init__(self, transforms: Sequence[Callable]) -> None:
        _checked(transforms)
        super().__init__()
        self.transforms = transforms

    def forward(self, inpt: Any) -> Any:
        for index in torch.randperm(len(self.transforms)).tolist():
            inpt = self.transforms[index](inpt)
        return inpt


class Compose(_Several):
    """Several transforms (any callables), one after the other."""

    def __init__(self, transforms: Sequence[Callable]) -> None:
        super().__init__()
        self.transforms = _checked(transforms)
