"""Iterable datasets that count their epochs, and say how long one is: of their copies in workers, each would
count for itself.

Such a dataset has an `epoch` and `_tell_workers(epoch)`: which epoch the copies begin next, None for the one
whose turn it is; returns it.
"""

from __future__ import annotations

from typing import Any

from ...errors import UnavailableError
from .saved import SavedState


def epoch_of(dataset: Any) -> int | None:
    """The one that its next iterator begins; None for other datasets."""
    return dataset.epoch if hasattr(dataset, "_tell_workers") else None


def tell_workers(dataset: Any, saved: SavedState | None) -> int | None:
    """The epoch that workers are about to begin: that of `saved`, if that is not None and knows it, or the
    one after it.
    """
    if not hasattr(dataset, "_tell_workers"):
        return None
    if saved is None or saved.dataset_epoch is None:
        return dataset._tell_workers(None)
    return dataset._tell_workers(saved.dataset_epoch + saved.finished)


def declared_steps(loader: Any) -> int | None:
    """Of a stream with a declared epoch (`_items_of_epoch`, of each reader), what `loader` makes of it; None
    for other datasets.
    """
    items = getattr(loader.dataset, "_items_of_epoch", None)
    if items is None:
        return None
    size, readers = loader.batch_size or 1, max(1, loader.num_workers)
    if hasattr(loader, "_millrace_readers"):  # one reader in the place of so many
        items, readers = items * loader._millrace_readers, 1
    return readers * (items // size if loader.drop_last else -(-items // size))


def own_steps(index_sampler: Any, declared: int | None, equal_steps: str) -> int:
    """How many steps this rank has. UnavailableError when that is not known before they are taken."""
    if declared is not None:
        return declared
    try:
        return len(index_sampler)
    except TypeError:
        raise UnavailableError(
            f"equal_steps={equal_steps!r} agrees on the number of steps before the epoch starts, and"
            f" {type(index_sampler).__name__} has no len(): give a WebDataset an epoch, by .with_epoch(n), or"
            " leave equal_steps out"
        ) from None
