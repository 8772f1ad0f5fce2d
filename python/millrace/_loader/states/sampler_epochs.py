"""set_epoch(): noticed when it is forgotten, or done by the loader."""

from __future__ import annotations

import sys
import warnings
from typing import Any

from torch.utils.data import DistributedSampler

from ...samplers.native import inner_sampler
from ...samplers.resumable import ResumableEpochs


class SamplerEpochs:
    """Follows the epoch of a loader's sampler from iterator to iterator.

    A sampler that shuffles by (seed, epoch), as torch's DistributedSampler does, gives every epoch the same
    order until somebody calls set_epoch(). `begin` comes at each epoch's start, `go_on` where the rest of one
    is resumed.
    """

    def __init__(self, loader: Any, previous: SamplerEpochs | None) -> None:
        sampler = inner_sampler(loader._index_sampler)
        self._sampler = sampler if _shuffles_by_epoch(sampler) else None
        # A DistributedSampler on one rank is a script that runs without ranks for once; who takes one of ours
        # wants it to shuffle.
        self._should_move = getattr(sampler, "num_replicas", 1) > 1 or (
            isinstance(sampler, ResumableEpochs) and not isinstance(sampler, DistributedSampler)
        )
        self._sets_epoch: bool = loader.auto_epoch
        same = previous is not None and previous._sampler is self._sampler
        self._last: int | None = previous._last if previous is not None and same else None
        self._finished: bool = previous is not None and previous._finished
        self._warned: bool = previous is not None and previous._warned

    def go_on(self) -> None:
        """The rest of an epoch that somebody else began comes first."""
        if self._sampler is not None:
            self._last = self._sampler.epoch

    def begin(self, behind_saved: bool) -> bool:
        """`behind_saved`: the epoch before this one was run by whoever saved the state. Returns whether it
        set the epoch: an iterator that the sampler made before has the order of the epoch before.
        """
        if self._sampler is None:
            return False
        epoch = self._sampler.epoch
        sets = self._sets_epoch and (behind_saved or self._last == epoch)
        if sets:
            self._sampler.set_epoch(epoch + 1)
        elif self._last == epoch and self._finished and not self._warned and self._should_move:
            self._warned = True
            warnings.warn(
                f"the sampler's epoch is still {epoch}, so this epoch has the order of the last one: call"
                " sampler.set_epoch(epoch) before each epoch, or give the loader auto_epoch=True",
                stacklevel=_level_of_the_loop(),
            )
        self._last, self._finished = self._sampler.epoch, False
        return sets

    def finish(self) -> None:
        self._finished = True

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_sampler": None, "_last": None}


def _level_of_the_loop() -> int:
    """The stacklevel of whoever iterates over the loader, counted from the caller's warning."""
    frame: Any = sys._getframe(1)
    level = 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(
        ("millrace.", "torch.utils.data.")
    ):
        frame, level = frame.f_back, level + 1
    return level


def _shuffles_by_epoch(sampler: Any) -> bool:
    return (
        callable(getattr(sampler, "set_epoch", None))
        and isinstance(getattr(sampler, "epoch", None), int)
        and bool(getattr(sampler, "shuffle", True))
    )
