"""MixUp and CutMix: images and labels of a batch mixed with those of the sample before."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from . import functional as F
from .base import BatchTransform, Params


class _Mixing(BatchTransform):
    """Each sample is mixed with the one before it (the first with the last), by a share of its own from
    Beta(alpha, alpha).

    `num_classes`: classes of integer labels; None if labels are (n, classes) probabilities already.
    """

    def __init__(
        self,
        *,
        alpha: float = 1.0,
        num_classes: int | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(generator=generator)
        if not alpha > 0:
            raise ValueError(f"alpha must be positive, not {alpha}")
        self.alpha, self.num_classes = float(alpha), num_classes

    def forward(self, images: torch.Tensor, *labels: Any, key: int | None = None) -> Any:
        """Mix images and labels.

        Args:
            images: (n, c, h, w).
            *labels: one, of shape (n,) or (n, classes).
            key: an int instead of a draw from torch's generator.

        Returns:
            (images, soft labels (n, classes)).
        """
        if len(labels) != 1:
            raise ValueError(f"{type(self).__name__} needs the labels, too: call it with (images, labels)")
        self._check_labels(labels[0], len(images))
        return super().forward(images, *labels, key=key)

    def _check_labels(self, labels: Any, n: int) -> None:
        if not isinstance(labels, torch.Tensor):
            raise ValueError(f"The labels must be a tensor, but got {type(labels)} instead.")
        if labels.ndim not in (1, 2) or len(labels) != n:
            raise ValueError(
                f"labels must have the shape ({n},) or ({n}, classes), as many as images, not"
                f" {tuple(labels.shape)}"
            )
        if labels.ndim == 1 and self.num_classes is None:
            raise ValueError("num_classes must be passed if the labels are index-based (1D)")
        if labels.ndim == 2 and self.num_classes not in (None, labels.shape[1]):
            raise ValueError(
                f"labels have {labels.shape[1]} classes, but num_classes is {self.num_classes}; leave it None"
                " for them"
            )

    def transform(self, images: torch.Tensor, params: Params) -> torch.Tensor:
        n = len(images)
        return F.mix(images, (np.arange(n) - 1) % max(n, 1), params["shares"], params.get("boxes"))

    def transform_labels(self, labels: torch.Tensor, params: Params) -> torch.Tensor:
        if labels.ndim == 1:
            assert self.num_classes is not None  # _check_labels() refused that
            labels = torch.nn.functional.one_hot(labels, num_classes=self.num_classes)
        if not labels.is_floating_point():
            labels = labels.float()
        own = torch.as_tensor(params["label_shares"], dtype=labels.dtype)
        if labels.is_cuda:  # pinned: the copy waits for nothing, and torch keeps the memory until it is done
            own = own.pin_memory().to(labels.device, non_blocking=True)
        own = own[:, None]
        return labels * own + labels.roll(1, 0) * (1 - own)


class MixUp(_Mixing):
    """Mix images and labels, as weighted sums, with those of the sample before.

    For float images; (images, labels) -> (images, soft labels).

    Args:
        alpha: of the Beta distribution that the share is drawn from.
        num_classes: classes of integer labels; None if labels are (n, classes) probabilities already.
    """

    def draw(self, rng: np.random.Generator, images: torch.Tensor) -> Params:
        if not images.is_floating_point():
            raise TypeError(f"MixUp needs float images, not {images.dtype}; put Normalize before it")
        shares = rng.beta(self.alpha, self.alpha, len(images)).astype(np.float32)
        return {"shares": shares, "label_shares": shares}


class CutMix(_Mixing):
    """Put a box from the sample before into each image, and mix the labels by the box's share of the area.

    (images, labels) -> (images, soft labels). Arguments: see `MixUp`.
    """

    def draw(self, rng: np.random.Generator, images: torch.Tensor) -> Params:
        n, (height, width) = len(images), images.shape[-2:]
        size = np.array([width, height])
        half = (0.5 * np.sqrt(1 - rng.beta(self.alpha, self.alpha, n))[:, None] * size).astype(np.int64)
        center = rng.integers(0, size, (n, 2))
        low, high = np.maximum(center - half, 0), np.minimum(center + half, size)
        shares = 1 - (high - low).prod(axis=1) / (width * height)
        return {"shares": np.ones(n), "boxes": np.hstack([low, high - low]), "label_shares": shares}
