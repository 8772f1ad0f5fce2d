"""The epoch that was set, where copies of a data set in other processes and threads see it."""

from __future__ import annotations

import warnings
from typing import Any

import torch

OWN_PLACE = "epochs of its own"  # in a memo of copy.deepcopy(): the copy is no reader of the same run


class EpochBoard:
    """The epoch that was set, where copies of a dataset in other processes and threads see it.

    [epoch, how often it was set, how often that was when a worker process began with it, whether a second one
    that did has warned]
    """

    def __init__(self) -> None:
        self._numbers = torch.tensor([0, 0, -1, 0]).share_memory_()

    def set(self, epoch: int) -> None:
        self._numbers[0] = epoch
        self._numbers[1] += 1

    def read(self) -> tuple[int, int]:
        epoch, times, _, _ = self._numbers.tolist()
        return epoch, times

    def warn_of_repetition(self) -> None:
        """Called by the first worker, in a new process, when it begins an epoch: warns once when one before
        it began the same.
        """
        epoch, times, begun, warned = self._numbers.tolist()
        self._numbers[2] = times
        if begun == times and not warned:
            self._numbers[3] = 1
            warnings.warn(
                f"epoch {epoch} of this WebDataset begins once more, with the order that it had: torch's"
                " DataLoader starts new workers, which do not know of the epoch before. Call"
                " set_epoch(epoch) on the data set before each epoch, give the loader"
                " persistent_workers=True, or use millrace.DataLoader, which counts epochs",
                stacklevel=2,
            )

    def __deepcopy__(self, memo: Any) -> EpochBoard:
        if OWN_PLACE not in memo:
            return self
        twin = EpochBoard()
        twin._numbers.copy_(self._numbers)
        return twin
