"""Datasets that count their epochs: iterable ones with an `epoch`, whose copies in workers would each count for themselves.

Such a dataset has `_tell_workers(epoch)`: which epoch the copies begin next, None for the one whose turn it is; returns it.
"""

from __future__ import annotations

from typing import Any, Optional

from .saved import SavedState


def epoch_of(dataset: Any) -> Optional[int]:
    """The one that its next iterator begins; None for other datasets."""
    return dataset.epoch if hasattr(dataset, "_tell_workers") else None


def tell_workers(dataset: Any, saved: Optional[SavedState]) -> Optional[int]:
    """The epoch that workers are about to begin: that of `saved`, if that is not None and knows it, or the one behind it."""
    if not hasattr(dataset, "_tell_workers"):
        return None
    if saved is None or saved.dataset_epoch is None:
        return dataset._tell_workers(None)
    return dataset._tell_workers(saved.dataset_epoch + saved.finished)
