"""Samplers by weight, and weights from labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.utils import data

from .. import _core
from .global_order import GlobalOrderSampler, digest
from .readers import SEED_BITS, Order, OrderReader, Origin, own_generator
from .resumable import Resumable, SamplerIterator, known

MOST_CATEGORIES = 2**24  # of torch.multinomial


@known(data.WeightedRandomSampler)
class WeightedRandomSampler(Resumable, data.WeightedRandomSampler):
    """torch's WeightedRandomSampler: indices drawn by weight, with torch.multinomial's draws, made at the
    first index.

    Args:
        weights: one for each sample, [samples]; an index is drawn by its weight.
        num_samples: indices to draw.
        replacement: True lets the same index come several times.
        generator: the draws come from it, or from torch's global one when not given.
        method: "alias" draws with an alias table instead, as does a sampler of more weights than
            torch.multinomial takes (2^24): any number of weights, constant time for an index, and no memory
            per sample. Then 64 bits are drawn from the generator at the first index.

    Raises:
        ValueError: if weights are negative, not finite or all 0, with method "alias"; raised at once.
        RuntimeError: if weights are such, with torch's draws; raised by torch, at the first index.
    """

    _draws_from_torch = True
    seekable = True
    method = "multinomial"  # what torch's own objects do

    def __init__(
        self,
        weights: Sequence[float] | torch.Tensor,
        num_samples: int,
        replacement: bool = True,
        generator: torch.Generator | None = None,
        *,
        method: str = "multinomial",
    ) -> None:
        super().__init__(weights, num_samples, replacement, generator)  # type: ignore[arg-type]  # tensors, too
        if method not in ("multinomial", "alias"):
            raise ValueError(f'method should be "multinomial" or "alias", but got method={method!r}')
        self.method = "alias" if len(self.weights) > MOST_CATEGORIES else method
        if self.method == "alias":
            checked_weights(self.weights, num_samples, replacement)

    def __iter__(self) -> SamplerIterator:
        start, state = self._resume()
        origin = Origin(state, self.generator)

        def begin() -> tuple[Order, int, int]:
            length = self.num_samples
            if self.method == "alias":
                order = weighted_order(self.weights, length, self.replacement, origin.seed(), 0)
            else:
                order = origin.draw(self._multinomial).numpy().__getitem__
            return order, length, max(length - start, 0)

        return self._follow(OrderReader(begin, start), origin.state)

    def _multinomial(self, generator: torch.Generator | None) -> torch.Tensor:
        return torch.multinomial(self.weights, self.num_samples, self.replacement, generator=generator)

    def _facts(self) -> dict[str, Any]:
        return {
            "length": self.num_samples,
            "categories": len(self.weights),
            "replacement": self.replacement,
            "method": self.method,
            **own_generator(self),
        }


@known()
class DistributedWeightedSampler(GlobalOrderSampler):
    """`num_samples` draws by weight, shared by all ranks: each rank takes every num_replicas-th.

    The draws depend on (seed, epoch) alone, so ranks agree without talking and a state loads under another
    number of ranks. With replacement each index is computed from its position (16 bytes per weight, none per
    sample); without it, the order is drawn at the first index of each epoch.

    Args:
        weights: one number of 0 or more for each sample; float [n] or a sequence.
        num_samples: draws of all ranks together, in an epoch.
        replacement: False draws each sample at most once; then at least num_samples weights must be above 0.
        num_replicas, rank: those of the process group or the environment when not given.
        seed: the same on all ranks.
        drop_last: drop what does not divide by num_replicas, instead of repeating from the beginning.

    Raises:
        ValueError: if weights are negative, not finite or all 0.
    """

    random_access = True

    def __init__(
        self,
        weights: Sequence[float] | torch.Tensor,
        num_samples: int,
        replacement: bool = True,
        num_replicas: int | None = None,
        rank: int | None = None,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if not isinstance(num_samples, int) or isinstance(num_samples, bool) or num_samples <= 0:
            raise ValueError(
                f"num_samples should be a positive integer value, but got num_samples={num_samples}"
            )
        if not isinstance(replacement, bool):
            raise ValueError(f"replacement should be a boolean value, but got replacement={replacement}")
        super().__init__(num_samples, seed, num_replicas, rank, drop_last)
        self.weights = torch.as_tensor(weights, dtype=torch.double)
        self.replacement = replacement
        checked_weights(self.weights, num_samples, replacement)
        self._digest = digest(self.weights.numpy())

    def _order(self, epoch: int) -> Order:
        return weighted_order(self.weights, self.length, self.replacement, self.seed, epoch)

    def _facts(self) -> dict[str, Any]:
        return {**super()._facts(), "weights": self._digest, "replacement": self.replacement}


def checked_weights(weights: torch.Tensor, num_samples: int, replacement: bool) -> None:
    if weights.dim() != 1:
        raise ValueError(
            f"weights should be a 1d sequence but given weights have shape {tuple(weights.shape)}"
        )
    wrong = ~torch.isfinite(weights) | (weights < 0)
    if wrong.any():
        first = int(wrong.nonzero()[0])
        raise ValueError(
            f"weights should be finite and not negative, but weights[{first}] is {weights[first].item()}"
        )
    if not weights.sum() > 0:
        raise ValueError(
            f"the sum of the {len(weights)} weights is {weights.sum().item()}; at least one must be above 0"
        )
    if not replacement and int((weights > 0).sum()) < num_samples:
        raise ValueError(
            f"cannot draw num_samples={num_samples} without replacement from {int((weights > 0).sum())}"
            " weights above 0; draw fewer, or with replacement=True"
        )


def weighted_order(weights: torch.Tensor, length: int, replacement: bool, seed: int, epoch: int) -> Order:
    numbers = weights.numpy()
    if replacement:
        return _core.AliasTable(numbers, seed & SEED_BITS, epoch).at
    return _core.weighted_order(numbers, length, seed & SEED_BITS, epoch).__getitem__


def weights_from_labels(labels: Any, mode: str = "inverse", beta: float = 0.9999) -> torch.Tensor:
    """A weight for each sample, float64 [n], from how often its label comes: n_c times in class c.

    Args:
        labels: one label per sample; a sequence, array or tensor of one dimension, of numbers or strings.
        mode: "inverse": 1 / n_c, all classes alike; "sqrt": 1 / sqrt(n_c), half way there; "effective": 1 /
            effective number of samples, (1 - beta) / (1 - beta ** n_c) (Cui and others, "Class-balanced loss
            based on effective number of samples", CVPR 2019).
        beta: of "effective", 0 <= beta < 1; the nearer to 1, the nearer to "inverse".
    """
    _, classes, counts = class_counts(labels)
    if mode == "inverse":
        weights = 1.0 / counts
    elif mode == "sqrt":
        weights = 1.0 / np.sqrt(counts)
    elif mode == "effective":
        if not 0 <= beta < 1:
            raise ValueError(f"beta should be at least 0 and below 1, but got beta={beta}")
        weights = np.ones(len(counts)) if beta == 0 else (1 - beta) / -np.expm1(counts * np.log(beta))
    else:
        raise ValueError(f'mode should be "inverse", "sqrt" or "effective", but got mode={mode!r}')
    return torch.from_numpy(weights[classes])


def class_counts(labels: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(the different labels, each sample's number among them, how often each comes)."""
    if isinstance(labels, data.Dataset):
        raise TypeError(
            f"labels should be one label per sample, not a {type(labels).__name__}: give its labels,"
            " dataset.targets, say"
        )
    array = labels.numpy() if isinstance(labels, torch.Tensor) else np.asarray(labels)
    if array.ndim != 1 or not len(array):
        raise ValueError(
            f"labels should be one label per sample, in one dimension, but have shape {array.shape}"
        )
    if array.dtype == object or (array.dtype.kind == "f" and np.isnan(array).any()):
        raise ValueError("labels should be numbers or strings, all of one kind and none missing")
    values, numbers, counts = np.unique(array, return_inverse=True, return_counts=True)
    return values, numbers, counts
