"""Samplers: which sample comes next. Torch's, with torch's draws, and some that torch has not.

Each works in torch's DataLoader, too. Iterators hand out Python ints (or lists of them), or arrays with
take(); iterators and samplers have state_dict(), samplers load_state_dict(), and those that shuffle by (seed,
epoch) have set_epoch().
"""

from .._common.lazy import lazy_names

# At once: native() knows torch's samplers by the modules that are imported.
from . import torchs, weighted
from .resumable import native

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    """
    .global_order: ChunkShuffle PermutationSampler ShardShuffle TwoTierShuffle
    .grouped: LengthGroupedSampler StratifiedBatchSampler
    .mixture: MixtureSampler
    .resumable: native
    .shuffle_buffer: ShuffleBuffer
    .torchs: BatchSampler DistributedSampler RandomSampler SequentialSampler SubsetRandomSampler
    .weighted: DistributedWeightedSampler WeightedRandomSampler weights_from_labels
    """,
)
