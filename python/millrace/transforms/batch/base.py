"""BatchTransform and Compose: what the transforms of batches share, and where their random numbers come
from.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from .functional import check_images

Params = dict[str, Any]


def random_key(generator: torch.Generator | None = None) -> int:
    """A key for a batch's draws: 63 bits of torch's global generator, or of `generator` (a CPU one)."""
    return int(torch.empty((), dtype=torch.int64).random_(generator=generator))


def draws_of(key: int) -> np.random.Generator:
    """The random numbers of a key."""
    return np.random.Generator(np.random.Philox(key=key % 2**64))


class BatchTransform(torch.nn.Module):
    """One step on a batch: images (n, c, h, w), or images and labels, which only MixUp and CutMix change.

    To write your own, override `draw(rng, images)`, which returns the parameters of all samples, and
    `transform(images, params)`.

    Args:
        generator: a CPU one that draws in the place of torch's global one.
    """

    def __init__(self, *, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.generator = generator

    def draw(self, rng: np.random.Generator, images: torch.Tensor) -> Params:
        """The random decisions for these images; arrays with one entry per image."""
        return {}

    def transform(self, images: torch.Tensor, params: Params) -> torch.Tensor:
        """The images after this step, given the decisions."""
        raise NotImplementedError

    def transform_labels(self, labels: Any, params: Params) -> Any:
        """The labels after this step."""
        return labels

    def forward(self, images: torch.Tensor, *labels: Any, key: int | None = None) -> Any:
        """Apply the step to a batch.

        Args:
            images: (n, c, h, w).
            *labels: none, or the labels of the images.
            key: an int instead of a draw from torch's generator.

        Returns:
            `images`, or (images, labels) if labels are given.
        """
        if len(labels) > 1:
            raise TypeError(f"pass images, or images and labels, not {1 + len(labels)} things")
        images = check_images(images)
        rng = draws_of(random_key(self.generator) if key is None else key)
        params = self.draw(rng, images)
        out = self.transform(images, params)
        return (out, self.transform_labels(labels[0], params)) if labels else out


class Compose(BatchTransform):
    """Several transforms of batches, one after the other, all drawing from one key."""

    def __init__(
        self, transforms: Sequence[BatchTransform], *, generator: torch.Generator | None = None
    ) -> None:
        super().__init__(generator=generator)
        if not transforms or not all(isinstance(t, BatchTransform) for t in transforms):
            raise TypeError(
                "Compose takes a sequence of transforms of millrace.transforms.batch, and at least one"
            )
        self.transforms = torch.nn.ModuleList(transforms)

    def forward(self, images: torch.Tensor, *labels: Any, key: int | None = None) -> Any:
        rng = draws_of(random_key(self.generator) if key is None else key)
        value = (images, *labels)
        for transform in self.transforms:
            value = transform(*value, key=int(rng.integers(2**63)))
            value = value if isinstance(value, tuple) else (value,)
        return value if labels else value[0]
