"""RandomBatchSize: a size that is drawn once for all pictures of a batch."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, Union

from .. import _core
from .._common.batch_place import batch_place

OneSize = Union[int, tuple[int, int]]


class RandomBatchSize:
    """One of `sizes`, each as likely as the others, drawn once per batch.

    It takes the place of `size` in Resize, RandomResizedCrop, CenterCrop and RandomCrop:

        RandomResizedCrop(RandomBatchSize([160, 192, 224, 256]))
        Resize(RandomBatchSize(range(320, 961, 32), every=10))

    The draw is a function of (seed, epoch, number of the batch in the epoch // every), and of nothing else:
    all ranks draw the same, with any number of workers, and a run that resumes goes on as if it had not
    stopped. The epoch counts the loader's iterators, from 0. Two of these with the same `seed`, `every` and
    number of sizes draw the same place in their lists, so put sizes that belong together at the same place.

    Outside of a `millrace.DataLoader`, in torch's too, the first size is taken.

    Args:
        sizes: in pixels: ints, which mean what they mean to the transform, or (height, width).
        every: batches that follow one another with one size.
        seed: of the draw.

    Raises:
        ValueError: if there are no sizes, if one is not above 0, or if `every` is below 1.
        TypeError: if a size is neither an int nor a pair of ints, or if `every` or `seed` is no int.
    """

    def __init__(self, sizes: Sequence[OneSize], *, every: int = 1, seed: int = 0) -> None:
        if isinstance(sizes, (int, str)) or not hasattr(sizes, "__iter__"):
            raise TypeError(f"sizes must be a list of sizes, got {sizes!r}")
        self.sizes: tuple[OneSize, ...] = tuple(map(_checked, sizes))
        if not self.sizes:
            raise ValueError("sizes must have one size or more, and the list is empty")
        self.every = _whole("every", every)
        if self.every < 1:
            raise ValueError(f"every must be 1 or more batches, got {every}")
        self.seed = _whole("seed", seed)

    def at(self, epoch: int, batch: int) -> OneSize:
        """The size of a batch.

        Args:
            epoch, batch: numbers that count from 0.

        Raises:
            IndexError: if one of them is negative.
        """
        return self.sizes[self.place_of(epoch, batch)]

    def current(self) -> OneSize:
        """The size of the batch that the calling code is making or collating.

        Raises:
            UnavailableError: if the loader does not know the batch: with an IterableDataset, and on actors.
        """
        return self.sizes[self.current_place()]

    def place_of(self, epoch: int, batch: int) -> int:
        """The place in `sizes` of the size that at() returns."""
        if epoch < 0 or batch < 0:
            raise IndexError(f"epochs and batches count from 0, got epoch {epoch} and batch {batch}")
        return _core.size_draw(self.seed, epoch, batch // self.every, len(self.sizes))

    def current_place(self) -> int:
        """The place in `sizes` of the size that current() returns."""
        place = batch_place()
        return 0 if place is None else self.place_of(*place)

    def draws_as(self, other: RandomBatchSize) -> bool:
        """Whether both draw the same places."""
        return self._draw() == other._draw()

    def _draw(self) -> tuple[int, int, int]:
        return len(self.sizes), self.every, self.seed

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RandomBatchSize):
            return NotImplemented
        return self.sizes == other.sizes and self.draws_as(other)

    def __hash__(self) -> int:
        return hash((self.sizes, self._draw()))

    def __repr__(self) -> str:
        every = "" if self.every == 1 else f", every={self.every}"
        seed = "" if self.seed == 0 else f", seed={self.seed}"
        return f"{type(self).__name__}({list(self.sizes)}{every}{seed})"


def size_now(size: Any) -> Any:
    """`size`; of a RandomBatchSize that of the present batch."""
    return size.current() if isinstance(size, RandomBatchSize) else size


def _checked(size: Any) -> OneSize:
    if isinstance(size, (tuple, list)) and len(size) == 2:
        return _side(size[0], size), _side(size[1], size)
    return _side(size, size)


def _side(side: Any, size: Any) -> int:
    if isinstance(side, bool) or not hasattr(side, "__index__"):
        raise TypeError(f"a size is an int or a pair of ints (height, width), got {size!r}")
    if (pixels := operator.index(side)) < 1:
        raise ValueError(f"a size must be 1 pixel or more, got {size!r}")
    return pixels


def _whole(name: str, value: Any) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be an int, got {value!r}")
    return operator.index(value)
