"""Whether somebody else divides a stream among the ranks.

Accelerate's prepare() makes loaders that take an IterableDataset to be the same on all ranks: rank 0 reads
and sends each rank its part (dispatch_batches, its default for streams), or every rank reads and keeps its
part (IterableDatasetShard). A stream that had divided itself already would lose what the other ranks' parts
were. While such a loader is at work, it is in Accelerate's GradientState, in forked workers too; with what is
sent to others goes the answer that was right here.
"""

from __future__ import annotations

import sys
from typing import Any


def is_divided_by_accelerate(dataset: Any) -> bool:
    """A loader that Accelerate prepared is being iterated, reads `dataset`, and gives each rank a part of
    it.
    """
    state, loaders = sys.modules.get("accelerate.state"), sys.modules.get("accelerate.data_loader")
    if state is None or loaders is None or not state.GradientState._shared_state:
        return False
    for loader in state.GradientState().dataloader_references:
        read = getattr(loader, "dataset", None)
        if isinstance(read, loaders.IterableDatasetShard):
            read = read.dataset
        elif not isinstance(loader, loaders.DataLoaderDispatcher):
            continue
        if read is dataset:
            return True
    return False
